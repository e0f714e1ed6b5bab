package orbweaver_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver"
)

// OnPage gets pages that Options.Keep leaves out of the archive, and each request has Options.Headers.
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
	o.Keep, o.Headers = []string{"application/pdf"}, []string{"X-Token: s3cret"}
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
