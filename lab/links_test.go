package lab

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// TestPointAt: counts are interpolated between lines of progress, up to the summary.
func TestPointAt(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(100, int64(s*1e9)) }
	sent := func(links int64) report.Exchange {
		return report.Exchange{Links: links, Keys: 2 * links, Bytes: 100 * links,
			ByCall: map[string]int64{"push": 10 * links}}
	}
	end := sent(60)
	a := &scaled{progress: []paged{{at: at(0)}, {at: at(1), pages: 10, sent: sent(20)},
		{at: at(2), pages: 30, sent: sent(30)}}}
	a.summary.Pages, a.summary.Exchange = 50, &end
	none := report.Exchange{}
	b := &scaled{progress: []paged{{at: at(1)}, {at: at(2), pages: 50}}}
	b.summary.Pages, b.summary.Exchange = 50, &none
	for _, c := range []struct{ fill, pages, links float64 }{{0.05, 5, 10}, {0.45, 45, 25}, {1, 100, 60}} {
		p := pointAt([]*scaled{a, b}, c.fill, 100)
		if math.Abs(p.Pages-c.pages) > 0.01 || math.Abs(p.Links*p.Pages-c.links) > 0.01 ||
			math.Abs(p.Keys-2*p.Links) > 1e-6 || math.Abs(p.ByCall["push"]-10*p.Links) > 1e-6 {
			t.Errorf("at %v: %+v", c.fill, p)
		}
	}
}

// TestLinksModel: each remedy fetches all pages, and keys first sends fewer links than each link
// once, which sends fewer than a small cache.
func TestLinksModel(t *testing.T) {
	x := &Links{Hosts: 60}
	rows, sizes, err := x.model(context.Background(), &Trial{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	links := map[string]float64{}
	for _, r := range rows {
		if r.Fill == 1 {
			links[r.Remedy] = r.Links
		}
	}
	chain := []string{"keys first: cache of the owner", "keys first: URLs pushed before",
		"each link once", "nothing is remembered"}
	if !slices.IsSortedFunc(chain, func(a, b string) int { return int(1000 * (links[a] - links[b])) }) ||
		links[chain[0]] >= links[chain[1]] {
		t.Errorf("links a page: %v", links)
	}
	if s := sizes[len(sizes)-1]; s.Zstd >= sizes[0].Zstd || s.Zstd >= s.Plain {
		t.Errorf("octets of a link: %+v", sizes)
	}
}

// The whole experiment, with two agents.
func TestLinksExperiment(t *testing.T) {
	testtier.OnlySoak(t, "crawls with processes take 15 seconds")
	finishes(t, &Links{Agents: []int{2}, Hosts: 20, Again: "again"}, buildTrial(t))
}
