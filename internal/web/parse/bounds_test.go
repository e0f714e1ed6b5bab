package parse

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/message"
)

// A small page with a long base: each reference of a few bytes becomes a URL of thousands of bytes.
func TestLinksOfALongBase(t *testing.T) {
	var refs, entries strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&refs, "<a href=%d>", i)
		fmt.Fprintf(&entries, "<link href='%d'/>", i)
	}
	long := strings.Repeat(`"`, 8000) + "/" // three bytes each in a URL
	for _, tc := range []struct{ name, contentType, body string }{
		{"base", "text/html", "<base href='http://a.example/" + long + "'>" + refs.String()},
		{"xml:base", "application/atom+xml",
			"<feed>" + strings.Repeat("<entry xml:base='"+long+"'>", 3) + entries.String()},
	} {
		var p Page
		in := Input{URL: mustURL(t, "http://a.example/"), ContentType: tc.contentType, Body: []byte(tc.body)}
		Parse(in, Options{}, &p)
		sum := 0
		for _, l := range p.Links {
			sum += len(l.URL.String())
		}
		if limit := maxLinkBytes + len(tc.body); sum > limit || sum < limit-100_000 {
			t.Errorf("%s: got %d bytes of URLs, want nearly %d", tc.name, sum, limit)
		}
		if len(p.Links)+p.Dropped != 30_000 || p.BadLinks != 0 {
			t.Errorf("%s: got %d links, %d dropped, %d bad, want 30,000 in total and none bad",
				tc.name, len(p.Links), p.Dropped, p.BadLinks)
		}
	}
}

// A reference that is far too long is not copied.
func TestGiantReference(t *testing.T) {
	for _, tc := range []struct{ name, body string }{
		{"NUL", "<a href='\x01" + strings.Repeat("\x00", 8<<20) + "'><a href=x>"},
		{"references", "<a href='" + strings.Repeat("&nGt;", 2<<20) + "'><a href=x>"},
		{"base", "<base href='\x01" + strings.Repeat("\x00", 8<<20) + "'><a href=x>"},
	} {
		in := Input{URL: mustURL(t, "http://a.example/"), ContentType: "text/html", Body: []byte(tc.body)}
		var before, after runtime.MemStats
		var p Page
		runtime.ReadMemStats(&before)
		Parse(in, Options{}, &p)
		runtime.ReadMemStats(&after)
		if len(p.Links) != 1 || p.Links[0].URL.String() != "http://a.example/x" {
			t.Errorf("%s: got %d links", tc.name, len(p.Links))
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
			t.Errorf("%s: allocated %d bytes for a page of %d, want at most 4 MiB", tc.name, got, len(tc.body))
		}
	}
}

// The part before a late base element is read again, but only once.
func TestLateBase(t *testing.T) {
	in := Input{
		URL: mustURL(t, fuzzBase), ContentType: "text/html; charset=utf-8",
		Header: message.Header{{Name: "Link", Value: "<h>; rel=canonical"}, {Name: "X-Robots-Tag", Value: "noarchive"}},
		Body: []byte(
			`<title>T</title><meta name=robots content=noindex><link rel=canonical href=c><a href="http://["><a href=1><svg><a href=2><![CDATA[</svg>]]></svg>` +
				`<a href=h><base href=/b/><a href=3><a href=/b/1><base href=/d/><a href=mailto:x>`),
	}
	var p Page
	for range 2 {
		Parse(in, Options{}, &p)
		want := "L h header:link, L https://a.example/b/c link@href, L https://a.example/b/1 a@href, L " +
			"https://a.example/b/2 svg:a@href, " +
			"L https://a.example/b/h a@href, L https://a.example/b/3 a@href"
		if got := shortLinks(&p); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		if p.Title != "T" || p.BadLinks != 1 || p.Directives != (Directives{NoIndex: true, NoArchive: true}) ||
			p.Canonical.String() != "https://a.example/dir/h" || p.Base.String() != "https://a.example/b/" {
			t.Errorf("got title %q, %d bad links, %+v, canonical %s, base %s",
				p.Title, p.BadLinks, p.Directives, p.Canonical, p.Base)
		}
	}
}

// Every link's key is the key of its URL, and its URL stays valid after the next Parse.
func TestKeys(t *testing.T) {
	var p Page
	in := Input{URL: mustURL(t, fuzzBase), ContentType: "text/html; charset=utf-8", Body: samplePage()}
	Parse(in, Options{Requisites: true}, &p)
	links := append([]Link(nil), p.Links...)
	want := lines(&p)
	in.Body = []byte(`<base href="https://b.example/x/"><a href=1>`)
	Parse(in, Options{}, &p)
	p.Links = links
	for i, got := range lines(&p) {
		if k := link.KeyOf(links[i].URL); got != want[i] || links[i].Key != k {
			t.Errorf("link %d: got %s with key %v, want %s with %v", i, got, links[i].Key, want[i], k)
		}
	}
}
