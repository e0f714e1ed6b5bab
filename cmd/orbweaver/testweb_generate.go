package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// A share is a part of a whole: 0.05 or 5%.
type share float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *share) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(string(text), "%")
	x, err := strconv.ParseFloat(number, 64)
	if percent {
		x /= 100
	}
	if err != nil || !(x >= 0 && x <= 1) {
		return fmt.Errorf("%q is not a share between 0 and 1; write 0.05 or 5%%", text)
	}
	*s = share(x)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (s share) MarshalText() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(s), 'g', -1, 64), nil
}

// generateFlags are the generated web. What is not given is nil.
type generateFlags struct {
	Generate  bool          `help:"Make a web up from a seed: any number of hosts, none of them stored." group:"The generated web"`
	Wild      bool          `help:"With everything that goes wrong on the real web; the default is a web where nothing does." group:"The generated web"`
	Seed      *int64        `help:"The same seed makes the same web, byte for byte (default: 1)." placeholder:"N" group:"The generated web"`
	Hosts     *int64        `help:"Hosts, up to 100 million and more (default: 1000)." placeholder:"N" group:"The generated web"`
	PagesMean *float64      `help:"Mean number of pages of a host; the sizes follow a power law (default: 100)." placeholder:"N" group:"The generated web"`
	MaxPages  *int64        `help:"Pages of the largest host (default: 300 times the mean, and 1000 at least)." placeholder:"N" group:"The generated web"`
	PageBytes *cli.ByteSize `help:"Mean length of a page (default: 22.3KB)." placeholder:"BYTES" group:"The generated web"`
	Links     *int          `help:"Mean number of links of a page (default: 50)." placeholder:"N" group:"The generated web"`
	Local     *share        `help:"Share of the links that stay within the site (default: 0.8)." placeholder:"SHARE" group:"The generated web"`
	Topics    *int          `help:"Topics of the hosts, at most 15 (default: all)." placeholder:"N" group:"The generated web"`
	Languages *int          `help:"Languages of the hosts, at most 20 (default: all)." placeholder:"N" group:"The generated web"`
	Locality  *share        `help:"Share of the links between sites that lead to the same topic, and likewise to the same language (default: 0.7)." placeholder:"SHARE" group:"The generated web"`
	Graph     string        `help:"Take hosts, pages and links from this link graph: lines of FROM tab TO, sorted; may be gzipped." placeholder:"FILE" group:"The generated web"`

	Redirects  *share `help:"Links that lead through redirects." placeholder:"SHARE" group:"What goes wrong in it: shares of the links"`
	DeadLinks  *share `help:"Links that lead to a 404." placeholder:"SHARE" group:"What goes wrong in it: shares of the links"`
	Failing    *share `help:"Pages that answer 503 once or twice, then well." placeholder:"SHARE" group:"... of the pages"`
	Busy       *share `help:"Pages that answer 429 with a Retry-After once, then well." placeholder:"SHARE" group:"... of the pages"`
	Slow       *share `help:"Pages that take 0.2 to 1 s to begin and as long again to end." placeholder:"SHARE" group:"... of the pages"`
	Denied     *share `help:"Pages that robots.txt forbids." placeholder:"SHARE" group:"... of the pages"`
	Duplicates *share `help:"Pages that are another page of the host once more." placeholder:"SHARE" group:"... of the pages"`
	Gone       *share `help:"Pages that answer 410." placeholder:"SHARE" group:"... of the pages"`
	Broken     *share `help:"Pages that answer 500." placeholder:"SHARE" group:"... of the pages"`
	Hanging    *share `help:"Pages that stop answering." placeholder:"SHARE" group:"... of the pages"`
	Resetting  *share `help:"Pages that end in a reset." placeholder:"SHARE" group:"... of the pages"`
	Truncated  *share `help:"Pages that end too early." placeholder:"SHARE" group:"... of the pages"`

	CrawlDelays   *share         `help:"Hosts that ask for a Crawl-delay." placeholder:"SHARE" group:"... of the hosts"`
	CrawlDelay    *time.Duration `help:"That delay (default: 2s)." placeholder:"D" group:"... of the hosts"`
	Sitemaps      *share         `help:"Hosts with a sitemap of all their pages." placeholder:"SHARE" group:"... of the hosts"`
	WithoutRobots *share         `help:"Hosts without robots.txt." placeholder:"SHARE" group:"... of the hosts"`
	Traps         *share         `help:"Hosts with an endless calendar, session ids and growing paths." placeholder:"SHARE" group:"... of the hosts"`
	Secure        *share         `help:"Hosts on HTTPS; HTTP redirects there." placeholder:"SHARE" group:"... of the hosts"`
	SlowHosts     *share         `help:"Hosts that take 0.2 to 1 s to begin each answer." placeholder:"SHARE" group:"... of the hosts"`
	Mirrors       *share         `help:"Hosts that are another host once more." placeholder:"SHARE" group:"... of the hosts"`
	ClosedHosts   *share         `help:"Hosts whose robots.txt forbids everything." placeholder:"SHARE" group:"... of the hosts"`
	DeadHosts     *share         `help:"Hosts without an address, that hang, reset, or have a wrong certificate." placeholder:"SHARE" group:"... of the hosts"`

	changeFlags

	URLs      string `name:"urls" help:"Write the URLs of random pages to this file, for a client that fetches from a list." placeholder:"FILE" group:"The generated web"`
	URLsCount int    `name:"urls-count" help:"So many URLs." default:"100000" placeholder:"N" group:"The generated web"`
}

