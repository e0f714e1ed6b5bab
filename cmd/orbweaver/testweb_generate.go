package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// orNone returns the share as package gen reads it: there, 0 is the default and a negative share is none.
func orNone(s quantity.Share) float64 {
	if s == 0 {
		return -1
	}
	return float64(s)
}

// generateFlags describe the generated web. A flag that was not given is nil.
type generateFlags struct {
	Generate  bool               `help:"${testweb_generate}" group:"Generated web"`
	Wild      bool               `help:"${testweb_wild}" group:"Generated web"`
	Seed      *int64             `help:"${testweb_seed}" placeholder:"N" group:"Generated web"`
	Hosts     *int64             `help:"${testweb_hosts}" placeholder:"N" group:"Generated web"`
	PagesMean *float64           `help:"${testweb_pages_mean}" placeholder:"N" group:"Generated web"`
	MaxPages  *int64             `help:"${testweb_max_pages}" placeholder:"N" group:"Generated web"`
	PageBytes *quantity.ByteSize `help:"${testweb_page_bytes}" placeholder:"BYTES" group:"Generated web"`
	Links     *int               `help:"${testweb_links}" placeholder:"N" group:"Generated web"`
	Local     *quantity.Share    `help:"${testweb_local}" placeholder:"SHARE" group:"Generated web"`
	Topics    *int               `help:"${testweb_topics}" placeholder:"N" group:"Generated web"`
	Languages *int               `help:"${testweb_languages}" placeholder:"N" group:"Generated web"`
	Locality  *quantity.Share    `help:"${testweb_locality}" placeholder:"SHARE" group:"Generated web"`
	Graph     string             `help:"${testweb_graph}" placeholder:"FILE" group:"Generated web"`

	Redirects  *quantity.Share `help:"${testweb_redirects}" placeholder:"SHARE" group:"Generated web: links"`
	DeadLinks  *quantity.Share `help:"${testweb_dead_links}" placeholder:"SHARE" group:"Generated web: links"`
	Failing    *quantity.Share `help:"${testweb_failing}" placeholder:"SHARE" group:"Generated web: pages"`
	Busy       *quantity.Share `help:"${testweb_busy}" placeholder:"SHARE" group:"Generated web: pages"`
	Slow       *quantity.Share `help:"${testweb_slow}" placeholder:"SHARE" group:"Generated web: pages"`
	Denied     *quantity.Share `help:"${testweb_denied}" placeholder:"SHARE" group:"Generated web: pages"`
	Duplicates *quantity.Share `help:"${testweb_duplicates}" placeholder:"SHARE" group:"Generated web: pages"`
	Gone       *quantity.Share `help:"${testweb_gone}" placeholder:"SHARE" group:"Generated web: pages"`
	Broken     *quantity.Share `help:"${testweb_broken}" placeholder:"SHARE" group:"Generated web: pages"`
	Hanging    *quantity.Share `help:"${testweb_hanging}" placeholder:"SHARE" group:"Generated web: pages"`
	Resetting  *quantity.Share `help:"${testweb_resetting}" placeholder:"SHARE" group:"Generated web: pages"`
	Truncated  *quantity.Share `help:"${testweb_truncated}" placeholder:"SHARE" group:"Generated web: pages"`

	Edits       *quantity.Share `help:"${testweb_edits}" placeholder:"SHARE" group:"Generated web: pages"`
	Crosslinked *quantity.Share `help:"${testweb_crosslinked}" placeholder:"SHARE" group:"Generated web: pages"`

	CrawlDelays   *quantity.Share `help:"${testweb_crawl_delays}" placeholder:"SHARE" group:"Generated web: hosts"`
	CrawlDelay    *time.Duration  `help:"${testweb_crawl_delay}" placeholder:"D" group:"Generated web: hosts"`
	Sitemaps      *quantity.Share `help:"${testweb_sitemaps}" placeholder:"SHARE" group:"Generated web: hosts"`
	WithoutRobots *quantity.Share `help:"${testweb_without_robots}" placeholder:"SHARE" group:"Generated web: hosts"`
	Traps         *quantity.Share `help:"${testweb_traps}" placeholder:"SHARE" group:"Generated web: hosts"`
	Secure        *quantity.Share `help:"${testweb_secure}" placeholder:"SHARE" group:"Generated web: hosts"`
	SlowHosts     *quantity.Share `help:"${testweb_slow_hosts}" placeholder:"SHARE" group:"Generated web: hosts"`
	Mirrors       *quantity.Share `help:"${testweb_mirrors}" placeholder:"SHARE" group:"Generated web: hosts"`
	ClosedHosts   *quantity.Share `help:"${testweb_closed_hosts}" placeholder:"SHARE" group:"Generated web: hosts"`
	DeadHosts     *quantity.Share `help:"${testweb_dead_hosts}" placeholder:"SHARE" group:"Generated web: hosts"`

	changeFlags

	URLs      string `name:"urls" help:"${testweb_urls}" placeholder:"FILE" group:"Generated web"`
	CopiesOut string `help:"${testweb_copies_out}" placeholder:"FILE" group:"Generated web"`
	URLsCount int    `name:"urls-count" help:"${urls_count}" default:"100000" placeholder:"N" group:"Generated web"`
}

