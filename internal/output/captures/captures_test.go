package captures

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testarchive"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func read(t *testing.T, a *Archive, url, at string) (text string, m *Message) {
	t.Helper()
	when, err := time.Parse(TimeFormat, at)
	must.Do(t, err)
	c, ok, err := a.Nearest(weburl.MustParse(url), when)
	if err != nil || !ok {
		t.Fatalf("%s at %s: %v, %v", url, at, ok, err)
	}
	m, err = a.Open(t.Context(), c)
	if err != nil {
		t.Fatalf("%s at %s: %v", url, at, err)
	}
	defer m.Close()
	b := must.Get(io.ReadAll(m.Body))(t)
	return string(b), m
}

func TestNearest(t *testing.T) {
	a := New(nil, warc.Places(
		testarchive.Write(t, map[string]string{
			"http://a.example/ @20260101000000":      "HTTP/1.1 301 Moved\r\nLocation: https://www.a.example/\r\n\r\n",
			"https://www.a.example/ @20260102000000": "text/html\nfirst",
			"https://b.example/ @20260102000000":     "text/plain\nonly https",
			"http://w.example/ @20260102000000":      "HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n",
			"http://m.example/ @20260102000000":      "HTTP/1.1 302 Found\r\nLocation: /there\r\n\r\n",
		}),
		testarchive.Write(t, map[string]string{
			"http://w.example/ @20260102000002": "text/html\nbehind the cookie",
			"http://m.example/ @20260102010000": "text/html\nan hour later",
		}),
		testarchive.Write(t, map[string]string{"https://www.a.example/ @20260601000000": "text/html\nsecond"}),
	), nil)
	for _, c := range []struct{ url, at, want string }{
		{"https://www.a.example/", "20250101000000", "first"},
		{"https://www.a.example/", "20260301000000", "first"},
		{"https://www.a.example/", "20260501000000", "second"},
		{"http://a.example/", "20260601000000", ""}, // the URL itself was a redirect
		{"http://w.example/", "20260101000000", "behind the cookie"},
		{"http://m.example/", "20260101000000", ""},
		{"https://a.example/", "20260101000000", "first"},         // a similar URL, but not the redirect
		{"http://www.b.example/", "20260101000000", "only https"}, // likewise
	} {
		if got, _ := read(t, a, c.url, c.at); got != c.want {
			t.Errorf("%s at %s: got %q, want %q", c.url, c.at, got, c.want)
		}
	}
	if _, ok, err := a.Nearest(weburl.MustParse("http://c.example/"), time.Now()); ok || err != nil {
		t.Errorf("a URL that is not there: %v, %v", ok, err)
	}
}

// A revisit has its own status and header, and the body of its original, which may be in another
// directory.
func TestRevisit(t *testing.T) {
	const gzipped = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcbH\xcd\xc9\xc9\x07\x00\x86\xa6\x106\x05\x00\x00\x00"
	const head = "\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nX-Which: "
	dir := testarchive.Write(t, map[string]string{
		"http://a.example/1 @20260101000000": "HTTP/1.1 200 OK" + head + "1\r\n\r\n" + gzipped,
		"http://a.example/2 @20260102000000": "HTTP/1.1 404 Not Found" + head + "2\r\n\r\n" + gzipped,
	})
	a := New(nil, warc.Places(dir), nil)
	text, m := read(t, a, "http://a.example/2", "20260101000000")
	if text != "hello" || m.Status != 404 || m.Header.Get("x-which") != "2" {
		t.Errorf("got %q, %d, %v", text, m.Status, m.Header)
	}
	all, err := a.Captures("http://a.example/2")
	if err != nil || len(all) != 1 || !all[0].Revisit() {
		t.Fatalf("%+v, %v", all, err)
	}
	all[0].in.Dir = testarchive.Write(t, map[string]string{"http://b.example/": "text/html\nx"})
	if _, err := New(nil, warc.Places(all[0].in.Dir), nil).Open(t.Context(), all[0]); err == nil {
		t.Error("a record of another directory is found")
	}
}

func TestNoIndex(t *testing.T) {
	a := New(nil, warc.Places(t.TempDir()), nil)
	if _, err := a.Captures("http://a.example/"); !errors.Is(err, ErrNoIndex) {
		t.Errorf("Captures: %v", err)
	}
	if _, _, err := a.Pages(t.Context(), Query{Max: 1}); !errors.Is(err, ErrNoIndex) {
		t.Errorf("Pages: %v", err)
	}
	if _, _, err := a.Hosts(t.Context(), "", 1); !errors.Is(err, ErrNoIndex) {
		t.Errorf("Hosts: %v", err)
	}
}

