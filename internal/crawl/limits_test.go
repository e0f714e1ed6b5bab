package crawl

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/orders"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// TestFilesOfLimits: a site that embeds endless files cannot keep a limited crawl busy for ever.
func TestFilesOfLimits(t *testing.T) {
	tally := report.NewTally()
	cfg := Config{Config: visit.Config{}}
	cfg.PageLimit, cfg.HostPageLimit = 2, 1
	m := limits{cfg: &cfg, tally: tally, cluster: &Cluster{}, gate: &orders.Gate{}, progress: &progress{},
		space: space{cfg: &cfg}, parting: true}
	page := link.Link{URL: must.Get(weburl.Parse("http://a.example/"))(t), Hops: "L"}
	file := link.Link{URL: must.Get(weburl.Parse("http://a.example/x.png"))(t), Hops: "LE"}
	for i := range filesOfPage * 2 {
		if got, want := m.bars(&file), i >= filesOfPage; got != want {
			t.Fatalf("after %d files: the host's files are barred: %t, want %t", i, got, want)
		}
		if got := m.reached(time.Now()); got != notStopping || m.bars(&page) {
			t.Fatalf("after %d files: limit %q, or pages are barred", i, got)
		}
		tally.Add(report.Visit{Host: "a.example", Code: 200, File: true})
	}
	if got := m.reached(time.Now()); got != PageLimit {
		t.Errorf("after %d files for 2 pages: limit %q, want %q", filesOfPage*2, got, PageLimit)
	}
}

// counts are the hosts of a frontier, as a test gives them.
type counts frontier.Stats

func (c *counts) Stats() frontier.Stats { return frontier.Stats(*c) }

// TestFilesThatDoNotCome: a run with all of its pages does not wait for retries and pauses of their files, nor for more
// tries than its limit allows.
func TestFilesThatDoNotCome(t *testing.T) {
	tally, stats, now := report.NewTally(), &counts{}, time.Now()
	cfg := Config{Config: visit.Config{}}
	cfg.PageLimit = 2
	progress := &progress{began: now}
	m := limits{cfg: &cfg, tally: tally, cluster: &Cluster{}, gate: &orders.Gate{}, progress: progress,
		space: space{cfg: &cfg}, parting: true, files: 5 * filesOfPage, hosts: stats}
	for range 2 {
		tally.Add(report.Visit{Host: "a.example", Code: 200, Page: true})
	}
	expect := func(why string, later time.Duration, want Stop) {
		t.Helper()
		if got := m.reached(now.Add(later)); got != want {
			t.Errorf("%s, %v later: %q, want %q", why, later, got, want)
		}
	}
	stats.Resting, stats.Paused = 1, 1
	expect("a file waits for its turn", time.Hour, notStopping)
	stats.Resting, progress.busy = 0, 1
	expect("a file is being fetched", 2*time.Hour, notStopping)
	progress.busy = 0
	expect("only a pause is left", 3*time.Hour, notStopping)
	expect("only a pause is left", 3*time.Hour+stuckFor-1, notStopping)
	expect("only a pause is left", 3*time.Hour+stuckFor, PageLimit)
	stats.Ready = 1
	expect("a file may be fetched", 4*time.Hour, notStopping)
	file := state.Finish{Number: 1, Link: link.Link{Hops: "LE"}}
	for i := range 2 * filesOfPage {
		if m.tried != int64(i) {
			t.Fatalf("%d files tried, want %d", m.tried, i)
		}
		m.ended(&file)
	}
	expect("as many files have failed as two pages may have", 4*time.Hour, PageLimit)
}
