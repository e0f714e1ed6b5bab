package e2e

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// A page limit is that of all agents together, reached to the page, also over
// two runs; a time limit ends all of them.
func TestClusterLimits(t *testing.T) {
	weighs(t, 3)
	const agents, delay = 3, 5 * time.Millisecond
	made, err := gen.New(gen.Plain(11, 60))
	if err != nil {
		t.Fatal(err)
	}
	web := serve(t, testweb.Config{Origin: made, Promise: testweb.Promise{HostDelay: delay}})
	dir := t.TempDir()
	var addrs []string
	for range agents {
		addrs = append(addrs, port(t))
	}
	begin := func(more ...string) (ps []*process, homes []string) {
		for i := range agents {
			home := filepath.Join(dir, fmt.Sprintf("a%d", i+1))
			args := flags(t, web, home, "--quiet", "--scope", "any", "--delay", delay.String(), "--ip-delay", "0",
				"--site-delay", "0",
				"--name", fmt.Sprintf("a%d", i+1), "--listen", addrs[i], "--join", addrs[0], "--agents",
				fmt.Sprint(agents))
			ps, homes = append(ps, start(t, append(append(args, more...), made.URL(0, 0))...)), append(homes, home)
		}
		return ps, homes
	}
	end := func(ps []*process, homes []string, code int, reason string) (pages float64) {
		t.Helper()
		for i, p := range ps {
			if !ended(p, time.Minute) {
				t.Fatalf("agent %d does not end:\n%s\n%s", i+1, tail(p.out.String()), events(t, homes[i]))
			}
			if got := p.code(); got != code {
				t.Fatalf("agent %d: exit code %d, want %d\n%s\n%s", i+1, got, code, tail(p.out.String()),
					events(t, homes[i]))
			}
			sum := summary(t, homes[i])
			if sum["stop_reason"] != reason {
				t.Errorf("agent %d: stopped for %v, want %s", i+1, sum["stop_reason"], reason)
			}
			pages += sum["pages"].(float64)
			verify(t, homes[i])
		}
		return pages
	}
	ps, homes := begin("--page-limit", "400")
	if pages := end(ps, homes, 12, "page-limit"); pages != 400 {
		t.Errorf("%v pages, not 400", pages)
	}
	ps, homes = begin("--resume", "--page-limit", "700")
	if pages := end(ps, homes, 12, "page-limit"); pages != 700 {
		t.Errorf("%v pages after the second run, not 700", pages)
	}
	ps, homes = begin("--resume", "--page-limit", "0", "--time-limit", "2s")
	began := time.Now()
	if pages := end(ps, homes, 15, "time-limit"); pages <= 700 {
		t.Errorf("%v pages after the third run", pages)
	}
	t.Logf("%v for 2 s", time.Since(began))
	noViolations(t, web)
	web.WaitIdle(time.Minute)
	if r := web.Report(); r.Origin.Twice > 0 {
		t.Errorf("%d pages fetched twice", r.Origin.Twice)
	}
}
