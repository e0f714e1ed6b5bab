package crawls_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/output/crawls"
	"github.com/orbweaver/orbweaver/internal/output/segment"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/remote"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
	"github.com/orbweaver/orbweaver/internal/warc"
)

const pages = 12

// tree writes a crawl directory with complete segments, each with logs. It returns their names.
func tree(t *testing.T, fsys disk.FS, dir string) (names []string) {
	t.Helper()
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	w, _, err := warc.Open(warc.Config{Dir: dir, FS: fsys, Segments: warc.Segments{Crawl: "web", Bytes: 5000},
		Clock: testclock.Func(func() time.Time { now = now.Add(time.Second); return now })})
	must.Do(t, err)
	for i := range pages {
		head := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
		must.Get(w.Write(&warc.Exchange{URL: fmt.Sprintf("http://example.com/%d", i), Began: now, HTTP: true,
			HeadLen: len(head), Response: warc.Bytes(fmt.Sprint(head, "page ", i)),
			Request: []byte("GET / HTTP/1.1\r\n\r\n")}))(t)
	}
	must.Do(t, w.Close())
	c := segment.Committer{FS: fsys, Dir: dir, Crawl: "web", Idle: true, Clock: testclock.At(now)}
	names = must.Get(c.Waiting())(t)
	for i, name := range names {
		_, _, err := c.Commit(t.Context(), name)
		must.Do(t, err)
		folder := filepath.Join(warc.SegmentsDir(dir, "web"), name)
		for file, text := range map[string]string{"logs/crawl.log.gz": fmt.Sprintf("line %d\n", i),
			"links/" + name + ".jsonl.gz": "{}\n"} {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			must.Get(io.WriteString(z, text))(t)
			must.Do(t, z.Close())
			file = filepath.Join(folder, file)
			must.Do(t, fsys.MkdirAll(filepath.Dir(file), 0o755))
			must.Do(t, disk.WriteFile(fsys, file, b.Bytes()))
		}
	}
	must.Do(t, c.WriteLists())
	return names
}

// upload puts the files of a directory into a store, below a prefix.
func upload(t *testing.T, s *object.Store, fsys disk.FS, dir, prefix string) {
	t.Helper()
	for _, e := range must.Get(fsys.ReadDir(dir))(t) {
		from, to := filepath.Join(dir, e.Name()), prefix+"/"+e.Name()
		if e.IsDir() {
			upload(t, s, fsys, from, to)
			continue
		}
		b := must.Get(disk.ReadFile(fsys, from, 1<<20))(t)
		must.Get(s.Put(t.Context(), to, bytes.NewReader(b), object.Condition{}))(t)
	}
}

// A shelf is a Stores with one store.
type shelf struct{ store remote.Store }

func (s shelf) OpenStore(string) (remote.Store, error) { return s.store, nil }

// look reads all that a directory has, as commands do.
func look(t *testing.T, f *crawls.FS, dir string, segments, first int) {
	t.Helper()
	if is := must.Get(f.IsCrawlDir(dir))(t); !is {
		t.Fatalf("%s is no crawl directory", dir)
	}
	p := must.Get(f.Place(dir))(t)
	found := 0
	for i := range pages {
		url := fmt.Sprintf("http://example.com/%d", i)
		for _, l := range must.Get(warc.Lookup(f, p, url))(t) {
			rec, file, err := warc.OpenRecord(f, p.Dir, l)
			must.Do(t, err)
			body := must.Get(rec.Payload(t.Context()))(t)
			if text := must.Get(io.ReadAll(body))(t); string(text) != fmt.Sprint("page ", i) {
				t.Errorf("%s has %q", url, text)
			}
			must.Do(t, file.Close())
			found++
		}
	}
	if segments > 1 && found != pages && !strings.HasPrefix(dir, "/copy") || found == 0 {
		t.Errorf("%s has %d pages", dir, found)
	}
	want := ""
	for i := range segments {
		want += fmt.Sprintf("line %d\n", first+i)
	}
	log := must.Get(f.OpenFile(filepath.Join(dir, "logs", "crawl.log"), os.O_RDONLY, 0))(t)
	if text := must.Get(io.ReadAll(log))(t); string(text) != want {
		t.Errorf("crawl.log has %q, want %q", text, want)
	}
	must.Do(t, log.Close())
	if links := must.Get(linklog.Files(f, dir))(t); len(links) != segments {
		t.Errorf("link logs: %q", links)
	}
	warcs := must.Get(f.WARCs(dir))(t)
	all := must.Get(warc.Files(f, dir))(t)
	if len(warcs) < segments || len(all) != len(warcs) {
		t.Errorf("WARC files: %q, %v", warcs, all)
	}
	for _, name := range warcs {
		must.Get(f.Mounted.Stat(name))(t)
	}
}

