// Package textweb answers: how does a test write down a small web, and what was requested from it?
//
// The web is served over connections in memory, in the virtual time of testing/synctest.
package textweb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/web/dns"
)

// A Web is a web written down as text, served over connections in memory:
//
//	dns a.example 192.0.2.1          a host; also timeout, nxdomain, and "|"
//	down 192.0.2.1 0s 90s            refuses connections from and to; also of one port, 192.0.2.1:81
//	silent 192.0.2.1:81 0s 90s       does not answer them
//	http://a.example/ /1 /2          a page with links, status 200
//	http://a.example/1 503 | 429 retry-after=10 | 200
//
// A page that is not there is a 404. Answers are separated by "|" and given
// one after the other, the last one again and again. Words of an answer: a
// status, a link, nofollow:LINK, img:LINK, to=URL (Location), retry-after=N, meta=DIRECTIVES and
// x-robots-tag=DIRECTIVES (with "_" for blanks),
// robots=LINE;LINE (a body), slow=DURATION, drip=DURATION (a byte of the body so
// often, behind size=N of it), drip-header=DURATION (likewise), size=N, noise=N (bytes of the body
// that do not shrink), prose=N (words), same (a body that other pages have too), etag=TAG (which a 304 confirms),
// sitemap=URL;URL@LASTMOD, index=URL;URL@LASTMOD (of sitemaps), hang, reset, cut (the connection ends before the body
// does), set=NAME=VALUE (Set-Cookie),
// line=DURATION*N (N pieces, each of which takes DURATION on the one line to the crawler, in turn with pieces of other
// answers).
type Web struct {
	Start time.Time

	mu    sync.Mutex // guards all below
	dns   map[string][]string
	pages map[string][]string
	down  []outage
	asked []Request
	open  map[string]int // requests under way by host
	free  time.Time      // when the line has carried all that waits for it
	Busy  string         // a host that was asked twice at once
}

type outage struct {
	addr     string // or address and port
	from, to time.Duration
	silent   bool
}

type Request struct {
	At, End   time.Duration
	Host, URL string
	Addr      string
	By        string // the agent that asked, if there are several
	Status    int    // 0: the answer was not sent to its end
}

func Parse(t testing.TB, text string) *Web {
	t.Helper()
	w := &Web{Start: time.Now(), dns: map[string][]string{}, pages: map[string][]string{}, open: map[string]int{}}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case f[0] == "dns":
			w.dns[f[1]] = strings.Split(strings.Join(f[2:], " "), " | ")
		case f[0] == "down" || f[0] == "silent":
			w.down = append(w.down, outage{f[1], Duration(t, f[2]), Duration(t, f[3]), f[0] == "silent"})
		case strings.HasPrefix(f[0], "http://"):
			w.pages[f[0]] = strings.Split(strings.Join(append(f[1:], "200")[:max(len(f)-1, 1)], " "), " | ")
		default:
			t.Fatalf("web: %q", line)
		}
	}
	return w
}

func Duration(t testing.TB, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// next returns the next answer in turn.
func next(m map[string][]string, key string) string {
	list := m[key]
	if len(list) == 0 {
		return ""
	}
	if len(list) > 1 {
		m[key] = list[1:]
	}
	return list[0]
}

// Lookup implements Resolver. An answer is valid for a minute.
func (w *Web) Lookup(ctx context.Context, host string) (dns.Answer, error) {
	w.mu.Lock()
	a := next(w.dns, host)
	w.mu.Unlock()
	time.Sleep(time.Duration(host[0]) * time.Microsecond) // so that the order is always the same
	switch a {
	case "", "nxdomain":
		return dns.Answer{}, fmt.Errorf("%s: %w", host, dns.ErrNotFound)
	case "timeout":
		if !clock.Pause(ctx, 8*time.Second) {
			return dns.Answer{}, ctx.Err()
		}
		return dns.Answer{}, fmt.Errorf("%s: %w", host, dns.ErrTimeout)
	}
	ans := dns.Answer{Expires: time.Now().Add(time.Minute)}
	for _, s := range strings.Split(a, ",") {
		ans.Addrs = append(ans.Addrs, netip.MustParseAddr(s))
	}
	return ans, nil
}

// Dialer opens connections for one run of the crawler. dead reports that its process has been
// killed.
func (w *Web) Dialer(by string,
	dead func() bool) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		ip, _, _ := net.SplitHostPort(addr)
		now := time.Since(w.Start)
		for _, o := range w.down {
			if (o.addr == ip || o.addr == addr) && now >= o.from && now < o.to {
				err := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
				if o.silent {
					<-ctx.Done()
					err.Err = ctx.Err()
				}
				return nil, err
			}
		}
		if dead() {
			return nil, net.ErrClosed
		}
		here, there := net.Pipe()
		go w.serve(there, ip, by)
		return here, nil
	}
}

