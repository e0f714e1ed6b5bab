package testweb

import (
	"bytes"
	"compress/flate"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// bombBytes is the least number of bytes to which a compression bomb unpacks.
const bombBytes = 8 << 30

const bombStep = 4 << 20

// A bomb is a compressed stream of spaces: a front, and a part that unpacks to bombStep bytes and is sent repeatedly.
// The stream has no end, because a careful client stops earlier.
type bomb struct{ front, part []byte }

// bombs makes the bombs, once.
var bombs = sync.OnceValue(func() map[string]bomb {
	step := bytes.Repeat([]byte{' '}, bombStep)
	made := map[string]bomb{}
	// A flushed stream ends at a byte boundary. From the second step on the window holds only spaces, so that each
	// further step is compressed to the same bytes.
	stream := func(name string, w io.Writer, flush func() error, out *bytes.Buffer) {
		var parts [3][]byte
		for i := range parts {
			w.Write(step)
			flush()
			parts[i] = bytes.Clone(out.Bytes())
			out.Reset()
		}
		made[name] = bomb{append(parts[0], parts[1]...), parts[2]}
	}
	var out bytes.Buffer
	out.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255})
	f, _ := flate.NewWriter(&out, 6)
	stream("gzip", f, f.Flush, &out)
	out.Reset()
	b := brotli.NewWriterLevel(&out, 5)
	stream("br", b, b.Flush, &out)
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err == nil {
		made["zstd"] = bomb{nil, z.EncodeAll(step, nil)}
	}
	return made
})

func explode(coding, header string) RawFunc {
	return func(c *RawConn, _ *http.Request) bool {
		b := bombs()[coding]
		if c.WriteString(head200+header+"\r\n") != nil {
			return false
		}
		_, err := c.Write(b.front)
		many := bytes.Repeat(b.part, max(1, (32<<10)/max(1, len(b.part))))
		step := int64(bombStep) * int64(len(many)/len(b.part))
		for n := int64(0); err == nil && n < bombBytes; n += step {
			_, err = c.Write(many)
		}
		return false
	}
}

