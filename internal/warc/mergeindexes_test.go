package warc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/zipnum"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// indexLines returns the sorted lines of n captures, from a number on.
func indexLines(from, n int) (list []string) {
	for i := from; i < from+n; i++ {
		l := Line{SURT: fmt.Sprintf("example,a)/%06d", i*7919%100_003), Time: "20260101000000", Status: "200",
			URL: fmt.Sprintf("http://a.example/%06d", i*7919%100_003), Offset: int64(i), File: "x.warc.gz"}
		list = append(list, strings.TrimSuffix(string(l.AppendTo(nil)), "\n"))
	}
	slices.Sort(list)
	return list
}

// writeIndexes writes indexes with n captures each, of which a tenth are in the next one, too. It returns the files,
// and the sorted lines of all.
func writeIndexes(t *testing.T, fsys disk.FS, dir string, files, n int) (paths, all []string) {
	t.Helper()
	must.Do(t, fsys.MkdirAll(dir, 0o755))
	for i := range files {
		list := indexLines(i*n*9/10, n)
		path := filepath.Join(dir, fmt.Sprintf("%d.cdxj", i))
		must.Do(t, disk.WriteFile(fsys, path, []byte(strings.Join(list, "\n")+"\n")))
		paths, all = append(paths, path), append(all, list...)
	}
	slices.Sort(all)
	return paths, slices.Compact(all)
}

// readMerged returns the lines of a merged index, as a crawl directory with this index has them.
func readMerged(t *testing.T, fsys disk.FS, dir string) (list []string) {
	t.Helper()
	s, done, err := openCompressed(fsys, dir, zipBlocks, nil)
	must.Do(t, err)
	defer done()
	for ; s != nil; err = s.next() {
		if err != nil {
			break
		}
		list = append(list, string(s.line))
	}
	return list
}

// TestMergeIndexes: few indexes, and so many that they are sorted on the disk, give the same lines, each once.
func TestMergeIndexes(t *testing.T) {
	for _, files := range []int{1, 3, mergeAtOnce + 20} {
		mem := testdisk.NewMem()
		paths, want := writeIndexes(t, mem, "/in", files, 300)
		two := []Place{{Dir: "/a", Parts: paths[1:]}, {Dir: "/b", Extra: paths[0]}}
		n, err := MergeIndexes(t.Context(), mem, two, mem, "/out")
		must.Do(t, err)
		if got := readMerged(t, mem, "/out"); int(n) != len(want) || !slices.Equal(got, want) {
			t.Errorf("of %d files: %d lines, %d are read, want %d", files, n, len(got), len(want))
		}
		if _, err := mem.Stat("/out.partial"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the work folder: %v", err)
		}
		places := []Place{{Dir: "/a", Parts: paths}}
		if _, err := MergeIndexes(t.Context(), mem, places, mem, "/out"); !errors.Is(err, ErrIndexThere) {
			t.Errorf("again: %v", err)
		}
		if len(want) < 1024 {
			continue // it ends before it looks
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if _, err := MergeIndexes(ctx, mem, places, mem, "/other"); !errors.Is(err, context.Canceled) {
			t.Errorf("stopped: %v", err)
		}
		if _, err := mem.Stat("/other"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a stopped merge leaves the folder: %v", err)
		}
	}
}

// TestMergeHostileIndexes: a line that would break the lines of the merged index is an error, and a merged index that
// is damaged gives way to those of the segments.
func TestMergeHostileIndexes(t *testing.T) {
	mem := testdisk.NewMem()
	paths, want := writeIndexes(t, mem, "/in", 2, 300)
	for i, text := range []string{"a)/\tb 20260101000000 {\"offset\": \"1\"}\n", "a)/ 2026\n", "a)/ 2026 {}",
		"a)/ 2026 {\"offset\": \"1\"}\x00\n"} {
		must.Do(t, disk.WriteFile(mem, "/in/bad.cdxj", []byte(text)))
		out := fmt.Sprintf("/out%d", i)
		bad := []Place{{Parts: append(paths[:2:2], "/in/bad.cdxj")}}
		if _, err := MergeIndexes(t.Context(), mem, bad, mem, out); err == nil {
			t.Errorf("%q: no error", text)
		}
		if _, err := mem.Stat(out); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: the folder is there: %v", text, err)
		}
	}
	must.Do(t, disk.WriteFile(mem, "/in/index.idx", []byte("no index\n")))
	damaged := Place{Parts: paths, Merged: []string{"/in/index.idx"}}
	must.Get(MergeIndexes(t.Context(), mem, []Place{damaged}, mem, "/out"))(t)
	if got := readMerged(t, mem, "/out"); !slices.Equal(got, want) {
		t.Errorf("with a damaged merged index: %d lines, want %d", len(got), len(want))
	}
	if _, err := MergeIndexes(t.Context(), mem, Places("/none"), mem, "/none.zip"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without an index: %v", err)
	}
}