func (w *Web) serve(c net.Conn, ip, by string) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		url := "http://" + r.Host + r.RequestURI
		w.mu.Lock()
		i := len(w.asked)
		w.asked = append(w.asked, Request{At: time.Since(w.Start), Host: r.Host, URL: url, Addr: ip, By: by})
		if w.open[r.Host]++; w.open[r.Host] > 1 {
			w.Busy = r.Host
		}
		answer := next(w.pages, url)
		w.mu.Unlock()
		if tag := r.Header.Get("If-None-Match"); tag != "" &&
			slices.Contains(strings.Fields(answer), "etag="+strings.Trim(tag, `"`)) {
			answer = "304 " + strings.Replace(answer, "200", "", 1)
		}
		status := w.answer(c, url, answer)
		w.mu.Lock()
		w.asked[i].End, w.asked[i].Status = time.Since(w.Start), status
		w.open[r.Host]--
		w.mu.Unlock()
		if status == 0 {
			return
		}
	}
}

// waits waits for d. It reports whether the crawler is still connected.
func waits(c net.Conn, d time.Duration) bool {
	c.SetReadDeadline(time.Now().Add(d))
	_, err := c.Read(make([]byte, 1))
	c.SetReadDeadline(time.Time{})
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// answer returns the status, or 0 if the connection cannot be used any more.
func (w *Web) answer(c net.Conn, url, words string) int {
	status, head, size, cut := 200, "", 0, 0
	piece, pieces := time.Duration(0), 1
	kind := "text/html"
	body := "<!-- " + url + " -->\n"
	if words == "" {
		status = 404
	}
	for _, word := range strings.Fields(words) {
		name, value, _ := strings.Cut(word, "=")
		link, isNoFollow := strings.CutPrefix(word, "nofollow:")
		img, isImg := strings.CutPrefix(word, "img:")
		n, err := strconv.Atoi(word)
		switch {
		case err == nil:
			status = n
		case word == "hang":
			c.Read(make([]byte, 1)) // until the crawler gives up
			return 0
		case word == "reset":
			return 0
		case word == "cut":
			cut = 100
		case name == "set":
			head += "Set-Cookie: " + value + "\r\n"
		case word == "same":
			body = "the same everywhere"
		case name == "etag":
			head += `ETag: "` + value + "\"\r\n"
		case name == "size":
			size, _ = strconv.Atoi(value)
		case name == "noise":
			n, _ := strconv.Atoi(value)
			letters, rng := make([]byte, n), rand.New(rand.NewPCG(uint64(n), 1))
			for i := range letters {
				letters[i] = byte('a' + rng.IntN(26))
			}
			body += string(letters)
		case name == "prose":
			n, _ := strconv.Atoi(value)
			for i := range n {
				body += " w" + strconv.Itoa(i)
			}
		case name == "to":
			head += "Location: " + value + "\r\n"
		case name == "drip" || name == "drip-header":
			every, _ := time.ParseDuration(value)
			if name == "drip" {
				head = "Content-Length: 1000000\r\n\r\n" + strings.Repeat(" ", size)
			} else if size > 0 {
				head = "X: " + strings.Repeat("x", size)
			}
			_, err := fmt.Fprintf(c, "HTTP/1.1 %d Status\r\nContent-Type: %s\r\n%s", status, kind, head)
			for err == nil && waits(c, every) {
				_, err = c.Write([]byte("x"))
			}
			return 0
		case name == "x-robots-tag":
			head += "X-Robots-Tag: " + strings.ReplaceAll(value, "_", " ") + "\r\n"
		case name == "meta":
			body += `<meta name=robots content="` + strings.ReplaceAll(value, "_", " ") + "\">\n"
		case name == "retry-after":
			head += "Retry-After: " + value + "\r\n"
		case name == "line":
			each, n, _ := strings.Cut(value, "*")
			piece, _ = time.ParseDuration(each)
			pieces, _ = strconv.Atoi(n)
		case name == "slow":
			if d, _ := time.ParseDuration(value); !waits(c, d) {
				return 0
			}
		case name == "robots":
			kind, body = "text/plain", strings.ReplaceAll(strings.ReplaceAll(value, "_", " "), ";", "\n")+"\n"
		case name == "sitemap" || name == "index":
			root, entry := "urlset", "url"
			if name == "index" {
				root, entry = "sitemapindex", "sitemap"
			}
			kind, body = "application/xml",
				`<?xml version="1.0"?><`+root+` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`
			for _, u := range strings.Split(value, ";") {
				loc, at, _ := strings.Cut(u, "@")
				body += "<" + entry + "><loc>" + loc + "</loc><lastmod>" + at + "</lastmod></" + entry + ">"
			}
			body += "</" + root + ">"
		case isNoFollow:
			body += `<a rel=nofollow href="` + link + "\">x</a>\n"
		case isImg:
			body += `<img src="` + img + "\">\n"
		default:
			body += `<a href="` + word + "\">x</a>\n"
		}
	}
	if status == 304 {
		if _, err := fmt.Fprintf(c, "HTTP/1.1 304 Not Modified\r\n%s\r\n", head); err != nil {
			return 0
		}
		return status
	}
	if size > len(body) {
		body += strings.Repeat(" ", size-len(body))
	}
	rest := fmt.Sprintf("HTTP/1.1 %d Status\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s\r\n%s", status, kind,
		len(body)+cut, head, body)
	for ; pieces > 0; pieces-- {
		if piece > 0 && !waits(c, w.carry(piece)) {
			return 0
		}
		n := len(rest) / pieces
		if _, err := c.Write([]byte(rest[:n])); err != nil {
			return 0
		}
		rest = rest[n:]
	}
	if cut > 0 {
		return 0
	}
	return status
}

// carry puts a piece on the line, and returns the time until it has arrived.
func (w *Web) carry(piece time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); w.free.Before(now) {
		w.free = now
	}
	w.free = w.free.Add(piece)
	return time.Until(w.free)
}

// Requests lists the requests and their times, in an order that does not depend on the scheduler.
func (w *Web) Requests() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	rs := slices.Clone(w.asked)
	slices.SortStableFunc(rs, func(a, b Request) int {
		if a.At != b.At {
			return int(a.At - b.At)
		}
		return strings.Compare(a.URL, b.URL)
	})
	var b strings.Builder
	for _, r := range rs {
		fmt.Fprintf(&b, "%-6s %s\n", r.At.Round(100*time.Millisecond), strings.TrimPrefix(r.URL, "http://"))
	}
	return b.String()
}

// Told returns the requests that w got so far.
func (w *Web) Told() []Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}

// ByAgent lists the requests of each agent.
func (w *Web) ByAgent() string {
	var b strings.Builder
	for _, r := range w.Told() {
		fmt.Fprintf(&b, "%-8s %s %s %d\n", r.At, r.By, r.URL, r.Status)
	}
	return b.String()
}
