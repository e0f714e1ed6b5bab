package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb/gen"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A block of a host is an order, which may be given at any agent. The agent that crawls the host says how many links
// wait. If that agent is lost with its disk, its heir keeps the host blocked.
func TestClusterBlock(t *testing.T) {
	weighs(t, 3)
	spec := gen.Plain(36, 15)
	spec.PagesMean, spec.MaxPages = 60, 120
	b := bandOf(t, spec, 150*time.Millisecond, 2, "2") // slow, so that some pages are left to block
	for i := range 2 {
		b.begin(i, "--agents", "2", "--api", "127.0.0.1:0", b.seed())
	}
	b.await(30)
	ctl := func(i int, order, host string) string {
		return crawl(t.Context(), t, "ctl", "--dir", b.home(i), order, host).must(t, 0).stdout
	}
	host, largest := "", int64(0)
	for i := int64(1); i < 15; i++ {
		h := weburl.MustParse(b.made.URL(i, 0)).Host()
		if b.made.Pages(i) > largest && strings.HasPrefix(ctl(0, "explain", h), "agent a2:\n") {
			host, largest = h, b.made.Pages(i)
		}
	}
	if host == "" {
		t.Fatal("a1 knows of no host of a2")
	}
	for i, order := range []string{"block", "unblock", "block"} { // at either agent
		if answer := ctl(i%2, order, host); !strings.HasPrefix(answer, "agent a2:\n"+host+": "+order) ||
			strings.Contains(answer, "a1") {
			t.Errorf("a%d is told to %s %s: %s", i%2+1, order, host, answer)
		}
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if s := ctl(1, "explain", host); strings.Contains(s, "blocked") && !strings.Contains(s, "fetching") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the host stays in process")
		}
	}
	// Wait until a1 has a copy of all records of the host at a2.
	idle := time.Now()
	for end := idle.Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		asked := time.Now()
		lag := b.untold(1)
		if lag < asked.Sub(idle) {
			break
		}
		if asked.After(end) {
			t.Fatalf("a1 lacks what a2 learned %s ago", lag)
		}
	}
	b.ps[1].kill()
	if err := os.RemoveAll(b.home(1)); err != nil {
		t.Fatal(err)
	}
	if !ended(b.ps[0], 2*time.Minute) || b.ps[0].code() != 0 {
		t.Fatalf("a1 does not end:\n%s\n%s", tail(b.ps[0].out.String()), events(t, b.home(0)))
	}
	s := summary(t, b.home(0))
	if s["stop_reason"] != "blocked" || s["urls_queued"].(float64) == 0 {
		t.Errorf("a1 ended for %v, %v URLs are left", s["stop_reason"], s["urls_queued"])
	}
	log, err := os.ReadFile(filepath.Join(b.home(0), "logs", "crawl.log"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		if f := strings.Fields(line); len(f) > 3 && f[1] != "-6000" && strings.Contains(f[3], "//"+host+"/") {
			t.Errorf("a1 has asked a host that was blocked: %s", line)
		}
	}
	if orders := eventsOf(t, b.home(0), "order"); len(orders) != 3 {
		t.Errorf("events:\n%s", events(t, b.home(0)))
	}
}
