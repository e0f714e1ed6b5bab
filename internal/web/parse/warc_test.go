package parse

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// responses calls f with every HTTP response in a WARC file that net/http can read. It finds
// records by their lengths and skips what it does not know.
func responses(file []byte, f func(target string, r *http.Response, body []byte)) {
	if z, err := gzip.NewReader(bytes.NewReader(file)); err == nil {
		if file, err = io.ReadAll(z); err != nil && len(file) == 0 {
			return
		}
	}
	for {
		i := bytes.Index(file, []byte("WARC/"))
		if i < 0 {
			return
		}
		head, rest, ok := bytes.Cut(file[i:], []byte("\r\n\r\n"))
		if !ok {
			return
		}
		field := map[string]string{}
		for _, l := range strings.Split(string(head), "\r\n") {
			name, value, _ := strings.Cut(l, ":")
			field[strings.ToLower(name)] = strings.TrimSpace(value)
		}
		n, err := strconv.Atoi(field["content-length"])
		if err != nil || n < 0 || n > len(rest) {
			file = file[i+len("WARC/"):]
			continue
		}
		block := rest[:n]
		file = rest[n:]
		if field["warc-type"] != "response" {
			continue
		}
		r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(block)), nil)
		if err != nil {
			continue
		}
		body, _ := io.ReadAll(r.Body) // a truncated body is also a page
		r.Body.Close()
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				continue
			}
			body, _ = io.ReadAll(z)
		}
		f(field["warc-target-uri"], r, body)
	}
}

// TestArchivedPages compares the scanner with a walk of the tree on the HTML in archives of other
// crawlers: pages of 2008 to 2022.
func TestArchivedPages(t *testing.T) {
	files := must.Get(filepath.Glob("../../../../shared/data/warc/*/*.warc*"))(t)
	if len(files) == 0 {
		testneed.Missing(t, "shared test data for WARC files")
	}
	var p Page
	pages, links := 0, 0
	for _, name := range files {
		file := must.Get(os.ReadFile(name))(t)
		responses(file, func(target string, r *http.Response, body []byte) {
			contentType := r.Header.Get("Content-Type")
			if !strings.HasPrefix(contentType, "text/html") {
				return
			}
			u, err := weburl.Parse(strings.Trim(target, "<>"))
			if err != nil {
				return
			}
			want, err := walk(u, contentType, body, true)
			if err != nil {
				t.Fatalf("%s: %v", u, err)
			}
			Parse(Input{URL: u, ContentType: contentType, Body: body}, Options{Requisites: true}, &p)
			pages++
			links += len(p.Links)
			if got := lines(&p); !slices.Equal(got, want.links) || p.Base != want.base ||
				p.Canonical.String() != want.canonical || !sameTitle(p.Title, want.title) {
				t.Errorf("%s in %s: got charset %s, base %s want %s, canonical %s want %s, title %q want %q\nlinks: %s",
					u, filepath.Base(name), p.Charset,
					p.Base, want.base, p.Canonical, want.canonical, p.Title, want.title, cmp.Diff(want.links, got))
			}
		})
	}
	if pages < 100 {
		t.Errorf("found %d pages, want at least 100", pages)
	}
	t.Logf("%d pages, %d links", pages, links)
}
