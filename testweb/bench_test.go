package testweb

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkServe is one kept connection asking for a page of 22 KB: the cost
// of a request with all that is tracked about it, client included.
func BenchmarkServe(b *testing.B) {
	dir := b.TempDir()
	write(b, dir, "page.html", "<!doctype html><meta charset=utf-8>"+strings.Repeat("words and more words, ", 1000))
	w := serving(b, Config{Folders: []Folder{{Host: "a.example", Dir: dir}}})
	a, _ := w.Lookup("a.example")
	c, err := net.Dial("tcp", net.JoinHostPort(a.String(), fmt.Sprint(w.HTTPPort())))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	in := bufio.NewReaderSize(c, 64<<10)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		fmt.Fprintf(c, "GET /page.html?%d HTTP/1.1\r\nHost: a.example\r\n\r\n", n)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "pages/s")
}