// contents returns pages with correct framing and harmful content.
func contents() []Hostility {
	page := func(p string) RawFunc { return says(okPage(p)) }
	typed := func(ctype, p string) RawFunc {
		return says("HTTP/1.1 200 OK\r\nContent-Type: " + ctype + "\r\nContent-Length: " + strconv.Itoa(len(p)) +
			"\r\nConnection: close\r\n\r\n" + p)
	}
	repeat := func(front, part string, n int, back string) RawFunc {
		return func(c *RawConn, _ *http.Request) bool {
			c.WriteString(okPage(front + strings.Repeat(part, n) + back))
			return false
		}
	}
	const fine = "<a href=\"/fine/content\">fine</a>"
	utf16 := func(s string, bom bool) string {
		var b strings.Builder
		if bom {
			b.WriteString("\xff\xfe")
		}
		for _, r := range s {
			b.WriteByte(byte(r))
			b.WriteByte(byte(r >> 8))
		}
		return b.String()
	}
	return []Hostility{
		{Path: "/bomb-gzip", What: "10 MB of gzip that unpack to 8 GiB",
			run: explode("gzip", "Content-Encoding: gzip\r\n")},
		{Path: "/bomb-brotli", What: "brotli that unpacks to 8 GiB", run: explode("br", "Content-Encoding: br\r\n")},
		{Path: "/bomb-zstd", What: "zstd that unpacks to 8 GiB", run: explode("zstd", "Content-Encoding: zstd\r\n")},
		{Path: "/bomb-deflate", What: "gzip that says it is deflate",
			run: explode("gzip", "Content-Encoding: deflate\r\n")},
		{Path: "/url-long", What: "a link of 1 MB", run: func(c *RawConn, _ *http.Request) bool {
			c.WriteString(okPage("<!doctype html><a href=\"/fine/" + strings.Repeat("x", 1<<20) +
				"\">long</a> <a href='//" + strings.Repeat("h.", 1<<19) + "example/'>host</a>" + fine))
			return false
		}},
		{Path: "/links-many", What: "200,000 links to one page with other fragments",
			run: func(c *RawConn, _ *http.Request) bool {
				var b strings.Builder
				for i := range 200_000 {
					fmt.Fprintf(&b, "<a href=\"/fine/many#%d\">x</a>", i)
				}
				c.WriteString(okPage(b.String()))
				return false
			}},
		{Path: "/nested", What: "100,000 nested tags", run: repeat("<!doctype html>", "<div><b>", 50_000, fine)},
		{Path: "/nested-tables", What: "20,000 nested tables",
			run: repeat("<!doctype html>", "<table><tr><td>", 20_000, fine)},
		{Path: "/nested-links", What: "20,000 links within links",
			run: repeat("<!doctype html>", "<a href=/fine/nested>", 20_000, fine)},
		{Path: "/attributes", What: "a tag with 100,000 attributes",
			run: repeat("<!doctype html><a ", "a=1 b c='2' ", 33_000, "href=/fine/attributes>x</a>")},
		{Path: "/unclosed", What: "a tag, a comment and a quote that never close",
			run: page("<!doctype html>" + fine + "<a href=\"/fine/unclosed <p> <!-- <a href='/fine/comment'>" +
				strings.Repeat("x ", 100_000))},
		{Path: "/entities", What: "entities without an end",
			run: repeat("<!doctype html><a href=\"/fine/", "&amp&#x41;&#99999999999;&notit;", 20_000, "\">x</a>"+fine)},
		{Path: "/nul", What: "NUL bytes everywhere",
			run: page("<!doctype html><a hr\x00ef=/fine/nul>x</a>\x00\x00" + fine + "<a href=\"/fine/\x00\">x</a>")},
		{Path: "/charset-unknown", What: "a character set that does not exist",
			run: typed("text/html; charset=klingon-8", "<!doctype html>"+fine)},
		{Path: "/charset-lie", What: "Latin-1 that says it is UTF-8",
			run: typed("text/html; charset=utf-8",
				"<!doctype html><title>caf\xe9</title><a href=\"/fine/caf\xe9\">x</a>")},
		{Path: "/charset-utf16", What: "UTF-16 without a byte order mark",
			run: typed("text/html; charset=utf-16le", utf16("<!doctype html><a href=\"/fine/utf16\">x</a>", false))},
		{Path: "/charset-bom", What: "UTF-16 that says it is ASCII",
			run: typed("text/html; charset=us-ascii", utf16("<!doctype html><a href=\"/fine/bom\">x</a>", true))},
		{Path: "/charset-utf7", What: "UTF-7", run: typed("text/html; charset=utf-7", "+ADw-a href=/fine/utf7+AD4-x")},
		{Path: "/charset-two", What: "one character set in the header and two more in the page",
			run: typed("text/html; charset=shift_jis",
				"<meta charset=euc-kr><meta http-equiv=content-type content='text/html; charset=big5'>"+fine)},
		{Path: "/type-lie", What: "an image that says it is HTML",
			run: typed("text/html", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"+strings.Repeat("\x00\xff<a", 5000))},
		{Path: "/type-none", What: "no content type",
			run: says("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<!doctype html>" + fine)},
		{Path: "/type-bad", What: "a content type that is none", run: typed(";;; //=\"", "<!doctype html>"+fine)},
		{Path: "/laughs.xml", What: "XML entities that grow to a billion laughs",
			run: typed("application/xml", laughs())},
		{Path: "/feed.xml", What: "a feed that breaks off",
			run: typed("application/rss+xml", "<rss><channel><item><link>/fine/feed</link><item><link>/fine/fee")},
		{Path: "/refresh", What: "a page that reloads itself", run: page("<meta http-equiv=refresh content=0>" + fine)},
		{Path: "/base", What: "bases that lead nowhere",
			run: page("<base href='http://[::1'><base href='data:,x'><a href=/fine/base>x</a>" + fine)},
		{Path: "/schemes", What: "links of every kind but http",
			run: page("<a href='javascript:alert(1)'>x</a><a href='mailto:a@b'>x</a><a " +
				"href='file:///etc/passwd'>x</a><a href='data:text/html,x'>x</a><a href='ftp://h/'>x</a><a " +
				"href='http:///x'>x</a><a href='http://h:99999/'>x</a><a href='http://127.0.0.1:1/'>x</a><a " +
				"href='http://169.254.169.254/latest/meta-data/'>x</a><a href='http://[::ffff:10.0.0.1]/'>x</a>" +
				fine)},
	}
}

func laughs() string {
	var b strings.Builder
	b.WriteString("<?xml version=\"1.0\"?><!DOCTYPE urlset [<!ENTITY l0 \"ha\">")
	for i := range 12 {
		fmt.Fprintf(&b, "<!ENTITY l%d \"%s\">", i+1, strings.Repeat(fmt.Sprintf("&l%d;", i), 10))
	}
	b.WriteString("]><urlset " +
		"xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\"><url><loc>http://hostile.example/fine/&l12;</loc></url></urlset>")
	return b.String()
}

const chainHosts = 5

func chainHost(i int) string { return "chain-" + strconv.Itoa(i%chainHosts) + ".example" }

// chain redirects /N on one host to /N-1 on the next; /0 is a page.
func chain(rw http.ResponseWriter, req *http.Request) {
	n, err := strconv.Atoi(strings.TrimPrefix(req.URL.Path, "/"))
	if err != nil || n <= 0 || n > 1000 {
		rw.Header().Set("Content-Type", "text/html")
		io.WriteString(rw, "<!doctype html><title>The end of the chain</title><a href=/3>again</a>")
		return
	}
	http.Redirect(rw, req, "http://"+chainHost(n-1)+"/"+strconv.Itoa(n-1), http.StatusFound)
}

// redirects returns redirects that lead in circles, too far, or nowhere.
func redirects() []Hostility {
	to := func(where string) RawFunc {
		return says("HTTP/1.1 302 Found\r\nLocation: " + where + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	}
	return []Hostility{
		{Path: "/redirect-self", What: "a redirect to itself", run: to("/redirect-self")},
		{Path: "/redirect-there", What: "a redirect there", run: to("/redirect-back")},
		{Path: "/redirect-back", What: "and back", run: to("/redirect-there")},
		{Path: "/redirect-chain", What: "thirty redirects over five hosts", run: to("http://" + chainHost(30) + "/30")},
		{Path: "/redirect-grow", What: "redirects to ever longer URLs", Trap: true,
			run: func(c *RawConn, req *http.Request) bool {
				q := req.URL.RawQuery
				if len(q) > 32<<10 {
					q = q[:100]
				}
				return to("/redirect-grow?x"+q+q)(c, req)
			}},
		{Path: "/redirect-empty", What: "a redirect to nowhere", run: to("")},
		{Path: "/redirect-none", What: "a redirect without a Location",
			run: says("HTTP/1.1 301 Moved\r\nContent-Length: 0\r\n\r\n")},
		{Path: "/redirect-two", What: "a redirect with two Locations", run: to("/fine/one\r\nLocation: /fine/two")},
		{Path: "/redirect-bad", What: "a redirect to what is no URL", run: to("http://[::1:bad/%zz")},
		{Path: "/redirect-file", What: "a redirect to a file", run: to("file:///etc/passwd")},
		{Path: "/redirect-script", What: "a redirect to a script", run: to("javascript:alert(1)")},
		{Path: "/redirect-private", What: "a redirect to a private address",
			run: to("http://169.254.169.254/latest/meta-data/")},
		{Path: "/redirect-loopback", What: "a redirect to a local service", run: to("http://127.0.0.1:22/")},
		{Path: "/redirect-bytes", What: "a redirect in raw Latin-1", run: to("/fine/caf\xe9 \xff")},
		{Path: "/redirect-split", What: "a redirect with a line break in it",
			run: to("/fine/a%0d%0aX-Injected:%20yes")},
	}
}

// traps returns pages that lead to ever new pages.
func traps() []Hostility {
	var sid atomic.Int64
	link := func(c *RawConn, format string, args ...any) {
		c.WriteString(okPage("<!doctype html><title>A trap</title>\n" + fmt.Sprintf(format, args...)))
	}
	return []Hostility{
		{Path: "/calendar/*", What: "a calendar without an end", Trap: true,
			run: func(c *RawConn, req *http.Request) bool {
				n, err := strconv.Atoi(req.URL.Query().Get("month"))
				if err != nil {
					n = 24000
				}
				link(c, "<a href=\"/calendar/?month=%d\">before</a> %d-%02d <a href=\"/calendar/?month=%d\">after</a>",
					n-1, n/12, n%12+1, n+1)
				return false
			}},
		{Path: "/session/*", What: "a new session in every link", Trap: true,
			run: func(c *RawConn, req *http.Request) bool {
				h := fnv.New64a()
				fmt.Fprint(h, sid.Add(1))
				link(c, "<a href=\"/session/a?sid=%x\">a</a> <a href=\"/session/b?sid=%[1]x\">b</a>", h.Sum64())
				return false
			}},
		{Path: "/deeper/*", What: "a path that grows with each step", Trap: true,
			run: func(c *RawConn, req *http.Request) bool {
				link(c, "<a href=\"deeper/\">deeper</a> <a href=\"images/photos/\">photos</a>")
				return false
			}},
		{Path: "/filters/*", What: "filters in any order and number", Trap: true,
			run: func(c *RawConn, req *http.Request) bool {
				q := req.URL.RawQuery
				if q != "" {
					q += "&amp;"
				}
				link(c, "<a href=\"/filters/?%scolour=red\">red</a> <a href=\"/filters/?%[1]ssize=9\">size</a> <a "+
					"href=\"/filters/?%[1]ssort=price\">sort</a>", q)
				return false
			}},
		{Path: "/numbers/*", What: "pages with a random number in their address, all alike", Trap: true,
			run: func(c *RawConn, req *http.Request) bool {
				n := sid.Add(2)
				link(c, "<a href=\"/numbers/%d\">next</a> <a href=\"/numbers/%d\">next</a>", n*7919%1000003,
					n*104729%1000003)
				return false
			}},
	}
}
