package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

func TestPoliteness(t *testing.T) {
	weighs(t, 1)
	const pages, delay = 24, 120 * time.Millisecond
	sites := politeHosts(pages)
	web := serve(t, testweb.Config{Sites: sites, Promise: promise(delay)})
	dir := t.TempDir()
	crawl(context.Background(), t, politeFlags(t, web, dir, sites, delay)...).must(t, 0)
	noViolations(t, web)
	maxConcurrent(t, web)
	a := audit(t, dir)
	a.accepted(t)
	a.servedAlike(t, web)
	for _, u := range missingPages(web, sites, pages) {
		t.Errorf("%s was never answered", u)
	}
	r := web.Report()
	for _, host := range []string{"asks-429.example", "asks-503.example", "busy.example"} {
		if h := r.Hosts[host]; h.Status[429]+h.Status[503] == 0 {
			t.Errorf("%s never said that it is busy: %v", host, h.Status)
		}
	}
	for i := range 3 {
		host := "moved-" + string(rune('0'+i)) + ".example"
		if n := r.Hosts[host].Robots; n != 1 {
			t.Errorf("%s: robots.txt was fetched %d times", host, n)
		}
	}
	if a.sum.Denied == 0 {
		t.Error("nothing was denied by robots.txt")
	}
}

// A crawl that is killed and continues is as polite as a crawl without a kill, although nothing on
// disk says which requests were in progress.
func TestPolitenessOverKills(t *testing.T) {
	weighs(t, 1)
	const pages = 12
	const delay = 350 * time.Millisecond // longer than a new run takes to its first request
	sites := politeHosts(pages)
	web := serve(t, testweb.Config{Sites: sites, Promise: promise(delay)})
	dir := t.TempDir()
	rng := testseed.Rand(t)
	args := politeFlags(t, web, dir, sites, delay)
	var kills []time.Time
	ended := false
	for i := range 10 {
		after := 300*time.Millisecond + time.Duration(rng.Int64N(int64(700*time.Millisecond)))
		if i < 2 {
			after /= 2
		}
		sig, want := syscall.SIGKILL, -1
		if i%4 == 3 {
			sig, want = syscall.SIGINT, 11
		}
		runs := begun(t, dir)
		r, at := signalled(t, after, sig, args...)
		if at.IsZero() { // finished before
			r.must(t, 0)
			ended = true
			break
		}
		// If a signal arrives before main handles it, the kernel ends the process. Then the run has
		// not begun.
		if r.code != -1 || begun(t, dir) > runs {
			r.must(t, want)
		}
		t.Logf("%s after %s", sig, after)
		if sig == syscall.SIGKILL {
			kills = append(kills, at)
		}
		// otherwise the kill came before the crawl began
		if _, err := os.Stat(filepath.Join(dir, "crawl.yaml")); err == nil {
			args = []string{"crawl", "--resume", "--dir", dir}
		}
	}
	if len(kills) < 3 {
		t.Errorf("only %d kills before the crawl was done", len(kills))
	}
	if !ended {
		crawl(context.Background(), t, args...).must(t, 0)
	}
	verify(t, dir)
	maxConcurrent(t, web)
	for _, u := range missingPages(web, sites, pages) {
		t.Errorf("%s was never answered", u)
	}
	// After a kill, the crawl does not know what a server asked for a moment before: a Retry-After,
	// or the Crawl-delay of a robots.txt that had just arrived. The configured delays hold in any
	// case.
	excused := 0
	for _, v := range web.Report().Violations {
		promised := v.AfterEnded
		if v.Kind == "retry-after" {
			promised = promised.Add(time.Duration(v.Promised) - time.Second)
		}
		lost := false
		for _, k := range kills {
			age := k.Sub(promised)
			lost = lost || age > -50*time.Millisecond && age < 50*time.Millisecond
		}
		asked := v.Kind == "retry-after" ||
			v.Kind == "gap" && v.By == "host" && strings.HasSuffix(v.After, "/robots.txt") &&
				time.Duration(v.Gap) >= delay
		if lost && asked {
			t.Logf("excused: %s", v)
			excused++
			continue
		}
		t.Errorf("%s", v)
	}
	t.Logf("%d kills, %d promises excused that a kill lost", len(kills), excused)
}
