package warc

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// supplemented returns the keys of all captures that a reader of dir finds, and what the index lacked.
func supplemented(t *testing.T, dir string) (keys []string, s Supplement) {
	t.Helper()
	tmp := t.TempDir()
	s, err := WriteSupplement(nil, dir, func() (string, error) { return tmp, nil }, func(done, total int64) error {
		if done > total {
			t.Errorf("%d of %d bytes read", done, total)
		}
		return nil
	})
	must.Do(t, err)
	for l, err := range Lines(nil, Place{Dir: dir, Extra: s.Path}, "") {
		must.Do(t, err)
		keys = append(keys, l.SURT)
	}
	return keys, s
}

// TestSupplement reads the archive of a crawl while it runs, after its end, and when another one continues it.
func TestSupplement(t *testing.T) {
	dir := t.TempDir()
	check := func(when string, warcs int, want ...string) {
		t.Helper()
		keys, s := supplemented(t, dir)
		for i := range want {
			want[i] = "com,example)/" + want[i]
		}
		if !slices.Equal(keys, want) || s.WARCs != warcs || s.Flaws.Places != nil {
			t.Errorf("%s: found %q in %d more files (%v), want %q in %d", when, keys, s.WARCs, s.Flaws.Places, want,
				warcs)
		}
	}
	run := func(url string, while func()) {
		t.Helper()
		w, _, err := Open(testConfig(dir))
		must.Do(t, err)
		must.Get(w.Write(page("http://example.com/"+url, "HTTP/1.1 200 OK", url)))(t)
		must.Do(t, w.Flush())
		while()
		must.Do(t, w.Close())
	}
	run("1", func() { check("running", 1, "1") })
	check("without an index", 1, "1")
	must.Do(t, BuildIndex(nil, dir))
	check("indexed", 0, "1")
	run("2", func() { check("continued", 1, "1", "2") })
	check("with an old index", 1, "1", "2")
	must.Do(t, BuildIndex(nil, dir))
	check("indexed again", 0, "1", "2")

	// A kill leaves a file that is not finished. BuildIndex reads it, too.
	last := slices.Max(warcFiles(t, dir))
	b, err := os.ReadFile(last)
	must.Do(t, err)
	must.Do(t, os.WriteFile(last+openSuffix, b[:len(b)-10], 0o644))
	for _, name := range []string{last, filepath.Join(dir, "indexes", "index.cdxj")} {
		must.Do(t, os.Remove(name))
	}
	check("killed", 2, "1", "2")
	must.Do(t, BuildIndex(nil, dir))
	check("killed, and indexed", 0, "1", "2")

	// Damage of a finished file is reported.
	must.Do(t, os.WriteFile(filepath.Join(dir, "archive", "damaged.warc.gz"), b[:len(b)/3], 0o644))
	keys, s := supplemented(t, dir)
	if len(keys) != 2 || len(s.Flaws.Places) != 1 || s.Flaws.Places[0].File != "damaged.warc.gz" {
		t.Errorf("damaged: found %q, %v", keys, s.Flaws.Places)
	}

	// A damaged record does not hide the next one.
	rec := gzipped(hello("b", 0))
	must.Do(t, os.WriteFile(filepath.Join(dir, "archive", "damaged.warc.gz"),
		[]byte(gzipped(hello("a", 0))+rec[:len(rec)/2]+gzipped(hello("c", 0))), 0o644))
	if keys, s = supplemented(t, dir); len(keys) != 4 || !slices.Contains(keys, "example,h)/c") {
		t.Errorf("damaged: found %q, %v", keys, s.Flaws.Places)
	}
	must.Do(t, os.Remove(filepath.Join(dir, "archive", "damaged.warc.gz")))

	// A reader may stop it.
	late := errors.New("late")
	_, err = WriteSupplement(nil, t.TempDir(), nil, nil)
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without an archive: %v", err)
	}
	must.Do(t, os.RemoveAll(filepath.Join(dir, "indexes")))
	tmp := t.TempDir()
	_, err = WriteSupplement(nil, dir, func() (string, error) { return tmp, nil },
		func(done, total int64) error { return late })
	if !errors.Is(err, late) {
		t.Errorf("stopped: %v", err)
	}
}
