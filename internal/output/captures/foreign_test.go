package captures

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testkit/testarchive"
	_ "github.com/orbweaver/orbweaver/internal/testkit/testseed" // sets rapid's seed
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// indexed returns the archive of a crawl directory with these index lines.
func indexed(t interface{ Fatal(...any) }, dir string, lines []warc.Line) *Archive {
	var text []string
	for _, l := range lines {
		l.Time, l.MIME, l.Status, l.File = "20200102030405", "text/html", "200", "x.warc.gz"
		text = append(text, strings.TrimSuffix(string(l.AppendTo(nil)), "\n"))
	}
	slices.Sort(text)
	if err := os.MkdirAll(filepath.Join(dir, "indexes"), 0o755); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(text, "\n") + "\n"
	if err := os.WriteFile(filepath.Join(dir, "indexes", "index.cdxj"), []byte(all), 0o644); err != nil {
		t.Fatal(err)
	}
	return New(nil, warc.Places(dir), nil)
}

// The lists end, and have every host and every page of the web, whatever other programs have put into the index.
func TestForeignIndex(t *testing.T) {
	dir := t.TempDir()
	keys := []string{"a)/", "a)/x", "a)/x\t", "a)/x!", "a:80)/", "b,a)/", "dns:a", "dns:0", "dns:80)/", "abc", "abc1",
		"a)", "urn:pageinfo:https://a/", "urn:x", "~", "javascript:f(1)", ":", ")"}
	urls := []string{"http://a/", "http:/", "http:", "https://b:8080/x", "ftp://a.example/", "metadata://gnu.org/x", "",
		"http://", "http:///", "HTTP://C/", "dns:a", "urn:x"}
	rapid.Check(t, func(t *rapid.T) {
		var lines []warc.Line
		hosts, pages := map[string]bool{}, map[string]bool{}
		for range rapid.IntRange(1, 12).Draw(t, "lines") {
			l := warc.Line{SURT: rapid.SampledFrom(keys).Draw(t, "key"), URL: rapid.SampledFrom(urls).Draw(t, "url")}
			lines = append(lines, l)
			host, _, ok := strings.Cut(l.SURT, ")")
			if _, err := weburl.Parse(l.URL); err == nil && ok {
				hosts[host+")"] = true
			}
		}
		a := indexed(t, dir, lines)
		// The newest of equally old captures, which are sorted by their lines, is the page's.
		for g, err := range a.Groups(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			if _, err := weburl.Parse(g.Captures[len(g.Captures)-1].URL); err == nil {
				pages[g.SURT] = true
			}
		}
		most := rapid.IntRange(1, 3).Draw(t, "most")
		list := func(call func(from string) (found []string, next string, err error)) (all []string) {
			from := ""
			for range 2 * len(lines) {
				found, next, err := call(from)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, found...)
				if next == "" {
					slices.Sort(all)
					return all
				}
				if next <= from {
					t.Fatalf("the list continues at %q after %q", next, from)
				}
				from = next
			}
			t.Fatalf("the list has no end: %q", all)
			return nil
		}
		got := list(func(from string) (found []string, next string, err error) {
			some, next, err := a.Hosts(t.Context(), from, most)
			for _, h := range some {
				found = append(found, h.SURT)
			}
			return found, next, err
		})
		if want := slices.Sorted(maps.Keys(hosts)); !slices.Equal(got, want) {
			t.Fatalf("hosts %q, want %q", got, want)
		}
		got = list(func(from string) (found []string, next string, err error) {
			some, next, err := a.Pages(t.Context(), Query{From: from, Max: most})
			for _, p := range some {
				found = append(found, p.SURT)
			}
			return found, next, err
		})
		if want := slices.Sorted(maps.Keys(pages)); !slices.Equal(got, want) {
			t.Fatalf("pages %q, want %q", got, want)
		}
	})
}

// A list ends with its context.
func TestListsEndWithContext(t *testing.T) {
	a := New(nil, warc.Places(testarchive.Write(t, map[string]string{"http://a.example/": "text/html\nx"})), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := a.Hosts(ctx, "", 1); err != ctx.Err() {
		t.Errorf("Hosts: %v", err)
	}
	if _, _, err := a.Pages(ctx, Query{Max: 1}); err != ctx.Err() {
		t.Errorf("Pages: %v", err)
	}
}