func TestLists(t *testing.T) {
	a := New(nil, warc.Places(
		testarchive.Write(t, map[string]string{
			"http://a.example/ @20260101000000":  "text/html\na",
			"http://a.example/x @20260101000000": "text/html\nx",
			"http://a.example/i.png":             "image/png\ni",
			"http://a.example/gone":              "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\nno",
			"http://b.example:8080/":             "text/html\nb",
			"http://c.example/":                  "HTTP/1.1 200 OK\r\n\r\n<!DOCTYPE html>no type",
			"http://c.example/lines": "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" +
				"Content-Type: text/html\r\n\r\nx",
			"http://c.example/none": "HTTP/1.1 404 Not Found\r\n\r\nnone",
		}),
		testarchive.Write(t, map[string]string{
			"http://a.example/ @20260601000000": "text/html\nlater",
			"http://sub.a.example/":             "text/html\nsub",
		}),
	), nil)
	list := func(q Query) (urls []string) {
		for {
			pages, next, err := a.Pages(t.Context(), q)
			must.Do(t, err)
			for _, p := range pages {
				urls = append(urls, p.Newest.URL)
			}
			if next == "" {
				return urls
			}
			if next <= q.From {
				t.Fatalf("the list goes back from %q to %q", q.From, next)
			}
			q.From = next
		}
	}
	same := func(name string, got []string, want ...string) {
		t.Helper()
		if len(got) != len(want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
			return
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s: got %q, want %q", name, got, want)
				return
			}
		}
	}
	pages := []string{"http://a.example/", "http://a.example/x", "http://sub.a.example/", "http://b.example:8080/",
		"http://c.example/", "http://c.example/lines"}
	for _, max := range []int{1, 2, 50} {
		same("pages", list(Query{Max: max}), pages...)
	}
	same("text", list(Query{Max: 9, Text: "/X"}), "http://a.example/x")
	same("host", list(Query{Max: 9, Host: "example,a)"}), "http://a.example/", "http://a.example/x")
	same("all", list(Query{Max: 9, Host: "example,a)", All: true}), "http://a.example/", "http://a.example/gone",
		"http://a.example/i.png", "http://a.example/x")
	var hosts []string
	for from, more := "", true; more; {
		some, next, err := a.Hosts(t.Context(), from, 2)
		must.Do(t, err)
		for _, h := range some {
			hosts = append(hosts, h.Name)
		}
		from, more = next, next != ""
	}
	same("hosts", hosts, "a.example", "sub.a.example", "b.example:8080", "c.example")
	found, _, err := a.Pages(t.Context(), Query{Max: 1})
	if err != nil || found[0].Captures != 2 || found[0].First != "20260101000000" ||
		found[0].Newest.Time != "20260601000000" {
		t.Errorf("%+v, %v", found, err)
	}
}

// If the file with an original is missing, another directory may have the same content. Bad lines of an index concern
// one capture.
func TestUnreadable(t *testing.T) {
	const same = "text/html\nthe same content in both"
	first := map[string]string{"http://a.example/ @20260101000000": same}
	both := map[string]string{"http://a.example/ @20260101000000": same, "http://b.example/ @20260102000000": same}
	dir, copied := testarchive.Write(t, both), testarchive.Write(t, first)
	a := New(nil, warc.Places(dir), warc.Places(copied))
	all, err := a.Captures("http://b.example/")
	if err != nil || len(all) != 1 || !all[0].Revisit() {
		t.Fatal(all, err)
	}
	own, err := a.Captures("http://a.example/")
	if err != nil || len(own) != 1 {
		t.Fatal(own, err)
	}
	index := filepath.Join(dir, "indexes", "index.cdxj")
	b := must.Get(os.ReadFile(index))(t)
	lost := strings.Replace(string(b), own[0].File, "lost.warc.gz", 1) // of the first line, that of the original
	must.Do(t, os.WriteFile(index, []byte(lost), 0o644))
	if text, _ := read(t, a, "http://b.example/", "20260102000000"); text != "the same content in both" {
		t.Errorf("got %q", text)
	}
	for want, change := range map[string]func(*Capture){
		"no such file":       func(c *Capture) { c.File = "lost.warc.gz" },
		"not in the archive": func(c *Capture) { c.File = "../crawl.yaml" },
		"no position":        func(c *Capture) { c.Offset = -1 },
		"ends before":        func(c *Capture) { c.Offset = 1 << 40 },
	} {
		c := own[0]
		change(&c)
		_, err := a.Open(t.Context(), c)
		if _, ok := errors.AsType[*warc.UnreadableError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("got the error %v, want one with %q", err, want)
		}
	}
}

// Several Content-Encoding fields are one list, as for the crawl. A small page that unpacks to any size ends early, and
// each read ends with its context.
func TestCodings(t *testing.T) {
	pack := func(s string, times int) string {
		for range times {
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			io.WriteString(w, s)
			w.Close()
			s = b.String()
		}
		return s
	}
	const head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: text/html\r\nContent-Encoding: gzip"
	bomb := pack(strings.Repeat("\x00\x00\x00\xff\xff", 1<<20), 2)
	a := New(nil, warc.Places(testarchive.Write(t, map[string]string{
		"http://a.example/ @20260101000000": head + "\r\n\r\n" + pack("hello", 2),
		"http://b.example/ @20260101000000": strings.Replace(head, "gzip", "deflate", 1) + ", gzip\r\n\r\n" + bomb,
	})), nil)
	if text, _ := read(t, a, "http://a.example/", "20260101000000"); text != "hello" {
		t.Errorf("got %q", text)
	}
	all, err := a.Captures("http://b.example/")
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	m := must.Get(a.Open(ctx, all[0]))(t)
	defer m.Close()
	if n, err := m.Body.Read(make([]byte, 9)); n != 0 || !errors.Is(err, message.ErrTooLong) {
		t.Errorf("got %d bytes, %v; want ErrTooLong", n, err)
	}
	again := must.Get(a.Open(ctx, all[0]))(t)
	defer again.Close()
	cancel()
	if n, err := again.Body.Read(make([]byte, 9)); n != 0 || err != context.Canceled {
		t.Errorf("after the end of the context: %d bytes, %v", n, err)
	}
}
