//go:build unix

package warc

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testcost"
)

// A visited is a page as a worker of a crawl has it after the fetch.
type visited struct {
	url, via  string
	wire, req []byte
	head      int // length of the HTTP header
	mark      int // offset in wire of the bytes that make the page unique
}

// visitedPages returns n pages of 22.3 KB with 50 links, each on a host of its own.
func visitedPages(n int, coding string) []visited {
	rnd := rand.New(rand.NewPCG(1, 1))
	var words []string
	for range 2000 {
		var b strings.Builder
		for range 2 + rnd.IntN(8) {
			b.WriteByte("eeeetttaaoooinnnsshhrrrdlcumwfgypbvk"[rnd.IntN(36)])
		}
		words = append(words, b.String())
	}
	word := func() string { return words[int(rnd.ExpFloat64()*100)%2000] }
	pages := make([]visited, n)
	for i := range pages {
		var b strings.Builder
		fmt.Fprintf(&b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\n<title>%s %s</title>\n"+
			"</head>\n<body>\n", word(), word())
		for links := 0; b.Len() < 22300; {
			b.WriteString("<p>")
			for range 30 {
				b.WriteString(word() + " ")
				if links < 50 && rnd.IntN(60) == 0 {
					links++
					fmt.Fprintf(&b, "<a href=\"http://h%06d.example/%s/%d.html\">%s</a> ", rnd.IntN(20000), word(),
						rnd.IntN(1000), word())
				}
			}
			b.WriteString("</p>\n")
		}
		body := b.String()[:22300]
		head := fmt.Sprintf("HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Mon, 06 May 2024 07:08:09 GMT\r\n"+
			"Content-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\nLast-Modified: Sat, 04 May 2024 "+
			"10:00:00 GMT\r\nConnection: keep-alive\r\nCache-Control: max-age=600\r\nVary: Accept-Encoding\r\n\r\n",
			len(body))
		if coding == "gzip" {
			body = gzipped(body)
			head = strings.Replace(head, "Vary:", "Content-Encoding: gzip\r\nVary:", 1)
		}
		host := fmt.Sprintf("h%06d.example", i*7)
		v := visited{
			url:  fmt.Sprintf("http://%s/%s/%d.html", host, word(), i),
			via:  fmt.Sprintf("http://h%06d.example/%s/%d.html", rnd.IntN(20000), word(), rnd.IntN(1000)),
			wire: []byte(head + body), head: len(head), mark: len(head) + 300,
		}
		v.req = fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: orbweaver/0.3.0 "+
			"(+https://crawler.example.org/about; operator@example.org)\r\nFrom: operator@example.org\r\nAccept: "+
			"text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en;q=0.8,*;q=0.5\r\n"+
			"Accept-Encoding: gzip, br, zstd\r\nReferer: %s\r\nConnection: keep-alive\r\n\r\n",
			v.url[len("http://")+len(host):], host, v.via)
		pages[i] = v
	}
	return pages
}

// archive archives a page with a Writer, as a crawl does. serial makes its payload unique.
func (v *visited) archive(w *Writer, serial uint64) error {
	v.stamp(serial)
	x := Exchange{
		URL: v.url, Addr: testAddr, Began: testTime.Add(time.Duration(serial) * time.Millisecond), Request: v.req,
		Response: Bytes(v.wire), HTTP: true, HeadLen: v.head,
		Metadata: []Field{
			{"fetchTimeMs", strconv.FormatUint(serial%100, 10)}, {"via", v.via}, {"hopsFromSeed", "LLL"},
			{"sourceTag", "h000000.example"}, {"charset", "utf-8"},
		},
	}
	_, err := w.Write(&x)
	return err
}

func (v *visited) stamp(serial uint64) {
	const letters = "etaoinshrdlucmfw"
	for i := range 8 {
		v.wire[v.mark+i] = letters[serial>>(4*i)&15]
	}
}

// A bare is a minimal archiver: it writes a response record with a short header and one digest into one file. It
// compresses the record unless the body is compressed already.
type bare struct {
	mu  *sync.Mutex // guards w
	w   *bufio.Writer
	out bytes.Buffer
	zw  *gzip.Writer
}

func newBare(mu *sync.Mutex, w *bufio.Writer) *bare {
	b := &bare{mu: mu, w: w}
	b.zw, _ = gzip.NewWriterLevel(&b.out, 1)
	return b
}

func (b *bare) write(v *visited, compressed bool, serial uint64) {
	v.stamp(serial)
	body := v.wire[v.head:]
	head := fmt.Appendf(nil, "WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: %s\r\nWARC-Payload-Digest: "+
		"sha1:%x\r\nContent-Length: %d\r\n\r\n", v.url, sha1.Sum(body), len(body))
	b.out.Reset()
	if compressed {
		bareStored(&b.out, head, body)
	} else {
		b.zw.Reset(&b.out)
		b.zw.Write(head)
		b.zw.Write(body)
		io.WriteString(b.zw, "\r\n\r\n")
		b.zw.Close()
	}
	b.mu.Lock()
	b.w.Write(b.out.Bytes())
	b.mu.Unlock()
}

