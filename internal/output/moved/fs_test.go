package moved

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/output/segment"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/stores"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// TestPlaceOf divides paths.
func TestPlaceOf(t *testing.T) {
	for name, want := range map[string]place{
		"/c/crawl-data/w/segments/s/warc/x": {"/c", "/c/crawl-data/w/segments/s", "warc/x"},
		"crawl-data/w/segments/s/x":         {".", "crawl-data/w/segments/s", "x"},
		"/crawl-data/w/segments/s":          {"/", "/crawl-data/w/segments/s", ""},
		"a/../c/crawl-data/w/segments/s/":   {"c", "c/crawl-data/w/segments/s", ""},
		"/crawl-data/v/segments/crawl-data/w/segments/s/x": {"/crawl-data/v/segments",
			"/crawl-data/v/segments/crawl-data/w/segments/s", "x"},
	} {
		if got, ok := placeOf(name); !ok || got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	for _, name := range []string{"", "/", "x", "/c/crawl-data", "/c/crawl-data/w/segments", "/c/crawl-data/w/s/x/y"} {
		if got, ok := placeOf(name); ok {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// archived returns a crawl directory with two segments, a store that has both, and the paths of their WARC files. The
// files of the first are no longer here.
func archived(t *testing.T) (mem *testdisk.Mem, sim *teststore.Sim, files []string) {
	mem, sim = testdisk.NewMem(), teststore.NewSim(1, teststore.Traits{})
	w, _, err := warc.Open(warc.Config{Dir: "/c", FS: mem, Segments: warc.Segments{Crawl: "web", Bytes: 1}})
	must.Do(t, err)
	head := "HTTP/1.1 200 OK\r\n\r\n"
	for _, url := range []string{"http://a.example/", "http://b.example/"} {
		must.Get(w.Write(&warc.Exchange{URL: url, HTTP: true, HeadLen: len(head),
			Response: warc.Bytes(head + "text of " + url), Request: []byte("GET / HTTP/1.1\r\n\r\n")}))(t)
	}
	must.Do(t, w.Close())
	c := segment.Committer{FS: mem, Dir: "/c", Crawl: "web", Tables: segment.IndexOnly}
	store := object.New(sim, "sim://store", object.Config{})
	for i, name := range must.Get(c.Waiting())(t) {
		_, _, err := c.Commit(t.Context(), name)
		must.Do(t, err)
		list := must.Get(warc.SegmentFiles(mem, filepath.Join("/c/crawl-data/web/segments", name)))(t)
		files = append(files, list[0].Path)
		if err := c.RemoveStored(name); err == nil {
			t.Error("files were removed that no store has")
		}
		must.Get(c.Send(t.Context(), store, name))(t)
		if i == 0 {
			must.Do(t, c.RemoveStored(name))
		}
	}
	return mem, sim, files
}

// A file that was moved has its size, is in the list of its folder, and is read in the store. Other files are those of
// the disk.
func TestMoved(t *testing.T) {
	mem, sim, files := archived(t)
	f := New(t.Context(), mem, Config{Place: stores.Place{Backend: sim}})
	if _, err := mem.Stat(files[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the file is still here: %v", err)
	}
	key := strings.TrimPrefix(files[0], "/c/")
	want := sim.Content(key)
	if info := must.Get(f.Stat(files[0]))(t); info.Size() != int64(len(want)) || info.IsDir() {
		t.Errorf("it has %d bytes, want %d", info.Size(), len(want))
	}
	for i, name := range files {
		list := must.Get(f.ReadDir(filepath.Dir(name)))(t)
		if len(list) != 1 || list[0].Name() != filepath.Base(name) {
			t.Errorf("the folder %d has %v", i, list)
		}
	}
	if got := must.Get(disk.ReadFile(f, files[0], 1<<20))(t); string(got) != string(want) {
		t.Errorf("%d bytes are read, want %d", len(got), len(want))
	}
	file := must.Get(disk.OpenRange(f, files[0], 10, 5))(t)
	b := make([]byte, 5)
	must.Get(file.ReadAt(b, 10))(t)
	if end := must.Get(file.Seek(-3, io.SeekEnd))(t); string(b) != string(want[10:15]) || end != int64(len(want))-3 {
		t.Errorf("read %q at 10, and the end is at %d", b, end+3)
	}
	must.Do(t, file.Close())
	all := must.Get(warc.Files(f, "/c"))(t)
	if len(all) != 2 || all[0].Path != files[0] {
		t.Errorf("the archive has %v", all)
	}
	for _, name := range []string{files[0] + ".open", filepath.Dir(files[0]) + "/other", "/c/none"} {
		if _, err := f.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("stat %s: %v", name, err)
		}
		if _, err := disk.ReadFile(f, name, 1); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("read %s: %v", name, err)
		}
	}
	m := must.Get(segment.ReadManifest(mem, filepath.Dir(filepath.Dir(files[0]))))(t)
	if len(m.Tables) == 0 {
		t.Error("the segment has no table")
	}
	for _, table := range m.Tables {
		name := "/c/" + table.Name
		if _, err := mem.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still here: %v", name, err)
		}
		if got := must.Get(disk.ReadFile(f, name, 1<<20))(t); string(got) != string(sim.Content(table.Name)) {
			t.Errorf("%s: %d bytes are read", name, len(got))
		}
	}
	if Here(f) != disk.FS(mem) || Here(mem) != disk.FS(mem) {
		t.Error("another file system is the disk's")
	}
}

// A store that is away, cannot be opened, or lacks the file is not a missing file. A manifest that is damaged is said.
func TestUnavailable(t *testing.T) {
	mem, sim, files := archived(t)
	folder := filepath.Dir(filepath.Dir(files[0]))
	read := func(p stores.Place) error {
		_, err := disk.ReadFile(New(t.Context(), mem, Config{Place: p, Wait: 1}), files[0], 1<<20)
		return err
	}
	check := func(what string, err error, want string) {
		t.Helper()
		_, ok := errors.AsType[*Unavailable](err)
		if !ok || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	sim.Fail(teststore.Faults{LostRequest: 1})
	check("away", read(stores.Place{Backend: sim}), "was moved to sim://store/crawl-data/web/segments/")
	sim.Fail(teststore.Faults{})
	must.Do(t, sim.Delete(t.Context(), strings.TrimPrefix(files[0], "/c/")))
	check("lost", read(stores.Place{Backend: sim}), "and cannot be read there now")
	must.Do(t, disk.WriteFile(mem, folder+"/"+segment.StoredName, []byte("http://a.example/\n")))
	check("no store", read(stores.Place{}), "names no store")
	must.Do(t, disk.WriteFile(mem, folder+"/"+segment.ManifestName, []byte("{")))
	if err := read(stores.Place{}); !errors.Is(err, warc.ErrDamaged) {
		t.Errorf("a damaged manifest: %v", err)
	}
}
