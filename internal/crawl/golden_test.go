package crawl_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// A program continues the crawls of earlier programs that wrote the same version of records. testdata/golden has,
// for each version, the crawl directories that the stories with several runs had after the first run. They are not
// written again once a program of that version is released: "go test -run TestGolden -update" adds those of a new
// version or of a new story.
func TestGolden(t *testing.T) {
	dir := filepath.Join("testdata", "golden", fmt.Sprint("v", state.Version))
	stories, err := filepath.Glob("testdata/stories/*.txt")
	must.Do(t, err)
	var kept []string
	for _, file := range stories {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		s := readStory(t, file)
		if len(s.pauses) == 0 {
			continue
		}
		golden := filepath.Join(dir, name+".tar.gz")
		kept = append(kept, golden)
		bubble(t, name, func(t *testing.T) {
			s := readStory(t, file)
			s.pauses[0].then = func(m *testdisk.Mem) {
				if _, err := os.Stat(golden); errors.Is(err, fs.ErrNotExist) && *update {
					pack(t, m, golden)
				}
				unpack(t, m, golden)
			}
			s.play(t, file)
		})
	}
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || !slices.Equal(found, kept) {
		t.Errorf("%s has %q, %v; the stories with several runs need %q", dir, found, err, kept)
	}
}

// pack writes the crawl directory into a golden file.
func pack(t *testing.T, m *testdisk.Mem, golden string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(golden), 0o755))
	f, err := os.Create(golden)
	must.Do(t, err)
	defer f.Close()
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := m.ReadDir(dir)
		must.Do(t, err)
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			if e.IsDir() {
				must.Do(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}))
				walk(name)
				continue
			}
			b, err := disk.ReadFile(m, name, 1<<20)
			must.Do(t, err)
			must.Do(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(b))}))
			_, err = w.Write(b)
			must.Do(t, err)
		}
	}
	walk(crawlDir)
	must.Do(t, errors.Join(w.Close(), z.Close(), f.Close()))
}

// unpack replaces the crawl directory by that of a golden file.
func unpack(t *testing.T, m *testdisk.Mem, golden string) {
	t.Helper()
	f, err := os.Open(golden)
	must.Do(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must.Do(t, err)
	must.Do(t, m.RemoveAll(crawlDir))
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		must.Do(t, err)
		if h.Typeflag == tar.TypeDir {
			must.Do(t, m.MkdirAll(h.Name, 0o755))
			continue
		}
		must.Do(t, m.MkdirAll(path.Dir(h.Name), 0o755))
		b, err := io.ReadAll(r)
		must.Do(t, err)
		must.Do(t, disk.WriteFile(m, h.Name, b))
	}
}
