package testweb

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// do sends a request with any method and reads the response.
func do(t testing.TB, c *http.Client, method, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	must.Do(t, err)
	res, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %.100s: %v", method, url, err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatalf("%s %.100s: %v", method, url, err)
	}
	return res
}

// ended waits until n requests have ended and are counted.
func ended(t testing.TB, w *Web, n int64) {
	t.Helper()
	until(t, fmt.Sprintf("the end of %d requests", n), func() bool {
		r := w.Report()
		return r.Active == 0 && r.Requests == n
	})
}

// TestHeadFetchesNothing: only GET fetches a page.
func TestHeadFetchesNothing(t *testing.T) {
	o := &fakeOrigin{hosts: 10, pages: 10, size: 100, replies: map[string]Reply{
		"/robots.txt": {Status: 200, Page: -1}, "/moved": {Status: 301, Page: -1},
	}}
	w := serving(t, Config{
		Origin: o, Truth: fakeTruth{hosts: 1, pages: 3},
		Sites: []Site{{Host: "site.example", Handler: Pages(map[string]string{"/": "a site"})}},
	})
	c := client(t, w)
	const a, b, s = "http://h0.made.example", "http://h1.made.example", "http://site.example"
	for _, q := range []string{
		// A page is fetched once.
		"HEAD " + a + "/robots.txt", "HEAD " + a + "/0", "HEAD " + a + "/0", "HEAD " + a + "/1", "GET " + a + "/1",
		"HEAD " + a + "/1",
		"GET " + b + "/2", "HEAD " + b + "/2", "GET " + b + "/2", "HEAD " + b + "/2", // fetched twice
		"HEAD " + b + "/moved", "POST " + b + "/moved", "GET " + b + "/moved", "HEAD " + b + "/moved", // once
		"HEAD " + s + "/", "GET " + s + "/", "HEAD " + s + "/", "HEAD " + s + "/none", // once
	} {
		method, url, _ := strings.Cut(q, " ")
		do(t, c, method, url)
	}
	ended(t, w, 18)
	r := w.Report()
	if r.Requests != 18 || r.Pages != 4 || w.Count().Pages != 4 || r.Repeated != 1 ||
		fmt.Sprint(r.Twice) != "map["+b+"/2:2]" {
		t.Errorf("got %d requests, %d pages, %d repeated, twice %v", r.Requests, r.Pages, r.Repeated, r.Twice)
	}
	if g := r.Origin; g.Fetched != 2 || g.Twice != 1 || g.Missed != 2 || g.Beyond != 1 || g.Touched != 2 {
		t.Errorf("origin: got %+v", *g)
	}
	got := w.Fetched()
	want := fmt.Sprint(map[string]int{a + "/0": 0, a + "/1": 1, b + "/2": 2, s + "/": 1, s + "/none": 0})
	if fmt.Sprint(got) != want {
		t.Errorf("fetched: got %v, want %v", got, want)
	}
	if r.Hosts["h0.made.example"].Robots != 0 || r.Hosts["h0.made.example"].BeforeRobots != 5 {
		t.Errorf("HEAD of robots.txt: got %+v", r.Hosts["h0.made.example"])
	}
}

// TestDeniedToEveryMethod: robots.txt applies to every method.
func TestDeniedToEveryMethod(t *testing.T) {
	const robots = "User-agent: *\nDisallow: /no\n"
	o := &fakeOrigin{hosts: 10, pages: 10, size: 100, replies: map[string]Reply{
		"/no": {Status: 200, Page: 1, Denied: true, Rule: "disallow: /no"},
	}}
	w := serving(t, Config{
		Origin: o, Sites: []Site{{Host: "site.example", Robots: robots, Handler: http.NotFoundHandler()}},
	})
	c := client(t, w)
	want := int64(0)
	for _, host := range []string{"h0.made.example", "site.example"} {
		for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "DELETE", "FOO"} {
			for _, scheme := range []string{"http", "https"} {
				do(t, c, method, scheme+"://"+host+"/2")
				res := do(t, c, method, scheme+"://"+host+"/no")
				read := method == "GET" || method == "HEAD"
				if host[0] == 'h' && !read && res.StatusCode != http.StatusMethodNotAllowed {
					t.Errorf("%s: got %d", method, res.StatusCode)
				}
				want++
			}
		}
	}
	k := dial(t, w, "h0.made.example")
	in := bufio.NewReader(k)
	for _, q := range []string{
		"POST http://h0.made.example/no HTTP/1.1\r\nHost: h0.made.example\r\nContent-Length: 2\r\n\r\nab",
		"OPTIONS * HTTP/1.1\r\nHost: h0.made.example\r\n\r\n",
	} {
		io.WriteString(k, q)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%.20q: %v", q, err)
		}
		io.Copy(io.Discard, res.Body)
	}
	want++ // for the POST; OPTIONS * has no path
	ended(t, w, 2*want-1)
	if r := w.Report(); r.ViolationCount["robots"] != want {
		t.Errorf("got %d violations, want %d: %v", r.ViolationCount["robots"], want, r.Violations)
	}
}

