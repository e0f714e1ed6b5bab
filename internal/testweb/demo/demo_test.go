package demo

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/walk"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDemo walks the demo web and checks what a crawler finds there.
func TestDemo(t *testing.T) {
	sites := Sites()
	w := must.Get(testweb.New(testweb.Config{Sites: sites}))(t)
	stop := w.Start()
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	res := must.Get(walk.Walk(context.Background(), walk.Config{Seeds: Seeds(), DialContext: w.DialContext,
		Scope: func(u *url.URL) bool { return u.Hostname() != "elsewhere.example" }}))(t)
	t.Logf("%v, %d denied", res, len(res.Denied))
	perHost := map[string]int{}
	traps := 0
	var missing []string
	for u, p := range res.Pages {
		at := must.Get(url.Parse(u))(t)
		perHost[at.Host]++
		if strings.Contains(u, "/events/?") || strings.Contains(u, "/tour/") {
			traps++
			continue
		}
		switch {
		case p.Err != "":
			t.Errorf("%s: %s", u, p.Err)
		case p.Status == 404:
			missing = append(missing, u)
		}
	}
	slices.Sort(missing)
	want := []string{
		"http://harbour-museum.example/objects/lost-figurehead.html", "http://tidewatch.example/birds/dodo.html",
		"http://www.aldermouth.example/fountain.html",
	}
	if !slices.Equal(missing, want) {
		t.Errorf("broken links: got %q, want %q", missing, want)
	}
	if len(perHost) != 8 || len(perHost) != len(sites) {
		t.Errorf("got %d hosts, want 8: %v", len(perHost), perHost)
	}
	for h, n := range perHost {
		if n < 15 || h != "www.aldermouth.example" && n > 60 {
			t.Errorf("%s: got %d URLs", h, n)
		}
	}
	if n := len(res.Pages) - traps; n < 150 || n > 300 {
		t.Errorf("got %d URLs outside of the traps, want 150 to 300", n)
	}
	if traps < 50 || traps > 100 {
		t.Errorf("got %d URLs in the traps, want 50 to 100", traps)
	}
	if len(res.Denied) < 8 {
		t.Errorf("got %d denied URLs, want at least 8: %v", len(res.Denied), res.Denied)
	}
	if res.Count(301) < 4 {
		t.Errorf("got %d redirects, want at least 4", res.Count(301))
	}
	w.WaitIdle(time.Minute)
	if r := w.Report(); r.ViolationCount["robots"] != 0 || r.Repeated != 0 {
		t.Errorf("got %v %v", r.Violations, r.Twice)
	}
	if p := res.Pages["http://library.aldermouth.example/books/a-caf%C3%A9-in-the-rain.html"]; p.Status != 200 {
		t.Errorf("the page in Latin-1: got %+v", p)
	}
	if _, found := res.Pages["http://the-lantern.example/news/extra-edition.html"]; found {
		t.Error("a page links to the page that only the sitemap should name")
	}
}

// TestTexts: every text has the fields that the template shows.
func TestTexts(t *testing.T) {
	words := 0
	for _, h := range town() {
		if h.Name == "" || h.Title == "" || h.Motto == "" || h.Colour == "" || h.robots == "" || len(h.Kinds) == 0 ||
			len(h.intro) == 0 {
			t.Errorf("%s: a field of the head is missing: %+v", h.Name, h)
		}
		for _, k := range h.Kinds {
			if len(k.items) < 3 {
				t.Errorf("%s/%s: %d items, want at least 3", h.Name, k.Slug, len(k.items))
			}
			for _, it := range k.items {
				if it.title == "" || len(it.text) == 0 || len(it.text[0]) < 60 ||
					strings.ContainsAny(it.first, "[]") {
					t.Errorf("%s/%s/%s: title %q, text %q, first %q",
						h.Name, k.Slug, it.slug, it.title, it.text, it.first)
				}
				for _, p := range it.text {
					words += len(strings.Fields(string(p)))
				}
			}
		}
	}
	if words < 4000 {
		t.Errorf("got %d words, want at least 4000", words)
	}
}

// TestGzip: a host answers with and without gzip, and confirms the ETag of each.
func TestGzip(t *testing.T) {
	h := town()[0]
	for _, accept := range []string{"", "gzip"} {
		req, _ := http.NewRequest("GET", "/", nil)
		req.Header.Set("Accept-Encoding", accept)
		rec := &response{header: http.Header{}}
		h.pages.ServeHTTP(rec, req)
		if got := rec.header.Get("Content-Encoding"); got != accept {
			t.Errorf("accepting %q: got encoding %q", accept, got)
		}
		req.Header.Set("If-None-Match", rec.header.Get("ETag"))
		rec = &response{header: http.Header{}}
		if h.pages.ServeHTTP(rec, req); rec.status != http.StatusNotModified || rec.n != 0 {
			t.Errorf("with If-None-Match: got %d with %d bytes, want 304 with none", rec.status, rec.n)
		}
	}
}

type response struct {
	header http.Header
	status int
	n      int
}

func (r *response) Header() http.Header         { return r.header }
func (r *response) WriteHeader(code int)        { r.status = code }
func (r *response) Write(p []byte) (int, error) { r.n += len(p); return len(p), nil }

// TestSitesFor: the Crawl-delays change in proportion to the delay, and nothing else changes.
func TestSitesFor(t *testing.T) {
	usual, slow := Sites(), SitesFor(2*time.Second)
	changed := 0
	for i := range usual {
		want := strings.NewReplacer("delay: 0.3\n", "delay: 3\n", "delay: 0.25\n",
			"delay: 2.5\n").Replace(usual[i].Robots)
		if slow[i].Robots != want {
			t.Errorf("%s: %q, want %q", usual[i].Host, slow[i].Robots, want)
		}
		if want != usual[i].Robots {
			changed++
		}
	}
	if changed != 2 {
		t.Errorf("%d hosts have a Crawl-delay, want 2", changed)
	}
}
