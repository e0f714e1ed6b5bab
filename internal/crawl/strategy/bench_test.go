package strategy

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// BenchmarkRecrawl visits a million known pages in the order in which they are due. Each
// page leaves the schedule, gets one more visit and enters the schedule again.
func BenchmarkRecrawl(b *testing.B) {
	const pages = 1_000_000
	r, err := OpenRecrawl(Place{FS: disk.OS, Dir: b.TempDir()}, RecrawlConfig{Min: time.Minute, Max: 24 * time.Hour})
	must.Do(b, err)
	defer r.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	now := time.Unix(1e9, 0)
	h := sampleHistory()
	u := mustURL(b, "http://www.example.org/an/ordinary/page.html")
	for i := range pages {
		h.due = now.Add(time.Duration(rng.Int64N(int64(24 * time.Hour)))).UnixMilli()
		l := link.Link{URL: mustURL(b, u.String()+"?"+string(rune('a'+i%26))+time.Duration(i).String()), Hops: "LLL",
			Seed: "www.example.org"}
		must.Do(b, r.Restore(l, h.appendTo(nil)))
	}
	now = now.Add(25 * time.Hour)
	for b.Loop() {
		w, _, err := r.Next(now)
		if err != nil || w == nil {
			b.Fatal(w, err)
		}
		v := visit.Visit{Link: w.Link, Outcome: visit.Fetched, Status: 304, Began: now, Now: now, Again: true,
			Unchanged: true, Response: *w.Before}
		if _, err := r.Visited(&v); err != nil {
			b.Fatal(err)
		}
		now = now.Add(86 * time.Millisecond)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "visits/s")
	b.ReportMetric(float64(r.due.Memory())/(1<<20), "MB-RAM")
}

// BenchmarkWalk makes steps over known pages.
func BenchmarkWalk(b *testing.B) {
	const pages = 10_000
	u := func(i int) weburl.URL {
		return mustURL(b, "http://www.example.org/page-"+time.Duration(i).String()+".html")
	}
	w, err := OpenWalk(Place{FS: disk.OS, Dir: b.TempDir(), Seeds: []weburl.URL{u(0)}},
		WalkConfig{Walkers: 1, Steps: 1 << 40})
	must.Do(b, err)
	defer w.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range pages {
		v := visit.Visit{Link: link.Link{URL: u(i)}, Outcome: visit.Fetched, Status: 200}
		for range 60 {
			v.Offered = append(v.Offered, link.Link{URL: u(rng.IntN(pages))})
		}
		if _, err := w.Visited(&v); err != nil {
			b.Fatal(err)
		}
	}
	steps := 0
	for b.Loop() {
		if wanted, _, err := w.Next(time.Time{}); err != nil || wanted != nil {
			b.Fatal(wanted, err)
		}
		steps += atOnce
	}
	b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "steps/s")
}
