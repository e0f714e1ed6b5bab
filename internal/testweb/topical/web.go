// Package topical answers: what does a web look like whose pages have topics, and which topics has each page?
//
//	texts -> Generate: pages with texts of their category, links that prefer it   \
//	                                                                               Web -> testweb
//	articles -> Encyclopedia: articles with their topics and their own links      /
//
// Both webs are for experiments with classifiers and with focused crawls. Neither host names nor paths tell the topic
// of a page. Texts and titles do, and so do links as far as they stay in a topic. The caller gives the texts, which
// should not be those on which a classifier was trained.
//
// Invariants: a Web is a pure function of its parameters. Generate stores nothing for a page and four bytes for a host.
// Categories, Links and Truth are computed from the parameters, not from what was served. A Web is safe for concurrent
// use.
package topical

import (
	"html"
	"net/netip"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// pages are the pages of a web, numbered from 0 in the order of their hosts.
type pages interface {
	categories(page uint32) []string
	title(page uint32) string // HTML
	appendText(dst []byte, page uint32) []byte
	// appendLinks appends the pages to which a page links, each once and without itself.
	appendLinks(dst []uint32, page uint32) []uint32
	// whole reports whether every page can be reached from the seeds.
	whole() bool
}

// A Web serves pages with topics. It implements testweb.Origin.
type Web struct {
	pages
	first     []uint32 // of each host: its first page; at the end the number of pages
	addresses int64
	slugs     bool
	seed      uint32
	names     []string // of the categories
}

var _ testweb.Origin = (*Web)(nil)

func (w *Web) Hosts() int64 { return int64(len(w.first) - 1) }

// Pages returns the number of pages of all hosts.
func (w *Web) Pages() int64 { return int64(w.first[len(w.first)-1]) }

// Names returns the sorted categories of the web. The caller must not change them.
func (w *Web) Names() []string { return w.names }

// Categories returns the categories of a page, from 0 to Pages()-1. It may have none. The caller must not change them.
func (w *Web) Categories(page int64) []string { return w.categories(uint32(page)) }

// Title returns the title of a page, without character references.
func (w *Web) Title(page int64) string { return html.UnescapeString(w.title(uint32(page))) }

// Links returns the pages to which a page links.
func (w *Web) Links(page int64) []uint32 { return w.appendLinks(nil, uint32(page)) }

// Seeds returns the URLs from which the web is to be crawled.
func (w *Web) Seeds() []string { return []string{w.URL(int64(w.seed))} }

// domain ends every name. It is reserved (RFC 2606).
const domain = ".example"

// A host is a site of its own. Its name has only its number.
func name(host int64) string { return "n" + strconv.FormatInt(host, 10) + domain }

func (w *Web) Find(name string) (host int64, ok bool) {
	number, ok := strings.CutSuffix(name, domain)
	if !ok || len(number) < 2 || len(number) > 11 || number[0] != 'n' || number[1] == '0' && len(number) > 2 {
		return 0, false
	}
	n, err := strconv.ParseUint(number[1:], 10, 32)
	return int64(n), err == nil && int64(n) < w.Hosts()
}

// maxAddresses is the number of addresses that hosts have, from 127.1.0.1 to 127.254.255.254.
const maxAddresses = 254 * 256 * 254

func (w *Web) Host(host int64) testweb.OriginHost {
	i := host % maxAddresses
	if w.addresses > 0 {
		i = host % w.addresses
	}
	return testweb.OriginHost{
		Name: name(host), Site: name(host), Pages: int64(w.first[host+1] - w.first[host]),
		Addr: netip.AddrFrom4([4]byte{127, byte(1 + i/254/256), byte(i / 254), byte(1 + i%254)}),
	}
}

// hostOf returns the host of a page.
func (w *Web) hostOf(page uint32) int64 {
	return int64(sort.Search(len(w.first), func(h int) bool { return w.first[h] > page })) - 1
}

// URL returns the URL of a page.
func (w *Web) URL(page int64) string {
	host := w.hostOf(uint32(page))
	return "http://" + name(host) + w.target(host, uint32(page))
}

// target returns the path of a page. The first page of a host has the root.
func (w *Web) target(host int64, page uint32) string {
	n := page - w.first[host]
	switch {
	case n == 0:
		return "/"
	case w.slugs:
		return "/" + slug(w.title(page)) + "-" + strconv.Itoa(int(n))
	}
	return "/" + strconv.Itoa(int(n))
}

// slug returns the words of a title in ASCII, joined by hyphens.
func slug(title string) string {
	var b []byte
	for _, word := range strings.FieldsFunc(strings.ToLower(title), func(r rune) bool { return r < 'a' || r > 'z' }) {
		if len(b) > 0 {
			b = append(b, '-')
		}
		b = append(b, word...)
	}
	return string(b)
}

// Page returns the number of the page with a URL.
func (w *Web) Page(url string) (page int64, ok bool) {
	rest, ok := strings.CutPrefix(url, "http://")
	at := strings.IndexByte(rest, '/')
	if !ok || at < 0 {
		return 0, false
	}
	host, ok := w.Find(rest[:at])
	if !ok {
		return 0, false
	}
	p, ok := w.find(host, rest[at:])
	return int64(p), ok
}

// find returns the page of a host with a target.
func (w *Web) find(host int64, target string) (page uint32, ok bool) {
	if target == "/" {
		return w.first[host], true
	}
	if len(target) < 2 || target[0] != '/' {
		return 0, false
	}
	number := target[max(strings.LastIndexByte(target, '-'), 0)+1:]
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || n == 0 || n >= uint64(w.first[host+1]-w.first[host]) {
		return 0, false
	}
	page = w.first[host] + uint32(n)
	return page, w.target(host, page) == target
}

// robots is the robots.txt of every host.
var robots = []byte("User-agent: *\nDisallow:\n")

// bodies keeps the memory of pages.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

const (
	htmlType = "text/html; charset=utf-8"
	textType = "text/plain; charset=utf-8"
)

func (w *Web) Answer(dst []byte, q testweb.Query) ([]byte, testweb.Reply) {
	if q.Target == "/robots.txt" {
		return respond(dst, q, testweb.Reply{Status: 200, Page: -1}, textType, robots)
	}
	page, ok := w.find(q.Host, q.Target)
	if !ok || q.Secure || q.Port != 0 {
		return respond(dst, q, testweb.Reply{Status: 404, Page: -1}, textType, []byte("There is no such page.\n"))
	}
	body := bodies.Get().(*[]byte)
	*body = w.AppendPage((*body)[:0], int64(page))
	dst, r := respond(dst, q, testweb.Reply{Status: 200, Page: int64(page - w.first[q.Host])}, htmlType, *body)
	bodies.Put(body)
	return dst, r
}

// respond appends a response to dst.
func respond(dst []byte, q testweb.Query, r testweb.Reply, media string, body []byte) ([]byte, testweb.Reply) {
	start := len(dst)
	status := "200 OK"
	if r.Status == 404 {
		status = "404 Not Found"
	}
	dst = append(append(append(dst, "HTTP/1.1 "...), status...), "\r\nContent-Type: "...)
	dst = append(append(dst, media...), "\r\nContent-Length: "...)
	dst = append(strconv.AppendInt(dst, int64(len(body)), 10), "\r\n"...)
	if q.Close {
		dst = append(dst, "Connection: close\r\n"...)
	}
	dst = append(dst, "\r\n"...)
	r.HeadLen = len(dst) - start
	if !q.Head {
		dst = append(dst, body...)
	}
	return dst, r
}

// AppendPage appends the HTML of a page: its title, its text, and its links with the titles of their pages.
func (w *Web) AppendPage(dst []byte, page int64) []byte {
	p := uint32(page)
	dst = append(append(dst, "<!doctype html>\n<title>"...), w.title(p)...)
	dst = append(dst, "</title>\n"...)
	dst = w.appendText(dst, p)
	dst = append(dst, "<ul>\n"...)
	var some [64]uint32
	for _, to := range w.appendLinks(some[:0], p) {
		host := w.hostOf(to)
		dst = append(dst, `<li><a href="http://n`...)
		dst = append(strconv.AppendInt(dst, host, 10), domain...)
		dst = append(append(dst, w.target(host, to)...), `">`...)
		dst = append(append(dst, w.title(to)...), "</a>\n"...)
	}
	return append(dst, "</ul>\n"...)
}

// A truth is the set of pages that can be reached from the seeds of a web. It implements testweb.Truth.
type truth struct {
	w       *Web
	reached []bool // nil: all
	count   int64
}

// Truth returns the pages that a crawl from Seeds reaches. Of an encyclopedia it follows all links to find them.
func (w *Web) Truth() testweb.Truth {
	if w.whole() {
		return &truth{w: w, count: w.Pages()}
	}
	t := &truth{w: w, reached: w.Reach(int64(w.seed))}
	for _, is := range t.reached {
		if is {
			t.count++
		}
	}
	return t
}

// Reach returns which pages can be reached from some pages by links.
func (w *Web) Reach(from ...int64) []bool {
	reached := make([]bool, w.Pages())
	var queue, links []uint32
	for _, p := range from {
		reached[p] = true
		queue = append(queue, uint32(p))
	}
	for len(queue) > 0 {
		links = w.appendLinks(links[:0], queue[len(queue)-1])
		queue = queue[:len(queue)-1]
		for _, to := range links {
			if !reached[to] {
				reached[to] = true
				queue = append(queue, to)
			}
		}
	}
	return reached
}

func (t *truth) Reachable() int64 { return t.count }

func (t *truth) Has(host, page int64) bool {
	if host < 0 || host >= t.w.Hosts() || page < 0 || page >= int64(t.w.first[host+1]-t.w.first[host]) {
		return false
	}
	return t.reached == nil || t.reached[int64(t.w.first[host])+page]
}

func (t *truth) Each(f func(host, page int64)) {
	for host := range t.w.Hosts() {
		for page := range int64(t.w.first[host+1] - t.w.first[host]) {
			if t.Has(host, page) {
				f(host, page)
			}
		}
	}
}

func (t *truth) URL(host, page int64) string { return t.w.URL(int64(t.w.first[host]) + page) }
