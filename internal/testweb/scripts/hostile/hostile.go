// Package hostile answers: what may a page do to the browser that shows it?
//
// Each page of web/ does one kind of harm, or uses something that a crawl with a browser often gets wrong. It has a
// link to a page /fine/NAME in its document, so that a crawl finds that page even if its browser fails. A page that
// works in a browser adds a link to /worked/NAME. Addresses of this machine and of hosts that do not exist
// (outside.example) must not be asked for: the web reports the first ones as those of an unknown host.
package hostile

import (
	"embed"
	"fmt"
	"html"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

//go:embed web
var files embed.FS

const (
	host       = "browser-trap.example"
	filesHost  = "files." + host
	socketHost = "socket." + host
	slowHost   = "slow-files.example" // has a Crawl-delay
)

// worked are the pages that work in a browser.
var worked = []string{"cached", "coded", "cors", "cors-refused", "header", "range"}

// secure are the pages that a browser lets use what they need only over HTTPS.
var secure = []string{"coded", "dialog-permissions", "worker-service"}

// base returns the URL of the host for a page and the pages to which it links.
func base(name string) string {
	if slices.Contains(secure, name) {
		return "https://" + host
	}
	return "http://" + host
}

// Seeds returns the URL of the page that links to all others.
func Seeds() []string { return []string{"http://" + host + "/"} }

// Apps returns the pages that a crawl must find, whatever becomes of its browser.
func Apps() []testweb.App {
	app := testweb.App{Name: "hostile"}
	add := func(url, mark string) { app.Pages = append(app.Pages, testweb.AppPage{URL: url, Mark: mark}) }
	add(Seeds()[0], "Pages that a browser must bear")
	for _, name := range names() {
		what, _ := page(name)
		add(base(name)+"/"+name, what)
		add(base(name)+"/fine/"+name, "Nothing wrong here")
		if slices.Contains(worked, name) {
			add(base(name)+"/worked/"+name, "It worked")
		}
	}
	slow := testweb.App{Name: "slow", Pages: []testweb.AppPage{
		{URL: "http://" + slowHost + "/", Mark: "Slow files."},
		{URL: "http://" + slowHost + "/last", Mark: "The last page."},
	}, Files: []string{"http://" + slowHost + "/a.js", "http://" + slowHost + "/b.js"}}
	return []testweb.App{app, slow}
}

// Sites returns the hosts.
func Sites() []testweb.Site {
	return []testweb.Site{
		{Host: host, Robots: "User-agent: *\nDisallow: /none/\n", Handler: handler()},
		{Host: filesHost, Handler: others()},
		{Host: socketHost, Raw: socket},
		{Host: slowHost, Robots: "User-agent: *\nCrawl-delay: 0.5\n", Handler: testweb.Pages(map[string]string{
			"/": "<!doctype html><title>Slow</title><p>Slow files." +
				`<script src="/a.js"></script><script src="/b.js"></script>`,
			"/a.js": "document.title += ' a';",
			"/b.js": `document.body.insertAdjacentHTML('beforeend', '<a href="/last">last</a>');`,
			"/last": "<!doctype html><title>Last</title><p>The last page.",
		})},
	}
}

// names returns the names of all pages, sorted.
func names() (all []string) {
	entries, err := files.ReadDir("web")
	if err != nil {
		panic(err) // the files are embedded
	}
	for _, e := range entries {
		all = append(all, strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
	}
	return all
}

// page returns what a page does, which is its first line, and its HTML; empty if there is none.
func page(name string) (what, body string) {
	b, err := files.ReadFile("web/" + name + ".html")
	if err != nil {
		return "", ""
	}
	what, body, _ = strings.Cut(string(b), "\n")
	return strings.TrimSuffix(strings.TrimPrefix(what, "<!-- "), " -->"), body
}

// ready is a function for the pages that work.
const ready = "<script>const worked = () => document.body.insertAdjacentHTML('beforeend', " +
	"'<p><a href=\"/worked/%s\">worked</a>');</script>\n"

// document returns the document of a page. A PORT in it becomes that of the web, at which the web answers on each
// address of this machine.
func document(name, port string) string {
	what, body := page(name)
	text := html.EscapeString(what)
	head := fmt.Sprintf("<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>%s</title>\n"+
		"<h1>%[1]s</h1>\n<p><a href=\"/fine/%[2]s\">fine</a>\n", text, name)
	if slices.Contains(worked, name) {
		head += fmt.Sprintf(ready, name)
	}
	return head + strings.ReplaceAll(body, "PORT", port)
}

// index returns the page that links to all others.
func index() string {
	var b strings.Builder
	b.WriteString("<!doctype html>\n<title>Hostile</title>\n<h1>Pages that a browser must bear</h1>\n<ul>\n")
	for _, name := range names() {
		what, _ := page(name)
		fmt.Fprintf(&b, "<li><a href=\"%s/%s\">%s</a>\n", base(name), name, html.EscapeString(what))
	}
	fmt.Fprintf(&b, "<li><a href=\"http://%s/\">a host with a Crawl-delay</a>\n</ul>\n", slowHost)
	return b.String()
}

// port returns the port at which a request has come.
func port(req *http.Request) string {
	if a, ok := req.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if _, p, err := net.SplitHostPort(a.String()); err == nil {
			return p
		}
	}
	return "80"
}

func say(rw http.ResponseWriter, text string) {
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(rw, text)
}

// handler serves the pages and the files that they ask for.
func handler() http.Handler {
	mux := http.NewServeMux()
	answers(mux)
	mux.HandleFunc("/", func(rw http.ResponseWriter, req *http.Request) {
		name := strings.TrimPrefix(req.URL.Path, "/")
		what, _ := page(name)
		switch {
		case name == "":
			say(rw, index())
		case what == "":
			http.NotFound(rw, req)
		default:
			say(rw, document(name, port(req)))
		}
	})
	mux.HandleFunc("/fine/", func(rw http.ResponseWriter, _ *http.Request) {
		say(rw, "<!doctype html>\n<title>Fine</title>\n<p>Nothing wrong here.\n")
	})
	mux.HandleFunc("/worked/", func(rw http.ResponseWriter, _ *http.Request) {
		say(rw, "<!doctype html>\n<title>Worked</title>\n<p>It worked.\n")
	})
	return mux
}