// TestBeforeRobots: the report sums up the requests before robots.txt over all hosts.
func TestBeforeRobots(t *testing.T) {
	o := &fakeOrigin{hosts: 10, pages: 10, size: 100, replies: map[string]Reply{
		"/robots.txt": {Status: 200, Page: -1},
	}}
	w := serving(t, Config{Origin: o, Sites: []Site{{Host: "site.example"}}})
	c := client(t, w)
	for i, u := range []string{
		"h0.made.example/1", "h0.made.example/2", "h0.made.example/robots.txt", "h0.made.example/3",
		"h1.made.example/robots.txt", "h1.made.example/1", "site.example/", "site.example/robots.txt", "site.example/",
	} {
		get(t, c, "http://"+u)
		ended(t, w, int64(i+1))
	}
	r := w.Report()
	if r.BeforeRobots != 3 || r.Hosts["h0.made.example"].BeforeRobots != 2 || len(r.ViolationCount) != 0 {
		t.Errorf("got %d, %+v, %v", r.BeforeRobots, r.Hosts["h0.made.example"], r.ViolationCount)
	}
	w.Reset(Promise{})
	if r := w.Report(); r.BeforeRobots != 0 {
		t.Errorf("after reset: got %d", r.BeforeRobots)
	}
}

// TestLongURLs: the tracker keeps only a part of a long URL, but distinguishes long URLs.
func TestLongURLs(t *testing.T) {
	var file bytes.Buffer
	o := &fakeOrigin{hosts: 10, pages: 10, size: 100}
	w := serving(t, Config{Origin: o, LogEntries: 100, Log: &file, Promise: Promise{HostDelay: time.Hour},
		Sites: []Site{{Host: "site.example", Robots: "User-agent: *\nDisallow: /*end$\n",
			Handler: http.NotFoundHandler()}}})
	c := client(t, w)
	for _, host := range []string{"http://h0.made.example", "http://site.example"} {
		for _, n := range []int{maxTarget, maxTarget + 1, 2 * maxTarget, 1 << 20} {
			path := "/" + strings.Repeat("x", n-4)
			for _, end := range []string{"one", "two", "one", "end"} {
				do(t, c, "GET", host+path+end)
			}
		}
	}
	do(t, c, strings.Repeat("M", 1<<20), "http://site.example/")
	until(t, "all in the log", func() bool { return w.Report().Active == 0 && len(w.Log()) == 33 })
	r := w.Report()
	const limit = maxTarget + 100
	short := func(what, text string) {
		t.Helper()
		if len(text) > limit {
			t.Errorf("%s: %d bytes are kept, want at most %d", what, len(text), limit)
		}
	}
	for _, e := range w.Log() {
		short("log", e.URL)
		short("method", e.Method)
	}
	for u := range w.Fetched() {
		short("fetched", u)
	}
	for u := range r.Twice {
		short("twice", u)
	}
	for _, v := range r.Violations {
		short("violation", v.URL)
		short("violation after", v.After)
	}
	if n := r.ViolationCount["robots"]; n != 4 {
		t.Errorf("got %d requests for paths that robots.txt forbids, want 4", n)
	}
	if len(w.Log()) != 33 || len(w.Fetched()) != 13 || len(r.Twice) != 8 || r.Repeated != 8 || r.URLs != 25 {
		t.Errorf("got %d entries, %d fetched, %d twice, %d repeated, %d URLs",
			len(w.Log()), len(w.Fetched()), len(r.Twice), r.Repeated, r.URLs)
	}
	if u := "http://site.example/" + strings.Repeat("x", maxTarget-4) + "one"; r.Twice[u] != 2 {
		t.Error("Twice lacks the longest URL that is kept whole")
	}
	if !strings.Contains(file.String(), strings.Repeat("x", 1<<20-4)+"one\n") {
		t.Error("the lines in Config.Log lack a whole URL")
	}
}
