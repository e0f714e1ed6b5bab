package crawl

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/orders"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
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
