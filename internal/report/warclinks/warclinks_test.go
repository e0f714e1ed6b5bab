package warclinks

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testarchive"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/web/parse"
)

// read returns the links of files as "page -> target kind", sorted, and the pages that have a status.
func read(t *testing.T, c Config, files ...string) (links, pages []string, res Result) {
	t.Helper()
	c.Sort.Prefix = filepath.Join(t.TempDir(), "s")
	res = must.Get(Read(t.Context(), files, c, func(p *linklog.PageLine, status, has bool) error {
		if status {
			pages = append(pages, fmt.Sprintf("%s %d", p.URL, p.Status))
		}
		for _, l := range p.Links {
			if !has {
				t.Errorf("%s has links, but they do not count", p.URL)
			}
			links = append(links, fmt.Sprintf("%s -> %s %s", p.URL, l.Target, l.Kind))
		}
		return nil
	}))(t)
	if left, _ := filepath.Glob(c.Sort.Prefix + "*"); len(left) > 0 {
		t.Errorf("temporary files are left: %q", left)
	}
	slices.Sort(links)
	slices.Sort(pages)
	return links, pages, res
}

func archived(t *testing.T, responses map[string]string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(testarchive.Write(t, responses), "archive", "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	return files
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestPages(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprint(z, `<a href=zipped>`)
	z.Close()
	files := archived(t, map[string]string{
		"http://a.example/": "text/html\n<a href=1>one</a><a rel=nofollow href=2>two</a><img src=i.png>",
		// The newest counts.
		"http://a.example/twice @20260101000000": "text/html\n<a href=old>",
		"http://a.example/twice @20260102000000": "text/html\n<a href=new>",
		// Its links still hold.
		"http://a.example/same @20260101000000": "text/html\n<a href=kept>",
		"http://a.example/same @20260102000000": "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n",
		// Its links no longer hold.
		"http://a.example/gone @20260101000000": "text/html\n<a href=lost>",
		"http://a.example/gone @20260102000000": "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n<a href=x>",
		"http://a.example/moved":                "HTTP/1.1 302 Found\r\nLocation: /there\r\n\r\n<a href=x>",
		"http://a.example/zipped": "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n" +
			zipped.String(),
		"http://a.example/chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"9\r\n<a href=c\r\n1\r\n>\r\n0\r\n\r\n",
		"http://a.example/types": "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Type: text/html\r\n" +
			"Content-Encoding: identity\r\nContent-Encoding: gzip\r\n\r\n" + zipped.String(),
		"http://a.example/robots.txt": "HTTP/1.1 301 Moved\r\nLocation: /elsewhere\r\n\r\n",
		"http://a.example/text":       "text/plain\n<a href=x>",
	})
	want := []string{
		"http://a.example/ -> http://a.example/1 a@href", "http://a.example/ -> http://a.example/2 a@href",
		"http://a.example/twice -> http://a.example/new a@href",
		"http://a.example/same -> http://a.example/kept a@href",
		"http://a.example/moved -> http://a.example/there redirect",
		"http://a.example/zipped -> http://a.example/zipped a@href",
		"http://a.example/chunked -> http://a.example/c a@href",
		"http://a.example/types -> http://a.example/zipped a@href",
	}
	links, pages, res := read(t, Config{}, files...)
	equal(t, links, want...)
	equal(t, pages, "http://a.example/ 200", "http://a.example/twice 200", "http://a.example/same 304",
		"http://a.example/gone 404", "http://a.example/moved 302", "http://a.example/zipped 200",
		"http://a.example/chunked 200", "http://a.example/types 200", "http://a.example/text 200")
	if res.Damaged+res.NoOriginal+res.Cut != 0 || res.Records < 20 {
		t.Errorf("%+v", res)
	}
	links, _, _ = read(t, Config{Parse: parse.Options{Requisites: true}, Sort: extsort.Config{Memory: 500}}, files...)
	equal(t, links, append(want, "http://a.example/ -> http://a.example/i.png img@src")...)
	links, _, res = read(t, Config{MaxDecoded: 14}, files...)
	equal(t, links, slices.DeleteFunc(want, func(l string) bool {
		return strings.HasSuffix(l, "example/2 a@href") || strings.HasSuffix(l, "zipped a@href")
	})...)
	if res.Cut != 2 {
		t.Errorf("with 14 bytes of a page: %+v", res)
	}
}

// A revisit has the links of its original, resolved against its own URL.
func TestRevisits(t *testing.T) {
	first := archived(t, map[string]string{
		"http://a.example/x/ @20260101000000": "text/html\n<a href=rel>",
		"http://b.example/y/ @20260102000000": "text/html\n<a href=rel>",
		"http://b.example/z/ @20260103000000": "text/html\n<a href=other>",
		"http://b.example/z/ @20260104000000": "text/html\n<a href=rel>",
		"http://b.example/i1 @20260101000000": "image/png\nx",
		"http://b.example/i2 @20260102000000": "image/png\nx",
	})
	links, pages, res := read(t, Config{}, first...)
	want := []string{"http://a.example/x/ -> http://a.example/x/rel a@href",
		"http://b.example/y/ -> http://b.example/y/rel a@href", "http://b.example/z/ -> http://b.example/z/rel a@href"}
	equal(t, links, want...)
	if len(pages) != 5 || res.NoOriginal != 0 {
		t.Errorf("pages %q, %+v", pages, res)
	}
	// Without the original the pages have no links.
	b := must.Get(os.ReadFile(first[0]))(t)
	at := bytes.Index(b, []byte("Target-URI: http://b.example/y/"))
	if at < 0 {
		t.Fatal("the record is compressed")
	}
	at = bytes.LastIndex(b[:at], []byte{0x1f, 0x8b, 8})
	later := filepath.Join(t.TempDir(), "later.warc.gz")
	must.Do(t, os.WriteFile(later, b[at:], 0o644))
	links, _, res = read(t, Config{}, later)
	if len(links) != 0 || res.NoOriginal != 2 {
		t.Errorf("without the original: %q, %+v", links, res)
	}
	links, _, res = read(t, Config{}, later, first[0])
	equal(t, links, want...)
	if res.NoOriginal != 0 {
		t.Errorf("with it in a later file: %+v", res)
	}
}

// Any cut and any damage is counted or leaves the result as it is, and never changes other pages.
func TestDamage(t *testing.T) {
	responses := map[string]string{}
	for i := range 6 {
		responses[fmt.Sprintf("http://a.example/%d", i)] = fmt.Sprintf("text/html\n<a href=to%d>", i)
	}
	whole := must.Get(os.ReadFile(archived(t, responses)[0]))(t)
	name := filepath.Join(t.TempDir(), "x.warc.gz")
	for at := 0; at < len(whole); at += 97 {
		for _, cut := range []bool{true, false} {
			b := slices.Clone(whole)
			if b[at] ^= 0x55; cut {
				b = b[:at]
			}
			must.Do(t, os.WriteFile(name, b, 0o644))
			links, pages, res := read(t, Config{}, name)
			for _, l := range links {
				from, to, _ := strings.Cut(l, " -> ")
				if to != strings.Replace(from, "example/", "example/to", 1)+" a@href" {
					t.Fatalf("byte %d: %s", at, l)
				}
			}
			// A few bytes of a gzip header mean nothing.
			if len(pages) > 6 || !cut && (len(pages) < 5 || len(pages) == 5 && res.Damaged == 0) ||
				(res.Damaged > 0) != (res.First != "") {
				t.Fatalf("byte %d, cut %v: %d pages, %+v", at, cut, len(pages), res)
			}
		}
	}
}

// A stopAt is an extsort.Stop that ends the work at one of its calls.
type stopAt struct {
	n, at int
	err   error
}

func (s *stopAt) Err() error {
	if s.n++; s.n == s.at {
		return s.err
	}
	return nil
}

func TestStop(t *testing.T) {
	files := archived(t, map[string]string{"http://a.example/": "text/html\n<a href=1>"})
	stop := errors.New("stop")
	for at := 1; ; at++ {
		ends := &stopAt{at: at, err: stop}
		sort := extsort.Config{Prefix: filepath.Join(t.TempDir(), "s"), Stop: ends}
		_, err := Read(t.Context(), files, Config{Sort: sort}, func(*linklog.PageLine, bool, bool) error { return nil })
		if ends.n < at {
			break
		}
		if !errors.Is(err, stop) {
			t.Fatalf("at call %d: %v", at, err)
		}
	}
	done, total := int64(0), int64(0)
	_, err := Read(t.Context(), files, Config{Sort: extsort.Config{Prefix: filepath.Join(t.TempDir(), "s")},
		Step: func(d, of int64) { done, total = max(d, done), of }},
		func(*linklog.PageLine, bool, bool) error { return stop })
	if !errors.Is(err, stop) || done == 0 || done > total {
		t.Errorf("%v, %d of %d", err, done, total)
	}
	if _, err := Read(t.Context(), []string{t.TempDir()}, Config{}, nil); !errors.Is(err, errNotRegular) {
		t.Errorf("a directory: %v", err)
	}
}

// Files of other crawlers.
func TestForeign(t *testing.T) {
	data := filepath.Join("..", "..", "..", "..", "shared", "data", "warc")
	if _, err := os.Stat(data); err != nil {
		testneed.Missing(t, err)
	}
	for _, c := range []struct {
		file         string
		pages, links int
	}{
		{"warcio/example.warc.gz", 1, 1}, // and a revisit
		{"warcio/example-resource.warc.gz", 1, 1},
		{"pywb/iana.warc.gz", 43, 2657},
		{"ukwa/IAH-urls-wget.warc.gz", 12, 118},
		{"jwat/IAH-20080430204825-00000-blackbook.warc.gz", 223, 20539},
	} {
		links, pages, res := read(t, Config{}, filepath.Join(data, c.file))
		if len(pages) != c.pages || len(links) != c.links || res.Damaged+res.NoOriginal+res.Cut != 0 {
			t.Errorf("%s: %d pages and %d links, want %d and %d; %+v", c.file, len(pages), len(links), c.pages, c.links,
				res)
		}
	}
	links, _, res := read(t, Config{}, filepath.Join(data, "pywb", "example-url-agnostic-revisit.warc.gz"),
		filepath.Join(data, "pywb", "example-url-agnostic-orig.warc.gz"))
	if len(links) != 2 || res.NoOriginal != 0 {
		t.Errorf("a revisit and its original: %q, %+v", links, res)
	}
}
