package record

import (
	"bufio"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func body(s string) string {
	_, b, _ := strings.Cut(s, "\r\n\r\n")
	return b
}

// TestCaptures: of several captures the latest is served, or the first from a time on.
func TestCaptures(t *testing.T) {
	file := rec("response", "http://a.example/x", "2024-03-01T00:00:00Z", "", ok("march")) +
		rec("response", "http://a.example/x", "20240101000000", "", ok("january")) +
		rec("response", "http://a.example/x", "2024-02-01T00:00:00.5Z", "", ok("february"))
	for _, tt := range []struct{ at, want string }{
		{"", "march"}, {"2023-01-01", "january"}, {"2024-01-01", "january"}, {"2024-01-02", "february"},
		{"2024-02-02", "march"}, {"2025-01-01", "march"},
	} {
		cfg := Config{}
		if tt.at != "" {
			cfg.At, _ = time.Parse(time.DateOnly, tt.at)
		}
		a := open(t, cfg, file)
		if got, r := ask(t, a, "http://a.example/x"); body(got) != tt.want || r.Page != 0 {
			t.Errorf("at %q: got %q, want %q", tt.at, body(got), tt.want)
		}
		if s := a.Summary(); s.Records != 3 || s.URLs != 1 || s.Skipped[Older] != 2 {
			t.Errorf("got %+v", s)
		}
	}
}

// TestRevisits: a revisit has its own header and the body of its original, wherever that is.
func TestRevisits(t *testing.T) {
	digest := "WARC-Payload-Digest: sha1:AAAA\r\n"
	identical := "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n"
	notModified := "WARC-Profile: http://netpreserve.org/warc/1.0/revisit/server-not-modified\r\n"
	head := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX: revisit\r\n\r\n"
	original := rec("response", "http://a.example/1", "2024-01-01T00:00:00Z", digest, ok("body"))
	other := rec("response", "http://a.example/1", "2024-01-02T00:00:00Z", "", ok("newer"))
	for _, tt := range []struct {
		name, lines, content, want string
	}{
		{"by digest", identical + digest, head, head + "body"},
		{"by URL and date", identical + "WARC-Refers-To-Target-URI: http://a.example/1\r\n" +
			"WARC-Refers-To-Date: 2024-01-02T00:00:00Z\r\n",
			"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nnewer"},
		{"by URL in brackets", identical + "WARC-Refers-To-Target-URI: <http://a.example/1>\r\n", head, head + "body"},
		{"without a header", identical + digest, "", ok("body")},
		{"header without its end", identical + digest, "HTTP/1.1 200 OK\r\nContent-Length: 4",
			"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"},
		{"not modified", notModified + "WARC-Refers-To-Target-URI: http://a.example/1\r\n" +
			"WARC-Refers-To-Date: 2024-01-01T00:00:00.7Z\r\n",
			"HTTP/1.1 304 Not Modified\r\n\r\n", ok("body")},
	} {
		revisit := rec("revisit", "http://b.example/2", "2024-03-01T00:00:00Z", tt.lines, tt.content)
		for name, files := range map[string][]string{
			"one file": {original + other + revisit}, "two files": {revisit, original + other},
			"gzip": {zipped(original, other), zipped(revisit)},
		} {
			a := open(t, Config{}, files...)
			got, r := ask(t, a, "http://b.example/2")
			if got != tt.want || r.Status != 200 || r.Page != 0 {
				t.Errorf("%s, %s: got %q, %+v, want %q", tt.name, name, got, r, tt.want)
			}
			if s := a.Summary(); s.Revisits != 1 || s.URLs != 2 || s.Pages != 2 {
				t.Errorf("%s, %s: got %+v", tt.name, name, s)
			}
		}
	}
	// A revisit that only says "not modified" refers to the previous capture of its URL.
	a := open(t, Config{}, original+rec("revisit", "http://a.example/1", "2024-03-01T00:00:00Z", notModified,
		"HTTP/1.1 304 Not Modified\r\n\r\n"))
	if got, _ := ask(t, a, "http://a.example/1"); got != ok("body") {
		t.Errorf("not modified since the last capture: got %q", got)
	}
	// A revisit whose original is not in the files is not served.
	a = open(t, Config{}, original+rec("revisit", "http://b.example/2", date,
		identical+"WARC-Payload-Digest: sha1:BBBB\r\n", head))
	if _, found := a.Find("b.example"); found || a.Summary().Skipped[NoOriginal] != 1 {
		t.Errorf("a revisit without its original: got %+v", a.Summary())
	}
}

func TestHosts(t *testing.T) {
	ip := func(s string) string { return "WARC-IP-Address: " + s + "\r\n" }
	a := open(t, Config{},
		rec("response", "http://www.A.example./", date, ip("192.0.2.1"), ok("a"))+
			rec("response", "https://b.a.example:443", date, ip("192.0.2.1"), ok("b"))+
			rec("response", "https://me:secret@c.a.example/?", date, ip("192.0.2.2"), ok("c"))+
			rec("response", "http://b\u00fccher.example:80/", date, "", ok("d"))+
			response("http://d.example:53/", ok("e"))+
			response("http://192.0.2.1/", ok("f"))+
			response("http://[::1]/", ok("g"))+
			response("ftp://d.example/", ok("h"))+
			rec("response", "dns:d.example", date, "Content-Type: text/dns\r\n", "192.0.2.1")+
			rec("resource", "http://d.example/r", date, "Content-Type: text/plain\r\n", "i")+
			response("http://d.example/garbage", "SSH-2.0-x\r\n")+
			response("http://d.example/100", "HTTP/1.1 100 Continue\r\n\r\n"))
	addr := map[string]netip.Addr{}
	for name, site := range map[string]string{
		"www.a.example": "a.example", "b.a.example": "a.example", "c.a.example": "a.example",
		"xn--bcher-kva.example": "xn--bcher-kva.example", "192.0.2.1": "192.0.2.1",
	} {
		n, found := a.Find(name)
		if !found {
			t.Errorf("there is no host %s", name)
			continue
		}
		h := a.Host(n)
		addr[name] = h.Addr
		if h.Name != name || h.Site != site || !h.Addr.IsLoopback() || h.Pages != 1 {
			t.Errorf("%s: got %+v", name, h)
		}
	}
	if addr["www.a.example"] != addr["b.a.example"] || addr["www.a.example"] != addr["192.0.2.1"] ||
		addr["b.a.example"] == addr["c.a.example"] {
		t.Errorf("want one address for hosts with the same recorded address, else different ones: got %v", addr)
	}
	if _, found := a.Find("d.example"); found || a.Hosts() != 5 {
		t.Errorf("got %d hosts, want 5, and not d.example", a.Hosts())
	}
	want := map[string]int64{OtherPort: 1, IPv6Addr: 1, NotHTTP: 5}
	if s := a.Summary(); s.Records != 12 || s.URLs != 5 || !maps.Equal(s.Skipped, want) {
		t.Errorf("got %+v, want skipped %v", s, want)
	}
}

// TestKeys: spellings of a target that servers treat alike have the same key; others do not.
func TestKeys(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"", "/", true}, {"?a", "/?a", true}, {"/?", "/", true}, {"/x#y", "/x", true},
		{"/%7euser", "/~user", true}, {"/a|b", "/a%7Cb", true}, {"/a b", "/a%20b", true}, {"/ü", "/%C3%bc", true},
		{"/a/./b/../c", "/a/c", true}, {"/a/%2e%2E/c", "/c", true}, {"/../..", "/", true}, {"/a/..", "/", true},
		{"/a/.", "/a/", true},
		{"/a\\b", "/a/b", true}, {"/a\tb", "/ab", true}, {"/?q=[1]", "/?q=%5B1%5D", true}, {"/..a", "/..a", true},
		{"/a%2Fb", "/a/b", false}, {"/a%3Fb", "/a?b", false}, {"/?a%26b", "/?a&b", false}, {"/?a%2Bb", "/?a+b", false},
		{"/a%25b", "/a%b", false}, {"/a%2", "/a%2", true}, {"/a/", "/a", false}, {"/A", "/a", false},
		{"/?a/../b", "/?b", false},
		{"/a//b", "/a/b", false}, {"/a%00", "/a", false},
	} {
		if got := keyOf(origin{}, tt.a) == keyOf(origin{}, tt.b); got != tt.same {
			t.Errorf("%q and %q: got %t, want %t (%q, %q)",
				tt.a, tt.b, got, tt.same, appendTarget(nil, tt.a), appendTarget(nil, tt.b))
		}
		if keyOf(origin{secure: true}, tt.a) == keyOf(origin{}, tt.a) {
			t.Errorf("%q: http and https have the same key", tt.a)
		}
	}
}

