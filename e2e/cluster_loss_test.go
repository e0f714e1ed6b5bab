package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// One of three agents is killed, and its directory is removed. With --on-loss refetch the archives of the two others
// have all pages in the end. Only the pages of the lost archive were fetched again, politely.
func TestClusterRefetch(t *testing.T) {
	weighs(t, 3)
	b := newBand(t, 36, 3, "2")
	b.with = []string{"--on-loss", "refetch"}
	for i := range 3 {
		b.begin(i, "--agents", "3", "--api", "127.0.0.1:0", b.seed())
	}
	reachable := b.truth.Reachable()
	b.await(reachable * 7 / 10)
	if _, killed := b.ps[1].kill(); !killed {
		t.Fatalf("a2 had ended before:\n%s", tail(b.ps[1].out.String()))
	}
	lost := b.web.Report().Origin.Fetched
	must.Do(t, os.RemoveAll(b.home(1)))
	b.ps[1] = nil
	b.finish(lost)
	urls := 0.0
	has := map[string]int{}
	for _, i := range []int{0, 2} {
		accepted := eventsOf(t, b.home(i), "refetch")
		urls += sum(accepted, "urls")
		lists, err := filepath.Glob(filepath.Join(b.home(i), "reports", "refetched-a2-*.txt"))
		if err != nil || len(lists) != len(accepted) {
			t.Errorf("a%d: %d events, the lists %v, %v", i+1, len(accepted), lists, err)
		}
		for url, n := range indexed(t, b.home(i)) {
			has[url] += n
		}
	}
	missing := 0
	b.truth.Each(func(host, number int64) {
		if url := b.truth.URL(host, number); has[url] == 0 {
			if missing++; missing <= 5 {
				t.Errorf("no archive has %s", url)
			}
		}
	})
	twice := b.web.Report().Origin.Twice
	t.Logf("%.0f URLs of the lost archive, %d pages fetched twice, %d of %d in no archive", urls, twice, missing,
		reachable)
	if urls == 0 || float64(twice) > urls+100 { // and the last moments of the lost agent
		t.Errorf("%d pages were fetched twice; the lost archive had %.0f URLs", twice, urls)
	}
}
