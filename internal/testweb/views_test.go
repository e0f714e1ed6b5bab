package testweb

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// judge replays a log and returns the kinds of the violations, by URL. A line has host, path, begin and end in
// milliseconds, and what the request and its answer are: "page", or a file's Sec-Fetch-Dest; then a status, a
// Retry-After in seconds, and the client's last number.
func judge(t *testing.T, p Promise, log string) (kinds []string, r *Report) {
	w := must.Get(New(Config{Promise: p, Sites: []Site{
		{Host: "a.example", Addr: "127.0.0.5"}, {Host: "b.example", Addr: "127.0.0.5"}, {Host: "c.a.example"},
		{Host: "slow.example", Robots: "User-agent: *\nCrawl-delay: 0.2\n"}, {Host: "d.example"},
	}}))(t)
	defer w.Close()
	tr := w.track
	conns := map[string]*conn{} // one for each host
	type event struct {
		at  int64
		run func()
	}
	var events []event
	for line := range strings.Lines(log) {
		var host, path, what string
		var begin, end, retry int64
		status, client := 200, 1
		n, _ := fmt.Sscan(line, &host, &path, &begin, &end, &what, &status, &retry, &client)
		if n == 0 {
			continue
		}
		if n < 5 {
			t.Fatalf("line %q has %d fields", line, n)
		}
		state := tr.hostOf(host+".example", w.sites[host+".example"])
		remote := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(client)}), 1)
		if conns[host] == nil {
			conns[host] = &conn{local: w.sites[host+".example"].addr}
		}
		c := conns[host]
		c.remote = remote
		req := newRequest(c, state, path, "GET")
		req.file = what != "page" && isFile(what)
		req.begin, req.status, req.retry, req.complete = begin*1e6+1, status, retry*1e9, true
		events = append(events, event{begin*1e6 + 1, func() { tr.begin(c, req) }},
			event{end*1e6 + 1, func() { tr.end(req, end*1e6+1) }})
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
	for _, e := range events {
		e.run()
	}
	r = w.Report()
	for _, v := range r.Violations {
		kinds = append(kinds, v.Kind+" "+strings.TrimPrefix(v.URL, "http://"))
	}
	return kinds, r
}

// good is a log of two views with their rests: of 4 requests and of 2.
const good = `
a /robots.txt 0 10 page
a /1          110 120 page
a /app.js     121 130 script
a /data.json  131 140 empty
a /late.json  145 150 empty
a /2          350 360 document
a /3.json     365 370 empty
a /3          512 520 page
`

func TestViews(t *testing.T) {
	host := Promise{HostDelay: 100 * time.Millisecond, Views: time.Second}
	plain := host
	plain.Views = 0
	address, site, slow := host, host, host
	address.AddrDelay, site.SiteDelay, slow.CrawlDelay = host.HostDelay, host.HostDelay, true
	many := "a / 0 1 page\n"
	for i := range 200 {
		many += fmt.Sprintf("a /%d %d %d script\n", i, 2+2*i, 3+2*i)
	}
	for name, tt := range map[string]struct {
		promise Promise
		log     string
		want    []string
	}{
		"good": {host, good, nil},
		"without views": {plain, good, []string{"gap a.example/app.js", "gap a.example/data.json",
			"gap a.example/late.json", "gap a.example/3.json"}},
		"no rest":  {host, "a /1 0 10 page\na /x 11 20 script\na /2 130 140 page", []string{"rest a.example/2"}},
		"no delay": {host, "a /1 0 10 page\na /2 50 60 page", []string{"gap a.example/2"}},
		"no delay after a view": {host, "a /1 0 10 page\na /x 11 20 script\na /2 30 40 page",
			[]string{"rest a.example/2"}},
		"the rest is at most ten delays": {host, many + "a /last 1402 1403 page", nil},
		"shorter than ten delays":        {host, many + "a /last 1380 1390 page", []string{"rest a.example/last"}},
		"a document is no file":          {host, "a /1 0 10 page\na /2 11 20 document", []string{"gap a.example/2"}},
		"a file after a pause belongs to the view": {host, "a /1 0 10 page\na /x 150 160 script\na /2 310 320 page",
			nil},
		"a pause does not end the view's count": {host, "a /1 0 10 page\na /x 150 160 script\na /2 290 300 page",
			[]string{"rest a.example/2"}},
		"a view without an end": {host, "a /1 0 10 page\na /x 500 510 script\na /y 990 1010 script\n" +
			"a /z 1050 1060 script", []string{"rest a.example/z"}},
		"two at once": {host, "a /1 0 10 page\na /x 11 30 script\na /y 20 40 script",
			[]string{"concurrent a.example/y"}},
		"another client": {host, "a /1 0 10 page\na /x 11 20 script 200 0 2", []string{"gap a.example/x"}},
		"429 ends the view": {host, "a /1 0 10 page\na /x 11 20 script 429\na /y 30 40 script",
			[]string{"rest a.example/y"}},
		"Retry-After in a view": {host, "a /1 0 10 page\na /x 11 20 script 503 1\na /y 500 510 script",
			[]string{"retry-after a.example/y"}},
		"Retry-After obeyed": {host, "a /1 0 10 page\na /x 11 20 script 503 1\na /y 1021 1030 script", nil},
		"Crawl-delay": {slow, "slow /robots.txt 0 10 page\nslow /1 211 220 page\nslow /x 221 230 script",
			[]string{"gap slow.example/x"}},
		"Crawl-delay kept": {slow, "slow /robots.txt 0 10 page\nslow /1 211 220 page\nslow /x 421 430 script\n" +
			"slow /2 631 640 page", nil},
		"another host of the address": {address, "a /1 0 10 page\na /x 11 20 script\nb /y 21 30 script\n" +
			"b / 100 110 page", []string{"gap b.example/", "rest b.example/"}},
		"another host of the site": {site, "a /1 0 10 page\nc.a /y 11 30 script\nc.a / 160 170 page",
			[]string{"rest c.a.example/"}},
		"files of another host": {host, "d / 0 10 page\na /x 11 20 script\na /y 21 30 font\na /z 172 180 page", nil},
		"its rest": {host, "a /x 11 20 script\na /y 21 30 font\na / 150 160 page",
			[]string{"rest a.example/"}},
	} {
		kinds, r := judge(t, tt.promise, tt.log)
		if !slices.Equal(kinds, tt.want) {
			t.Errorf("%s: got %q, want %q\n%v", name, kinds, tt.want, r.Violations)
		}
		if name == "good" && (r.Views == nil || *r.Views != ViewReport{Views: 2, Files: 4, Most: 4}) {
			t.Errorf("got the views %+v", r.Views)
		}
	}
}

// The front reads the header by which the judge knows the files of a view.
func TestIsFile(t *testing.T) {
	for dest, want := range map[string]bool{"": false, "document": false, "script": true, "iframe": true} {
		if isFile(dest) != want {
			t.Errorf("%q: got %t", dest, !want)
		}
		h, v := parseHead([]byte("GET / HTTP/1.1\r\nHost: a\r\nSec-Fetch-Dest: " + dest + "\r\n\r\n"))
		if v != plainHead || h.file != want {
			t.Errorf("%q: the front has %t, %d", dest, h.file, v)
		}
	}
}
