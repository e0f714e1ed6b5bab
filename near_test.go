package orbweaver_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// TestNearDuplicates crawls a page and a copy of it that differs in a word, twice: the second run continues the first.
func TestNearDuplicates(t *testing.T) {
	var text strings.Builder
	for i := range 300 {
		fmt.Fprintf(&text, "word%d ", i*i)
	}
	pages := map[string]string{
		"/":  `<a href="/1">one</a>`,
		"/1": "<p>" + text.String() + `</p><a href="/2">two</a> <a href="/other">other</a>`,
		"/2": "<p>" + text.String() + `edited</p><a href="/hidden">hidden</a>`,
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, "<!doctype html><title>A page</title>"+body)
	}))
	defer srv.Close()
	for _, mode := range []string{"", "off", "mark", "drop"} {
		t.Run(mode, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "crawl")
			o := orbweaver.Options{Dir: dir, Seeds: []string{srv.URL + "/"}, Delay: -1, AllowPrivate: true,
				NearDuplicates: mode}
			must.Get(orbweaver.Crawl(t.Context(), o))(t)
			b := must.Get(os.ReadFile(filepath.Join(dir, "logs", "crawl.log")))(t)
			log := string(b)
			compares, drops := mode == "mark" || mode == "drop", mode == "drop"
			if got := strings.Contains(log, "near-duplicate:"+srv.URL+"/1"); got != compares {
				t.Errorf("the copy is marked: %v, want %v\n%s", got, compares, log)
			}
			if got := strings.Contains(log, srv.URL+"/hidden"); got == drops {
				t.Errorf("the links of the copy are followed: %v\n%s", got, log)
			}
			if !strings.Contains(log, srv.URL+"/other") {
				t.Errorf("the links of the first page are not followed\n%s", log)
			}
			types, meta := recordsOf(t, dir, srv.URL+"/2")
			want := "response request metadata"
			if drops {
				want = "metadata"
			}
			if types != want {
				t.Errorf("the archive has of the copy %q, want %q", types, want)
			}
			if got := strings.Contains(meta, "nearDuplicateOf: "+srv.URL+"/1\r\n"); got != compares {
				t.Errorf("the metadata names the first page: %v, want %v\n%s", got, compares, meta)
			}
		})
	}
	if _, err := orbweaver.Crawl(t.Context(), orbweaver.Options{Dir: t.TempDir(), Seeds: []string{srv.URL},
		NearDuplicates: "merge"}); err == nil || !strings.Contains(err.Error(), "off, mark, drop") {
		t.Errorf("an unknown mode: %v", err)
	}
}

// recordsOf returns the types of the records of a URL, and the content of its metadata record.
func recordsOf(t *testing.T, dir, url string) (types, meta string) {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(dir, "archive", "*.warc.gz")))(t)
	var all []string
	for _, name := range files {
		f := must.Get(os.Open(name))(t)
		defer f.Close()
		for r := warc.NewReader(f); ; {
			rec, err := r.Next()
			if err == io.EOF {
				break
			}
			must.Do(t, err)
			if rec.URL() != url {
				continue
			}
			all = append(all, rec.Type())
			if rec.Type() == "metadata" {
				b := must.Get(io.ReadAll(rec))(t)
				meta = string(b)
			}
		}
	}
	return strings.Join(all, " "), meta
}
