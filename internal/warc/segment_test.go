package warc

import (
	"bytes"
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

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// TestParts archives every kind of record in a segment. Each is in the folder that Common Crawl would choose, and names
// the warcinfo record of its own file.
func TestParts(t *testing.T) {
	mem := testdisk.NewMem()
	cfg := testConfig("/c")
	cfg.FS, cfg.Segments.Crawl = mem, "web"
	w, _, err := Open(cfg)
	must.Do(t, err)
	write := func(x *Exchange) { t.Helper(); must.Get(w.Write(x))(t) }
	ok := "HTTP/1.1 200 OK\nContent-Type: text/html"
	write(page("http://example.com/", ok, "home"))
	write(page("http://example.com/again", ok, "home"))
	write(page("http://example.com/gone", "HTTP/1.1 404 Not Found", "gone"))
	write(page("http://example.com/moved", "HTTP/1.1 301 Moved\nLocation: /", ""))
	robots := page("http://example.com/robots.txt", ok, "User-agent: *")
	robots.Robots = true
	write(robots)
	robots = page("http://b.example/robots.txt", "HTTP/1.1 404 Not Found", "no rules")
	robots.Robots = true
	write(robots)
	write(&Exchange{URL: "http://example.com/none", Began: testTime, Request: []byte("GET / HTTP/1.1\r\n\r\n")})
	must.Do(t, w.Close())

	files, err := Files(mem, "/c")
	must.Do(t, err)
	got := map[string][]string{}
	for _, f := range files {
		b, err := disk.ReadFile(mem, f.Path, 1<<20)
		must.Do(t, err)
		info := ""
		must.Do(t, List(bytes.NewReader(b), func(r Row) error {
			if r.Type == "response" || r.Type == "revisit" || r.Type == "request" && strings.HasSuffix(r.URL, "none") {
				part := filepath.Base(filepath.Dir(f.Path))
				got[part] = append(got[part], r.Type+" "+strings.TrimPrefix(r.URL, "http://"))
			}
			return nil
		}))
		rd := NewReader(bytes.NewReader(b))
		for {
			rec, err := rd.Next()
			if err == io.EOF {
				break
			}
			must.Do(t, err)
			if rec.Type() == "warcinfo" {
				info = rec.Header.Value("WARC-Record-ID")
			} else if id := rec.Header.Value("WARC-Warcinfo-ID"); id != info {
				t.Errorf("%s: the record of %s names the warcinfo record %s, want %s", f.Name, rec.URL(), id, info)
			}
		}
	}
	want := map[string][]string{
		"warc":      {"response example.com/"},
		"robotstxt": {"response example.com/robots.txt", "response b.example/robots.txt"},
		"crawldiagnostics": {"revisit example.com/again", "response example.com/gone", "response example.com/moved",
			"request example.com/none"},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the parts have\n%v, want\n%v", got, want)
	}
	if len(files) != 3 {
		t.Errorf("%d files, want one for each part", len(files))
	}
}

// TestSegmentsEnd ends segments by time and by size, also while nothing is written. The clock is set back meanwhile:
// every record is still found.
func TestSegmentsEnd(t *testing.T) {
	mem, now := testdisk.NewMem(), testTime
	cfg := testConfig("/c")
	cfg.FS, cfg.Clock = mem, testclock.Func(func() time.Time { return now })
	cfg.Segments = Segments{Crawl: "web", Span: time.Hour, Bytes: 20_000}
	w, _, err := Open(cfg)
	must.Do(t, err)
	var written []promise
	write := func(size int) string {
		t.Helper()
		url := fmt.Sprintf("http://example.com/%d", len(written))
		body := fmt.Sprint(len(written), strings.Repeat("x", size))
		at, err := w.Write(page(url, "HTTP/1.1 200 OK\nContent-Encoding: br", body))
		must.Do(t, err)
		written = append(written, promise{url, at})
		return w.Segment()
	}
	if w.Segment() != "" {
		t.Error("a segment has begun before the first record")
	}
	first := write(100)
	now = now.Add(59 * time.Minute)
	must.Do(t, w.EndSegment())
	if s := write(100); s != first {
		t.Errorf("after 59 minutes the segment is %s, want %s", s, first)
	}
	now = now.Add(time.Minute)
	must.Do(t, w.EndSegment())
	if w.Segment() != "" {
		t.Error("after an hour without a write the segment goes on")
	}
	second := write(15_000)
	if third := write(15_000); second == first || third == second {
		t.Errorf("segments %s, %s and %s, want three", first, second, third)
	}
	if s := write(30_000); s == second {
		t.Errorf("a record above the size is in segment %s", s)
	}
	now = now.Add(-2 * time.Hour)
	write(15_000)
	must.Do(t, w.Close())

	dirs, err := segmentDirs(mem, "/c")
	must.Do(t, err)
	if len(dirs) != 5 {
		t.Errorf("%d segments, want 5: %q", len(dirs), dirs)
	}
	for _, p := range written {
		_, f, err := OpenRecord(mem, "/c", Line{File: p.at.File, Offset: p.at.Offset})
		if err != nil {
			t.Errorf("%s: %v", p.url, err)
			continue
		}
		must.Do(t, f.Close())
	}
	// The next run knows the names of all files, so that no two have the same serial number.
	w, _, err = Open(cfg)
	must.Do(t, err)
	write(10)
	must.Do(t, w.Close())
	files, err := Files(mem, "/c")
	must.Do(t, err)
	serials := map[string]bool{}
	for _, f := range files {
		serials[warcName.FindStringSubmatch(f.Name)[2]] = true
	}
	if len(serials) != len(files) || len(files) != 6 {
		t.Errorf("%d files with %d serial numbers, want 6", len(files), len(serials))
	}
	must.Do(t, checkReopened(mem, written))
}

// A part of an archive may be on another disk, behind a symbolic link.
func TestLinkedSegments(t *testing.T) {
	dir, away := t.TempDir(), t.TempDir()
	cfg := testConfig(dir)
	cfg.Segments = Segments{Crawl: "web", Bytes: 1}
	w, _, err := Open(cfg)
	must.Do(t, err)
	for _, url := range []string{"http://a.example/", "http://a.example/b"} {
		must.Get(w.Write(page(url, "HTTP/1.1 200 OK", url)))(t)
	}
	must.Do(t, w.Close())
	move := func(name string) {
		t.Helper()
		to := filepath.Join(away, filepath.Base(name))
		must.Do(t, os.Rename(name, to))
		must.Do(t, os.Symlink(to, name))
	}
	move(filepath.Join(SegmentsDir(dir, "web"), must.Get(SegmentNames(disk.OS, dir, "web"))(t)[0]))
	move(filepath.Join(dir, CrawlData, "web"))
	if files := must.Get(Files(nil, dir))(t); len(files) != 2 {
		t.Errorf("got the files %+v, want 2", files)
	}
	must.Do(t, os.RemoveAll(away))
	if files, err := Files(nil, dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the other disk: %+v, %v", files, err)
	}
}

func TestCrawlDir(t *testing.T) {
	for path, want := range map[string]string{
		"/c/archive/x.warc.gz":                            "/c",
		"/c/crawl-data/web/segments/s/warc/x.warc.gz":     "/c",
		"c/crawl-data/web/segments/s/robotstxt/x.warc.gz": "c",
		"/c/crawl-data/web/segments/s/other/x.warc.gz":    "",
		"/c/web/segments/s/warc/x.warc.gz":                "",
		"x.warc.gz":                                       "",
	} {
		if dir, ok := CrawlDir(path); ok != (want != "") || ok && dir != want {
			t.Errorf("%s: got %s, %t, want %q", path, dir, ok, want)
		}
	}
}

// TestMakeDirsNames gives MakeDirs names that are not in their shortest form, as the default directory ./crawl is.
func TestMakeDirsNames(t *testing.T) {
	for _, c := range []struct{ root, dir string }{
		{"./c", "c/x/y"}, {"c", "./c/x/y"}, {"/c/", "/c/x/y"}, {"./c/.", "c/x//y"}, {"/c", "/c"},
		{"/other", "/c/x/y"}, {"other", "c/x/y"},
	} {
		mem := testdisk.NewMem()
		must.Do(t, mem.MkdirAll(c.root, 0o755))
		must.Do(t, MakeDirs(mem, c.root, c.dir))
		if info, err := mem.Stat(c.dir); err != nil || !info.IsDir() {
			t.Errorf("MakeDirs(%q, %q): %v, %v", c.root, c.dir, info, err)
		}
	}
}

// TestLikelySegments: the segment with the last name that is not above a file's own comes first, and all others come.
func TestLikelySegments(t *testing.T) {
	stamp := func(i int) string { return fmt.Sprintf("202601010000%05d-%05d-a", i, i) }
	var names []string
	for i := range 9 {
		names = append(names, stamp(10*i))
	}
	for _, c := range []struct {
		file  int
		first int
	}{{0, 0}, {1, 0}, {9, 0}, {10, 1}, {45, 4}, {80, 8}, {99, 8}} {
		var got []string
		for _, s := range likely(names, "orbweaver-"+stamp(c.file)+".warc.gz") {
			got = append(got, s)
		}
		if got[0] != names[c.first] {
			t.Errorf("file %d: first %s, want %s", c.file, got[0], names[c.first])
		}
		if slices.Sort(got); !slices.Equal(got, names) {
			t.Errorf("file %d: %q", c.file, got)
		}
	}
	n := 0
	for range likely(names, "foreign.warc.gz") {
		n++
	}
	if n != len(names) {
		t.Errorf("of a foreign file: %d segments", n)
	}
}

// counting counts lists of folders.
type counting struct {
	disk.FS
	lists int
}

func (c *counting) ReadDir(dir string) ([]fs.DirEntry, error) {
	c.lists++
	return c.FS.ReadDir(dir)
}

// TestRememberSegments: the segments are listed once, and again for a file that is in none of them.
func TestRememberSegments(t *testing.T) {
	count := &counting{FS: testdisk.NewMem()}
	fsys := Remember(count)
	if Remember(fsys) != fsys {
		t.Error("Remember remembers twice")
	}
	name := func(i int) string { return fmt.Sprintf("orbweaver-20260101000000%03d-%05d-a.warc.gz", i, i) }
	put := func(segment int, suffix string, files ...int) string {
		dir := fmt.Sprintf("/c/crawl-data/x/segments/20260101000000%03d-%05d-a%s", segment, segment, suffix)
		must.Do(t, fsys.MkdirAll(dir+"/warc", 0o777))
		for _, i := range files {
			must.Do(t, disk.WriteFile(fsys, dir+"/warc/"+name(i), []byte("x")))
		}
		return dir
	}
	open := func(file, lists int) {
		t.Helper()
		count.lists = 0
		f, err := OpenWARC(fsys, "/c", name(file))
		if err == nil {
			must.Do(t, f.Close())
		}
		if err != nil || count.lists != lists {
			t.Errorf("file %d: %v, after %d lists, want %d", file, err, count.lists, lists)
		}
	}
	first, second := put(0, "", 0, 1), put(2, "", 2)
	open(1, 2) // of crawls and of segments
	open(0, 0)
	open(2, 0)
	put(3, "", 3)
	open(3, 2)
	open(1, 0)
	put(0, "-m2", 0, 1, 2)
	must.Do(t, errors.Join(fsys.RemoveAll(first), fsys.RemoveAll(second)))
	open(2, 2) // they were merged
	open(0, 0)
	open(3, 0)
	for range 2 {
		if _, err := OpenWARC(fsys, "/c", name(4)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file that is nowhere: %v", err)
		}
	}
	open(1, 0)
}

// BenchmarkOpenWARC opens a file by its name alone, among 1,900 segments.
func BenchmarkOpenWARC(b *testing.B) {
	dir := b.TempDir()
	must.Do(b, os.Mkdir(filepath.Join(dir, "archive"), 0o777))
	for i := range 1900 {
		at := filepath.Join(SegmentsDir(dir, "x"), fmt.Sprintf("20260101000000%03d-%05d-a", i%1000, i), "warc")
		must.Do(b, os.MkdirAll(at, 0o777))
		name := fmt.Sprintf("orbweaver-20260101000000%03d-%05d-a.warc.gz", i%1000, i)
		must.Do(b, os.WriteFile(filepath.Join(at, name), nil, 0o666))
	}
	for name, fsys := range map[string]disk.FS{"listed": disk.OS, "remembered": Remember(disk.OS)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				must.Do(b, must.Get(OpenWARC(fsys, dir, "orbweaver-20260101000000900-00900-a.warc.gz"))(b).Close())
			}
		})
	}
}
