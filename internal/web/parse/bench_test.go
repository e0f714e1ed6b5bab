package parse

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// samplePage returns a page of about 22 KB with 50 links, the average in the Polybot paper (section
// 5), in the style of a page of today.
func samplePage() []byte {
	var b strings.Builder
	b.WriteString(
		"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>A sample &amp; its links</title>\n" +
			"<link rel=\"stylesheet\" href=\"/_static/style.css\"><link rel=\"canonical\" " +
			"href=\"https://a.example/dir/page.html\">\n" +
			"<script>if (a < b) { document.write('<a href=\"no\">'); }</script></head>\n<body class=\"main\">\n")
	for i := range 48 {
		fmt.Fprintf(&b, "<div class=\"section\" id=\"s%d\"><h2>Section %d</h2>\n<p>%s</p>\n<p>See <a "+
			"class=\"reference internal\" href=\"../part%d/chapter-%d.html?v=%d&amp;x=1#s\">the chapter</a>.<br>\n"+
			"%s</p></div>\n",
			i, i, strings.Repeat("Plain words of a page, as they go. ", 5), i%5, i, i,
			strings.Repeat("More of them follow. ", 5))
	}
	b.WriteString("<!-- an end --><p><a href=\"https://b.example/\">Elsewhere</a> <a " +
		"href=\"mailto:a@b.example\">Mail</a></p>\n</body></html>\n")
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

// textPage returns a page of about 22 KB with 50 links in running text, four of five of them local:
// few tags, no character references. made is the number of pages made before.
func textPage(made int) []byte {
	r := rand.New(rand.NewPCG(uint64(made), 7))
	words := strings.Fields("the of harvest river in under glass stone and winter orchard a lantern to with fields " +
		"morning copper between quiet paper road their north across small house window")
	var b strings.Builder
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Page %d</title>\n"+
		"</head>\n<body>\n<h1>Page %d</h1>\n", made, made)
	for b.Len() < 22_000 {
		b.WriteString("<p>")
		for n := range 70 + r.IntN(20) {
			if n%30 == 10 && strings.Count(b.String(), "<a ") < 50 {
				href := fmt.Sprintf("/%s/%s-%d.html", words[r.IntN(len(words))], words[r.IntN(len(words))],
					r.IntN(1000))
				switch r.IntN(10) {
				case 0, 1:
					href = fmt.Sprintf("http://h%05d.example%s", r.IntN(20_000), href)
				case 2, 3:
					href = href[1:]
				case 4:
					href = ".." + href
				case 5:
					href += "?page=2"
				}
				fmt.Fprintf(&b, "<a href=\"%s\">%s</a> ", href, words[r.IntN(len(words))])
			}
			b.WriteString(words[r.IntN(len(words))])
			b.WriteByte(' ')
		}
		b.WriteString("</p>\n")
	}
	b.WriteString("</body>\n</html>\n")
	return []byte(b.String())
}

// hrefs is the smallest scan that still finds links, for comparison: it emits the unresolved value
// of every double-quoted href of an <a> tag.
func hrefs(b []byte, emit func([]byte)) {
	for {
		i := bytes.IndexByte(b, '<')
		if i < 0 || i+2 >= len(b) {
			return
		}
		if b = b[i+1:]; b[0]|0x20 != 'a' || b[1] != ' ' {
			continue
		}
		e := bytes.IndexByte(b, '>')
		if e < 0 {
			return
		}
		if j := bytes.Index(b[:e], []byte(`href="`)); j >= 0 {
			v := b[j+6 : e]
			if k := bytes.IndexByte(v, '"'); k >= 0 {
				emit(v[:k])
			}
		}
		b = b[e:]
	}
}

// BenchmarkPages parses pages as the crawl does. It also reports how often the smallest scan (with
// a fingerprint of each unresolved link) could run in the same time.
func BenchmarkPages(b *testing.B) {
	text := make([][]byte, 32)
	for i := range text {
		text[i] = textPage(i)
	}
	var docs [][]byte
	if entries, err := os.ReadDir("/usr/share/doc/python3.11-doc/html"); err == nil && len(entries) > 0 {
		realPages(b, 100, func(_ string, body []byte) { docs = append(docs, body) })
	}
	var made [][]byte
	generatedPages(b, func(_ string, body []byte) { made = append(made, body) })
	for _, set := range []struct {
		name  string
		pages [][]byte
	}{{"generated", made}, {"text", text}, {"tags", [][]byte{samplePage()}}, {"docs", docs}} {
		b.Run(set.name, func(b *testing.B) {
			if len(set.pages) == 0 {
				b.Skip("no documentation packages under /usr/share/doc")
			}
			in := Input{URL: mustURL(b, "https://a.example/dir/page.html"), ContentType: "text/html; charset=utf-8"}
			var p Page
			var ours, least time.Duration
			links, size := 0, 0
			b.ReportAllocs()
			for b.Loop() {
				links, size = 0, 0
				began := time.Now()
				for _, in.Body = range set.pages {
					Parse(in, Options{}, &p)
					links += len(p.Links)
					size += len(in.Body)
				}
				between := time.Now()
				sum := uint64(0)
				for _, body := range set.pages {
					hrefs(body, func(h []byte) { sum += maphash.Bytes(benchSeed, h) })
				}
				least += time.Since(between)
				ours += between.Sub(began)
			}
			n := float64(b.N * len(set.pages))
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(ours.Nanoseconds())/1e3/n, "µs/page")
			b.ReportMetric(float64(least.Nanoseconds())/1e3/n, "µs/least")
			b.ReportMetric(float64(ours)/float64(least), "ratio")
			b.ReportMetric(float64(links)/float64(len(set.pages)), "links/page")
			b.ReportMetric(float64(size)/float64(len(set.pages)), "B/page")
		})
	}
}

var benchSeed = maphash.MakeSeed()

// BenchmarkScan is BenchmarkParse without the header, kind and charset.
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
			body, kind, cs, _ := open(in, typeOf(in), &p.work.opt)
			if kind != HTML {
				b.Fatal(kind)
			}
			p.work.cs = cs
			p.html(body, false)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(bodies)), "us/page")
}
