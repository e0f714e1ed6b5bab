package main

import (
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// Host and times of day may be there or not, and need no quotation marks.
func TestCtlDelay(t *testing.T) {
	two := []*pb.Answer{{Agent: "a1"}, {Agent: "a2", Error: "no answer", Code: "silent"}}
	for _, c := range []struct {
		args           string
		answer         *canned
		asked          string
		code           int
		stdout, stderr string
	}{
		{args: "delay http://A.Example/x 10s --why w", answer: &canned{answers: two[:1]},
			asked: `Delay about:"a.example" delay:"10s" why:"w"`, stdout: "a.example: delay 10s; a1 obeys\n"},
		{args: "delay 500ms", answer: &canned{answers: two}, asked: `Delay delay:"500ms"`,
			stdout: "all hosts: delay 500ms; a1 obeys\n" +
				"a2 does not know it yet, and is told as soon as it answers: no answer\n"},
		{args: "delay *.a.example 10s 8-18 mon-fri, else 2s", answer: &canned{answers: two[:1]},
			asked:  `Delay about:"*.a.example" delay:"10s 8-18 mon-fri, else 2s"`,
			stdout: "*.a.example: delay 10s 8-18 mon-fri, else 2s; a1 obeys\n"},
		{args: "delay 0", answer: &canned{}, asked: `Delay delay:"0s"`,
			stdout: "all hosts: delay 0s; the crawl obeys\n"},
		{args: "delay a.example", answer: &canned{}, code: 4,
			stderr: "a.example: no delay; give one such as 10s after the host"},
		{args: "delay a.example soon", answer: &canned{}, code: 4, stderr: "\"soon\" is not a delay from 0s to 24h"},
		{args: "delay 192.0.2.0/24 1s", answer: &canned{}, code: 4, stderr: "a delay is for a host or a domain"},
		{args: "delay 1s", answer: &canned{err: connect.NewError(connect.CodeUnavailable, errors.New("no"))},
			asked: `Delay delay:"1s"`, code: 1, stderr: "orbweaver: the crawl answers: no\n"},
	} {
		dir := serveAPI(t, c.answer.handler(), "x")
		code, stdout, stderr := ctl(dir, strings.Fields(c.args)...)
		if code != c.code || stdout != c.stdout || !strings.Contains(stderr, c.stderr) || c.answer.asked != c.asked {
			t.Errorf("ctl %s: exit code %d, want %d\nasked %q, want %q\nstdout %q\n  want %q\nstderr %q\n  want %q",
				c.args, code, c.code, c.answer.asked, c.asked, stdout, c.stdout, stderr, c.stderr)
		}
	}
}
