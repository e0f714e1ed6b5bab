package gen

import (
	"errors"
	"fmt"
	"html"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// A TextSpec describes a web whose pages have given texts. The zero value of each field means its default.
type TextSpec struct {
	Seed uint64
	// Pages is the number of pages. Zero means 1,000,000. Articles have their own number.
	Pages int64
	// Hosts is the number of hosts. Zero means one for 100 pages; for articles 100, or one each if these are fewer.
	Hosts int64
	// Links is the mean number of links of a page. Zero means 12.
	Links int
	// Locality is the share of the links that lead to a page of the same category. Zero means 0.624, the topic locality
	// that the paper on X4 measured with Naive Bayes (section 5). Negative means 0.
	Locality float64
	// Mix is the share of the pages of a host that do not have the host's main category. Zero means 0.4; negative means
	// 0.
	Mix float64
	// Local is the share of the links within the host. Zero means 0.4; negative means 0.
	Local float64
	// Addresses is the number of addresses that all hosts share in turn. Zero gives each host its own.
	Addresses int64
	// Slugs puts the words of the titles into the URLs.
	Slugs bool
	// Generic gives links anchor texts that tell nothing, such as "here". The title of the page stands before the link.
	Generic bool
}

// ErrTexts reports texts from which no web can be made.
var ErrTexts = errors.New("texts of pages")

func (s TextSpec) withDefaults() (TextSpec, error) {
	def(&s.Locality, 0.624)
	def(&s.Mix, 0.4)
	def(&s.Local, 0.4)
	def(&s.Pages, 1_000_000)
	def(&s.Hosts, max(1, s.Pages/100))
	def(&s.Links, 12)
	s.Locality, s.Mix, s.Local = max(s.Locality, 0), max(s.Mix, 0), max(s.Local, 0)
	switch {
	case s.Pages < 1 || s.Pages > maxPages:
		return s, fmt.Errorf("pages %d: not between 1 and %d", s.Pages, int64(maxPages))
	case s.Hosts < 1 || s.Hosts > s.Pages:
		return s, fmt.Errorf("hosts %d: not between 1 and the number of pages, %d", s.Hosts, s.Pages)
	case s.Links < 2 || s.Links > 1000:
		return s, fmt.Errorf("links %d: not between 2 and 1000", s.Links)
	case !(s.Locality <= 1 && s.Mix <= 1 && s.Local <= 1):
		return s, errors.New("a share is above 1")
	}
	return s, nil
}

// A library has the texts and the links of pages.
type library interface {
	categories(page uint32) []string
	title(page uint32) string // HTML
	appendText(dst []byte, page uint32) []byte
	// appendLinks appends the pages to which a page links, each once and without itself.
	appendLinks(dst []uint32, page uint32) []uint32
}

// A TextWeb is a web whose pages have given texts, and topics. Neither host names nor paths without slugs tell the
// topic of a page. Pages are numbered from 0 in the order of their hosts.
type TextWeb struct {
	testweb.Origin // web
	library
	web            *Web
	slugs, generic bool
	seed           uint32
	whole          bool     // every page can be reached from the seed
	names          []string // of the categories
}

// newTextWeb returns a web without pages. The caller divides the pages into hosts.
func newTextWeb(s TextSpec, l library) *TextWeb {
	def(&s.Addresses, -1)
	w := &Web{spec: Spec{Hosts: s.Hosts, Addresses: s.Addresses}, seed: mix(s.Seed + golden), sites: s.Hosts}
	w.pool.New = func() any { return new(builder) }
	w.texts = &TextWeb{Origin: w, library: l, web: w, slugs: s.Slugs, generic: s.Generic}
	return w.texts
}

// Pages returns the number of pages of all hosts.
func (t *TextWeb) Pages() int64 { return int64(t.web.division.first[t.Hosts()]) }

// Names returns the sorted categories of the web. The caller must not change them.
func (t *TextWeb) Names() []string { return t.names }

// Categories returns the categories of a page, from 0 to Pages()-1. It may have none. The caller must not change them.
func (t *TextWeb) Categories(page int64) []string { return t.categories(uint32(page)) }

// Title returns the title of a page, without character references.
func (t *TextWeb) Title(page int64) string { return html.UnescapeString(t.title(uint32(page))) }

// Links returns the pages to which a page links.
func (t *TextWeb) Links(page int64) []uint32 { return t.appendLinks(nil, uint32(page)) }

// Seeds returns the URLs from which the web is to be crawled.
func (t *TextWeb) Seeds() []string { return []string{t.URL(int64(t.seed))} }

// URL returns the URL of a page.
func (t *TextWeb) URL(page int64) string {
	host, n := t.web.division.place(uint32(page))
	return t.web.URL(host, n)
}

// Page returns the number of the page with a URL.
func (t *TextWeb) Page(url string) (page int64, ok bool) {
	rest, ok := strings.CutPrefix(url, "http://")
	at := strings.IndexByte(rest, '/')
	if !ok || at < 0 {
		return 0, false
	}
	host, ok := t.Find(rest[:at])
	if !ok {
		return 0, false
	}
	page, ok = t.find(host, rest[at:])
	return int64(t.web.division.first[host]) + page, ok
}

// target returns the path of a page of a host. The first page of a host has the root.
func (t *TextWeb) target(host, page int64) string {
	n := strconv.FormatInt(page, 10)
	switch {
	case page == 0:
		return "/"
	case t.slugs:
		return "/" + slug(t.title(t.web.division.first[host]+uint32(page))) + "-" + n
	}
	return "/" + n
}

// slug returns the words of a title in ASCII, joined by hyphens.
func slug(title string) string {
	isBreak := func(r rune) bool { return r < 'a' || r > 'z' }
	return strings.Join(strings.FieldsFunc(strings.ToLower(title), isBreak), "-")
}

// find returns the page of a host with a target.
func (t *TextWeb) find(host int64, target string) (page int64, ok bool) {
	number := target[strings.LastIndexAny(target, "/-")+1:]
	if target != "/" {
		n, err := strconv.ParseUint(number, 10, 32)
		if page = int64(n); err != nil || page >= t.web.sizeOf(host) {
			return 0, false
		}
	}
	return page, t.target(host, page) == target
}

// genericAnchors are the texts of links with TextSpec.Generic.
var genericAnchors = []string{"here", "more", "read on", "click here", "read more", "continue", "details", "this page"}

// AppendPage appends the HTML of a page: its title, its text, and its links with the titles of their pages.
func (t *TextWeb) AppendPage(dst []byte, page int64) []byte {
	p := uint32(page)
	dst = append(append(append(dst, "<!doctype html>\n<title>"...), t.title(p)...), "</title>\n"...)
	dst = append(t.appendText(dst, p), "<ul>\n"...)
	var some [64]uint32
	for _, to := range t.appendLinks(some[:0], p) {
		host, n := t.web.division.place(to)
		dst = append(dst, "<li>"...)
		anchor := t.title(to)
		if t.generic {
			dst = append(append(dst, anchor...), ' ')
			anchor = genericAnchors[below(mix(uint64(p)<<32+uint64(to)), uint64(len(genericAnchors)))]
		}
		dst = t.web.appendName(append(dst, `<a href="http://`...), host)
		dst = append(append(append(dst, t.target(host, n)...), `">`...), anchor...)
		dst = append(dst, "</a>\n"...)
	}
	return append(dst, "</ul>\n"...)
}

// Truth returns the pages that a crawl from Seeds reaches. Of articles it follows all links to find them.
func (t *TextWeb) Truth() testweb.Truth {
	if !t.whole {
		host, page := t.web.division.place(t.seed)
		found, err := t.web.Reachable(Bounds{Seeds: []Seed{{host, page}}})
		if err != nil {
			panic(err) // FromArticles bounds their number, so this cannot happen
		}
		return found
	}
	all := &Truth{w: t.web, first: t.web.division.first, count: t.Pages()}
	all.reached = make(bitmap, (all.count+63)/64)
	for i := range uint32(all.count) {
		all.reached.set(i)
	}
	return all
}
