package scope

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// No link on a real page is a trap, on its own site or elsewhere.
func TestRealPagesHaveNoTraps(t *testing.T) {
	testtier.OnlySoak(t, "Debian's documentation is slow to install")
	const docs = "/usr/share/doc"
	s := mustNew(t, Config{Scope: Any, Today: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)}, "https://docs.example/")
	seen := map[string]bool{}
	pages := 0
	for _, dir := range []string{"python3.11-doc", "apache2-doc", "postgresql-doc-15", "sqlite3-doc", "debian-handbook",
		"nodejs-doc", "python-django-doc", "python-sqlalchemy-doc"} {
		root, err := filepath.EvalSymlinks(filepath.Join(docs, dir))
		if err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			continue
		}
		err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".html") {
				return err
			}
			page, err := os.ReadFile(path)
			if err != nil {
				return nil // a symbolic link to a package that is not installed
			}
			pages++
			base := weburl.MustParse("https://docs.example/" + filepath.ToSlash(strings.TrimPrefix(path, docs+"/")))
			// Any text after href= in quotation marks is good enough here.
			for _, rest := range bytes.Split(page, []byte(`href="`))[1:] {
				ref, _, _ := bytes.Cut(rest, []byte(`"`))
				u, err := base.ResolveBytes(ref)
				if err != nil || seen[u.String()] {
					continue
				}
				seen[u.String()] = true
				if v := s.Judge(link.Link{URL: u, Hops: "L", Via: base.String()}); !v.In {
					t.Errorf("%s on %s: %s", u, path, v.Reason)
				}
			}
			return nil
		})
		must.Do(t, err)
	}
	t.Logf("%d pages, %d different URLs", pages, len(seen))
	if pages == 0 {
		testneed.Missing(t, "documentation packages under /usr/share/doc")
	}
}
