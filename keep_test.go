package orbweaver_test

import (
	"context"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver"
)

// OnPage gets pages that Archive.Keep leaves out of the archive, and each request has Options.Headers.
func TestKeepAndHeaders(t *testing.T) {
	var without []string
	o := local(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") != "s3cret" {
			without = append(without, r.URL.Path)
		}
		switch r.URL.Path {
		case "/":
			html(w, "home", "/a.pdf")
		case "/a.pdf":
			w.Header().Set("Content-Type", "application/pdf")
		default:
			http.NotFound(w, r)
		}
	})+"/")
	o.Archive.Keep, o.Headers = []string{"application/pdf"}, []string{"X-Token: s3cret"}
	var got []string
	o.OnPage = func(_ context.Context, p *orbweaver.Page) error {
		got = append(got, p.URL)
		return nil
	}
	if res, err := orbweaver.Crawl(t.Context(), o); err != nil || res.Pages != 2 || len(got) != 2 {
		t.Fatalf("%v, %+v, pages %q", err, res, got)
	}
	if len(without) > 0 {
		t.Errorf("requests without the header: %q", without)
	}
	index, err := os.ReadFile(filepath.Join(o.Dir, "indexes", "index.cdxj"))
	if err != nil || strings.Count(string(index), "\n") != 1 || !strings.Contains(string(index), "/a.pdf") {
		t.Errorf("index: %v\n%s", err, index)
	}
}

// Archive.ObeyNoArchive leaves a page out of the archive, and follows its links. OnPage gets what pages say to robots.
func TestObeyNoArchive(t *testing.T) {
	o := local(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Add("X-Robots-Tag", "noarchive")
			w.Header().Add("X-Robots-Tag", "another: nofollow")
			html(w, `home</title><meta name=robots content="noindex"><title>`, "/a")
		case "/a":
			html(w, "a")
		default:
			http.NotFound(w, r)
		}
	})+"/")
	o.Archive.ObeyNoArchive = true
	said := map[string]string{}
	o.OnPage = func(_ context.Context, p *orbweaver.Page) error {
		said[p.Path()] = p.Robots
		return nil
	}
	if res, err := orbweaver.Crawl(t.Context(), o); err != nil || res.Pages != 2 {
		t.Fatalf("%v, %+v", err, res)
	}
	if want := map[string]string{"/": "noindex, noarchive", "/a": ""}; !maps.Equal(said, want) {
		t.Errorf("pages say %q, want %q", said, want)
	}
	index, err := os.ReadFile(filepath.Join(o.Dir, "indexes", "index.cdxj"))
	if err != nil || strings.Count(string(index), "\n") != 2 || !strings.Contains(string(index), "/a\"") {
		t.Errorf("index: %v\n%s", err, index)
	}
}
