// Package demo answers: what can a crawler crawl without a network?
//
// It is a small town as a web: eight hosts with about two hundred pages of readable text. They have what a crawler
// meets on the real web: links between hosts, robots.txt files with a denial and a Crawl-delay, a feed and a sitemap,
// redirects, missing pages, a page in Latin-1, gzip, and two small traps (a calendar, and a path that grows).
//
// All pages are made from the texts in web/, which belong to this project, at the first call of Sites. After that
// nothing changes, so the handlers are safe for concurrent use.
package demo

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

//go:embed web
var files embed.FS

// Seeds returns the URL of the town's home page, from which everything can be reached.
func Seeds() []string { return []string{"http://www.aldermouth.example/"} }

// Sites returns the hosts of the demo web.
func Sites() []testweb.Site {
	var sites []testweb.Site
	for _, h := range town() {
		sites = append(sites, testweb.Site{Host: h.Name, Robots: h.robots, Handler: &h.pages})
	}
	return sites
}

// usualDelay is the delay for which the Crawl-delays are made: they are a little longer.
const usualDelay = 200 * time.Millisecond

var crawlDelay = regexp.MustCompile(`(?m)^Crawl-delay: (.*)$`)

// SitesFor returns Sites for a crawl with another delay than 200 ms. Their Crawl-delays change in proportion.
func SitesFor(delay time.Duration) []testweb.Site {
	sites := Sites()
	for i := range sites {
		sites[i].Robots = crawlDelay.ReplaceAllStringFunc(sites[i].Robots, func(line string) string {
			seconds, err := strconv.ParseFloat(crawlDelay.FindStringSubmatch(line)[1], 64)
			if err != nil {
				panic(err) // the texts are embedded, so this cannot happen
			}
			return fmt.Sprintf("Crawl-delay: %g", seconds*float64(delay)/float64(usualDelay))
		})
	}
	return sites
}

// A host has the texts of a site and the pages made from them.
type host struct {
	Name, Title, Motto string
	Colour             template.CSS
	Image              string
	Kinds              []kind
	Links              []link
	Feed               bool
	robots             string
	more               []link
	intro              []template.HTML
	by                 map[string]string // for a kind, the field by which its items are also listed
	pages              testweb.Documents
}

type kind struct {
	Slug, Title string
	items       []*item
}

type item struct {
	slug, title string
	fields      []field
	text        []template.HTML
	first       string // first sentence of the text
}

type field struct{ Name, Value, Link string }

type link struct{ URL, Title, Note string }

// view is the input of the template.
type view struct {
	Host        *host
	Title, Path string
	Charset     string
	Canonical   string
	NoFollow    bool
	Fields      []field
	Text        []template.HTML
	List        []link
	Prev, Next  *link
}

// made is the Last-Modified of every page.
var made = time.Date(2026, 6, 12, 7, 0, 0, 0, time.UTC)

var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.ParseFS(files, "web/page.tmpl"))
})

// town reads the texts and makes the pages at the first call.
var town = sync.OnceValue(func() []*host {
	names, err := files.ReadDir("web")
	if err != nil {
		panic(err) // the files are embedded, so this cannot happen
	}
	var hosts []*host
	for _, n := range names {
		if path.Ext(n.Name()) == ".txt" {
			b, err := files.ReadFile("web/" + n.Name())
			if err != nil {
				panic(err)
			}
			h := read(string(b))
			h.make()
			hosts = append(hosts, h)
		}
	}
	return hosts
})

// read parses the text of one host: a head of "key: value" lines, an introduction, and items that begin with
// "=== kind slug".
func read(text string) *host {
	h := &host{by: map[string]string{}}
	parts := strings.Split(text, "\n=== ")
	head, intro, _ := strings.Cut(parts[0], "\n\n")
	for line := range strings.Lines(head) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch k {
		case "host":
			h.Name = v
		case "title":
			h.Title = v
		case "motto":
			h.Motto = v
		case "colour":
			h.Colour = template.CSS(v)
		case "image":
			h.Image = v
		case "robots":
			h.robots = strings.ReplaceAll(v, `\n`, "\n")
			h.Feed = strings.Contains(v, "Sitemap")
		case "kinds":
			for _, l := range linkList(v) {
				h.Kinds = append(h.Kinds, kind{Slug: l.URL, Title: l.Title})
			}
		case "by":
			kind, field, _ := strings.Cut(v, " ")
			h.by[kind] = field
		case "links":
			h.Links = linkList(v)
		case "more":
			h.more = linkList(v)
		}
	}
	h.intro = paragraphs(intro)
	for _, p := range parts[1:] {
		first, rest, _ := strings.Cut(p, "\n")
		kind, slug, _ := strings.Cut(first, " ")
		it := &item{slug: slug}
		var body []string
		for line := range strings.Lines(rest) {
			k, v, ok := strings.Cut(strings.TrimSpace(line), ": ")
			switch {
			case ok && len(body) == 0 && k == "title":
				it.title = v
			case ok && len(body) == 0 && strings.ToLower(k) == k && !strings.Contains(k, " "):
				it.fields = append(it.fields, field{Name: k, Value: v})
			default:
				body = append(body, line)
			}
		}
		it.text = paragraphs(strings.Join(body, ""))
		it.first = firstSentence(strings.Join(body, ""))
		for i := range h.Kinds {
			if h.Kinds[i].Slug == kind {
				h.Kinds[i].items = append(h.Kinds[i].items, it)
			}
		}
	}
	return h
}

