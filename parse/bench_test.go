package parse

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// samplePage is a page of about 22 KB with 50 links, the average of the paper
// (Polybot, 5), written like a page of today.
func samplePage() []byte {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>A sample &amp; its links</title>\n" +
		"<link rel=\"stylesheet\" href=\"/_static/style.css\"><link rel=\"canonical\" href=\"https://a.example/dir/page.html\">\n" +
		"<script>if (a < b) { document.write('<a href=\"no\">'); }</script></head>\n<body class=\"main\">\n")
	for i := range 48 {
		fmt.Fprintf(&b, "<div class=\"section\" id=\"s%d\"><h2>Section %d</h2>\n<p>%s</p>\n<p>See <a class=\"reference internal\" href=\"../part%d/chapter-%d.html?v=%d&amp;x=1#s\">the chapter</a>.<br>\n%s</p></div>\n",
			i, i, strings.Repeat("Plain words of a page, as they go. ", 5), i%5, i, i, strings.Repeat("More of them follow. ", 5))
	}
	b.WriteString("<!-- an end --><p><a href=\"https://b.example/\">Elsewhere</a> <a href=\"mailto:a@b.example\">Mail</a></p>\n</body></html>\n")
	return []byte(b.String())
}

func BenchmarkParse(b *testing.B) {
	body := samplePage()
	in := Input{URL: mustURL(b, "https://a.example/dir/page.html"), ContentType: "text/html; charset=utf-8", Body: body}
	var p Page
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		Parse(in, Options{}, &p)
	}
	b.ReportMetric(float64(len(p.Links)), "links/page")
}

// BenchmarkScan is BenchmarkParse without resolving.
func BenchmarkScan(b *testing.B) {
	body := samplePage()
	in := Input{URL: mustURL(b, "https://a.example/dir/page.html"), ContentType: "text/html; charset=utf-8", Body: body}
	var p Page
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		p.reset(in, Options{})
		p.work.cs = utf8Charset
		p.html(body, false)
	}
}

// BenchmarkTokenizer is x/net/html's tokenizer looking for the same links.
func BenchmarkTokenizer(b *testing.B) {
	body := samplePage()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	links := 0
	for b.Loop() {
		links = 0
		z := html.NewTokenizer(bytes.NewReader(body))
		for {
			t := z.Next()
			if t == html.ErrorToken {
				if z.Err() != io.EOF {
					b.Fatal(z.Err())
				}
				break
			}
			if t != html.StartTagToken && t != html.SelfClosingTagToken {
				continue
			}
			if name, more := z.TagName(); string(name) == "a" {
				for more {
					var key, val []byte
					key, val, more = z.TagAttr()
					if string(key) == "href" && len(val) > 0 {
						links++
					}
				}
			}
		}
	}
	b.ReportMetric(float64(links), "links/page")
}

// BenchmarkRealPages scans the documentation of this machine.
func BenchmarkRealPages(b *testing.B) {
	var bodies [][]byte
	total := 0
	realPages(b, 50, func(_ string, body []byte) { bodies = append(bodies, body); total += len(body) })
	in := Input{URL: mustURL(b, "https://a.example/dir/page.html"), ContentType: "text/html"}
	var p Page
	b.SetBytes(int64(total))
	b.ReportAllocs()
	for b.Loop() {
		for _, in.Body = range bodies {
			p.reset(in, Options{})
			body, kind, cs := open(in, &p.work.opt)
			if kind != HTML {
				b.Fatal(kind)
			}
			p.work.cs = cs
			p.html(body, false)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(bodies)), "us/page")
}
