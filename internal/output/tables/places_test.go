package tables

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// TestRefusedPlaces refuses a directory that is given twice, and tables among the files of a crawl.
func TestRefusedPlaces(t *testing.T) {
	root := t.TempDir()
	dir, link := filepath.Join(root, "c"), filepath.Join(root, "l")
	must.Do(t, os.MkdirAll(filepath.Join(dir, "archive"), 0o755))
	must.Do(t, os.Symlink(dir, link))
	of := func(dir string) Dir { return DirOf(warc.Place{Dir: dir}) }
	for _, c := range []struct {
		out  string
		dirs []Dir
		want string
	}{
		{filepath.Join(root, "t"), []Dir{of(dir), of(link)}, "is given twice"},
		{dir, []Dir{of(dir)}, "is among the files of the crawl"},
		{filepath.Join(link, "archive", "new"), []Dir{of(dir)}, "is among the files of the crawl"},
		{filepath.Join(dir, "logs"), []Dir{of(link)}, "is among the files of the crawl"},
	} {
		_, err := Write(t.Context(), Config{Out: c.out, Crawl: "x", Dirs: c.dirs})
		if !errors.Is(err, ErrPlace) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("--out %s: %v, want %s", c.out, err, c.want)
		}
	}
}
