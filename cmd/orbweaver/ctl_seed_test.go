package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// AddSeeds takes each URL whose name does not begin with "bad". The order of "far" is not known at a2.
func (c *canned) AddSeeds(_ context.Context, q *pb.AddSeedsRequest) (*pb.AddSeedsResponse, error) {
	r := &pb.AddSeedsResponse{}
	for _, u := range q.Urls {
		s := &pb.Seed{Url: u, Result: "new", Agent: "a1"}
		switch {
		case strings.HasPrefix(u, "bad"):
			s = &pb.Seed{Url: u, Result: "refused", Text: "it is\nbad"}
		case strings.HasPrefix(u, "far"):
			r.Orders = append(r.Orders, "a1-3")
			r.Told = []*pb.Told{{Agent: "a1"}, {Agent: "a2", Error: "no answer"}}
		}
		r.Seeds = append(r.Seeds, s)
	}
	return r, c.took("AddSeeds", q)
}

func TestCtlSeed(t *testing.T) {
	many := filepath.Join(t.TempDir(), "many.txt")
	var lines strings.Builder
	for i := range seedsAtOnce + 30 {
		fmt.Fprintf(&lines, "u%d # comment\n\n", i)
	}
	if err := os.WriteFile(many, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, asked    string
		code           int
		stdout, stderr string
	}{
		{args: "u1 u2 --why w", asked: `AddSeeds urls:"u1" urls:"u2" why:"w"`,
			stdout: "u1: new at a1\nu2: new at a1\n2 seeds: 2 new\n"},
		{args: "bad u1", asked: `AddSeeds urls:"bad" urls:"u1"`, code: 1,
			stdout: "bad: refused: it is\\nbad\nu1: new at a1\n2 seeds: 1 new, 1 refused\n",
			stderr: "orbweaver: 1 seed was refused\n"},
		{args: "far", asked: `AddSeeds urls:"far"`, stdout: "far: new at a1\n" +
			"1 seed: 1 new; 1 order extends the scope, see \"orbweaver ctl --dir DIR orders\"\n" +
			"a2 does not know the new scope yet, and is told as soon as it answers: no answer\n"},
		{args: "--file " + many, stdout: fmt.Sprintf("%s seeds: %[1]s new\n", humanize.Comma(seedsAtOnce+30))},
		{code: 4, stderr: "orbweaver: no seeds: give URLs, or a file of URLs with --file\n"},
	} {
		answer := &canned{}
		code, stdout, stderr := ctl(serveAPI(t, answer.handler(), "x"), append([]string{"seed"},
			strings.Fields(c.args)...)...)
		if code != c.code || stdout != c.stdout || stderr != c.stderr || c.asked != "" && answer.asked != c.asked {
			t.Errorf("seed %s: exit code %d, want %d\nasked %q, want %q\nstdout %q\n  want %q\nstderr %q\n  want %q",
				c.args, code, c.code, answer.asked, c.asked, stdout, c.stdout, stderr, c.stderr)
		}
	}
	_, stdout, _ := ctl(serveAPI(t, (&canned{}).handler(), "x"), "seed", "far", "bad", "--json")
	var got []string
	for line := range strings.Lines(stdout) {
		got = append(got, strings.Join(strings.Fields(line), ""))
	}
	if len(got) != 3 || !strings.Contains(got[1], `"result":"refused"`) ||
		!strings.Contains(got[2], `"orders":["a1-3"]`) {
		t.Errorf("ctl seed --json: %q", stdout)
	}
}
