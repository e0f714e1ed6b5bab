package orbweaver

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/parse"
)

// A Page is a response that the crawl has archived. OnPage owns it and may keep it with its
// Body.
type Page struct {
	// URL is in canonical form, without a fragment.
	URL string
	// Status is the HTTP status, 200 to 299 unless Options.AllResponses is set.
	Status int
	// Header has the response's fields as the server sent them.
	Header http.Header
	// ContentType is the media type in lower case, without parameters, such as
	// "text/html". If the server named none, it is that of the first bytes of the Body.
	ContentType string
	// Charset is the encoding in which the crawl read the page, such as "windows-1252".
	// Body is in that encoding. Empty if the crawl did not read it for links.
	Charset string
	// Body is the content without transfer and content codings: an HTML page as HTML, even
	// if it came compressed. Nil if Status is not 200 to 299.
	Body []byte
	// Truncated says that Body is not all of the content: it is longer than
	// Options.MaxPageBytes, or the transfer ended early.
	Truncated bool
	// Title is the text of an HTML page's title, at most 512 bytes.
	Title string
	// Links are the page's links, each once, in the order of the document, whether in scope
	// or not.
	Links []Link
	// Depth is how many links lead from a seed to this page, 0 for a seed.
	Depth int
	// Referrer is the URL of the page on which the crawl found this one, empty for a seed.
	Referrer string
	// FetchedAt is when the request was sent.
	FetchedAt time.Time
	// Duplicate says that the archive already has the same content, at this or another URL.
	// In a cluster with the Partition "hash", such a page has no Links.
	Duplicate bool
	// Again says that the strategy Recrawl fetched the page again.
	Again bool
	// Robots is what the page says to robots, in a meta element or X-Robots-Tag: "noindex",
	// "nofollow" and "noarchive" as far as they apply to the crawl, in this order, with ", "
	// between them.
	Robots string
}

// Host returns the host of the page's URL, in lower case, without a port.
func (p *Page) Host() string { return hostOf(p.URL) }

// Path returns the path of the page's URL, without the query.
func (p *Page) Path() string { return pathOf(p.URL) }

// A Link is a reference from one page to another.
type Link struct {
	// URL is in canonical form, without a fragment.
	URL string
	// Kind is how the page refers to it.
	Kind LinkKind
	// Depth is how many links lead from a seed to this URL. Redirects and embeds do not count.
	Depth int
	// Referrer is the URL of the page.
	Referrer string
	// NoFollow says that the page asks robots not to follow the link. The crawl does not.
	NoFollow bool
}

// Host returns the host of the link's URL, in lower case, without a port.
func (l Link) Host() string { return hostOf(l.URL) }

// Path returns the path of the link's URL, without the query.
func (l Link) Path() string { return pathOf(l.URL) }

// A LinkKind is how a page refers to a URL.
type LinkKind uint8

// The kinds of links.
const (
	Anchor   LinkKind = iota // what a reader follows: a, area, frames, feeds
	Embed                    // what a browser loads: images, styles, scripts
	Redirect                 // HTTP redirects, and refreshes
	Sitemap                  // sitemaps, and their entries
	Root                     // the root page of a host, which no page need link to; see Options.SeedRoots
)

func (k LinkKind) String() string {
	switch k {
	case Anchor:
		return "anchor"
	case Embed:
		return "embed"
	case Redirect:
		return "redirect"
	case Sitemap:
		return "sitemap"
	case Root:
		return "root"
	}
	return "unknown"
}

// kindOf is the kind of a step of a discovery path.
func kindOf(hop byte) LinkKind {
	switch hop {
	case 'E':
		return Embed
	case 'R':
		return Redirect
	case 'M':
		return Sitemap
	case 'I':
		return Root
	}
	return Anchor
}

// newLink is a link on its way into the crawl.
func newLink(l *link.Link) Link {
	out := Link{URL: l.URL.String(), Depth: l.Depth(), Referrer: l.Via}
	if n := len(l.Hops); n > 0 {
		out.Kind = kindOf(l.Hops[n-1])
	}
	return out
}

// pageOf is the Page of p, the same one at each call for p. Its Body is lent, and what
// finish sets is missing.
func pageOf(p *visit.Page) *Page {
	if page, ok := p.Memo.(*Page); ok {
		return page
	}
	page := &Page{
		URL: p.Link.URL.String(), Status: p.Status, Header: header(p.Header),
		ContentType: p.MIME, Body: p.Body, Truncated: p.Cut,
		Depth: p.Link.Depth(), Referrer: p.Link.Via,
	}
	if in := p.Parsed; in != nil {
		page.Title, page.Charset = in.Title, in.Charset
		page.Links = make([]Link, len(in.Links))
		for i := range in.Links {
			page.Links[i] = page.link(&in.Links[i])
		}
	}
	p.Memo = page
	return page
}

func (p *Page) link(l *parse.Link) Link {
	out := Link{URL: l.URL.String(), Kind: kindOf(l.Hop), Depth: p.Depth, Referrer: p.URL}
	if out.Kind == Anchor || out.Kind == Sitemap {
		out.Depth++
		out.NoFollow = l.NoFollow
	}
	return out
}

// finish makes p's page the receiver's own, and adds what is known at the end of a visit.
func finish(p *visit.Page) *Page {
	page := pageOf(p)
	page.Body, page.Truncated = bytes.Clone(p.Body), p.Cut
	page.FetchedAt, page.Duplicate, page.Again = p.Began, p.Duplicate, p.Again
	page.Robots = p.Directives.String()
	return page
}

func header(fields fetch.Header) http.Header {
	h := make(http.Header, len(fields))
	for _, f := range fields {
		if f.Name != "" {
			h.Add(f.Name, f.Value)
		}
	}
	return h
}

// cut divides a canonical URL into its host with the port and what follows.
func cut(u string) (authority, rest string) {
	_, u, _ = strings.Cut(u, "://")
	if i := strings.IndexByte(u, '/'); i >= 0 {
		return u[:i], u[i:]
	}
	return u, ""
}

func hostOf(u string) string {
	host, _ := cut(u)
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	return host
}

func pathOf(u string) string {
	_, path := cut(u)
	path, _, _ = strings.Cut(path, "?")
	return path
}
