package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// TestEarlier crawls a site twice. With --dedup-from every page that has not changed is a revisit record in the second
// archive, and no other. pywb shows them all if the collection has both archives. Without the first archive it shows
// the changed pages alone. warcio reads both archives.
func TestEarlier(t *testing.T) {
	weighs(t, 1)
	const pages = 12
	content := func(n int, version string) string {
		return fmt.Sprintf("<html><p>page %d %s</p>%s</html>", n, version, strings.Repeat("<p>a long text</p>", 90))
	}
	var second atomic.Bool
	body := func(n int) string {
		if n%4 == 0 && second.Load() {
			return content(n, "changed")
		}
		return content(n, "first")
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		w.Header().Set("Content-Type", "text/html")
		switch _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); {
		case r.URL.Path == "/":
			for i := range pages {
				fmt.Fprintf(w, "<a href=/%d>x</a>", i)
			}
		case err != nil:
			http.NotFound(w, r)
		case n%3 == 0 || n%3 == 1 && second.Load(): // in chunks: a third always, in others later, and a third later
			size := 300
			if second.Load() {
				size = 200
			}
			for part := range slices.Chunk([]byte(body(n)), size) {
				w.Write(part)
				w.(http.Flusher).Flush()
			}
		default:
			io.WriteString(w, body(n))
		}
	}))
	defer web.Close()
	home := t.TempDir()
	one, two, both := filepath.Join(home, "one"), filepath.Join(home, "two"), filepath.Join(home, "both")
	args := []string{"crawl", "--contact", "a@b.example", "--allow-private", "--delay", "1ms", "--no-sitemaps", web.URL}
	crawl(t.Context(), t, append(args, "-o", one)...).must(t, 0)
	second.Store(true)
	crawl(t.Context(), t, append(args, "-o", two, "--dedup-from", one)...).must(t, 0)

	index := must.Get(os.ReadFile(filepath.Join(two, "indexes", "index.cdxj")))(t)
	for n := range pages {
		line := regexp.MustCompile(fmt.Sprintf(`"url": "%s/%d", "mime": "([^"]*)"`, web.URL, n)).FindSubmatch(index)
		if line == nil || (string(line[1]) == "warc/revisit") != (n%4 != 0) {
			t.Errorf("page %d: %s", n, line)
		}
	}
	log := must.Get(os.ReadFile(filepath.Join(two, "logs", "crawl.log")))(t)
	if n := bytes.Count(log, []byte("duplicate:digest,earlier-crawl")); n != pages*3/4 {
		t.Errorf("crawl.log has %d pages of the earlier crawl, want %d", n, pages*3/4)
	}
	verify(t, two)
	venv := venv(t)
	if venv == "" {
		return
	}
	join(t, both, one, two)
	for _, dir := range []string{one, two} {
		warcs := must.Get(filepath.Glob(filepath.Join(dir, "archive", "*.warc.gz")))(t)
		out := foreign(t, filepath.Join(venv, "bin", "warcio"), append([]string{"check", "-v"}, warcs...)...)
		if strings.Contains(out, "digest failed") || !strings.Contains(out, "digest pass") {
			t.Errorf("warcio check %s:\n%s", dir, out)
		}
	}
	with, without := wayback(t, venv, both), wayback(t, venv, two)
	for n := range pages {
		u := fmt.Sprintf("%s/%d", web.URL, n)
		// Of a changed page pywb may show either version, because both may be of one second.
		if status, got := replay(t, with, "id_", u); status != http.StatusOK || string(got) != body(n) && n%4 != 0 {
			t.Errorf("pywb with both archives replays page %d with %d, %.60q, %d bytes", n, status, got, len(got))
		}
		status, got := replay(t, without, "id_", u)
		if alone := status == http.StatusOK && string(got) == body(n); alone != (n%4 == 0) {
			t.Errorf("pywb with the second archive alone replays page %d with %d, %.60q", n, status, got)
		}
		if n%4 != 0 && status < 400 {
			t.Errorf("pywb says status %d of page %d, whose original is missing", status, n)
		}
	}
}

// join makes a directory of the archives and indexes of crawls.
func join(t *testing.T, to string, dirs ...string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Join(to, "archive"), 0o755))
	must.Do(t, os.MkdirAll(filepath.Join(to, "indexes"), 0o755))
	var lines []string
	for _, dir := range dirs {
		for _, name := range must.Get(filepath.Glob(filepath.Join(dir, "archive", "*.warc.gz")))(t) {
			must.Do(t, os.Link(name, filepath.Join(to, "archive", filepath.Base(name))))
		}
		b := must.Get(os.ReadFile(filepath.Join(dir, "indexes", "index.cdxj")))(t)
		lines = append(lines, slices.Collect(strings.Lines(string(b)))...)
	}
	slices.Sort(lines)
	must.Do(t, os.WriteFile(filepath.Join(to, "indexes", "index.cdxj"), []byte(strings.Join(lines, "")), 0o644))
}
