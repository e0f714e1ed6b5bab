package fetch

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
)

// BenchmarkKeepAlive fetches a page of the web's mean size over a kept loopback connection. The
// cost includes the server.
func BenchmarkKeepAlive(b *testing.B) {
	page := strings.Repeat("<a href=/x>link</a>\n", 22_300/20)
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(page), page)
	for _, c := range []struct{ name, reply string }{
		{"length",
			fmt.Sprintf("HTTP/1.1 200 OK\r\nServer: x\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s",
				len(page), page)},
		{"chunked", "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n" +
			chunked},
	} {
		b.Run(c.name, func(b *testing.B) {
			addr := netip.MustParseAddrPort(loopback(b, lean(c.reply)))
			benchmark(b, Config{AllowPrivate: true}, fmt.Sprintf("http://a.example:%d/", addr.Port()), addr.Addr())
		})
	}
	b.Run("tls", func(b *testing.B) {
		ca := newAuthority(b)
		serve := serveTLS(ca.config("a.example"),
			lean(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(page), page)))
		addr := netip.MustParseAddrPort(loopback(b, func(c net.Conn) { serve(c) }))
		benchmark(b, Config{AllowPrivate: true, CA: ca.pool}, fmt.Sprintf("https://a.example:%d/", addr.Port()),
			addr.Addr())
	})
}

// lean answers each read with the same bytes and allocates nothing.
func lean(reply string) func(net.Conn) {
	return func(c net.Conn) {
		buf, out := make([]byte, 4096), []byte(reply)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
			if _, err := c.Write(out); err != nil {
				return
			}
		}
	}
}

func benchmark(b *testing.B, cfg Config, url string, addr netip.Addr) {
	f := mustNew(b, cfg)
	req := Request{URL: mustURL(b, url), Addr: addr}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var bytes int64
	b.ReportAllocs()
	for b.Loop() {
		r, err := f.Fetch(ctx, req)
		if err != nil || r.Failure != nil || r.Truncated != "" {
			b.Fatal(err, outcome(r))
		}
		body, _, err := r.Decode(1 << 20)
		if err != nil || len(body) != 22_300 {
			b.Fatal(len(body), err)
		}
		bytes += r.Wire.Size()
		r.Release()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pages/s")
	b.SetBytes(bytes / int64(b.N))
}

// BenchmarkDecode undoes one coding of a page.
func BenchmarkDecode(b *testing.B) {
	page := []byte(strings.Repeat("<p>The quick brown fox <a href=/x>jumps</a> over the lazy dog.</p>\n", 22_300/67))
	for _, c := range []string{"gzip", "deflate", "br", "zstd"} {
		b.Run(c, func(b *testing.B) {
			r := response(b, coded(b, page, c), c, 1<<20)
			b.SetBytes(int64(len(page)))
			b.ReportAllocs()
			for b.Loop() {
				if got, _, err := r.Decode(1 << 20); err != nil || len(got) != len(page) {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}
