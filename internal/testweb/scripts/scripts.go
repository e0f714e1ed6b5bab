// Package scripts answers: what does a crawler find on pages that only scripts fill?
//
// It has three small applications, built with React, Vue and Svelte, a host with their common files, and a host of
// plain pages that links to them. The document of each page of an application is the same empty shell. Scripts fetch
// its text and links:
//
//	data.json -> pages and their truth
//	source/ -> build.sh -> web/ -> Sites
//
// The truth (Apps) comes from data.json alone. Each text has a mark, which stands nowhere else. Nothing is made after
// the first call of Sites, so the handlers are safe for concurrent use.
package scripts

import (
	"embed"
	"encoding/json"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

//go:embed web data.json
var files embed.FS

// The hosts of the web. Scripts need HTTPS for a service worker, so there is no other scheme.
const (
	plainHost = "scripts.example"
	reactHost = "notice-board.example"
	vueHost   = "small-museum.example"
	svelte    = "tide-tables.example"
	filesHost = "files.cdn-scripts.example"
)

// plainPages is the number of pages that need no script. They are more than the pages that do.
const plainPages = 160

// Seeds returns the URL of the plain home page, from which everything can be reached.
func Seeds() []string { return []string{"https://" + plainHost + "/"} }

// made is the Last-Modified of every file.
var made = time.Date(2026, 6, 12, 7, 0, 0, 0, time.UTC)

// A web is the hosts with their files and pages.
type web struct {
	sites []testweb.Site
	apps  []testweb.App
}

var whole = sync.OnceValue(func() *web {
	var d data
	if err := json.Unmarshal(file("data.json"), &d); err != nil {
		panic(err) // the file is embedded, and a test reads it
	}
	w := &web{}
	for _, h := range []*host{d.notices(), d.museum(), d.tides(), d.plain(), d.common()} {
		w.add(h)
	}
	return w
})

// Sites returns the hosts.
func Sites() []testweb.Site { return whole().sites }

// Apps returns the pages and files of each host that a crawl with scripts finds.
func Apps() []testweb.App { return whole().apps }

func file(name string) []byte {
	b, err := files.ReadFile(name)
	if err != nil {
		panic(err) // the files are embedded
	}
	return b
}

// A host is a host of the web while it is being made.
type host struct {
	name   string
	robots string
	shell  []byte
	docs   testweb.Documents
	app    testweb.App
}

func newHost(name, about string) *host {
	return &host{name: name, robots: "User-agent: *\nAllow: /\n", app: testweb.App{Name: about},
		docs: testweb.Documents{Modified: made, Gzip: true}}
}

func (h *host) url(at string) string { return "https://" + h.name + at }

// built adds the built files of an application.
func (h *host) built(folder string) {
	err := fs.WalkDir(files, folder, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		at := strings.TrimPrefix(name, folder)
		if at == "/index.html" {
			h.shell = file(name)
			return nil
		}
		h.add(at, file(name))
		return nil
	})
	if err != nil {
		panic(err) // the files are embedded
	}
}

// add adds a file that the pages need.
func (h *host) add(at string, body []byte) {
	ctype := map[string]string{".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml",
		".json": "application/json"}[path.Ext(at)]
	h.docs.Add(at, ctype, body)
	h.app.Files = append(h.app.Files, h.url(at))
}

// say adds the answer to a script, as JSON.
func (h *host) say(at string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // the types are ours
	}
	h.add(at, b)
}

// page adds a page of the application. mark is a text that the page shows when its scripts have run; from is the file
// that has it.
func (h *host) page(at, mark string, from ...string) {
	p := testweb.AppPage{URL: h.url(at), Mark: mark}
	for _, f := range from {
		p.Needs = append(p.Needs, h.url(f))
	}
	h.app.Pages = append(h.app.Pages, p)
	h.docs.Add(at, "text/html; charset=utf-8", h.shell)
}

func (w *web) add(h *host) {
	site := testweb.Site{Host: h.name, Robots: h.robots, Scheme: "https", Handler: &h.docs}
	switch h.name {
	case reactHost:
		site.Handler = members(&h.docs)
	case vueHost:
		site.Handler = visits(&h.docs)
	case filesHost:
		site.Handler = shared(&h.docs)
	}
	w.sites, w.apps = append(w.sites, site), append(w.apps, h.app)
}

// members answers a request for the members' list with 403, unless it has the cookie that a script sets.
func members(next http.Handler) http.HandlerFunc {
	return func(rw http.ResponseWriter, req *http.Request) {
		if c, err := req.Cookie("member"); req.URL.Path == membersList && (err != nil || c.Value != "yes") {
			http.Error(rw, "{}", http.StatusForbidden)
			return
		}
		next.ServeHTTP(rw, req)
	}
}

// visits takes the count of visits, which is a POST. No page needs it.
func visits(next http.Handler) http.HandlerFunc {
	return func(rw http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/api/visits" && req.Method == http.MethodPost {
			rw.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(rw, req)
	}
}

// shared lets scripts of all hosts read the files.
func shared(next http.Handler) http.HandlerFunc {
	return func(rw http.ResponseWriter, req *http.Request) {
		rw.Header().Set("Access-Control-Allow-Origin", "*")
		next.ServeHTTP(rw, req)
	}
}

// plain makes the host of pages that need no script.
func (d *data) plain() *host {
	h := newHost(plainHost, "plain")
	all := d.all()
	var links strings.Builder
	for n := range plainPages {
		at := fmt.Sprintf("/page/%d", n+1)
		fmt.Fprintf(&links, "<li><a href=\"%s\">Page %d</a>\n", at, n+1)
		e := all[n%len(all)]
		text := ""
		for i := range 4 {
			text += "<p>" + html.EscapeString(all[(n+i)%len(all)].Text) + "\n"
		}
		mark := fmt.Sprintf("plain-page-%d", n+1)
		h.shell = fmt.Appendf(nil, "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">"+
			"<title>%[1]s, page %[2]d</title>\n<h1>%[1]s</h1>\n%[3]s<p>%[4]s\n"+
			"<script>document.title += '.';</script>\n", html.EscapeString(e.Title), n+1, text, mark)
		h.page(at, mark)
	}
	h.shell = fmt.Appendf(nil, "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Scripts</title>\n"+
		"<h1>Pages with and without scripts</h1>\n<ul>\n<li><a href=\"https://%s/\">A notice board</a>\n"+
		"<li><a href=\"https://%s/\">A museum</a>\n<li><a href=\"https://%s/\">Tide tables</a>\n</ul>\n<ul>\n%s</ul>\n",
		reactHost, vueHost, svelte, &links)
	h.page("/", "Pages with and without scripts")
	return h
}
