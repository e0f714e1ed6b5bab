// Package walk answers: which pages can a crawl reach from these seeds, according to the standards?
//
//	seeds -> GET -> x/net/html -> links -> scope, robots.txt -> GET ...
//
// Tests measure a crawler's coverage against it. It is a simple breadth-first walk with net/http and x/net/html,
// without delays and in memory. It shares no code with the crawler.
//
// A page's links are the href or src of a, area, iframe and frame; of link unless it refers to a resource; meta
// refresh; feeds; and a in SVG. The walk obeys rel=nofollow, robots meta elements, X-Robots-Tag and robots.txt. A
// redirect is a URL of its own and leads to its target.
package walk

import (
	"context"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// Config says where a walk begins and what it may visit.
type Config struct {
	Seeds []string
	// Scope reports whether a URL, in normal form, belongs to the walk. Nil: URLs on the hosts of the seeds.
	Scope func(u *url.URL) bool
	// Agent is the product token for robots.txt and the User-Agent. Empty means "walk".
	Agent string
	// DialContext opens connections; nil means net.Dialer's. RootCAs are the trusted certificates; nil means the
	// system's.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	RootCAs     *x509.CertPool
	// Parallel is the number of concurrent requests. Zero means 8.
	Parallel int
	// MaxPages is the largest number of URLs. A walk that finds more fails. Zero means 100,000.
	MaxPages int
	// MaxBody is how many bytes of a body are read; the rest is ignored. Zero means 64 MiB.
	MaxBody int64
}

// A Fetched describes the response for one URL.
type Fetched struct {
	// Status is 0 if there was no response. Err then tells why.
	Status int
	Err    string
	// Digest is the SHA-1 of the body in hex, Bytes its length.
	Digest string
	Bytes  int64
	// Location is the target of a redirect, in normal form; empty for other responses.
	Location string
	// Depth is the number of steps from a seed.
	Depth int
	// Type is the media type.
	Type string
}

// A Result lists what a walk found.
type Result struct {
	// Pages has every URL that was requested, in normal form. It has a robots.txt only if a page links to it.
	Pages map[string]Fetched
	// Denied has the URLs in scope that robots.txt forbids.
	Denied map[string]bool
}

// Count returns the number of pages with this status.
func (r *Result) Count(status int) int {
	n := 0
	for _, p := range r.Pages {
		if p.Status == status {
			n++
		}
	}
	return n
}

type walker struct {
	cfg    Config
	client *http.Client
	res    *Result
	robots map[string]*testweb.Robots // by origin

	mu   sync.Mutex // guards next and res during a level
	next []string
}

// Walk visits all URLs that can be reached, and returns when there are no more. If ctx ends or there are more than
// MaxPages URLs, it returns an error and the incomplete Result.
func Walk(ctx context.Context, cfg Config) (*Result, error) {
	if cfg.Agent == "" {
		cfg.Agent = "walk"
	}
	if cfg.Parallel <= 0 {
		cfg.Parallel = 8
	}
	if cfg.MaxPages <= 0 {
		cfg.MaxPages = 100_000
	}
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = 64 << 20
	}
	tr := &http.Transport{
		DialContext: cfg.DialContext, TLSClientConfig: &tls.Config{RootCAs: cfg.RootCAs}, DisableCompression: true,
		MaxIdleConnsPerHost: cfg.Parallel, ResponseHeaderTimeout: 30 * time.Second,
	}
	defer tr.CloseIdleConnections()
	noRedirects := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	w := &walker{
		cfg: cfg, res: &Result{Pages: map[string]Fetched{}, Denied: map[string]bool{}},
		robots: map[string]*testweb.Robots{},
		client: &http.Client{Transport: tr, Timeout: 2 * time.Minute, CheckRedirect: noRedirects},
	}
	hosts := map[string]bool{}
	var level []string
	for _, s := range cfg.Seeds {
		u, ok := Resolve("", s)
		if !ok {
			return nil, fmt.Errorf("seed %q: not an http or https URL", s)
		}
		level = append(level, u)
		if p, err := url.Parse(u); err == nil {
			hosts[p.Host] = true
		}
	}
	if w.cfg.Scope == nil {
		w.cfg.Scope = func(u *url.URL) bool { return hosts[u.Host] }
	}
	for depth := 0; len(level) > 0; depth++ {
		var err error
		if level, err = w.level(ctx, level, depth); err != nil {
			return w.res, err
		}
	}
	return w.res, nil
}