// TestNames reads a crawl by all names that it can have: those of a store, of a copy, and of one segment.
func TestNames(t *testing.T) {
	mem := testdisk.NewMem()
	names := tree(t, mem, "/c")
	if len(names) < 2 {
		t.Fatalf("segments: %q", names)
	}
	store := object.New(teststore.NewSim(1, teststore.Traits{}), "s3://bucket", object.Config{Tries: 2})
	upload(t, store, mem, "/c/crawl-data", "p/crawl-data")
	open := func() *crawls.FS { return crawls.New(t.Context(), mem, shelf{store}) }
	last := len(names) - 1
	for _, arg := range []string{"s3://bucket/p", "s3://bucket/p/", "s3://bucket/p/crawl-data",
		"s3://bucket/p/crawl-data/web", "s3://bucket/p/crawl-data/web/segments", "/c/crawl-data", "/c/crawl-data/web",
		"file:///c/crawl-data/web"} {
		f := open()
		look(t, f, must.Get(f.Dir(arg))(t), len(names), 0)
	}
	for _, arg := range []string{"s3://bucket/p/crawl-data/web/segments/" + names[last],
		"/c/crawl-data/web/segments/" + names[last]} {
		f := open()
		look(t, f, must.Get(f.Dir(arg))(t), 1, last)
	}
	must.Do(t, mem.MkdirAll("/copy", 0o755)) // a segment and a tree with other names
	must.Do(t, mem.Rename("/c/crawl-data/web/segments/"+names[last], "/copy/one"))
	must.Do(t, mem.Rename("/c/crawl-data", "/copy/data"))
	f := open()
	look(t, f, must.Get(f.Dir("/copy/one"))(t), 1, last)
	look(t, f, must.Get(f.Dir("/copy/data"))(t), last, 0)
	if dir := must.Get(f.Dir("/c"))(t); f.Shown(dir) {
		t.Errorf("the crawl directory is shown as something else")
	}
}

// TestRequests: a page of a crawl in a store takes a list, a request for the index of each segment, and one for its
// record. The next page takes its record.
func TestRequests(t *testing.T) {
	mem := testdisk.NewMem()
	names := tree(t, mem, "/c")
	store := object.New(teststore.NewSim(1, teststore.Traits{}), "s3://bucket", object.Config{Tries: 2})
	upload(t, store, mem, "/c/crawl-data", "p/crawl-data")
	f := crawls.New(t.Context(), mem, shelf{store})
	p := must.Get(f.Place(must.Get(f.Dir("s3://bucket/p"))(t)))(t)
	page := func(url string) {
		l := must.Get(warc.Lookup(f, p, url))(t)[0]
		rec, file, err := warc.OpenRecord(f, p.Dir, l)
		must.Do(t, err)
		defer file.Close()
		must.Get(io.Copy(io.Discard, must.Get(rec.Payload(t.Context()))(t)))(t)
	}
	page("http://example.com/0")
	first := f.Store(p.Dir).Requests()
	page(fmt.Sprintf("http://example.com/%d", pages-1)) // of another segment
	then := f.Store(p.Dir).Requests()
	if first.Lists != 1 || first.Reads != len(names)+1 || then.Lists != 1 || then.Reads != first.Reads+1 ||
		then.Stats != 0 {
		t.Errorf("with %d segments: %+v, then %+v", len(names), first, then)
	}
}