// A shareFlag is a flag for a share of the links, pages or hosts of the generated web.
type shareFlag struct {
	flag  string
	given *quantity.Share // nil: not given
	field *float64        // of the gen.Spec, where it is set
}

// shareFlags returns the flags for shares that are 0 unless a kind of web sets them.
func (g *generateFlags) shareFlags(s *gen.Spec) []shareFlag {
	return []shareFlag{
		{"redirects", g.Redirects, &s.Redirects}, {"dead-links", g.DeadLinks, &s.DeadLinks},
		{"edits", g.Edits, &s.Edits}, {"crosslinked", g.Crosslinked, &s.Crosslinked},
		{"failing", g.Failing, &s.Failing}, {"busy", g.Busy, &s.Busy}, {"slow", g.Slow, &s.Slow},
		{"denied", g.Denied, &s.Denied}, {"duplicates", g.Duplicates, &s.Duplicates},
		{"gone", g.Gone, &s.Gone}, {"broken", g.Broken, &s.Broken}, {"hanging", g.Hanging, &s.Hanging},
		{"resetting", g.Resetting, &s.Resetting}, {"truncated", g.Truncated, &s.Truncated},
		{"crawl-delays", g.CrawlDelays, &s.CrawlDelays}, {"sitemaps", g.Sitemaps, &s.Sitemaps},
		{"without-robots", g.WithoutRobots, &s.NoRobots}, {"traps", g.Traps, &s.Traps},
		{"secure", g.Secure, &s.Secure}, {"slow-hosts", g.SlowHosts, &s.SlowHosts},
		{"mirrors", g.Mirrors, &s.Mirrors}, {"closed-hosts", g.ClosedHosts, &s.ClosedHosts},
		{"dead-hosts", g.DeadHosts, &s.DeadHosts},
	}
}

// presets returns the shares that are not 0 in s, as flags.
func presets(s gen.Spec) string {
	var b strings.Builder
	for _, c := range new(generateFlags).shareFlags(&s) {
		if *c.field != 0 {
			fmt.Fprintf(&b, " --%s %g", c.flag, *c.field)
		}
	}
	return b.String()
}

// needless returns the first given flag that has no effect without --generate, or "".
func (g *generateFlags) needless() string {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"wild", g.Wild}, {"seed", g.Seed != nil}, {"hosts", g.Hosts != nil}, {"pages-mean", g.PagesMean != nil},
		{"max-pages", g.MaxPages != nil}, {"page-bytes", g.PageBytes != nil}, {"links", g.Links != nil},
		{"local", g.Local != nil}, {"topics", g.Topics != nil}, {"languages", g.Languages != nil},
		{"locality", g.Locality != nil}, {"graph", g.Graph != ""}, {"crawl-delay", g.CrawlDelay != nil},
		{"urls", g.URLs != ""}, {"copies-out", g.CopiesOut != ""}, {"changes", g.Changes},
		{g.changeFlags.needless(), g.changeFlags.needless() != ""},
	} {
		if f.given {
			return f.name
		}
	}
	for _, c := range g.shareFlags(new(gen.Spec)) {
		if c.given != nil {
			return c.flag
		}
	}
	return ""
}