// linkList parses "URL title | URL title".
func linkList(s string) []link {
	var ls []link
	for part := range strings.SplitSeq(s, " | ") {
		u, title, _ := strings.Cut(part, " ")
		ls = append(ls, link{URL: u, Title: title})
	}
	return ls
}

// paragraphs converts text with [links](URL) to HTML.
func paragraphs(s string) []template.HTML {
	var out []template.HTML
	for p := range strings.SplitSeq(strings.TrimSpace(s), "\n\n") {
		var b strings.Builder
		for {
			before, rest, ok := strings.Cut(p, "[")
			b.WriteString(template.HTMLEscapeString(before))
			if !ok {
				break
			}
			text, rest, _ := strings.Cut(rest, "](")
			to, rest, _ := strings.Cut(rest, ")")
			fmt.Fprintf(&b, "<a href=\"%s\">%s</a>", template.HTMLEscapeString(to), template.HTMLEscapeString(text))
			p = rest
		}
		out = append(out, template.HTML(b.String()))
	}
	return out
}

// firstSentence returns the first sentence of a text, without its links.
func firstSentence(s string) string {
	s, _, _ = strings.Cut(strings.ReplaceAll(strings.TrimSpace(s), "\n", " "), ". ")
	for {
		i := strings.IndexByte(s, '[')
		j := strings.Index(s, "](")
		if i < 0 || j < i {
			return s
		}
		k := strings.IndexByte(s[j:], ')')
		if k < 0 {
			return s
		}
		s = s[:i] + s[i+1:j] + s[j+k+1:]
	}
}

// make makes all pages of the host.
func (h *host) make() {
	h.pages = testweb.Documents{Modified: made, Gzip: true, Missing: "<!doctype html>\n<title>Not here</title>\n" +
		"<p>There is no such page, or the tide has taken it. <a href=\"/\">" + template.HTMLEscapeString(h.Title) +
		"</a>\n"}
	home := view{Title: "Welcome", Text: h.intro, List: slices.Clone(h.more)}
	for _, k := range h.Kinds {
		home.List = append(home.List, link{URL: "/" + k.Slug + "/", Title: k.Title})
		h.makeKind(k)
	}
	h.add("/", home)
	for _, name := range []string{"style.css", h.Image} {
		b, err := files.ReadFile("web/" + name)
		if err != nil {
			panic(err)
		}
		ctype := "text/css; charset=utf-8"
		if path.Ext(name) == ".svg" {
			ctype = "image/svg+xml"
		}
		h.pages.Add("/"+name, ctype, b)
	}
	if h.Feed {
		h.makeFeed()
	}
	if h.Name == "www.aldermouth.example" {
		h.makeTraps()
	}
	for at, to := range map[string]string{
		"www.aldermouth.example/old-home.html":    "/",
		"maths.northshore.example/staff.html":     "/people/",
		"millstone-bakery.example/menu.html":      "/breads",
		"millstone-bakery.example/breads":         "/breads/",
		"narrow-gauge.example/timetable.html":     "http://www.aldermouth.example/events/?month=0",
		"tidewatch.example/birds/index.html":      "/birds/",
		"the-lantern.example/news/this-week.html": "/news/ferry-bell.html",
	} {
		if rest, ok := strings.CutPrefix(at, h.Name+"/"); ok {
			h.pages.Redirect("/"+rest, to, http.StatusMovedPermanently)
		}
	}
}

// makeKind makes the pages of a kind's items, their list, and the lists by a field.
func (h *host) makeKind(k kind) {
	list := view{Title: k.Title}
	groups := map[string][]link{}
	by := h.by[k.Slug]
	for i, it := range k.items {
		self := link{URL: k.url(i), Title: it.title, Note: it.first}
		list.List = append(list.List, self)
		v := view{
			Title: it.title, Text: it.text, Fields: slices.Clone(it.fields), Canonical: "http://" + h.Name + k.url(i),
		}
		for j, f := range v.Fields {
			if f.Name == by {
				groups[f.Value] = append(groups[f.Value], self)
				v.Fields[j].Link = "/" + k.Slug + "/" + f.Name + "-" + slugOf(f.Value) + ".html"
			}
		}
		if i > 0 {
			v.Prev = &link{URL: k.url(i - 1), Title: k.items[i-1].title}
		}
		if i+1 < len(k.items) {
			v.Next = &link{URL: k.url(i + 1), Title: k.items[i+1].title}
		}
		h.add(k.url(i), v)
	}
	h.add("/"+k.Slug+"/", list)
	for value, items := range groups {
		h.add("/"+k.Slug+"/"+by+"-"+slugOf(value)+".html", view{Title: k.Title + ": " + value, List: items})
	}
}

