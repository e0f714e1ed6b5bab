package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/node"
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
	Without  bool   `name:"no-truth" help:"${truth_without}" group:"Reachable pages"`
}

// bounds returns the bounds of the crawl, and the URLs of its seeds.
func (f *truthFlags) bounds(w *gen.Web) (b gen.Bounds, seeds []string, err error) {
	if f.Seeds < 1 || int64(f.Seeds) > w.Hosts() {
		return b, nil, &node.ConfigError{Text: fmt.Sprintf(
			"--truth-seeds %d: give a number from 1 to the number of hosts, %d", f.Seeds, w.Hosts())}
	}
	if f.Depth < -1 {
		return b, nil, &node.ConfigError{Text: fmt.Sprintf(
			"--truth-depth %d: give the number of links, 0 for the seeds alone, or -1 for no limit", f.Depth)}
	}
	if f.Depth >= 0 && f.Sitemaps {
		return b, nil, &node.ConfigError{Text: "--truth-sitemaps and --truth-depth cannot be combined: " +
			"crawlers differ in the depth that they give to the pages of a sitemap"}
	}
	b.Robots, b.Sitemaps = !f.NoRobots, f.Sitemaps
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
		return nil, &node.ConfigError{Text: err.Error()}
	}
	return &lateTruth{find: func() testweb.Truth {
		t, err := w.Reachable(b)
		if err != nil {
			panic(err) // the bounds were tried above
		}
		return t
	}}, nil
}

// summarize prints what the web observed.
func summarize(out io.Writer, r *testweb.Report) {
	fmt.Fprintf(out, "requests    %s, %s of them for pages; %s\n",
		humanize.Comma(r.Requests), humanize.Comma(r.Pages), humanize.IBytes(uint64(max(r.Bytes, 0))))
	if len(r.Status) > 0 {
		var b strings.Builder
		for _, s := range slices.Sorted(maps.Keys(r.Status)) {
			name := fmt.Sprint(s)
			if s == 0 {
				name = "no answer"
			}
			fmt.Fprintf(&b, ", %s: %s", name, humanize.Comma(r.Status[s]))
		}
		fmt.Fprintf(out, "status      %s\n", b.String()[2:])
	}
	if r.Pages > 0 {
		fmt.Fprintf(out, "compressed  %s of %s (%.0f %%)\n", humanize.Comma(r.Compressed), plural(r.Pages, "page"),
			100*float64(r.Compressed)/float64(r.Pages))
	}
	summarizeNotFound(out, r.NotFound)
	fmt.Fprintf(out, "twice       %s\n", plural(int64(len(r.Twice)), "URL"))
	if o := r.Origin; o != nil {
		fmt.Fprintf(out, "hosts       %s of %s\n", humanize.Comma(o.Touched), humanize.Comma(o.Hosts))
		if o.Reachable > 0 {
			fmt.Fprintf(out, "reachable   %s; %s fetched, %s missed, %s beyond\n", plural(o.Reachable, "page"),
				humanize.Comma(o.Fetched), humanize.Comma(o.Missed), humanize.Comma(o.Beyond))
		}
	}
	if f := r.Fresh; f != nil {
		fmt.Fprintf(out, "fresh       %.1f %% of %s on average, %.1f %% now; %s old on average; "+
			"%s served, %s confirmed, %s wrongly\n",
			100*f.Mean.Fresh, copies(f.Copies), 100*f.Now.Fresh, time.Duration(f.Mean.Age).Round(time.Millisecond),
			humanize.Comma(f.Served), humanize.Comma(f.Confirmed), humanize.Comma(f.Wrong))
	}
	if r.BeforeRobots > 0 {
		fmt.Fprintf(out, "too early   %s before robots.txt was answered\n", plural(r.BeforeRobots, "request"))
	}
	if r.Traps.Requests > 0 {
		fmt.Fprintf(out, "traps       %s, the deepest %s deep\n",
			plural(r.Traps.Requests, "request"), humanize.Comma(r.Traps.Deepest))
	}
	if r.Unjudged {
		fmt.Fprintln(out, "violations  not counted (--no-politeness)")
		return
	}
	total := int64(0)
	for _, n := range r.ViolationCount {
		total += n
	}
	if total == 0 {
		fmt.Fprintln(out, "violations  none")
		return
	}
	kinds := make([]string, 0, len(r.ViolationCount))
	for _, k := range slices.Sorted(maps.Keys(r.ViolationCount)) {
		kinds = append(kinds, fmt.Sprintf("%s: %s", k, humanize.Comma(r.ViolationCount[k])))
	}
	fmt.Fprintf(out, "violations  %s\n", strings.Join(kinds, ", "))
	for _, v := range r.Violations[:min(len(r.Violations), 5)] {
		fmt.Fprintf(out, "            %s\n", warcCell(v.String()))
	}
}

// summarizeNotFound prints the five URLs that were answered with 404 most often, if there are any that were requested
// more than once.
func summarizeNotFound(out io.Writer, urls []testweb.URLCount) {
	title := "most 404s"
	for _, u := range urls[:min(len(urls), 5)] {
		if u.Requests > 1 {
			fmt.Fprintf(out, "%-11s %s  %s\n", title, plural(u.Requests, "request"), warcCell(u.URL))
			title = ""
		}
	}
}

// copies returns n with the noun "copy" or "copies".
func copies(n int64) string {
	if n == 1 {
		return "1 copy"
	}
	return humanize.Comma(n) + " copies"
}