// web generates the web that the flags describe. addresses is the value of --addresses.
func (g *generateFlags) web(addresses int) (*gen.Web, error) {
	bad := func(format string, args ...any) (*gen.Web, error) {
		return nil, input.Errorf(format, args...)
	}
	s := gen.Plain(1, 0)
	if g.Wild {
		s = gen.Wild(1, 0)
	}
	if g.Seed != nil {
		s.Seed = uint64(*g.Seed)
	}
	for _, f := range []struct {
		flag  string
		given *int64
		least int64
		set   func(int64)
	}{
		{"hosts", g.Hosts, 1, func(n int64) { s.Hosts = n }},
		{"max-pages", g.MaxPages, 1, func(n int64) { s.MaxPages = n }},
		{"page-bytes", (*int64)(g.PageBytes), 1, func(n int64) { s.PageBytes = int(n) }},
		{"links", wide(g.Links), 1, func(n int64) { s.Links = int(n) }},
		{"topics", wide(g.Topics), 1, func(n int64) { s.Topics = int(n) }},
		{"languages", wide(g.Languages), 1, func(n int64) { s.Languages = int(n) }},
	} {
		if f.given == nil {
			continue
		}
		if *f.given < f.least {
			return bad("--%s %d is too small; give at least %d", f.flag, *f.given, f.least)
		}
		f.set(*f.given)
	}
	if g.PagesMean != nil {
		if *g.PagesMean < 1 {
			return bad("--pages-mean %g is too small; give at least 1", *g.PagesMean)
		}
		s.PagesMean = *g.PagesMean
	}
	if g.CrawlDelay != nil {
		if *g.CrawlDelay <= 0 {
			return bad("--crawl-delay %s is not above 0; give a duration such as 2s, or --crawl-delays 0 for none",
				*g.CrawlDelay)
		}
		s.CrawlDelay = *g.CrawlDelay
	}
	for _, c := range []shareFlag{{"local", g.Local, &s.Local}, {"locality", g.Locality, &s.Locality}} {
		if c.given != nil {
			*c.field = orNone(*c.given)
		}
	}
	for _, c := range g.shareFlags(&s) {
		if c.given != nil {
			*c.field = float64(*c.given)
		}
	}
	if s.Edits > 0 && s.Mirrors == 0 && s.Duplicates == 0 {
		return bad("--edits %g: the web has no copies; add --duplicates 5%% or --mirrors 5%%", s.Edits)
	}
	s.Addresses = int64(addresses)
	if g.Graph != "" {
		graph, err := gen.OpenGraph(g.Graph)
		if err != nil {
			return nil, unreadable("--graph "+g.Graph, g.Graph, err, "name a file of pairs of numbers")
		}
		s.Graph = graph
	}
	if err := g.changes(&s); err != nil {
		return nil, err
	}
	if g.URLs != "" && g.URLsCount < 1 {
		return bad("--urls-count %d is too small; give at least 1", g.URLsCount)
	}
	w, err := gen.New(s)
	if err != nil {
		return bad("--generate: %v", err)
	}
	return w, nil
}

// wide returns *n as an int64, or nil if n is nil.
func wide(n *int) *int64 {
	if n == nil {
		return nil
	}
	return new(int64(*n))
}

// countPages returns the number of pages of a generated web. On a web of more than 2
// million hosts it estimates the number from the first 2 million, and exact is false.
func (g *generateFlags) countPages(w *gen.Web) (pages int64, exact bool) {
	const most = 2_000_000
	hosts := w.Hosts()
	n := min(hosts, most)
	for h := range n {
		pages += w.Pages(h)
	}
	if hosts > n {
		return int64(float64(pages) * float64(hosts) / float64(n)), false
	}
	return pages, true
}

// describe returns the size, kind and seed of the generated web, for people.
func (g *generateFlags) describe(w *gen.Web) string {
	seed := int64(1)
	if g.Seed != nil {
		seed = *g.Seed
	}
	kind := "plain"
	if g.Wild {
		kind = "wild"
	}
	pages, exact := g.countPages(w)
	about := ""
	if !exact {
		about = "about "
	}
	return fmt.Sprintf("%s, %s%s; %s, seed %d",
		plural(w.Hosts(), "host"), about, plural(pages, "page"), kind, seed)
}

// plural returns n with the noun what, in the plural unless n is 1.
func plural(n int64, what string) string { return report.Count(n, what) }
