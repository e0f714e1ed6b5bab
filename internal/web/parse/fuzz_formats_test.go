package parse

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// checkInput parses in twice, into a used Page and into a fresh one. It checks what must hold for
// every Page.
func checkInput(t *testing.T, used *Page, in Input, opt Options) *Page {
	t.Helper()
	in.URL = mustURL(t, fuzzBase)
	opt.MaxLinks, opt.MaxURL = 100, 1000
	before := bytes.Clone(in.Body)
	Parse(in, opt, used)
	var p Page
	Parse(in, opt, &p)
	if !bytes.Equal(before, in.Body) {
		t.Error("Parse changed the body")
	}
	if !slices.Equal(used.Links, p.Links) || used.Title != p.Title || used.Base != p.Base || used.Kind != p.Kind ||
		used.Canonical != p.Canonical || used.Directives != p.Directives || used.Charset != p.Charset ||
		used.BadLinks != p.BadLinks || used.Dropped != p.Dropped || used.Withheld != p.Withheld {
		t.Errorf("used page %+v\nfresh page %+v", used, p)
	}
	if len(p.Links) > opt.MaxLinks || len(p.Title) > maxTitle || !utf8.ValidString(p.Title) {
		t.Errorf("got %d links and a title of %d bytes %q, which exceed the limits or are not UTF-8",
			len(p.Links), len(p.Title), p.Title)
	}
	seen := map[string]bool{}
	for _, l := range p.Links {
		if u, err := weburl.Parse(l.URL.String()); err != nil || u != l.URL {
			t.Errorf("link %q parsed again gives %q, %v", l.URL, u, err)
		}
		key := fmt.Sprintf("%c %s", l.Hop, l.URL)
		if seen[key] || l.Tag == "" || strings.IndexByte("LERM", l.Hop) < 0 {
			t.Errorf("link %+v is a duplicate or has no valid tag and hop", l)
		}
		seen[key] = true
		if l.Hop == 'E' && !opt.Requisites || p.NoFollow && (l.Hop == 'L' || l.Hop == 'M') {
			t.Errorf("link %+v is not wanted", l)
		}
	}
	return &p
}

// foreignWithTable matches foreign content in a document with a table or a part of one. There the
// scanner may differ from the tree (see Page.html): an end tag in foreign content ends an element
// outside of it only if that element is open with no table in between, but the scanner counts
// elements without a tree.
var foreignWithTable = regexp.MustCompile(
	`(?is)<(table|caption|col|colgroup|tbody|thead|tfoot|tr|td|th)\b.*<(svg|math)`)

