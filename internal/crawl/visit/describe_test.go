package visit

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// wires answers URLs with bytes, and all others with 404.
type wires struct {
	of  *fetch.Fetcher
	web map[string]string
}

func (w wires) Fetch(_ context.Context, r fetch.Request) (*fetch.Response, error) {
	wire := w.web[r.URL.String()]
	if wire == "" {
		wire = "HTTP/1.1 404 Not Found\r\n\r\n"
	}
	return w.of.Replay(fetch.Received{URL: r.URL, Began: time.Unix(1e9, 0).UTC(), Size: int64(len(wire)),
		Secure: fetch.Secure{Version: tls.VersionTLS12, Cipher: tls.TLS_AES_128_GCM_SHA256}}, strings.NewReader(wire))
}

// What the records say of a response besides its bytes.
func TestRecordsTell(t *testing.T) {
	ok := func(fields, body string) string {
		return "HTTP/1.1 200 OK\r\n" + strings.ReplaceAll(fields, "\n", "\r\n") + "\r\n\r\n" + body
	}
	var many, most strings.Builder
	for i := range maxOutlinks + 7 {
		fmt.Fprintf(&many, "<a href=/%d>", i)
		if i < maxOutlinks {
			fmt.Fprintf(&most, "; outlink: http://a.example/%d L a/@href", i)
		}
	}
	const base = "fetchTimeMs: 0; via: http://a.example/; hopsFromSeed: L; sourceTag: a.example"
	for _, c := range []struct {
		name, wire, payload, tells string
		outlinks                   bool
	}{
		{"HTML", ok("Content-Type: text/html", "<!DOCTYPE html><html lang=de-AT><meta charset=koi8-r>"),
			"text/html", base + "; charsetForLinkExtraction: KOI8-R; languages: deu", false},
		{"header", ok("Content-Type: text/html; charset=utf-8\nContent-Language: fr, en", "<html><p>x"),
			"text/html", base + "; charsetForLinkExtraction: UTF-8; languages: fra,eng", false},
		{"image", ok("Content-Type: text/html", "\x89PNG\r\n\x1a\nx"), "image/png",
			base + "; charsetForLinkExtraction: windows-1252", false},
		{"no page", ok("Content-Type: image/png", "\x89PNG\r\n\x1a\nx"), "image/png", base, false},
		{"nothing", ok("Content-Type: text/html", ""), "", base + "; charsetForLinkExtraction: windows-1252", false},
		{"error", "HTTP/1.1 500 Oops\r\nContent-Type: text/html\r\n\r\n<html lang=en>", "text/html", base, false},
		{"hostile", ok("Content-Type: text/html; charset="+strings.Repeat("x", 10_000)+
			"\nContent-Language: \x01\xff", "<html lang='"+strings.Repeat("de", 900)+"'>"),
			"text/html", base + "; charsetForLinkExtraction: windows-1252", false},
		{"outlinks", ok("Content-Type: text/html; charset=utf-8\nLink: </l>; rel=canonical",
			"<html><a href=/1>1</a><a href='/2 \u00fc' rel=nofollow>2</a><img src=i.png>"), "text/html",
			base + "; charsetForLinkExtraction: UTF-8; outlink: http://a.example/l L Link:; " +
				"outlink: http://a.example/1 L a/@href; outlink: http://a.example/2%20%C3%BC L a/@href", true},
		{"redirect", "HTTP/1.1 301 Moved\r\nLocation: /2\u00fc \x01\r\n\r\n", "",
			base + "; outlink: http://a.example/2%C3%BC R Location:", true},
		{"bad redirect", "HTTP/1.1 301 Moved\r\nLocation: http://[\r\n\r\n", "", base, true},
		{"too many", ok("Content-Type: text/html; charset=utf-8", "<html>"+many.String()), "text/html",
			base + "; charsetForLinkExtraction: UTF-8" + most.String() + "; outlinksLeftOut: 7", true},
	} {
		at := "http://a.example/p"
		with := func(cfg *Config, p *Parts) {
			cfg.Outlinks = c.outlinks
			p.Fetch = wires{p.Fetch.(*fetch.Fetcher), map[string]string{at: c.wire}}
		}
		on(t, c.name, "http://a.example/", with, func(b *bench) {
			b.visited(to(at))
			b.end()
			kept := testparts.Captures(b, b.mem, at)
			if len(kept) != 1 {
				b.Fatalf("%d captures, want 1", len(kept))
			}
			h := kept[0].Header
			if got := h.Value("WARC-Identified-Payload-Type"); got != c.payload {
				b.Errorf("the payload is %q, want %q", got, c.payload)
			}
			if h.Value("WARC-Protocol") != "http/1.1" || h.Value("WARC-Cipher-Suite") != "TLS_AES_128_GCM_SHA256" {
				b.Errorf("got %v", h)
			}
			if got := b.metadata(at); got != c.tells {
				b.Errorf("the metadata record says\n%s\nwant\n%s", got, c.tells)
			}
		})
	}
}

// metadata returns the fields of the metadata record of a URL.
func (b *bench) metadata(url string) (fields string) {
	testparts.Records(b, b.mem, func(rec *warc.Record) {
		if rec.Type() == "metadata" && rec.URL() == url {
			block, err := io.ReadAll(rec)
			b.must(err)
			fields = strings.Join(strings.Split(strings.TrimSpace(string(block)), "\r\n"), "; ")
		}
	})
	return fields
}

// The metadata record of a seed says so.
func TestSeedIsTold(t *testing.T) {
	on(t, "", "http://a.example/ /1", nil, func(b *bench) {
		b.visited(link.Link{URL: weburl.MustParse("http://a.example/"), Seed: "a.example"})
		b.end()
		got := b.metadata("http://a.example/")
		if !strings.HasPrefix(got, "seed: ; fetchTimeMs: ") || !strings.Contains(got, "; sourceTag: a.example") {
			b.Errorf("got %s", got)
		}
	})
}