// A choice is a flag for a share of the generated web.
type choice struct {
	flag  string
	given *share
	field *float64
}

// choices are the shares of what goes wrong.
func (g *generateFlags) choices(s *gen.Spec) []choice {
	return []choice{
		{"redirects", g.Redirects, &s.Redirects}, {"dead-links", g.DeadLinks, &s.DeadLinks},
		{"failing", g.Failing, &s.Failing}, {"busy", g.Busy, &s.Busy}, {"slow", g.Slow, &s.Slow},
		{"denied", g.Denied, &s.Denied},
		{"duplicates", g.Duplicates, &s.Duplicates}, {"gone", g.Gone, &s.Gone}, {"broken", g.Broken, &s.Broken},
		{"hanging", g.Hanging, &s.Hanging}, {"resetting", g.Resetting, &s.Resetting},
		{"truncated", g.Truncated, &s.Truncated},
		{"crawl-delays", g.CrawlDelays, &s.CrawlDelays}, {"sitemaps", g.Sitemaps, &s.Sitemaps},
		{"without-robots", g.WithoutRobots, &s.NoRobots},
		{"traps", g.Traps, &s.Traps}, {"secure", g.Secure, &s.Secure}, {"slow-hosts", g.SlowHosts, &s.SlowHosts},
		{"mirrors", g.Mirrors, &s.Mirrors}, {"closed-hosts", g.ClosedHosts, &s.ClosedHosts},
		{"dead-hosts", g.DeadHosts, &s.DeadHosts},
	}
}

// presets are the shares that a kind of web has of its own, as flags.
func presets(s gen.Spec) string {
	var b strings.Builder
	for _, c := range new(generateFlags).choices(&s) {
		if *c.field != 0 {
			fmt.Fprintf(&b, " --%s %g", c.flag, *c.field)
		}
	}
	return b.String()
}

// needless is the first flag that says nothing without --generate.
func (g *generateFlags) needless() string {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"wild", g.Wild}, {"seed", g.Seed != nil}, {"hosts", g.Hosts != nil}, {"pages-mean", g.PagesMean != nil},
		{"max-pages", g.MaxPages != nil},
		{"page-bytes", g.PageBytes != nil}, {"links", g.Links != nil}, {"local", g.Local != nil},
		{"topics", g.Topics != nil},
		{"languages", g.Languages != nil}, {"locality", g.Locality != nil}, {"graph", g.Graph != ""},
		{"crawl-delay", g.CrawlDelay != nil}, {"urls", g.URLs != ""},
		{"changes", g.Changes}, {g.changeFlags.needless(), g.changeFlags.needless() != ""},
	} {
		if f.given {
			return f.name
		}
	}
	for _, c := range g.choices(new(gen.Spec)) {
		if c.given != nil {
			return c.flag
		}
	}
	return ""
}

// web makes the generated web.
func (g *generateFlags) web(addresses int) (*gen.Web, error) {
	bad := func(format string, args ...any) (*gen.Web, error) {
		return nil, &node.ConfigError{Text: fmt.Sprintf(format, args...)}
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
			return bad("--%s %d: at least %d", f.flag, *f.given, f.least)
		}
		f.set(*f.given)
	}
	if g.PagesMean != nil {
		if *g.PagesMean < 1 {
			return bad("--pages-mean %g: at least 1", *g.PagesMean)
		}
		s.PagesMean = *g.PagesMean
	}
	if g.CrawlDelay != nil {
		if *g.CrawlDelay <= 0 {
			return bad("--crawl-delay %s: above 0, such as 2s; --crawl-delays 0 asks for none", *g.CrawlDelay)
		}
		s.CrawlDelay = *g.CrawlDelay
	}
	none := func(p *share, field *float64) {
		if p != nil {
			if *field = float64(*p); *p == 0 {
				*field = -1 // zero is the default there
			}
		}
	}
	none(g.Local, &s.Local)
	none(g.Locality, &s.Locality)
	for _, c := range g.choices(&s) {
		if c.given != nil {
			*c.field = float64(*c.given)
		}
	}
	s.Addresses = int64(addresses)
	if g.Graph != "" {
		graph, err := gen.OpenGraph(g.Graph)
		if err != nil {
			return bad("--graph %v", err)
		}
		s.Graph = graph
	}
	if err := g.changes(&s); err != nil {
		return nil, err
	}
	if g.URLs != "" && g.URLsCount < 1 {
		return bad("--urls-count %d: at least 1", g.URLsCount)
	}
	w, err := gen.New(s)
	if err != nil {
		return bad("--generate: %v", err)
	}
	return w, nil
}

func wide(n *int) *int64 {
	if n == nil {
		return nil
	}
	x := int64(*n)
	return &x
}

// countPages is the number of pages of a generated web; exact is false where it
// is only the expected one, because counting would take long.
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

// describe says what was made up.
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
	return fmt.Sprintf("%s, %s%s pages; %s, seed %d", plural(w.Hosts(), "host"), about, humanize.Comma(pages), kind,
		seed)
}

func plural(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return humanize.Comma(n) + " " + what
}

// writeURLs writes the list for --urls.
func (g *generateFlags) writeURLs(w *gen.Web) error {
	f, err := os.Create(g.URLs)
	if err != nil {
		return fmt.Errorf("urls: %w", err)
	}
	b := bufio.NewWriter(f)
	for u := range w.URLs(g.URLsCount, uint64(1)) {
		b.WriteString(u)
		b.WriteByte('\n')
	}
	if err := b.Flush(); err != nil {
		f.Close()
		return fmt.Errorf("urls: %w", err)
	}
	return f.Close()
}