// level visits the URLs of one depth and returns the URLs to which they lead.
func (w *walker) level(ctx context.Context, urls []string, depth int) ([]string, error) {
	var todo []string
	for _, u := range urls {
		if _, seen := w.res.Pages[u]; seen || w.res.Denied[u] || !w.inScope(u) {
			continue
		}
		r, err := w.robotsFor(ctx, u)
		if err != nil {
			return nil, err
		}
		if _, no := r.Forbids(pathOf(u)); no && pathOf(u) != "/robots.txt" {
			w.res.Denied[u] = true
			continue
		}
		w.res.Pages[u] = Fetched{}
		todo = append(todo, u)
	}
	if len(w.res.Pages) > w.cfg.MaxPages {
		return nil, fmt.Errorf("walk: more than %d pages; raise MaxPages", w.cfg.MaxPages)
	}
	w.next = nil
	work := make(chan string)
	var wg sync.WaitGroup
	for range min(w.cfg.Parallel, len(todo)) {
		wg.Go(func() {
			for u := range work {
				p, links := w.visit(ctx, u)
				p.Depth = depth
				w.mu.Lock()
				w.res.Pages[u] = p
				w.next = append(w.next, links...)
				w.mu.Unlock()
			}
		})
	}
	for _, u := range todo {
		work <- u
	}
	close(work)
	wg.Wait()
	return w.next, ctx.Err()
}

func (w *walker) inScope(u string) bool {
	scheme, rest, _ := strings.Cut(u, "://")
	host, _, _ := strings.Cut(rest, "/")
	// net/url refuses some paths that the URL standard allows. Scope then gets the parts of the URL.
	p, err := url.Parse(u)
	if err != nil {
		p = &url.URL{Scheme: scheme, Host: host, Path: pathOf(u)}
	}
	return w.cfg.Scope(p)
}

// get requests a URL exactly as it is spelled, without the normalization of net/url.
func (w *walker) get(ctx context.Context, u string) (*http.Response, []byte, error) {
	scheme, rest, _ := strings.Cut(u, "://")
	host, _, _ := strings.Cut(rest, "/")
	req := (&http.Request{Method: "GET", URL: &url.URL{Scheme: scheme, Host: host, Opaque: pathOf(u)}, Host: host,
		Header: http.Header{"User-Agent": {w.cfg.Agent}}}).WithContext(ctx)
	res, err := w.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, w.cfg.MaxBody))
	return res, b, err
}

func (w *walker) visit(ctx context.Context, u string) (Fetched, []string) {
	res, body, err := w.get(ctx, u)
	if err != nil {
		return Fetched{Err: err.Error()}, nil
	}
	sum := sha1.Sum(body)
	p := Fetched{Status: res.StatusCode, Digest: hex.EncodeToString(sum[:]), Bytes: int64(len(body))}
	p.Type, _, _ = strings.Cut(res.Header.Get("Content-Type"), ";")
	p.Type = strings.ToLower(strings.TrimSpace(p.Type))
	if l := res.Header.Get("Location"); l != "" && p.Status/100 == 3 {
		if to, ok := Resolve(u, l); ok {
			p.Location = to
			return p, []string{to}
		}
		return p, nil
	}
	return p, links(u, res.Header, body)
}

// robotsFor returns the robots.txt of u's origin, which it fetches once.
func (w *walker) robotsFor(ctx context.Context, u string) (*testweb.Robots, error) {
	origin := u[:len(u)-len(pathOf(u))]
	r, known := w.robots[origin]
	if known {
		return r, nil
	}
	at := origin + "/robots.txt"
	for range 6 { // RFC 9309, 2.3.1.2: at least five redirects
		res, body, err := w.get(ctx, at)
		again := false
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil || res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests:
			r = testweb.ReadRobots([]byte("User-agent: *\nDisallow: /"), w.cfg.Agent)
		case res.StatusCode/100 == 2:
			r = testweb.ReadRobots(body, w.cfg.Agent)
		case res.StatusCode/100 == 3 && res.Header.Get("Location") != "":
			at, again = Resolve(at, res.Header.Get("Location"))
		}
		if !again {
			break
		}
	}
	w.robots[origin] = r
	return r, nil
}

// String summarizes the result: the number of URLs by status.
func (r *Result) String() string {
	by := map[int]int{}
	for _, p := range r.Pages {
		by[p.Status]++
	}
	s := strconv.Itoa(len(r.Pages)) + " URLs"
	for code := range 600 {
		if by[code] > 0 {
			s += fmt.Sprintf(", %d: %d", code, by[code])
		}
	}
	return s
}
