package main

import (
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// Before a rate there may be a registered domain. A rate with a point is none.
func TestCtlRateOfDomain(t *testing.T) {
	two := []*pb.Answer{{Agent: "a1"}, {Agent: "a2", Error: "no answer", Code: "silent"}}
	for _, c := range []struct {
		args           string
		asked          string
		code           int
		stdout, stderr string
	}{
		{args: "rate Example.org 5/s --why w", asked: `RateDomain domain:"example.org" rate:"5/s" why:"w"`,
			stdout: "example.org: rate 5/s; a1 obeys\na2 does not know it yet, and is told as soon as it answers: " +
				"no answer\n"},
		{args: "rate *.example.org 1 8-18 mon-fri, else 2.5/s",
			asked: `RateDomain domain:"example.org" rate:"1/s 8-18 mon-fri, else 2.5/s"`,
			stdout: "example.org: rate 1/s 8-18 mon-fri, else 2.5/s; a1 obeys\na2 does not know it yet, and is told " +
				"as soon as it answers: no answer\n"},
		{args: "rate 0.5/s 8-18, else 2.5/s", asked: `Rate rate:"0.5/s 8-18, else 2.5/s"`,
			stdout: "rate ; a1 obeys\na2 does not know it yet, and is told as soon as it answers: no answer\n"},
		{args: "rate example.org", code: 4, stderr: "example.org: no rate; give one such as 5/s after the domain"},
		{args: "rate example.org fast", code: 4, stderr: "\"fast\" is not a rate"},
		{args: "rate example.org 2Mbit", code: 4, stderr: "the rate of a domain counts requests"},
		{args: "rate www.example.org 5/s", code: 4, stderr: "a part of the registered domain example.org"},
		{args: "rate 192.0.2.0/24 5/s", code: 4, stderr: "a rate is for a registered domain"},
		{args: "rate fast", code: 4, stderr: "\"fast\" is not a rate"},
	} {
		answer := &canned{answers: two}
		dir := serveAPI(t, answer.handler(), "x")
		code, stdout, stderr := ctl(dir, strings.Fields(c.args)...)
		if code != c.code || stdout != c.stdout || !strings.Contains(stderr, c.stderr) || answer.asked != c.asked {
			t.Errorf("ctl %s: exit code %d, want %d\nasked %q, want %q\nstdout %q\n  want %q\nstderr %q\n  want %q",
				c.args, code, c.code, answer.asked, c.asked, stdout, c.stdout, stderr, c.stderr)
		}
	}
}