func (k kind) url(i int) string {
	return "/" + k.Slug + "/" + url.PathEscape(k.items[i].slug) + ".html"
}

func slugOf(s string) string { return strings.ReplaceAll(strings.ToLower(s), " ", "-") }

// add renders a page. The page whose path is not ASCII is in Latin-1.
func (h *host) add(at string, v view) {
	v.Host, v.Charset = h, "utf-8"
	v.Path, _, _ = strings.Cut(at, "?")
	if strings.Contains(at, "%") {
		v.Charset = "iso-8859-1"
	}
	var b bytes.Buffer
	if err := pageTemplate().Execute(&b, v); err != nil {
		panic(err) // the template and the texts are embedded, so this cannot happen
	}
	body := b.Bytes()
	if v.Charset != "utf-8" {
		body = latin1(b.String())
	}
	h.pages.Add(at, "text/html; charset="+v.Charset, body)
}

func latin1(s string) []byte {
	var out []byte
	for _, r := range s {
		if r > 255 {
			out = fmt.Appendf(out, "&#%d;", r)
			continue
		}
		out = append(out, byte(r))
	}
	return out
}

// makeFeed makes an RSS feed of the news, and a sitemap with one page to which no other page links.
func (h *host) makeFeed() {
	base := "http://" + h.Name
	feed := "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<rss version=\"2.0\"><channel><title>" + h.Title + "</title>" +
		"<link>" + base + "/</link>\n"
	sitemap := "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n" +
		"<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n"
	k := h.Kinds[0]
	for i, it := range k.items {
		feed += "<item><title>" + template.HTMLEscapeString(it.title) + "</title><link>" + base + k.url(i) +
			"</link></item>\n"
		sitemap += "<url><loc>" + base + k.url(i) + "</loc></url>\n"
	}
	const orphan = "/news/extra-edition.html"
	h.add(orphan, view{Title: "Extra edition", Text: paragraphs("Printed for those who read " +
		"[sitemaps](/sitemap.xml). No page links to this one. You found it; the editor sends her regards.")})
	h.pages.Add("/feed.xml", "application/rss+xml; charset=utf-8", []byte(feed+"</channel></rss>\n"))
	sitemap += "<url><loc>" + base + orphan + "</loc></url>\n</urlset>\n"
	h.pages.Add("/sitemap.xml", "application/xml; charset=utf-8", []byte(sitemap))
}

const (
	months    = 12 // length of the calendar in each direction
	tourSteps = 40 // length of the growing path
)

var happenings = []string{
	"The choir sings on the custom house steps.",
	"Market on the quay, weather permitting and often without its permission.",
	"Lamp walk to the North Lighthouse.", "The library boat calls at the weir.", "Trains on Sunday.",
	"Council in the custom house; bring a question.",
	"Bread from the harbour oven, for one night only at noon.", "Counting of the geese.",
}

// makeTraps makes /events/?month=N, which leads on month by month, and /tour/, whose links make the path longer. A
// crawler should notice that these pages have nothing new. Both end after a while.
func (h *host) makeTraps() {
	for n := -months; n <= months; n++ {
		day := time.Date(2026, time.Month(6+n), 1, 0, 0, 0, 0, time.UTC)
		v := view{Title: "Events in " + day.Format("January 2006")}
		for i := range 3 {
			v.List = append(v.List, link{
				URL: "/places/", Title: strconv.Itoa(4+i*9) + " " + day.Format("January"),
				Note: happenings[(n*3+i+8*months)%len(happenings)],
			})
		}
		previous, next := day.AddDate(0, -1, 0), day.AddDate(0, 1, 0)
		v.Prev = &link{URL: fmt.Sprintf("/events/?month=%d", n-1), Title: previous.Format("January 2006")}
		v.Next = &link{URL: fmt.Sprintf("/events/?month=%d", n+1), Title: next.Format("January 2006")}
		h.add(fmt.Sprintf("/events/?month=%d", n), v)
	}
	for steps := range tourSteps + 1 {
		place := h.Kinds[0].items[steps%len(h.Kinds[0].items)]
		text := "You are standing before: " + template.HTMLEscapeString(place.title) + "."
		h.add("/tour/"+strings.Repeat("next/", steps), view{Title: "The tour, step " + strconv.Itoa(steps+1),
			Text: []template.HTML{template.HTML(text)}, Next: &link{URL: "next/", Title: "On to the next step"}})
	}
}
