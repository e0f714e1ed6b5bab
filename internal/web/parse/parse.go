// Package parse answers: what does this response link to, and does it permit robots to follow and
// index it?
//
//	Input -> kind -> charset -> one pass of a byte scanner -> references
//	      -> resolve -> de-duplicate by key -> Page
//
// Parse never fails. From a page that it cannot read it gets fewer links. The work is linear in the
// size of the body, and Options limits what a page can make us keep. Nothing recurses, except for
// documents in srcdoc attributes, up to a fixed depth.
//
// References are resolved as they are found. The first base element applies to the whole document,
// wherever it stands (HTML, 2.4.3). So does the first declaration of the encoding, if nothing
// before it decides (HTML, 13.2.3.4). If either stands after a reference, the scan starts again,
// once for each.
//
// Parse is safe for concurrent use. A Page belongs to one goroutine, which reuses it from response
// to response.
package parse

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// The defaults of Options, and a limit.
const (
	// defaultMaxLinks is the maximum number of URLs in a sitemap (sitemaps.org/protocol.html). Real
	// HTML pages have far fewer.
	defaultMaxLinks = 50_000
	// maxEmbeds is the maximum number of files of a page. The largest real pages show some hundreds.
	maxEmbeds = 5_000
	// defaultMaxURL is the maximum length in bytes of a reference: as written, cleaned and in
	// UTF-8. Servers refuse longer request lines (RFC 9112, 3 asks for at least 8,000 octets).
	defaultMaxURL = 8 << 10
	// defaultMaxInflated is the maximum size in bytes that the sitemap protocol allows for an
	// uncompressed file.
	defaultMaxInflated = 50 << 20
	// maxTitle is the maximum length of a title in bytes of UTF-8.
	maxTitle = 512
)

// Options tunes Parse. The zero Options finds what a reader can follow, and obeys the robots
// directives for all robots.
type Options struct {
	// Requisites also finds what a browser loads to show the page: images, styles, scripts, media,
	// and URLs in CSS.
	Requisites bool
	// Agent is our product token. Parse obeys robots directives that name it, in addition to those
	// for all robots. If it is empty, Parse obeys only those for all robots.
	Agent string
	// MaxLinks is the maximum number of distinct links of a page. Later references are counted in
	// Page.Dropped. Zero means 50,000.
	MaxLinks int
	// MaxURL is the maximum length of a reference in bytes. Longer ones are counted in
	// Page.BadLinks. Zero means 8 KiB.
	MaxURL int
	// Texts also keeps what the page says of each link, for Page.Each: its anchor text and its rel.
	Texts bool
	// SitemapFrom leaves out the entries of a sitemap or an index whose lastmod is before it. It keeps those without a
	// lastmod that can be read. Zero keeps all.
	SitemapFrom time.Time
	// MaxInflated is the maximum size in bytes of an uncompressed sitemap that was served as a gzip
	// file. Zero means 50 MiB.
	MaxInflated int64
}

// Input is a response as the fetcher decoded it.
type Input struct {
	URL weburl.URL
	// Header has the response's fields. Parse reads Content-Type, X-Content-Type-Options, X-Robots-Tag,
	// Link and Refresh.
	Header message.Header
	// ContentType, if it is not empty, is read in place of the field Content-Type.
	ContentType string
	// Body has no transfer or content coding. Parse does not keep it.
	Body []byte
	// Sitemap is set if the URL was found as a sitemap, such as by a robots.txt or a sitemap index.
	// A text file is then read as a sitemap.
	Sitemap bool
}

// A Link is a resolved reference of a page.
type Link struct {
	URL weburl.URL
	// Key is link.KeyOf the URL.
	Key link.Key
	// Hop is Heritrix's letter for the step: L for a link that a reader follows (also a frame,
	// which is a page of its own), E for what a browser loads, R for a refresh, M for an entry of a
	// sitemap.
	Hop byte
	// NoFollow is set if every mention of the link was marked rel=nofollow.
	NoFollow bool
	// Tag is the element and attribute of the first mention, such as "a@href".
	Tag string
}

// Kind is the format that a body was read as.
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
	XML                 // XML with another root
)

var kindNames = [...]string{"other", "html", "xhtml", "feed", "sitemap", "css", "svg", "xml"}

// String returns the kind's name in lower case.
func (k Kind) String() string { return kindNames[k] }

// A Page is what Parse found. Its strings do not refer to Input.Body, and stay valid after the next
// Parse into the same Page; the slice Links is reused then. The URLs of a page share one
// allocation. A caller that keeps a few of them for long should clone them (weburl.URL.Clone).
type Page struct {
	// Links are distinct by URL and Hop, in document order.
	Links []Link
	Kind  Kind
	// MIME is the media type of the body, by the header and its first bytes (message.Header.TypeOf).
	MIME string
	// Base is the URL that references were resolved against.
	Base weburl.URL
	// Canonical is the first rel=canonical; zero if there is none. It is also among the Links.
	Canonical weburl.URL
	Directives
	// Charset is the canonical name of the encoding that was used, such as "windows-1252".
	Charset string
	// Language is the language that the html element names, as an ISO 639-3 code; empty: it names none.
	Language string
	// Title is the text of the first title, with white space collapsed, at most 512 bytes.
	Title string
	// BadLinks counts references that are not URLs or are too long. Other schemes (mailto, javascript,
	// data) do not count.
	BadLinks int
	// Dropped counts the references after MaxLinks links or 5,000 embeds, and those that exceed the
	// memory for URLs: 4 MiB plus the size of the body.
	Dropped int
	// Older counts the entries of a sitemap that Options.SitemapFrom leaves out.
	Older int
	// Cut reports that the body is longer than Options.MaxInflated.
	Cut bool
	// Withheld counts the links that are left out because the page says nofollow.
	Withheld int

	work work
}

// Parse reads in and stores the result in p. It overwrites what p held before.
func Parse(in Input, opt Options, p *Page) {
	p.reset(in, opt)
	p.header(in)
	t := typeOf(in)
	body, kind, cs, cut := open(in, t, &p.work.opt)
	p.Kind, p.MIME, p.Cut = kind, t.Essence, cut
	p.work.room = max(p.work.room, maxLinkBytes+len(body)) // of a gzip file, what is in it counts
	p.Charset = cs.name
	p.work.cs = cs
	switch kind {
	case HTML:
		p.Language = languageOf(body, false)
		p.html(body, false)
	case XHTML, SVG, XML:
		p.Language = languageOf(body, true)
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
