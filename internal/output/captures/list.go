package captures

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A Group holds the captures with one sort key, oldest first.
type Group struct {
	SURT     string
	Captures []Capture
}

// maxGroup is the number of captures of a Group; later ones are left out.
const maxGroup = 10000

// Groups returns the captures from the sort key `from` on, in the order of the keys. An error ends
// the sequence; it is that of ctx if ctx ends.
func (a *Archive) Groups(ctx context.Context, from string) iter.Seq2[Group, error] {
	return func(yield func(Group, error) bool) {
		type source struct {
			next func() (warc.Line, error, bool)
			in   warc.Place
			line warc.Line
		}
		var sources []*source
		advance := func(s *source) (ok bool, err error) {
			l, err, ok := s.next()
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("%s: %w", s.in.Dir, ErrNoIndex)
			}
			s.line = l
			return ok, err
		}
		for _, p := range a.places {
			next, stop := iter.Pull2(warc.Lines(a.fs, p, from))
			defer stop()
			s := &source{next: next, in: p}
			ok, err := advance(s)
			if err != nil {
				yield(Group{}, err)
				return
			}
			if ok {
				sources = append(sources, s)
			}
		}
		for len(sources) > 0 {
			if err := ctx.Err(); err != nil {
				yield(Group{}, err)
				return
			}
			g := Group{SURT: sources[0].line.SURT}
			for _, s := range sources {
				g.SURT = min(g.SURT, s.line.SURT)
			}
			for i := 0; i < len(sources); {
				s := sources[i]
				ok := true
				for ok && s.line.SURT == g.SURT {
					if len(g.Captures) < maxGroup {
						g.Captures = append(g.Captures, Capture{s.line, s.in})
					}
					var err error
					if ok, err = advance(s); err != nil {
						yield(Group{}, err)
						return
					}
				}
				if !ok {
					sources = slices.Delete(sources, i, i+1)
					continue
				}
				i++
			}
			slices.SortStableFunc(g.Captures, func(a, b Capture) int { return strings.Compare(a.Time, b.Time) })
			if !yield(g, nil) {
				return
			}
		}
	}
}

// A Query selects pages of an archive.
type Query struct {
	From string // the sort key to begin at
	Host string // the host part of the sort keys, such as "org,example)"; empty: all
	Text string // a part of the URL, in any case; empty: all
	All  bool   // also files that are not HTML pages, redirects and errors
	Max  int    // pages
}

// A Listed is an archived URL in a list.
type Listed struct {
	SURT     string
	Newest   Capture
	First    string // time of the oldest capture
	Captures int
}

// maxScan is how many sort keys one call of Pages reads.
const maxScan = 100_000

// Pages returns the pages of the query in the order of their sort keys. next is the From of the
// query for the pages that follow; it is empty at the end. A call reads a bounded part of the
// index, so that it may return fewer pages than Max, or none, before the end.
func (a *Archive) Pages(ctx context.Context, q Query) (pages []Listed, next string, err error) {
	from := max(q.From, q.Host)
	text := strings.ToLower(q.Text)
	scanned := 0
	for g, err := range a.Groups(ctx, from) {
		if err != nil {
			return nil, "", err
		}
		if !strings.HasPrefix(g.SURT, q.Host) {
			return pages, "", nil
		}
		if scanned++; len(pages) == q.Max || scanned > maxScan {
			return pages, g.SURT + " ", nil // the beginning of its lines
		}
		p, ok := pageOf(g, q.All)
		if ok && strings.Contains(strings.ToLower(p.Newest.URL), text) {
			pages = append(pages, p)
		}
	}
	return pages, "", nil
}

// pageOf returns the group as a page. ok is false if it has none.
func pageOf(g Group, all bool) (p Listed, ok bool) {
	p = Listed{SURT: g.SURT, First: g.Captures[0].Time, Captures: len(g.Captures)}
	html, known := false, false
	for _, c := range g.Captures {
		switch {
		case all:
			p.Newest, ok = c, true
		case c.Revisit() || c.Type().Essence == "" && strings.HasPrefix(c.Status, "2"):
			// The index does not say what a revisit is of, nor what a body without a type is. The capture before it
			// tells.
			if html || !known {
				p.Newest, ok = c, true
			}
		default:
			known = true
			html = c.Type().IsHTML() && strings.HasPrefix(c.Status, "2")
			if html {
				p.Newest, ok = c, true
			}
		}
	}
	return p, ok && webHost(p.Newest) != ""
}

// webHost returns the host of a capture, with its port if the URL has one; "" if it is not one of http or https. An
// index may have any URL.
func webHost(c Capture) string {
	u, err := weburl.Parse(c.URL)
	if err != nil {
		return ""
	}
	return u.Authority()
}

// A Host is a host of an archive in a list.
type Host struct {
	SURT string // of all its URLs, such as "org,example)"
	Name string // with its port, if the URLs have one
}

// Hosts returns at most n hosts from the sort key `from` on, in the order of their sort keys. next
// is where the list continues; it is empty at the end.
func (a *Archive) Hosts(ctx context.Context, from string, n int) (hosts []Host, next string, err error) {
	for more := true; more; {
		more = false
		for g, err := range a.Groups(ctx, from) {
			if err != nil {
				return nil, "", err
			}
			key, _, ok := strings.Cut(g.SURT, ")")
			if !ok { // such as dns:example.org
				next := ""
				if scheme, rest, _ := strings.Cut(g.SURT, ":"); rest > "9~" { // else a host with a port may follow
					next = scheme + ";" // ';' follows ':'
				}
				from, more = after(g, next), true
				break
			}
			name := ""
			for _, c := range g.Captures {
				name = cmp.Or(name, webHost(c))
			}
			if name == "" {
				continue // such as ftp://example.org/; another key of the host may be one of the web
			}
			if len(hosts) == n {
				return hosts, key + ")", nil
			}
			hosts = append(hosts, Host{key + ")", name})
			from, more = after(g, key+"*"), true // '*' follows ')'
			break
		}
	}
	return hosts, "", nil
}

// after returns where a look-up continues that has read g: at the key next, but never at g or before it. In an index, a
// blank follows the key, and '!' follows the blank.
func after(g Group, next string) string { return max(next, g.SURT+"!") }
