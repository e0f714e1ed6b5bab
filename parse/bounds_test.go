package parse

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// What a small page can make of a long base: each reference of a few bytes
// becomes a URL of thousands.
func TestLinksOfALongBase(t *testing.T) {
	var refs, entries strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&refs, "<a href=%d>", i)
		fmt.Fprintf(&entries, "<link href='%d'/>", i)
	}
	long := strings.Repeat(`"`, 8000) + "/" // three bytes each in a URL
	for _, tc := range []struct{ name, contentType, body string }{
		{"base", "text/html", "<base href='http://a.example/" + long + "'>" + refs.String()},
		{"xml:base", "application/atom+xml", "<feed>" + strings.Repeat("<entry xml:base='"+long+"'>", 3) + entries.String()},
	} {
		var p Page
		in := Input{URL: mustURL(t, "http://a.example/"), ContentType: tc.contentType, Body: []byte(tc.body)}
		Parse(in, Options{}, &p)
		sum := 0
		for _, l := range p.Links {
			sum += len(l.URL.String())
		}
		if limit := maxLinkBytes + len(tc.body); sum > limit || sum < limit-100_000 {
			t.Errorf("%s: %d bytes of URLs, want up to %d", tc.name, sum, limit)
		}
		if len(p.Links)+p.Dropped != 30_000 || p.BadLinks != 0 {
			t.Errorf("%s: %d links, %d dropped, %d bad, want 30,000 in all", tc.name, len(p.Links), p.Dropped, p.BadLinks)
		}
	}
}

// A reference that is far too long is not even copied.
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
			t.Errorf("%s: %d bytes allocated for a page of %d", tc.name, got, len(tc.body))
		}
	}
}
