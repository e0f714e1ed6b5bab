package parse

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// realWeb lists where Debian's documentation packages put pages, and the hosts that the pages were
// written for.
var realWeb = []struct{ host, dir string }{
	{"docs.python.org", "python3.11-doc/html"},
	{"httpd.apache.org", "apache2-doc/manual"},
	{"www.postgresql.org", "postgresql-doc-15/html"},
	{"sqlite.org", "sqlite3"},
	{"debian-handbook.info", "debian-handbook/html"},
	{"nodejs.org", "nodejs/api"},
	{"docs.djangoproject.com", "python-django-doc/html"},
	{"docs.sqlalchemy.org", "python-sqlalchemy-doc/html"},
}

var htmlName = regexp.MustCompile(`(?i)\.x?html?(\.[a-z0-9.-]+)?$`)

// realPages calls f with every nth real HTML page on this machine and returns the number of pages.
func realPages(t testing.TB, every int, f func(url string, body []byte)) (n int) {
	t.Helper()
	i := 0
	for _, w := range realWeb {
		root, err := filepath.EvalSymlinks(filepath.Join("/usr/share/doc", w.dir))
		if err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			continue
		}
		err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !htmlName.MatchString(d.Name()) {
				return err
			}
			if i++; i%every != 0 {
				return nil
			}
			body, err := os.ReadFile(path)
			if os.IsNotExist(err) {
				return nil // a dangling symbolic link
			}
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			n++
			f("https://"+w.host+"/"+filepath.ToSlash(rel), body)
			return nil
		})
		must.Do(t, err)
	}
	if n == 0 {
		testneed.Missing(t, "documentation packages under /usr/share/doc")
	}
	return n
}

// TestRealPages compares the scanner with a walk of the tree on every real page: links in order,
// base, canonical and title. In every seventh page the declaration of the encoding is moved to
// after the prescanned bytes.
func TestRealPages(t *testing.T) {
	testtier.OnlySoak(t, "Debian's documentation is slow to install")
	every := 1
	if raceEnabled {
		every = 20
	}
	var p Page
	links, bad, bytes, n := 0, 0, 0, 0
	pages := realPages(t, every, func(url string, body []byte) {
		u := mustURL(t, url)
		if n++; n%7 == 0 {
			body = append([]byte(strings.Repeat(" ", prescanned)), body...)
		}
		want, err := walk(u, "text/html", body, true)
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		Parse(Input{URL: u, ContentType: "text/html", Body: body}, Options{Requisites: true}, &p)
		links += len(p.Links)
		bytes += len(body)
		if got := lines(&p); !slices.Equal(got, want.links) || p.Base != want.base ||
			p.Canonical.String() != want.canonical || !sameTitle(p.Title, want.title) || p.Dropped > 0 {
			if bad++; bad <= 10 {
				t.Errorf("%s: charset %s base %s want %s, canonical %s want %s, title %q want %q\nlinks: %s",
					url, p.Charset,
					p.Base, want.base, p.Canonical, want.canonical, p.Title, want.title, cmp.Diff(want.links, got))
			}
		}
	})
	if bad > 0 {
		t.Errorf("%d of %d pages differ", bad, pages)
	}
	t.Logf("%d pages, %d bytes, %d links", pages, bytes, links)
}

// generatedPages calls f with pages as testweb generates them: front pages of seed 1 with 20,000
// hosts. A page's file is named after its host.
func generatedPages(t testing.TB, f func(url string, body []byte)) {
	t.Helper()
	names, err := filepath.Glob("testdata/generated/*.html")
	if err != nil || len(names) == 0 {
		t.Fatal("no pages in testdata/generated: ", err)
	}
	for _, name := range names {
		body := must.Get(os.ReadFile(name))(t)
		f("http://"+strings.TrimSuffix(filepath.Base(name), ".html")+"/", body)
	}
}

func TestGeneratedPages(t *testing.T) {
	var p Page
	generatedPages(t, func(url string, body []byte) {
		u := mustURL(t, url)
		want := must.Get(walk(u, "text/html; charset=utf-8", body, false))(t)
		Parse(Input{URL: u, ContentType: "text/html; charset=utf-8", Body: body}, Options{}, &p)
		if got := lines(&p); !slices.Equal(got, want.links) || len(got) < 10 || p.Title != want.title {
			t.Errorf("%s: got title %q, want %q, links: %s", url, p.Title, want.title, cmp.Diff(want.links, got))
		}
	})
}

func sameTitle(got, want string) bool {
	if len(want) > maxTitle {
		return len(got) <= maxTitle && want[:len(got)] == got
	}
	return got == want
}
