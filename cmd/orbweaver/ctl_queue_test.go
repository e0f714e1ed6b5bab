package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// The canned orders are told to a1, and not to a2.
var cannedTold = []*pb.Told{{Agent: "a1"}, {Agent: "a2", Error: "no answer"}}

func (c *canned) Exclude(_ context.Context, q *pb.ExcludeRequest) (*pb.ExcludeResponse, error) {
	return &pb.ExcludeResponse{Order: "a1-3", Told: cannedTold}, c.took("Exclude", q)
}

// ExcludePreview still reads at the first call. An agent does not answer if the pattern is "silent".
func (c *canned) ExcludePreview(_ context.Context, q *pb.ExcludePreviewRequest) (*pb.ExcludePreviewResponse, error) {
	r := &pb.ExcludePreviewResponse{Agents: []*pb.QueueCount{
		{Agent: "a1", Waiting: 1200, Matched: 30, Examples: []string{"http://a.example/\x1b"}},
		{Agent: "a2", Waiting: 5}}}
	switch {
	case q.Token == "":
		r.Token = "go on"
	case q.Pattern == "silent":
		r.Agents[1] = &pb.QueueCount{Agent: "a2", Error: "no answer"}
	case q.Pattern == "alone":
		r.Agents = []*pb.QueueCount{{Waiting: 3, Matched: 1}}
	}
	return r, c.took("ExcludePreview", q)
}

// Queue has three pages: the first has no links, because the agent still reads.
func (c *canned) Queue(_ context.Context, q *pb.QueueRequest) (*pb.QueueResponse, error) {
	count := &pb.QueueCount{Agent: "a1", Waiting: 1200, Matched: 3}
	r := &pb.QueueResponse{}
	switch q.Token {
	case "":
		r.Token, r.Agents = "1", []*pb.QueueCount{{Agent: "a1", Waiting: 7, Reading: true}}
	case "1":
		r.Token, r.Agents = "2", []*pb.QueueCount{count}
		r.Links = []*pb.QueuedLink{{Url: "http://a.example/", State: "ready", Due: timestamppb.New(time.Unix(0, 0))},
			{Url: "http://a.example/1", Depth: 1, Via: "http://a.example/", State: "excluded", Why: "order a1-3"}}
	default:
		r.Links = []*pb.QueuedLink{{Url: "http://b.example/", State: "pooled"}}
		if q.Pattern == "silent+" {
			r.Agents = []*pb.QueueCount{{Agent: "a2", Error: "no answer"}}
		}
	}
	return r, c.took("Queue", q)
}

func (c *canned) Scope(_ context.Context, q *pb.ScopeRequest) (*pb.ScopeResponse, error) {
	r := &pb.ScopeResponse{Kind: "host", Seeds: []string{"a.example", "b.example"}, Depth: 3, HostDepth: -1,
		Include: []string{"/in/"}, Changes: []*pb.ScopeChange{{Order: "a1-3", Text: "depth 3", Why: "w"}}}
	return r, c.took("Scope", q)
}

func (c *canned) ChangeScope(_ context.Context, q *pb.ChangeScopeRequest) (*pb.ChangeScopeResponse, error) {
	return &pb.ChangeScopeResponse{Orders: []string{"a1-3", "a1-4"}, Told: cannedTold}, c.took("ChangeScope", q)
}