func TestSeeds(t *testing.T) {
	meta := func(url, fields string) string {
		return rec("metadata", url, date, "Content-Type: application/warc-fields\r\n", fields)
	}
	pages := response("http://a.example/robots.txt", ok("")) + response("http://a.example/", ok("a")) +
		response("http://a.example/1", ok("b")) + response("http://b.example/", ok("c"))
	for _, tt := range []struct{ more, want string }{
		{"", "http://a.example/"},
		{meta("http://a.example/robots.txt", "via: http://a.example/\r\nhopsFromSeed: P\r\nsourceTag: a.example\r\n") +
			meta("http://a.example/1", "fetchTimeMs: 1\r\nsourceTag: a.example\r\n") +
			meta("http://b.example/", "seed: \r\n") + meta("http://b.example/", "seed: \r\n") +
			meta("http://c.example/", "seed: \r\n") + // not served
			meta("http://a.example/", "fetchTimeMs: 1\r\n"), "http://a.example/1 http://b.example/"},
	} {
		if got := strings.Join(open(t, Config{}, pages+tt.more).Seeds(), " "); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// TestRobots: the server applies the recorded robots.txt, also if it is compressed or behind a redirect.
func TestRobots(t *testing.T) {
	text := "User-agent: *\nDisallow: /all\n\nUser-agent: weaver/1.0\nUser-agent: x\nDisallow: /a*b$ # no\n" +
		"Disallow: /%7eme\nAllow: /a-bcb\nCrawl-delay: 2.5\n"
	gz := zipped(text)
	packed := "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: " + itoa(len(gz)) + "\r\n\r\n" + gz
	a := open(t, Config{Agent: "weaver"},
		response("https://www.a.example/robots.txt", packed)+
			response("http://www.a.example/robots.txt", "HTTP/1.1 301 Moved\r\n"+
				"Location: https://www.a.example/robots.txt\r\nContent-Length: 0\r\n\r\n")+
			response("http://b.example/robots.txt", ok("User-agent: *\nDisallow:\n"))+
			response("http://c.example/robots.txt",
				"HTTP/1.1 302 Found\r\nLocation: /robots.txt\r\nContent-Length: 0\r\n\r\n")+
			response("http://d.example/robots.txt",
				"HTTP/1.1 404 No\r\nContent-Length: 18\r\n\r\nUser-agent:*\nDisallow: /\n"))
	for _, tt := range []struct {
		url  string
		want string // the rule; empty: allowed
	}{
		{"http://www.a.example/axb", "disallow: /a*b$"}, {"https://www.a.example/axxb", "disallow: /a*b$"},
		{"https://www.a.example/axbx", ""}, {"https://www.a.example/a-bcb", ""},
		{"https://www.a.example/~me/x", "disallow: /~me"}, {"https://www.a.example/%7Eme", "disallow: /~me"},
		{"https://www.a.example/all", ""}, {"https://www.a.example/robots.txt", ""},
		{"http://b.example/", ""}, {"http://c.example/", ""}, {"http://d.example/", ""},
	} {
		if _, r := ask(t, a, tt.url); r.Denied != (tt.want != "") || r.Rule != tt.want {
			t.Errorf("%s: got denied %t by %q, want %q", tt.url, r.Denied, r.Rule, tt.want)
		}
	}
	n, _ := a.Find("www.a.example")
	if h := a.Host(n); h.CrawlDelay != 2500*time.Millisecond || h.Pages != 0 {
		t.Errorf("got %+v, want a delay of 2.5s and no page", h)
	}
	if b, r := ask(t, a, "https://www.a.example/robots.txt"); b != packed || r.Page != -1 {
		t.Errorf("robots.txt is not served as it was recorded: %q, page %d", b, r.Page)
	}
	other := open(t, Config{Agent: "other"}, response("http://a.example/robots.txt", ok(text)))
	if _, r := ask(t, other, "http://a.example/all/x"); !r.Denied || r.Rule != "disallow: /all" {
		t.Errorf("another agent: got %+v", r)
	}
}

// TestDamage: parts that cannot be read are counted, or are an error with file and offset.
func TestDamage(t *testing.T) {
	good := response("http://a.example/", ok("home"))
	two := zipped(response("http://a.example/1", ok("one")), response("http://a.example/2", ok("two")))
	broken := []byte(two)
	broken[40] ^= 0xff // in the compressed data of the first member
	one := zipped(good + response("http://a.example/1", ok("one")))
	for _, tt := range []struct {
		name, content string
		err           string // of Open
		urls, damaged int64
		skipped       string
	}{
		{name: "text", content: "hello,\nthis is no archive", err: `0.warc: offset 0: no WARC record: "hello`},
		{name: "broken gzip",
			content: "\x1f\x8b\x08\x00aaaaaaaaaaaaaaaaaaaaaaaaaaa", err: "0.warc: offset 0: gzip member: "},
		{name: "nothing", content: "", err: "0 records in 1 file: no HTTP response"},
		{name: "nothing to serve",
			content: rec("warcinfo", "", date, "", ""), err: "1 record in 1 file: no HTTP response"},
		{name: "a torn end", content: good + good[:len(good)-20], urls: 1, damaged: 1},
		{name: "a wrong length", content: strings.Replace(good, "Content-Length: ", "Content-Length: 99999999999", 1),
			err: "0.warc: offset 0: the content ends"},
		{name: "a negative length", urls: 1, damaged: 1,
			content: good + strings.Replace(good, "Content-Length: ", "Content-Length: -", 1)},
		{name: "garbage between",
			content: good + "garbage\r\n\r\n" + response("http://a.example/1", ok("one")), urls: 2, damaged: 1},
		{name: "a broken member", content: string(broken), urls: 1, damaged: 1},
		{name: "records in one member", content: zipped(good) + one, urls: 1, skipped: SharedMember},
		{name: "endless header",
			content: good + "WARC/1.1\r\n" + strings.Repeat("X: y\r\n", 5000) + "\r\n", urls: 1, damaged: 1},
	} {
		a, err := Open(write(t, tt.content), Config{})
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: got %v, want %s", tt.name, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		s := a.Summary()
		if s.URLs != tt.urls || s.Damaged != tt.damaged || int(s.Damaged) != len(s.Notes) ||
			tt.skipped != "" && s.Skipped[tt.skipped] == 0 {
			t.Errorf("%s: got %+v, want %d URLs, %d damaged, skipped %q", tt.name, s, tt.urls, tt.damaged, tt.skipped)
		}
		for _, n := range s.Notes {
			if !strings.Contains(n, "0.warc: offset ") {
				t.Errorf("%s: the note %q lacks file and offset", tt.name, n)
			}
		}
		a.Close()
	}
	if _, err := Open([]string{t.TempDir()}, Config{}); err == nil ||
		!strings.HasSuffix(err.Error(), ": not a regular file") {
		t.Errorf("a directory: got %v", err)
	}
	_, err := Open([]string{"/does/not/exist.warc"}, Config{})
	if err == nil || err.Error() != "/does/not/exist.warc: no such file or directory" {
		t.Errorf("no file: got %v", err)
	}
	if _, err := Open(make([]string, maxFiles+1), Config{}); err == nil {
		t.Error("too many files: no error")
	}
	if _, err := Open(write(t, ""), Config{}); !errors.Is(err, ErrNothing) {
		t.Errorf("got %v, want ErrNothing", err)
	}
}

// TestPageNumbers: the pages of a host have the numbers 0 to Pages-1, each a different one.
func TestPageNumbers(t *testing.T) {
	var b strings.Builder
	var urls []string
	for _, host := range []string{"a", "b", "c"} {
		for i := range 20 {
			u := "http://" + host + ".example/" + itoa(i)
			urls = append(urls, u)
			if i%3 == 0 {
				b.WriteString(response(u, "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"))
			} else {
				b.WriteString(response(u, ok(u)))
			}
		}
	}
	a := open(t, Config{}, b.String())
	seen := map[string][]int64{}
	for i, u := range urls {
		got, r := ask(t, a, u)
		host := locate(u).host
		switch {
		case i%20%3 == 0:
			if r.Page != -1 || r.Status != 404 {
				t.Errorf("%s: got %+v", u, r)
			}
		default:
			if body(got) != u {
				t.Errorf("%s: got %q", u, got)
			}
			seen[host] = append(seen[host], r.Page)
		}
	}
	for host, pages := range seen {
		n, _ := a.Find(host)
		slices.Sort(pages)
		if int64(len(pages)) != a.Host(n).Pages || pages[0] != 0 || pages[len(pages)-1] != int64(len(pages)-1) ||
			len(slices.Compact(pages)) != 13 {
			t.Errorf("%s: got pages %v of %d", host, pages, a.Host(n).Pages)
		}
	}
}

// TestTruth: the truth has the recorded pages that robots.txt does not deny.
func TestTruth(t *testing.T) {
	a := open(t, Config{},
		response("http://a.example/robots.txt", ok("User-agent: *\nDisallow: /no\n"))+
			response("http://a.example/no", ok("a"))+response("http://a.example/yes", ok("b"))+
			response("https://a.example/no", ok("c"))+
			response("http://a.example/gone", "HTTP/1.1 410 Gone\r\n\r\n")+
			rec("response", "http://a.example/cut", date, "WARC-Truncated: length\r\nWARC-Payload-Digest: sha1:C\r\n",
				"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")+
			rec("revisit", "http://a.example/cut-too", date, "WARC-Payload-Digest: sha1:C\r\n", "")+
			rec("revisit", "http://b.example/2", date, "WARC-Refers-To-Target-URI: http://a.example/yes\r\n", ""))
	tr := a.Truth()
	var got []string
	tr.Each(func(host, page int64) {
		if !tr.Has(host, page) {
			t.Errorf("host %d, page %d: Each has the page, Has does not", host, page)
		}
		got = append(got, tr.URL(host, page))
	})
	slices.Sort(got)
	wantURLs := []string{"http://a.example/yes", "http://b.example/2", "https://a.example/no"}
	if d := cmp.Diff(wantURLs, got); d != "" || tr.Reachable() != 3 {
		t.Errorf("%d reachable: %s", tr.Reachable(), d)
	}
	had := 0
	for host := int64(-1); host < 4; host++ {
		for page := int64(-1); page < 5; page++ {
			if tr.Has(host, page) {
				had++
			}
		}
	}
	if had != 3 {
		t.Errorf("Has reports %d pages, want 3", had)
	}
}

// TestHeadForms: warcHead reads a version in lower case and a length on a folded line.
func TestHeadForms(t *testing.T) {
	for _, head := range []string{
		"WARC/1.1\r\nContent-Length: 483\r\n\r\n",
		"warc/1.0\r\ncontent-length: 483\r\n\r\n",
		"WARC/1.0\r\nContent-Length:\r\n 483\r\n\r\n",
		"WARC/1.0\r\nContent-Length: \r\n\t483\r\nX: y\r\n z\r\n\r\n",
	} {
		if size, _, err := warcHead(bufio.NewReader(strings.NewReader(head))); size != 483 || err != nil {
			t.Errorf("%q: got %d, %v", head, size, err)
		}
	}
}