// TestMergedIndexForms: the index of either form leads to the same lines.
func TestMergedIndexForms(t *testing.T) {
	mem := testdisk.NewMem()
	paths, want := writeIndexes(t, mem, "/in", 1, 3000)
	must.Get(MergeIndexes(t.Context(), mem, []Place{{Parts: paths}}, mem, "/c/indexes"))(t)
	for i := 0; i < len(want); i += 97 {
		l := must.Get(ParseLine([]byte(want[i])))(t)
		found, err := Lookup(mem, Place{Dir: "/c"}, l.URL)
		if err != nil || len(found) != 1 || found[0].Offset != l.Offset {
			t.Errorf("%s: %+v, %v", l.URL, found, err)
		}
	}
	idx := must.Get(disk.ReadFile(mem, "/c/indexes/index.idx", 1<<20))(t)
	must.Do(t, disk.WriteFile(mem, "/c/indexes/index.idx", append([]byte("a)/ 2026\tindex.cdx.gz\tx\t1\t1\n"), idx...)))
	if _, err := Lookup(mem, Place{Dir: "/c"}, "http://a.example/"); !errors.Is(err, zipnum.ErrDamaged) {
		t.Errorf("a line without an offset: %v", err)
	}
}

// askPywb prints the offsets that pywb finds for the URLs on its standard input.
const askPywb = `
import sys
from pywb.warcserver.index.aggregator import DirectoryIndexSource
from pywb.warcserver.index.query import CDXQuery
source = DirectoryIndexSource(sys.argv[1])
for url in sys.stdin.read().split():
    found, errors = source(CDXQuery({'url': url, 'allowFuzzy': False}).params)
    print(url, *[c['offset'] for c in found if c['url'] == url])
`

// TestPywbReadsMerged: pywb finds every capture in a merged index.
func TestPywbReadsMerged(t *testing.T) {
	python := tool(t, "python")
	dir := t.TempDir()
	paths, all := writeIndexes(t, disk.OS, filepath.Join(dir, "in"), 3, 2000)
	out := filepath.Join(dir, "merged")
	must.Get(MergeIndexes(t.Context(), disk.OS, []Place{{Parts: paths}}, disk.OS, out))(t)
	var urls, want strings.Builder
	for _, line := range all {
		l := must.Get(ParseLine([]byte(line)))(t)
		fmt.Fprintln(&urls, l.URL)
		fmt.Fprintln(&want, l.URL, l.Offset)
	}
	cmd := exec.Command(python, "-c", askPywb, out)
	cmd.Stdin, cmd.Stderr = strings.NewReader(urls.String()), os.Stderr
	got := string(must.Get(cmd.Output())(t))
	if got != want.String() {
		t.Errorf("pywb prints %d bytes, want %d: %.300q", len(got), want.Len(), got)
	}
}

// TestMergeDamaged: the error names the index that is damaged, and no file that is written.
func TestMergeDamaged(t *testing.T) {
	for _, files := range []int{2, mergeAtOnce + 2} {
		mem := testdisk.NewMem()
		paths, _ := writeIndexes(t, mem, "/in", files, 10)
		must.Do(t, disk.WriteFile(mem, paths[1], []byte("no index line\n")))
		_, err := MergeIndexes(t.Context(), mem, []Place{{Dir: "/a", Parts: paths}}, mem, "/out")
		if !errors.Is(err, zipnum.ErrDamaged) || !strings.HasPrefix(err.Error(), paths[1]+": ") ||
			strings.Contains(err.Error(), "/out") {
			t.Errorf("of %d files: %v", files, err)
		}
	}
}