func TestCtlQueueAndScope(t *testing.T) {
	const untold = "a2 does not know it yet, and is told as soon as it answers: no answer\n"
	dir := t.TempDir()
	file := filepath.Join(dir, "queue.txt")
	for _, c := range []struct {
		args           []string
		asked          string
		code           int
		stdout, stderr string
	}{
		{args: []string{"exclude", "/x y/", "--why", "w"}, asked: `Exclude pattern:"/x y/" why:"w"`,
			stdout: "excluded: /x y/; a1 obeys order a1-3\n" + untold},
		{args: []string{"exclude", "/x/", "--preview", "--examples", "1"},
			asked: `ExcludePreview pattern:"/x/" examples:1 token:"go on"`, stdout: "" +
				"AGENT  WAITING  EXCLUDED\na1     1,200    30\na2     5        0\ntotal  1,205    30\n" +
				"for example:\n  http://a.example/\\u001b\n"},
		{args: []string{"exclude", "silent", "--preview"},
			asked: `ExcludePreview pattern:"silent" examples:5 token:"go on"`, code: 1, stdout: "" +
				"AGENT  WAITING  EXCLUDED\na1     1,200    30\ntotal  1,200    30\n" +
				"for example:\n  http://a.example/\\u001b\n", stderr: "orbweaver: agent a2 answers: no answer\n"},
		{args: []string{"exclude", "alone", "--preview"},
			asked:  `ExcludePreview pattern:"alone" examples:5 token:"go on"`,
			stdout: "WAITING  EXCLUDED\n3        1\n"},
		{args: []string{"scope"}, asked: "Scope", stdout: "" +
			"scope       host\nseeds       a.example\n            b.example\ndepth       3\nhost depth  no limit\n" +
			"include     /in/\n\nORDER  CHANGE   WHY\na1-3   depth 3  w\n"},
		{args: []string{"scope", "--why", "w"}, code: 4,
			stderr: "orbweaver: --why has no effect without a change\n"},
		{args: []string{"scope", "--depth", "3", "--host", "a", "--domain", "b", "--include", "c", "--why", "w"},
			asked:  `ChangeScope hosts:"a" domains:"b" include:"c" depth:"3" why:"w"`,
			stdout: "changed; a1 obeys a1-3, a1-4\n" + untold},
		{args: []string{"queue", "A.example"}, asked: `Queue host:"a.example" limit:100 token:"1"`, stdout: "" +
			"agent a1: 1,200 links wait, 3 of them asked for\n" +
			"URL                 DEPTH  STATE     DUE                   FROM\n" +
			"http://a.example/   0      ready     1970-01-01T00:00:00Z\n" +
			"http://a.example/1  1      excluded  -                     http://a.example/\n" +
			"Next page: orbweaver ctl --dir DIR queue --token 2\n"},
		{args: []string{"queue", "--token", "2", "--agent", "a1", "--limit", "5"},
			asked: `Queue agent:"a1" limit:5 token:"2"`, stdout: "" +
				"URL                DEPTH  STATE   DUE  FROM\nhttp://b.example/  0      pooled  -\n"},
		{args: []string{"queue", "/x/", "--export", "-"},
			asked: `Queue pattern:"/x/" limit:1000 brief:true token:"2"`, stdout: "http://a.example/\nhttp://a.example/1\nhttp://b.example/\n"},
		{args: []string{"queue", "silent+", "--export", "-"}, code: 1, stdout: "http://a.example/\n" +
			"http://a.example/1\nhttp://b.example/\n",
			asked:  `Queue pattern:"silent+" limit:1000 brief:true token:"2"`,
			stderr: "orbweaver: agent a2 answers: no answer; its links are missing\n"},
		{args: []string{"queue", "--export", file}, asked: `Queue limit:1000 brief:true token:"2"`},
		{args: []string{"queue", "--export", "-", "--json"}, code: 4, stderr: "orbweaver: --export writes the whole " +
			"queue as text; leave --token, --json and --watch out\n"},
	} {
		answer := &canned{}
		code, stdout, stderr := ctl(serveAPI(t, answer.handler(), "x"), c.args...)
		if code != c.code || stdout != c.stdout || stderr != c.stderr || answer.asked != c.asked {
			t.Errorf("%q: exit code %d, want %d\nasked %q, want %q\nstdout %q\n  want %q\nstderr %q\n  want %q",
				c.args, code, c.code, answer.asked, c.asked, stdout, c.stdout, stderr, c.stderr)
		}
	}
	b, err := os.ReadFile(file)
	if want := "http://a.example/\nhttp://a.example/1\nhttp://b.example/\n"; err != nil || string(b) != want {
		t.Errorf("exported %q, %v", b, err)
	}
	if seeds, err := readSeeds(file); err != nil || fmt.Sprint(seeds) != "[http://a.example/ http://a.example/1 "+
		"http://b.example/]" {
		t.Errorf("as seeds: %v, %v", seeds, err)
	}
	for _, args := range []string{"queue --json", "exclude x --json", "exclude x --preview --json", "scope --json",
		"scope --depth 1 --json"} {
		code, stdout, _ := ctl(serveAPI(t, (&canned{}).handler(), "x"), strings.Fields(args)...)
		if code != 0 || !strings.HasPrefix(stdout, "{\n") || !strings.HasSuffix(stdout, "}\n") {
			t.Errorf("%s: exit code %d, %q", args, code, stdout)
		}
	}
}