// TestComplete shows complete segments only, and says so if there is none.
func TestComplete(t *testing.T) {
	mem := testdisk.NewMem()
	names := tree(t, mem, "/c")
	must.Do(t, mem.RemoveAll("/c/archive"))
	must.Do(t, mem.Remove("/c/crawl-data/web/segments/"+names[0]+"/_SUCCESS"))
	f := crawls.New(t.Context(), mem, nil)
	p := must.Get(f.Place(must.Get(f.Dir("/c"))(t)))(t)
	if len(p.Parts) != len(names)-1 || strings.Contains(fmt.Sprint(p.Parts), names[0]) {
		t.Errorf("indexes: %q", p.Parts)
	}
	for _, name := range names[1:] {
		must.Do(t, mem.Remove("/c/crawl-data/web/segments/"+name+"/_SUCCESS"))
	}
	for _, arg := range []string{"/c", "/c/crawl-data/web", "/c/crawl-data/web/segments/" + names[0], "file:///c",
		"s3://bucket/none"} {
		empty := object.New(teststore.NewSim(1, teststore.Traits{}), "s3://bucket", object.Config{Tries: 2})
		_, err := crawls.New(t.Context(), mem, shelf{empty}).Dir(arg)
		if !errors.Is(err, crawls.ErrNothing) {
			t.Errorf("%s: %v", arg, err)
		}
	}
	for _, arg := range []string{"s3://bucket/p?x=1#y", "file://host/x", "file:relative"} {
		if dir, err := crawls.New(t.Context(), mem, crawls.Opener{}).Dir(arg); err == nil && arg != "file:relative" {
			t.Errorf("%s: %s", arg, dir)
		}
	}
}

// TestHostile: no name in an index leads out of the crawl.
func TestHostile(t *testing.T) {
	mem := testdisk.NewMem()
	names := tree(t, mem, "/c")
	must.Do(t, mem.RemoveAll("/c/archive"))
	for _, dir := range []string{"/secret/warc", "/c/crawl-data/secret/segments/x/warc"} {
		must.Do(t, mem.MkdirAll(dir, 0o755))
		must.Do(t, disk.WriteFile(mem, dir+"/a.warc.gz", []byte("secret")))
	}
	f := crawls.New(t.Context(), mem, nil)
	dir := must.Get(f.Dir("/c/crawl-data/web"))(t)
	for _, name := range []string{"../../secret/warc/a.warc.gz", "/secret/warc/a.warc.gz", "a/b.warc.gz", "",
		"crawl-data/web/segments/../../../../secret/warc/a.warc.gz", "crawl-data/web/segments/../warc/a.warc.gz",
		"crawl-data/../segments/x/warc/a.warc.gz", "crawl-data/web/segments/" + names[0] + "/warc/../a.warc.gz",
		"crawl-data/web/segments/" + names[0] + "/manifest.json", "crawl-data/web/segments//warc/a.warc.gz"} {
		if file, err := warc.OpenWARC(f, dir, name); err == nil {
			t.Errorf("%q opens %s", name, file.Name())
		}
	}
}

// TestGather shows WARC files of any name as the archive of a crawl.
func TestGather(t *testing.T) {
	mem := testdisk.NewMem()
	var files []string
	for _, name := range []string{"/a/x.warc", "/b/x.warc.gz", "/b/y.warc.gz.open"} {
		must.Do(t, mem.MkdirAll(filepath.Dir(name), 0o755))
		must.Do(t, disk.WriteFile(mem, name, []byte(name)))
		files = append(files, name)
	}
	f := crawls.New(context.Background(), mem, nil)
	dir := must.Get(f.Gather(files))(t)
	var names []string
	for _, file := range must.Get(warc.Files(f, dir))(t) {
		names = append(names, filepath.Base(file.Path)+" "+f.Real(file.Path))
	}
	want := []string{"x.warc.gz /a/x.warc", "x~2.warc.gz /b/x.warc.gz", "y.warc.gz.open /b/y.warc.gz.open"}
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if _, err := f.Gather([]string{"/a"}); err == nil {
		t.Error("a directory is gathered")
	}
	if _, err := f.Gather([]string{"/none"}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
