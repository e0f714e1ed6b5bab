package testweb

import (
	"fmt"
	"html"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Hostility is one way to harm a crawler: a page of hostile.example.
type Hostility struct {
	Path string
	What string // a description, also the text of the link to it
	// Endless means that the response lasts until the client gives up. Trap means that the page leads to ever new
	// pages.
	Endless, Trap bool
	run           RawFunc
}

// HostileHost is the host whose home page links to all Hostilities and to the home pages of the other HostileSites.
const HostileHost = "hostile.example"

// Hostilities returns all pages of hostile.example but its home page, sorted by path.
func Hostilities() []Hostility {
	all := slices.Concat(bodies(), framings(), contents(), redirects(), traps())
	slices.SortFunc(all, func(a, b Hostility) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// HostileSites returns hostile.example and hosts with a faulty robots.txt, certificate or DNS name.
func HostileSites() []Site {
	bombs() // while a busy server makes them, a client may stop waiting, and the server does not notice
	hello := http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(rw, "<!doctype html><title>%s</title><p>An ordinary page. <a href=\"/second\">Another</a>.\n",
			html.EscapeString(req.Host))
	})
	sites := []Site{
		{Host: "self-signed.example", TLS: SelfSigned, Handler: hello},
		{Host: "expired.example", TLS: Expired, Handler: hello},
		{Host: "wrong-name.example", TLS: WrongName, Handler: hello},
		{Host: "cut-tls.example", TLS: CutTLS, Handler: hello},
		{Host: "no-such-name.example", DNS: NoDomain, Handler: hello},
		{Host: "dns-fails.example", DNS: ServerFail, Handler: hello},
		{Host: "dns-silent.example", DNS: NoAnswer, Handler: hello},
		{Host: "dns-empty.example", DNS: NoData, Handler: hello},
		{Host: "robots-10mb.example", Robots: bigRobots(10 << 20), Handler: hello},
		{Host: "robots-silent.example", Rules: []Rule{{Path: "/robots.txt", Hang: true}}, Handler: hello,
			Robots: "User-agent: *\nDisallow: /\n"},
		{Host: "robots-503.example", Rules: []Rule{{Path: "/robots.txt", Status: 503, Body: "later"}}, Handler: hello,
			Robots: "User-agent: *\nDisallow: /\n"},
		{Host: "robots-reset.example", Rules: []Rule{{Path: "/robots.txt", Reset: true}}, Handler: hello,
			Robots: "User-agent: *\nDisallow: /\n"},
		{Host: "robots-403.example", Rules: []Rule{{Path: "/robots.txt", Status: 403, Body: "no"}}, Handler: hello},
		{Host: "robots-loop.example", Rules: []Rule{{Path: "/robots.txt", Status: 302, Location: "/robots.txt"}},
			Handler: hello},
		{Host: "robots-html.example", Rules: []Rule{{Path: "/robots.txt", Status: 200,
			Body: "<!doctype html><title>Welcome</title><p>Disallow: everything?"}}, Handler: hello},
		{Host: "robots-elsewhere.example",
			Rules:   []Rule{{Path: "/robots.txt", Status: 301, Location: "http://robots-10mb.example/robots.txt"}},
			Handler: hello,
			Robots:  "User-agent: *\nDisallow: /forbidden/\n"},
		{Host: "reset-always.example", Rules: []Rule{{Path: "/", Reset: true}}},
		{Host: "busy.example", Rules: []Rule{{Status: 503, RetryAfter: 2 * time.Second, First: 2, Body: "busy"}},
			Handler: hello},
		{Host: "flapping.example", Rules: []Rule{{Every: 2, Reset: true}}, Handler: hello},
	}
	for i := range chainHosts {
		sites = append(sites, Site{Host: chainHost(i), Handler: http.HandlerFunc(chain)})
	}
	raw := map[string]Hostility{}
	var index strings.Builder
	index.WriteString("<!doctype html><title>Hostile</title><h1>What a crawler must bear</h1><ul>\n")
	for _, h := range Hostilities() {
		raw[strings.TrimSuffix(h.Path, "*")] = h
		fmt.Fprintf(&index, "<li><a href=\"%s\">%s</a>\n", strings.TrimSuffix(h.Path, "*"), html.EscapeString(h.What))
	}
	for _, s := range sites {
		scheme := "http"
		if s.TLS != "" {
			scheme = "https"
		}
		fmt.Fprintf(&index, "<li><a href=\"%s://%s/\">%[2]s</a>\n", scheme, s.Host)
	}
	page := okPage(index.String())
	return append(sites, Site{Host: HostileHost, Raw: func(c *RawConn, req *http.Request) bool {
		p := req.URL.Path
		h, ok := raw[p]
		if i := strings.IndexByte(p[min(1, len(p)):], '/'); !ok && i >= 0 { // "/trap/*"
			h, ok = raw[p[:i+2]]
		}
		switch {
		case ok:
			return h.run(c, req)
		case p == "/":
			c.WriteString(page)
		case strings.HasPrefix(p, "/fine/"):
			c.WriteString(okPage("<!doctype html><title>Fine</title><p>Nothing wrong here.\n"))
		default:
			c.WriteString("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}
		return false
	}})
}

// bigRobots returns a robots.txt of n bytes that forbids /forbidden/ at its beginning and everything at its end. The
// end is far beyond what a crawler must read (RFC 9309, 2.5).
func bigRobots(n int) string {
	var b strings.Builder
	b.WriteString("User-agent: *\nDisallow: /forbidden/\n")
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "Disallow: /nothing/is/here/%d\n", i)
	}
	b.WriteString("Disallow: /\n")
	return b.String()
}

const head200 = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"

// says returns a RawFunc that sends fixed bytes and closes the connection.
func says(parts ...string) RawFunc {
	return func(c *RawConn, _ *http.Request) bool {
		for _, p := range parts {
			if c.WriteString(p) != nil {
				break
			}
		}
		return false
	}
}

// drips sends text at one byte a second.
func drips(c *RawConn, text string) {
	for i := range len(text) {
		if c.WriteString(text[i:i+1]) != nil || !c.Wait(time.Second) {
			return
		}
	}
}

// bodies returns responses that are too long, too slow or cut off.
func bodies() []Hostility {
	filler := strings.Repeat("<p>And so on, and so on, without an end. <a href=\"/fine/endless\">fine</a>\n", 400)
	forever := func(begin, part string) RawFunc {
		return func(c *RawConn, _ *http.Request) bool {
			for err := c.WriteString(begin); err == nil; {
				err = c.WriteString(part)
			}
			return false
		}
	}
	slow := strings.Repeat("<p>slowly ", 10_000)
	return []Hostility{
		{Path: "/endless", What: "a body that never ends", Endless: true, run: forever(head200+"\r\n", filler)},
		{Path: "/endless-chunks", What: "chunks that never end", Endless: true,
			run: forever(head200+"Transfer-Encoding: chunked\r\n\r\n",
				fmt.Sprintf("%x\r\n%s\r\n", len(filler), filler))},
		{Path: "/endless-length", What: "a petabyte, announced and begun", Endless: true,
			run: forever(head200+"Content-Length: 1125899906842624\r\n\r\n", filler)},
		{Path: "/endless-header", What: "a header that never ends", Endless: true,
			run: forever("HTTP/1.1 200 OK\r\n", strings.Repeat("X-More: and more\r\n", 500))},
		{Path: "/endless-line", What: "a header line that never ends", Endless: true,
			run: forever("HTTP/1.1 200 OK\r\nX-Line: ", strings.Repeat("x", 8192))},
		{Path: "/endless-continue", What: "interim replies that never end", Endless: true,
			run: forever("", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100))},
		{Path: "/endless-trailer", What: "a trailer that never ends", Endless: true,
			run: forever(head200+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
				strings.Repeat("X-More: and more\r\n", 500))},
		{Path: "/endless-extension", What: "a chunk extension that never ends", Endless: true,
			run: forever(head200+"Transfer-Encoding: chunked\r\n\r\n5;x=", strings.Repeat("x", 8192))},
		{Path: "/drip", What: "a byte of the body a second", Endless: true,
			run: func(c *RawConn, _ *http.Request) bool {
				c.WriteString(head200 + "Content-Length: " + strconv.Itoa(len(slow)) + "\r\n\r\n")
				drips(c, slow)
				return false
			}},
		{Path: "/drip-header", What: "a byte of the header a second", Endless: true,
			run: func(c *RawConn, _ *http.Request) bool {
				drips(c, head200+"X-Slow: "+slow)
				return false
			}},
		{Path: "/hang", What: "no reply", Endless: true,
			run: func(c *RawConn, _ *http.Request) bool { c.Hang(); return false }},
		{Path: "/hang-header", What: "a silence in the header", Endless: true,
			run: func(c *RawConn, _ *http.Request) bool {
				c.WriteString("HTTP/1.1 200 OK\r\nContent-")
				c.Hang()
				return false
			}},
		{Path: "/hang-body", What: "a silence in the body", Endless: true, run: func(c *RawConn, _ *http.Request) bool {
			c.WriteString(head200 + "Content-Length: 1000\r\n\r\n<p>Wait")
			c.Hang()
			return false
		}},
		{Path: "/reset", What: "a reset instead of a reply",
			run: func(c *RawConn, _ *http.Request) bool { c.Reset(); return false }},
		{Path: "/reset-body", What: "a reset in the body", run: func(c *RawConn, _ *http.Request) bool {
			c.WriteString(head200 + "Content-Length: 100000\r\n\r\n" + filler)
			c.Wait(50 * time.Millisecond) // or the reset could overtake these bytes
			c.Reset()
			return false
		}},
		{Path: "/empty", What: "a close instead of a reply", run: says()},
		{Path: "/header-flood", What: "100,000 header lines", run: func(c *RawConn, _ *http.Request) bool {
			var b strings.Builder
			b.WriteString(head200)
			for i := range 100_000 {
				fmt.Fprintf(&b, "X-Header-%d: %d\r\n", i, i)
			}
			c.WriteString(b.String() + "Content-Length: 5\r\n\r\nhello")
			return false
		}},
		{Path: "/header-long", What: "a header line of 10 MB",
			run: says(head200+"X-Long: ", strings.Repeat("x", 10<<20), "\r\nContent-Length: 5\r\n\r\nhello")},
	}
}

