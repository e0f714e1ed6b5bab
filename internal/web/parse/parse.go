// Package parse answers: what does this response link to, and what does it
// say about being followed and indexed?
//
//	Input -> kind -> charset -> one pass of a byte scanner -> references
//	      -> resolve -> de-duplicate by key -> Page
//
// Nothing here fails on what the web sends: a page that cannot be read is a
// page with fewer links. The work is linear in the size of the body, nothing
// recurses, and what a page can make us keep is bounded by Options. References
// are resolved as they are met. The first base element holds for the whole
// document wherever it stands (HTML, 2.4.3). So does the first declaration of
// the encoding if nothing before it decides (HTML, 13.2.3.4). If either stands
// behind a reference, the scan starts anew, once for each.
//
// Parse is safe for concurrent use; a Page belongs to one goroutine, which
// reuses it from response to response.
package parse

import "github.com/orbweaver/orbweaver/internal/web/weburl"

// Limits where Options names none.
const (
	// defaultMaxLinks is as many URLs as one sitemap may list
	// (sitemaps.org/protocol.html); real HTML pages stay far below it.
	defaultMaxLinks = 50_000
	// defaultMaxURL is in bytes of a reference as written, cleaned and in
	// UTF-8. Servers refuse longer request lines (RFC 9112, 3 asks for at
	// least 8,000 octets).
	defaultMaxURL = 8 << 10
	// defaultMaxInflated is what the sitemap protocol allows uncompressed.
	defaultMaxInflated = 50 << 20
	// maxTitle is in bytes of UTF-8.
	maxTitle = 512
)

// Options tunes Parse. The zero Options finds what a reader could follow and
// obeys the robots directives meant for everybody.
type Options struct {
	// Requisites adds what a browser loads to show the page: images, styles,
	// scripts, media, and what CSS names.
	Requisites bool
	// Agent is our product token: robots directives that name it are obeyed
	// besides those for all robots. Empty: only those for all.
	Agent string
	// MaxLinks bounds the distinct links of a page; references after that are
	// counted in Page.Dropped. Zero means 50,000.
	MaxLinks int
	// MaxURL bounds a reference in bytes; longer ones are counted in
	// Page.BadLinks. Zero means 8 KiB.
	MaxURL int
	// MaxInflated bounds what a sitemap served as a gzip file is inflated to,
	// in bytes. Zero means 50 MiB.
	MaxInflated int64
}

// Input is a response as the fetcher decoded it.
type Input struct {
	URL weburl.URL
	// ContentType is the field's raw value, empty where there was none.
	ContentType string
	// Header gives all values of a header field in order; nil: no header.
	// Asked for X-Robots-Tag, Link and Refresh.
	Header func(name string) []string
	// Body has no transfer or content coding. It is not kept.
	Body []byte
	// Sitemap says that the URL was given as a sitemap, so that a text file
	// is read as one.
	Sitemap bool
}

// A Link is a reference of a page, resolved.
type Link struct {
	URL weburl.URL
	// Key is URL's.
	Key weburl.Key
	// Hop is Heritrix's letter for the step: L for what a reader follows
	// (also frames, which are pages of their own), E for what a browser loads,
	// R for a refresh, M for a sitemap's entry.
	Hop byte
	// NoFollow says that every mention of the link was marked rel=nofollow.
	NoFollow bool
	// Tag is the place of the first mention, such as "a@href".
	Tag string
}

// Kind is what a body was read as.
type Kind uint8

// The kinds of bodies.
const (
	Other   Kind = iota // not read for links
	HTML                // text/html
	XHTML               // XML with the root html
	Feed                // RSS, RDF or Atom
	Sitemap             // urlset, sitemapindex or a text sitemap
	CSS                 // text/css
	SVG                 // XML with the root svg
)

var kindNames = [...]string{"other", "html", "xhtml", "feed", "sitemap", "css", "svg"}

func (k Kind) String() string { return kindNames[k] }

// A Page is what Parse found. The strings in it do not refer to Input.Body, and
// outlive the next Parse into the same Page; the slice of Links is reused by it.
// The URLs of a page share one allocation: who keeps a few of them for long
// takes weburl.URL.Clone.
type Page struct {
	// Links are distinct by URL and Hop, in document order.
	Links []Link
	Kind  Kind
	// Base is what references were resolved against.
	Base weburl.URL
	// Canonical is the first rel=canonical, zero where there is none. It is
	// also among the Links.
	Canonical weburl.URL
	Directives
	// Charset is the canonical name of the encoding that was used, such as
	// "windows-1252".
	Charset string
	// Title is the text of the first title, white space collapsed, at most
	// 512 bytes.
	Title string
	// BadLinks counts references that are no URL or too long. Other schemes
	// (mailto, javascript, data) are not counted.
	BadLinks int
	// Dropped counts references after MaxLinks links, and those whose URLs
	// would take more than 16 MiB besides the size of the body.
	Dropped int
	// Withheld counts the links left out because the page says nofollow.
	Withheld int

	work work
}

// Parse reads in into p and overwrites what p held before.
func Parse(in Input, opt Options, p *Page) {
	p.reset(in, opt)
	p.header(in)
	body, kind, cs := open(in, &p.work.opt)
	p.Kind = kind
	p.Charset = cs.name
	p.work.cs = cs
	switch kind {
	case HTML:
		p.html(body, false)
	case XHTML, SVG:
		p.html(body, true)
	case Feed:
		p.feed(body)
	case Sitemap:
		p.sitemap(body)
	case CSS:
		if p.work.opt.Requisites {
			p.css(body, "css")
		}
	}
	p.finish()
}

func (o Options) withDefaults() Options {
	if o.MaxLinks <= 0 {
		o.MaxLinks = defaultMaxLinks
	}
	if o.MaxURL <= 0 {
		o.MaxURL = defaultMaxURL
	}
	if o.MaxInflated <= 0 {
		o.MaxInflated = defaultMaxInflated
	}
	return o
}
