package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// The walkers of three agents make the same visits as those of a single agent. The command of the
// documentation sums them.
func TestClusterWalk(t *testing.T) {
	weighs(t, 3)
	if _, err := exec.LookPath("awk"); err != nil {
		missing(t, "awk")
	}
	doc, err := os.ReadFile("../docs/strategies.md")
	if err != nil {
		t.Fatal(err)
	}
	sum := regexp.MustCompile(`(?m)^awk .*$`).FindString(string(doc))
	made, err := gen.New(gen.Plain(71, 12))
	if err != nil {
		t.Fatal(err)
	}
	var seeds []gen.Seed
	for i := range int64(3) {
		seeds = append(seeds, gen.Seed{Host: i})
	}
	truth, err := made.Reachable(gen.Bounds{Seeds: seeds, Robots: true})
	if err != nil {
		t.Fatal(err)
	}
	visits := map[int]string{}
	for _, agents := range []int{1, 3} {
		web := serve(t, testweb.Config{Origin: made, Truth: truth,
			Promise: testweb.Promise{HostDelay: 10 * time.Millisecond}})
		dir := t.TempDir()
		var ps []*process
		first := port(t)
		for i := range agents {
			name := fmt.Sprintf("a%d", i+1)
			args := flags(t, web, filepath.Join(dir, name), "--quiet", "--scope", "any", "--delay", "10ms",
				"--ip-delay", "0", "--site-delay", "0", "--strategy", "walk", "--walkers", "10", "--walk-steps", "1500")
			if agents > 1 {
				at := first
				if i > 0 {
					at = port(t)
				}
				args = append(args, "--name", name, "--listen", at, "--join", first, "--agents", fmt.Sprint(agents))
			}
			for n := range seeds { // in another order at each agent
				args = append(args, made.URL(int64((n+i)%len(seeds)), 0))
			}
			ps = append(ps, start(t, args...))
		}
		drivers := 0
		for i, p := range ps {
			home := filepath.Join(dir, fmt.Sprintf("a%d", i+1))
			if !ended(p, 3*time.Minute) || p.code() != 0 {
				t.Fatalf("a%d of %d: %s\n%s", i+1, agents, tail(p.out.String()), events(t, home))
			}
			b, err := os.ReadFile(filepath.Join(home, "reports", "walk.csv"))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Count(string(b), "\n") > 1 {
				drivers++
			}
		}
		if drivers < min(agents, 2) {
			t.Errorf("%d of %d agents drove walkers", drivers, agents)
		}
		noViolations(t, web)
		if r := web.Report(); r.Origin.Twice > 0 || r.Origin.Beyond > 0 {
			t.Errorf("%d agents: %d pages fetched twice, %d beyond", agents, r.Origin.Twice, r.Origin.Beyond)
		}
		cmd := exec.CommandContext(context.Background(), "sh", "-c", sum)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", sum, err)
		}
		visits[agents] = string(out)
	}
	if strings.Count(visits[1], "\n") < 20 {
		t.Errorf("a single agent visited %s", visits[1])
	}
	if diff := cmp.Diff(visits[1], visits[3]); diff != "" {
		t.Errorf("visits (-one agent +three):\n%s", diff)
	}
}
