package warclinks

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/parse"
)

// needed returns what pages need, as "page hops via seed: file file".
func needed(t *testing.T, c Config, files ...string) (pages []string, res Result) {
	t.Helper()
	res = must.Get(Requisites(t.Context(), files, c, func(page link.Link, links []parse.Link) error {
		text := page.URL.String() + " " + page.Hops + " " + page.Via + " " + page.Seed + ":"
		for _, l := range links {
			text += " " + l.URL.String()
		}
		pages = append(pages, text)
		return nil
	}))(t)
	return pages, res
}

func TestRequisites(t *testing.T) {
	files := archived(t, map[string]string{
		"http://a.example/":           "text/html\n<a href=/1>x</a><img src=i.png><link rel=stylesheet href=s.css>",
		"http://a.example/1":          "text/html\n<img src=/same.png>",
		"http://b.example/1":          "text/html\n<img src=/same.png>", // a revisit record
		"http://a.example/s.css":      "text/css\n@import url(t.css); a { background: url(b.png) }",
		"http://a.example/robots.txt": "text/html\n<img src=/robots.png>",
		"http://a.example/404":        "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n<img src=/404.png>",
		"http://c.example/x/":         "text/html\n<p>x<img src=y.png>",
		"http://d.example/x/":         "text/html\n<p>x<img src=y.png>",
		"http://a.example/t.txt":      "text/plain\n<img src=/text.png>",
	})
	pages, res := needed(t, Config{}, files...)
	slices.Sort(pages)
	equal(t, pages,
		"http://a.example/ L  : http://a.example/i.png http://a.example/s.css",
		"http://a.example/1 L  : http://a.example/same.png",
		"http://a.example/s.css L  : http://a.example/t.css http://a.example/b.png",
		"http://a.example/t.txt L  :",
		"http://c.example/x/ L  : http://c.example/x/y.png",
		"http://d.example/x/ L  : http://d.example/x/y.png",
		"http://b.example/1 L  : http://b.example/same.png")
	if res.Cut != 0 || res.Damaged != 0 || res.NoOriginal != 0 || res.Records == 0 {
		t.Errorf("%+v", res)
	}
}

// A metadata record says how the crawl found the page before it. Records of others and damaged ones say nothing.
func TestRequisitesPath(t *testing.T) {
	record := func(kind, id, about, mime, url, body string) string {
		head := "WARC/1.1\r\nWARC-Type: " + kind + "\r\nWARC-Record-ID: " + id + "\r\n" +
			"WARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Target-URI: " + url + "\r\nContent-Type: " + mime + "\r\n"
		if about != "" {
			head += "WARC-Concurrent-To: " + about + "\r\n"
		}
		return head + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body + "\r\n\r\n"
	}
	page := func(n, url string) string {
		return record("response", "<urn:"+n+">", "", "application/http;msgtype=response", url,
			"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<img src=/"+n+".png>")
	}
	about := func(n, fields string) string {
		return record("metadata", "<urn:m"+n+">", "<urn:"+n+">", "application/warc-fields", "http://a.example/", fields)
	}
	name := t.TempDir() + "/x.warc"
	must.Do(t, os.WriteFile(name, []byte(
		page("1", "http://a.example/1")+
			about("1", "via: http://a.example/\r\nhopsFromSeed: LLE\r\nsourceTag: a.example\r\n")+
			page("2", "http://a.example/2")+about("9", "hopsFromSeed: LLLL\r\n")+
			page("3", "http://a.example/robots.txt")+about("3", "hopsFromSeed: P\r\n")+
			page("4", "http://b.example/robots.txt")+about("4", "seed: \r\nhopsFromSeed:\r\n")+
			page("5", "http://a.example/5")+about("5", "no fields")), 0o644))
	pages, _ := needed(t, Config{}, name)
	slices.Sort(pages)
	equal(t, pages,
		"http://a.example/1 LLE http://a.example/ a.example: http://a.example/1.png",
		"http://a.example/2 L  : http://a.example/2.png",
		"http://a.example/5 L  : http://a.example/5.png",
		"http://b.example/robots.txt   : http://b.example/4.png")
}

// A damaged archive, a body that is too long, and a stop have counted or certain ends.
func TestRequisitesHostile(t *testing.T) {
	files := archived(t, map[string]string{
		"http://a.example/": "text/html\n<img src=i.png>" + strings.Repeat(" ", 1000) + "<img src=j.png>",
	})
	pages, res := needed(t, Config{MaxDecoded: 500}, files...)
	equal(t, pages, "http://a.example/ L  : http://a.example/i.png")
	if res.Cut != 1 {
		t.Errorf("%d pages cut", res.Cut)
	}
	whole := must.Get(os.ReadFile(files[0]))(t)
	for n := 0; n < len(whole); n += 5 {
		must.Do(t, os.WriteFile(files[0], whole[:n], 0o644))
		needed(t, Config{}, files...)
		must.Do(t, os.WriteFile(files[0], bytes.ReplaceAll(whole, whole[n:n+1], []byte{0}), 0o644))
		needed(t, Config{}, files...)
	}
	must.Do(t, os.WriteFile(files[0], whole, 0o644))
	stop := errors.New("stop")
	_, err := Requisites(t.Context(), files, Config{Sort: extsort.Config{Stop: &stopAt{at: 1, err: stop}}},
		func(link.Link, []parse.Link) error { return nil })
	if !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	_, err = Requisites(t.Context(), files, Config{}, func(link.Link, []parse.Link) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}
