package orbweaver

import (
	"fmt"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func TestHostAndPath(t *testing.T) {
	for _, c := range []struct{ url, host, path string }{
		{"https://www.example.org/", "www.example.org", "/"},
		{"http://example.org:8080/a/b?c=/d", "example.org", "/a/b"},
		{"http://[2001:db8::1]/x", "[2001:db8::1]", "/x"},
		{"http://[2001:db8::1]:81/?x", "[2001:db8::1]", "/"},
		{"", "", ""},
	} {
		l := Link{URL: c.url}
		p := Page{URL: c.url}
		if l.Host() != c.host || l.Path() != c.path || p.Host() != c.host || p.Path() != c.path {
			t.Errorf("%s: host %q, path %q, want %q, %q", c.url, l.Host(), l.Path(), c.host, c.path)
		}
	}
}

// BenchmarkPage measures what a page of 22 KB with 100 links costs on its way to OnPage.
func BenchmarkPage(b *testing.B) {
	var body strings.Builder
	body.WriteString("<title>A page</title>")
	for i := range 100 {
		fmt.Fprintf(&body, `<a href="/section/page-%d.html">%s</a>`, i, strings.Repeat("text ", 36))
	}
	url := weburl.MustParse("https://www.example.org/index.html")
	var parsed parse.Page
	parse.Parse(parse.Input{URL: url, ContentType: "text/html", Body: []byte(body.String())}, parse.Options{}, &parsed)
	head := fetch.Header{{Name: "Content-Type", Value: "text/html"}, {Name: "Date", Value: "x"},
		{Name: "Server", Value: "y"}, {Name: "ETag", Value: "z"}}
	text := []byte(body.String())
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		finish(&visit.Page{Link: link.Link{URL: url}, Status: 200, Header: head, Body: text, Parsed: &parsed})
	}
}