func bareStored(out *bytes.Buffer, head, body []byte) {
	n := len(head) + len(body) + 4
	out.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1})
	out.Write(binary.LittleEndian.AppendUint16(nil, uint16(n)))
	out.Write(binary.LittleEndian.AppendUint16(nil, ^uint16(n)))
	from := out.Len()
	out.Write(head)
	out.Write(body)
	out.WriteString("\r\n\r\n")
	sum := crc32.ChecksumIEEE(out.Bytes()[from:])
	out.Write(binary.LittleEndian.AppendUint32(nil, sum))
	out.Write(binary.LittleEndian.AppendUint32(nil, uint32(n)))
}

// BenchmarkAgainstBare archives pages in turn with a Writer and with a minimal archiver (bare), and compares their CPU
// time. Both write to a file. The Writer flushes as often as in a crawl at 5,000 pages/s.
func BenchmarkAgainstBare(b *testing.B) {
	for _, coding := range []string{"identity", "gzip"} {
		for _, workers := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", coding, workers), func(b *testing.B) {
				dir := b.TempDir()
				cfg := testConfig(dir)
				cfg.MaxBytes = 1 << 40
				w, _, err := Open(cfg)
				must.Do(b, err)
				f, err := os.Create(filepath.Join(dir, "bare"))
				must.Do(b, err)
				out := bufio.NewWriterSize(f, 1<<20)
				const round = 512
				pages := visitedPages(round, coding)
				bares := make([]*bare, workers)
				var mu sync.Mutex
				for i := range bares {
					bares[i] = newBare(&mu, out)
				}
				run := func(fn func(worker int, v *visited, serial uint64), base uint64) time.Duration {
					from := testcost.CPU()
					var wg sync.WaitGroup
					for k := range workers {
						wg.Go(func() {
							for i := k; i < round; i += workers {
								fn(k, &pages[i], base+uint64(i))
							}
						})
					}
					wg.Wait()
					return testcost.CPU() - from
				}
				var us, them time.Duration
				var n, mallocs uint64
				var before, after runtime.MemStats
				for b.Loop() {
					runtime.ReadMemStats(&before)
					us += run(func(_ int, v *visited, serial uint64) {
						if err := v.archive(w, serial); err != nil {
							b.Error(err)
						}
					}, n)
					from := testcost.CPU()
					must.Do(b, w.Flush())
					us += testcost.CPU() - from
					runtime.ReadMemStats(&after)
					mallocs += after.Mallocs - before.Mallocs
					them += run(func(k int, v *visited, serial uint64) { bares[k].write(v, coding == "gzip", serial) },
						n)
					n += round
					must.Do(b, f.Truncate(0))
				}
				_, end := w.Position()
				b.ReportMetric(us.Seconds()*1e6/float64(n), "ours-µs/page")
				b.ReportMetric(them.Seconds()*1e6/float64(n), "bare-µs/page")
				b.ReportMetric(us.Seconds()/them.Seconds(), "ours/bare")
				b.ReportMetric(float64(mallocs)/float64(n), "mallocs/page")
				b.ReportMetric(float64(end)/float64(n), "B/page")
				b.ReportMetric(0, "ns/op")
				must.Do(b, w.Close())
				must.Do(b, f.Close())
			})
		}
	}
}

// BenchmarkRemember looks up and adds new payloads, far more than fit into the table. At the end it reports how many
// the table kept, and their size.
func BenchmarkRemember(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r := newRevisits(32 << 20)
	n := uint64(0)
	for ; b.Loop(); n++ {
		var d [20]byte
		binary.LittleEndian.PutUint64(d[:], n*0x9e3779b97f4a7c15)
		binary.LittleEndian.PutUint64(d[8:], n)
		if _, ok := r.find(&d); ok {
			b.Fatal("found a payload that was not added")
		}
		r.add(&d, Original{URL: "http://h000123.example/section/page-4567.html", Date: testTime})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	heap, kept := float64(after.HeapAlloc-before.HeapAlloc), float64(r.young.count+r.old.count)
	b.ReportMetric(heap/1e6, "MB")
	b.ReportMetric(kept, "payloads")
	b.ReportMetric(heap/kept, "B/payload")
	runtime.KeepAlive(r)
}

// BenchmarkAppend measures the part of Write that runs under the lock. Everything else runs in parallel.
func BenchmarkAppend(b *testing.B) {
	for _, coding := range []string{"identity", "gzip"} {
		b.Run(coding, func(b *testing.B) {
			cfg := testConfig(b.TempDir())
			cfg.RevisitBytes = 1 << 30 // so that all payloads are new
			w, _, err := Open(cfg)
			must.Do(b, err)
			v := &visitedPages(1, coding)[0]
			g := newGroup(1, largeBytes, nil)
			x := Exchange{
				URL: v.url, Addr: testAddr, Began: testTime, Request: v.req, Response: Bytes(v.wire), HTTP: true,
				HeadLen: v.head, Metadata: []Field{{"via", v.via}},
			}
			if _, err := g.encode(&x, w); err != nil {
				b.Fatal(err)
			}
			line, n := len(g.cdx), uint64(0)
			for ; b.Loop(); n++ {
				g.cdx = g.cdx[:line]
				binary.LittleEndian.PutUint64(g.digest[:], n)
				_, tasks, err := w.append(&x, g)
				if err == errOtherFile {
					g.info, err = g.stream.info.Load(), nil
				}
				if err == nil && tasks {
					b.StopTimer()
					err = w.runTasks()
					b.StartTimer()
				}
				must.Do(b, err)
			}
			must.Do(b, w.Close())
		})
	}
}