// framings returns responses that break the rules of HTTP.
func framings() []Hostility {
	const body = "<!doctype html><title>Odd</title><p>Some words. <a href=\"/fine/odd\">fine</a>\n"
	length := func(s string) RawFunc { return says(head200 + s + "\r\n\r\n" + body) }
	chunked := func(s string) RawFunc { return says(head200 + "Transfer-Encoding: chunked\r\n\r\n" + s) }
	return []Hostility{
		{Path: "/length-long", What: "less body than announced", run: length("Content-Length: 5000")},
		{Path: "/length-short", What: "more body than announced", run: length("Content-Length: 10")},
		{Path: "/length-negative", What: "a negative length", run: length("Content-Length: -5")},
		{Path: "/length-words", What: "a length in words", run: length("Content-Length: many")},
		{Path: "/length-overflow", What: "a length beyond 64 bits",
			run: length("Content-Length: 99999999999999999999999")},
		{Path: "/length-two", What: "two lengths", run: length("Content-Length: 10\r\nContent-Length: 20")},
		{Path: "/length-chunked", What: "a length and chunks",
			run: says(head200 + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + "5\r\nhello\r\n0\r\n\r\n")},
		{Path: "/chunk-words", What: "a chunk size that is no number",
			run: chunked("5\r\nhello\r\nxyz\r\nhello\r\n0\r\n\r\n")},
		{Path: "/chunk-overflow", What: "a chunk size beyond 64 bits", run: chunked("fffffffffffffffff\r\nhello")},
		{Path: "/chunk-huge", What: "a chunk of 8 exabytes", run: chunked("7fffffffffffffff\r\nhello")},
		{Path: "/chunk-negative", What: "a negative chunk size", run: chunked("-5\r\nhello\r\n0\r\n\r\n")},
		{Path: "/chunk-short", What: "a chunk longer than its size", run: chunked("3\r\nhello\r\n0\r\n\r\n")},
		{Path: "/chunk-cut", What: "a close within a chunk", run: chunked("400\r\n" + body)},
		{Path: "/chunk-unended", What: "a close before the last chunk",
			run: chunked(fmt.Sprintf("%x\r\n%s\r\n", len(body), body))},
		{Path: "/chunk-lf", What: "chunks with bare line feeds", run: chunked("5\nhello\n0\n\n")},
		{Path: "/http09", What: "HTTP/0.9: no status line", run: says(body)},
		{Path: "/garbage", What: "bytes that mean nothing", run: says("\x00\x01\x02\xff\xfe\x16\x03\x01 \r\n\r\n\x00")},
		{Path: "/status-words", What: "a status in words", run: says("HTTP/1.1 Okay Fine\r\n\r\n" + body)},
		{Path: "/status-four", What: "a status of four digits",
			run: says("HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n")},
		{Path: "/status-999", What: "status 999", run: says("HTTP/1.1 999 Unheard of\r\nContent-Length: 2\r\n\r\nno")},
		{Path: "/status-000", What: "status 000", run: says("HTTP/1.1 000 Nothing\r\nContent-Length: 2\r\n\r\nno")},
		{Path: "/status-version", What: "HTTP/9.9", run: says("HTTP/9.9 200 OK\r\nContent-Length: 2\r\n\r\nhi")},
		{Path: "/status-icy", What: "ICY 200 OK", run: says("ICY 200 OK\r\nContent-Type: text/html\r\n\r\n" + body)},
		{Path: "/status-bare", What: "a status line without a reason",
			run: says("HTTP/1.1 200\r\nContent-Type: text/html\r\n\r\n" + body)},
		{Path: "/status-101", What: "an upgrade that was not requested", run: says("HTTP/1.1 101 Switching " +
			"Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")},
		{Path: "/status-204", What: "204 with a body",
			run: says("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello")},
		{Path: "/status-205", What: "205 unasked",
			run: says("HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n")},
		{Path: "/status-206", What: "206 unasked",
			run: says("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-9/10\r\nContent-Length: 5\r\n\r\nhello")},
		{Path: "/status-304", What: "304 unasked", run: says("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n")},
		{Path: "/status-407", What: "407 from no proxy",
			run: says("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: " +
				"0\r\n\r\n")},
		{Path: "/header-lf", What: "bare line feeds in the header",
			run: says("HTTP/1.1 200 OK\nContent-Type: text/html\n\n" + body)},
		{Path: "/header-nul", What: "a NUL in the header", run: says(head200 + "X-Nul: a\x00b\r\n\r\n" + body)},
		{Path: "/header-fold", What: "a folded header line",
			run: says("HTTP/1.1 200 OK\r\nContent-Type: text/html;\r\n charset=utf-8\r\n\r\n" + body)},
		{Path: "/header-space", What: "a space before the colon",
			run: says("HTTP/1.1 200 OK\r\nContent-Type : text/html\r\n\r\n" + body)},
		{Path: "/header-colon", What: "a header line without a colon",
			run: says("HTTP/1.1 200 OK\r\nContent-Type text/html\r\n: empty\r\n\r\n" + body)},
		{Path: "/header-cut", What: "a close within the header", run: says("HTTP/1.1 200 OK\r\nContent-Ty")},
		{Path: "/encoding-unknown", What: "an unknown content coding",
			run: says(head200 + "Content-Encoding: rot13\r\n\r\n" + body)},
		{Path: "/encoding-lie", What: "gzip that is none",
			run: says(head200 + "Content-Encoding: gzip\r\n\r\n" + body)},
		{Path: "/encoding-many", What: "a hundred content codings",
			run: says(head200 + "Content-Encoding: gzip" + strings.Repeat(", gzip", 99) + "\r\n\r\n" + body)},
		{Path: "/pipelined", What: "a second, unrequested reply", run: func(c *RawConn, _ *http.Request) bool {
			one := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: " + strconv.Itoa(len(body)) +
				"\r\n\r\n" + body
			c.WriteString(one + "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
			return true
		}},
	}
}