func FuzzLinksAgainstTree(f *testing.F) {
	for i := range snippets {
		f.Add([]byte{byte(i), byte(i + 7), byte(i + 31)})
	}
	var p Page
	f.Fuzz(func(t *testing.T, pick []byte) {
		body := compose(pick, snippets)
		if foreignWithTable.Match(body) {
			return
		}
		checkTree(t, &p, body)
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range snippets {
		f.Add("text/html", []byte(s), true)
	}
	f.Add("", []byte("<?xml version='1.0'?><html>"), false)
	f.Add("application/xhtml+xml", []byte("<svg><a href='1'/></svg>"), true)
	f.Add("image/svg+xml", []byte("<svg><style><![CDATA[ url(1) ]]></style></svg>"), true)
	f.Add("application/gzip", []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00"), false)
	var used Page
	f.Fuzz(func(t *testing.T, contentType string, body []byte, requisites bool) {
		in := Input{ContentType: contentType, Body: body, Sitemap: len(body)%2 == 1}
		for _, name := range []string{"Link", "Refresh", "X-Robots-Tag"} {
			in.Header = append(in.Header, message.Field{Name: name, Value: contentType})
		}
		checkInput(t, &used, in, Options{Requisites: requisites, Agent: "orbweaver", MaxInflated: 1 << 20})
	})
}

func FuzzFeed(f *testing.F) {
	f.Add(
		[]byte(
			`<rss><channel><link>1</link><guid isPermaLink="true">http://b.example/</guid><enclosure url="2"/></channel></rss>`))
	f.Add(
		[]byte(`<feed xml:base="/b/"><entry xml:base='c/'><link href="1"/></entry><link rel="self" href="2"/></feed>`))
	f.Add([]byte(`<rdf:RDF><item><link><![CDATA[1]]><!-- --></link>`))
	f.Add([]byte(strings.Repeat("<a xml:base='b/'>", 100) + "<link>x</link>"))
	f.Add([]byte(`<!DOCTYPE rss [<!ENTITY a "b">]><rss><link>&a;</link></rss>`))
	var used Page
	f.Fuzz(func(t *testing.T, body []byte) {
		p := checkInput(t, &used, Input{ContentType: "application/rss+xml", Body: body}, Options{Requisites: true})
		if p.Kind != Feed {
			t.Errorf("got kind %s, want feed", p.Kind)
		}
	})
}

func FuzzSitemap(f *testing.F) {
	f.Add(
		[]byte(
			`<urlset><url><loc>https://a.example/1</loc><image:image><image:loc>2</image:loc></image:image></url></urlset>`))
	f.Add([]byte(`<sitemapindex><sitemap><loc><![CDATA[https://a.example/1]]></loc></sitemap></sitemapindex>`))
	f.Add([]byte("https://a.example/1\r\nhttps://a.example/2"))
	f.Add([]byte("\xff\xfeh\x00t\x00t\x00p\x00:\x00/\x00/\x00x\x00"))
	var used Page
	f.Fuzz(func(t *testing.T, body []byte) {
		p := checkInput(t, &used, Input{ContentType: "text/plain", Body: body, Sitemap: true},
			Options{MaxInflated: 1 << 20})
		for _, l := range p.Links {
			if p.Kind == Sitemap && l.Hop != 'M' {
				t.Errorf("got link %+v, want hop M", l)
			}
		}
	})
}

func FuzzCSS(f *testing.F) {
	f.Add(
		[]byte(
			`@charset "utf-8"; @import url("a.css") screen; a { b: url( c ), URL('d\'e'); f: u\72l(g) } /* url(h) */`))
	f.Add([]byte("url(a\\\n b) url(\"a\\\r\nb\") \"x\ny' \\"))
	f.Add([]byte(`@import "a" url(b);@\69mport 'c';--x:url(d)`))
	var used Page
	f.Fuzz(func(t *testing.T, body []byte) {
		checkInput(t, &used, Input{ContentType: "text/css", Body: body}, Options{Requisites: true})
		size := 0
		for c := (cssScanner{b: body}); c.next(); {
			size += len(c.value)
		}
		// An escape of two bytes, such as "\0", stands for at most three bytes.
		if size > 2*len(body) {
			t.Errorf("got %d bytes of references from %d bytes of CSS", size, len(body))
		}
	})
}

func FuzzSrcset(f *testing.F) {
	for _, s := range []string{"a 1x, b 2x", "a,b,c", ",,a,,", "a (1,2), b", "data:,x 1x,b", " \t\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, v []byte) {
		n := 0
		for ref, rest := nextCandidate(v); ref != nil; ref, rest = nextCandidate(rest) {
			if len(ref) == 0 || bytes.ContainsAny(ref, " \t\n\f\r") || ref[0] == ',' || ref[len(ref)-1] == ',' {
				t.Fatalf("got candidate %q, which is empty or has a separator", ref)
			}
			if n += len(ref); n > len(v) {
				t.Fatalf("the candidates together are longer than %q", v)
			}
		}
		// The candidates, joined by spaces, are a srcset with the same candidates.
		var again []byte
		var want, got []string
		for ref, rest := nextCandidate(v); ref != nil; ref, rest = nextCandidate(rest) {
			again = append(append(again, ref...), " 1x, "...)
			want = append(want, string(ref))
		}
		for ref, rest := nextCandidate(again); ref != nil; ref, rest = nextCandidate(rest) {
			got = append(got, string(ref))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", again, got, want)
		}
	})
}

func FuzzMetaRefresh(f *testing.F) {
	for _, s := range []string{"0;url=x", "5, 'x'", ".;x", "1 url = \"x", "5;urlx"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, v []byte) {
		ref := refreshURL(v)
		if ref == nil {
			return
		}
		if !bytes.Contains(v, ref) {
			t.Fatalf("%q is not in %q", ref, v)
		}
		if bytes.IndexByte(ref, '\'') < 0 && (len(ref) == 0 || !space(ref[0])) {
			if again := refreshURL([]byte("0;url='" + string(ref) + "'")); string(again) != string(ref) {
				t.Errorf("%q: parsed again: got %q, want %q", v, again, ref)
			}
		}
	})
}

func FuzzCharset(f *testing.F) {
	for _, s := range []string{"utf-16", "shift_jis", "iso-2022-jp", "gb18030", "iso-2022-kr", "x-user-defined",
		"koi8-r", "nosuch", ""} {
		f.Add(s, []byte("<meta charset='"+s+"'><title>\x83\x5c</title><a href='\xe9?\x1b$B\x81'>"))
	}
	f.Add("", []byte("\xff\xfe<\x00a\x00 \x00h\x00r\x00e\x00f\x00=\x00x\x00>\x00"))
	var used Page
	f.Fuzz(func(t *testing.T, label string, body []byte) {
		p := checkInput(t, &used, Input{ContentType: "text/html; charset=" + label, Body: body},
			Options{Requisites: true})
		if _, ok := lookup(p.Charset); !ok {
			t.Errorf("got the unknown charset %q", p.Charset)
		}
	})
}
