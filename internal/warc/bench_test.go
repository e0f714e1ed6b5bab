package warc

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// benchPages returns exchanges of 22.3 KB, the average page of the generated web. Their text compresses like that of a
// page.
func benchPages(coding string) []*Exchange {
	rnd := rand.New(rand.NewPCG(1, 1))
	var words []string
	for range 2000 {
		var b strings.Builder
		for range 2 + rnd.IntN(8) {
			b.WriteByte(byte('a' + rnd.IntN(26)))
		}
		words = append(words, b.String())
	}
	var xs []*Exchange
	for i := range 64 {
		var b strings.Builder
		for b.Len() < 22300 {
			if rnd.IntN(8) == 0 {
				fmt.Fprintf(&b, "<a href=\"/%s/%d\">", words[rnd.IntN(2000)], rnd.IntN(1000))
			}
			b.WriteString(words[int(rnd.ExpFloat64()*200)%2000] + " ")
		}
		body, head := b.String()[:22300], "HTTP/1.1 200 OK\nDate: Mon, 06 May 2024 07:08:09 GMT\nServer: nginx\n"+
			"Content-Type: text/html; charset=utf-8\nConnection: keep-alive\nVary: Accept-Encoding"
		if coding != "" {
			body, head = gzipped(body), head+"\nContent-Encoding: gzip"
		}
		x := page(fmt.Sprintf("http://h%d.example.com/dir/page%d.html", i%7, i), head, body)
		x.Request = []byte("GET /dir/page.html HTTP/1.1\r\nHost: h1.example.com\r\n" +
			"User-Agent: orbweaver/1 (+https://example.org/bot)\r\nAccept: text/html\r\n" +
			"Accept-Encoding: gzip, br\r\n\r\n")
		x.Metadata = []Field{
			{"via", "http://h1.example.com/dir/"}, {"hopsFromSeed", "LLL"}, {"fetchTimeMs", "123"},
			{"charset-for-link-extraction", "utf-8"}, {"outlinks", "31"},
		}
		xs = append(xs, x)
	}
	return xs
}

// BenchmarkWrite archives request, response and metadata of pages of 22.3 KB: compressed by the Writer, stored without
// compression, and compressed by the server.
func BenchmarkWrite(b *testing.B) {
	for _, c := range []struct {
		name, coding string
		level        int
	}{{"level1", "", 1}, {"level6", "", 6}, {"stored", "", -1}, {"gzip", "gzip", 1}} {
		for _, parallel := range []bool{false, true} {
			name := c.name
			if parallel {
				name += "-parallel"
			}
			b.Run(name, func(b *testing.B) {
				cfg := testConfig(b.TempDir())
				cfg.Level, cfg.RevisitBytes = c.level, -1
				w, _, err := Open(cfg)
				must.Do(b, err)
				xs := benchPages(c.coding)
				var end, pages int64
				runtime.GC()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if parallel {
					b.RunParallel(func(pb *testing.PB) {
						for i := 0; pb.Next(); i++ {
							if _, err := w.Write(xs[i%len(xs)]); err != nil {
								b.Error(err)
							}
						}
					})
					_, end = w.Position()
					pages = int64(b.N)
				} else {
					for i := 0; b.Loop(); i++ {
						done, err := w.Write(xs[i%len(xs)])
						must.Do(b, err)
						end = done.End
						pages++
					}
				}
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(pages)/b.Elapsed().Seconds(), "pages/s")
				if end > 0 && end < 1e9 && pages*3000 < 1e9 {
					b.ReportMetric(float64(end)/float64(pages), "B/page")
				}
				b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(pages), "mallocs/page")
				must.Do(b, w.Close())
			})
		}
	}
}

// BenchmarkRevisit archives pages whose payload the Writer knows.
func BenchmarkRevisit(b *testing.B) {
	w, _, err := Open(testConfig(b.TempDir()))
	must.Do(b, err)
	xs := benchPages("")
	for _, x := range xs {
		if _, err := w.Write(x); err != nil {
			b.Fatal(err)
		}
	}
	n := 0
	for i := 0; b.Loop(); i++ {
		done, err := w.Write(xs[i%len(xs)])
		if err != nil || !done.Revisit {
			b.Fatalf("error %v, revisit %v, want a revisit", err, done.Revisit)
		}
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "pages/s")
	must.Do(b, w.Close())
}
