package earlier

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// BenchmarkWrite archives pages of 22 KB without earlier crawls, with earlier crawls of a million payloads that have
// none of the pages, and with such that have all of them.
func BenchmarkWrite(b *testing.B) {
	const payloads = 1_000_000
	old := b.TempDir() + "/old.cdxj"
	f := must.Get(os.Create(old))(b)
	var page [22 << 10]byte
	copy(page[:], strings.Repeat("the text of a page ", 2000))
	body := func(n int) []byte { copy(page[:], fmt.Sprintf("%09d", n)); return page[:] }
	for i := range payloads {
		text := fmt.Sprint("another ", i)
		if i < 20_000 {
			text = string(body(i))
		}
		fmt.Fprint(f, line(fmt.Sprintf("http://a.example/some/path/%d", i), "20260101000000", text))
	}
	must.Do(b, f.Close())
	p := New(Config{FS: disk.OS, Dir: b.TempDir(), Paths: []string{old}, MemoryBytes: 1 << 26})
	must.Do(b, os.MkdirAll(p.cfg.Dir+"/state", 0o755))
	_, err := p.Open(context.Background(), &told{})
	must.Do(b, err)
	defer p.Close()
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
	for _, kind := range []string{"none", "unknown", "known"} {
		b.Run(kind, func(b *testing.B) {
			cfg := warc.Config{Dir: b.TempDir(), RevisitBytes: -1}
			if kind != "none" {
				cfg.Earlier = p
			}
			w, _, err := warc.Open(cfg)
			must.Do(b, err)
			defer w.Close()
			wire := []byte(head)
			for n := 0; b.Loop(); n++ {
				at := n % 20_000
				if kind == "unknown" {
					at += payloads
				}
				wire = append(wire[:len(head)], body(at)...)
				done, err := w.Write(&warc.Exchange{URL: "http://a.example/", Began: time.Unix(1e9, 0), HTTP: true,
					Response: warc.Bytes(wire), HeadLen: len(head)})
				if err != nil || done.Revisit != (kind == "known") {
					b.Fatal(done, err)
				}
			}
		})
	}
}
