package main

import (
	"errors"
	"sync"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// truthFlags bound the crawl of the generated web whose reachable pages the report counts.
type truthFlags struct {
	Seeds    int    `name:"truth-seeds" help:"${truth_seeds}" default:"1" placeholder:"N" group:"Reachable pages"`
	Depth    int    `name:"truth-depth" help:"${truth_depth}" default:"-1" placeholder:"N" group:"Reachable pages"`
	Scope    string `name:"truth-scope" help:"${truth_scope}" enum:"host,domain,any" default:"any" placeholder:"KIND" group:"Reachable pages"`
	NoRobots bool   `name:"truth-no-robots" help:"${truth_no_robots}" group:"Reachable pages"`
	Sitemaps bool   `name:"truth-sitemaps" help:"${truth_sitemaps}" group:"Reachable pages"`
	TwoLevel bool   `name:"truth-two-level" help:"${truth_two_level}" group:"Reachable pages"`
	Without  bool   `name:"no-truth" help:"${truth_without}" group:"Reachable pages"`
}

// bounds returns the bounds of the crawl, and the URLs of its seeds.
func (f *truthFlags) bounds(w *gen.Web) (b gen.Bounds, seeds []string, err error) {
	if f.Seeds < 1 || int64(f.Seeds) > w.Hosts() {
		return b, nil, bad("--truth-seeds %d: give a number from 1 to the number of hosts, %d", f.Seeds, w.Hosts())
	}
	if f.Depth < -1 {
		return b, nil, input.Errorf("--truth-depth %d: give the number of links, 0 for the seeds alone, or -1 for "+
			"no limit", f.Depth)
	}
	if f.Depth >= 0 && f.Sitemaps {
		return b, nil, bad("--truth-sitemaps and --truth-depth cannot be combined: " +
			"crawlers differ in the depth that they give to the pages of a sitemap")
	}
	b.Robots, b.Sitemaps, b.TwoLevel = !f.NoRobots, f.Sitemaps, f.TwoLevel
	b.Scope = map[string]gen.Scope{"host": gen.SeedHosts, "domain": gen.SeedDomains, "any": gen.Anywhere}[f.Scope]
	if f.Depth >= 0 {
		b.Depth = &f.Depth
	}
	for h := range int64(f.Seeds) {
		b.Seeds = append(b.Seeds, gen.Seed{Host: h})
		seeds = append(seeds, w.URL(h, 0))
	}
	return b, seeds, nil
}

// A lateTruth enumerates the reachable pages when they are first needed, so that the web
// can be served at once. It is safe for concurrent use.
type lateTruth struct {
	testweb.Truth
	once sync.Once
	find func() testweb.Truth
}

func (t *lateTruth) known() testweb.Truth {
	t.once.Do(func() { t.Truth = t.find() })
	return t.Truth
}

func (t *lateTruth) Reachable() int64              { return t.known().Reachable() }
func (t *lateTruth) Has(host, page int64) bool     { return t.known().Has(host, page) }
func (t *lateTruth) Each(f func(host, page int64)) { t.known().Each(f) }
func (t *lateTruth) URL(h, p int64) string         { return t.known().URL(h, p) }

// truth returns the pages that a crawl within b reaches. It is nil if the web has too many
// pages to enumerate, or with --no-truth.
func (f *truthFlags) truth(w *gen.Web, b gen.Bounds) (testweb.Truth, error) {
	if f.Without || w.Hosts() > gen.MaxTruth {
		return nil, nil
	}
	pages := int64(0)
	for h := range w.Hosts() {
		if pages += w.Pages(h); pages > gen.MaxTruth {
			return nil, nil
		}
	}
	// An error in the bounds also occurs at depth 0, which takes little time.
	none := 0
	try := gen.Bounds{Seeds: b.Seeds[:1], Depth: &none}
	if _, err := w.Reachable(try); err != nil {
		if errors.Is(err, gen.ErrTooMany) {
			return nil, nil
		}
		return nil, bad("%v", err)
	}
	return &lateTruth{find: func() testweb.Truth {
		t, err := w.Reachable(b)
		if err != nil {
			panic(err) // the bounds were tried above
		}
		return t
	}}, nil
}
