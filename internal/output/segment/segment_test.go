package segment

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/warc"
)

var testTime = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// archive writes an archive of two segments, of every part.
func archive(t *testing.T, fsys disk.FS) {
	t.Helper()
	now := testTime
	w, _, err := warc.Open(warc.Config{Dir: "/c", FS: fsys, Segments: warc.Segments{Crawl: "web", Bytes: 5000},
		Clock: testclock.Func(func() time.Time { now = now.Add(time.Second); return now })})
	must.Do(t, err)
	for i := range 12 {
		status := []string{"200 OK", "404 Not Found", "200 OK"}[i%3]
		head := "HTTP/1.1 " + status + "\r\nContent-Type: text/plain\r\n\r\n"
		x := &warc.Exchange{URL: fmt.Sprintf("http://example.com/%d", 12-i), Began: now, HTTP: true, HeadLen: len(head),
			Response: warc.Bytes(fmt.Sprint(head, i/2, strings.Repeat("x", 100))), Robots: i%6 == 2,
			Request: []byte("GET / HTTP/1.1\r\n\r\n")}
		must.Get(w.Write(x))(t)
	}
	must.Do(t, w.Close())
	appendLogs(t, fsys, 12)
}

// commitAll commits all segments, as at the end of a crawl.
func commitAll(fsys disk.FS) error {
	c := Committer{FS: fsys, Dir: "/c", Crawl: "web", Software: "test/1", Idle: true, Clock: testclock.At(testTime),
		Tables: AllTables}
	names, err := c.Waiting()
	for _, name := range names {
		if _, _, err := c.Commit(context.Background(), name); err != nil {
			return err
		}
	}
	return errors.Join(err, c.WriteLists())
}

// judge checks every committed segment with standard tools alone: the manifest against the files, the index against
// the records, and the lists against the manifests. It returns the names of the committed segments.
func judge(fsys disk.FS) (done []string, err error) {
	root := "/c/crawl-data/web"
	segments, err := fsys.ReadDir(root + "/segments")
	if err != nil {
		return nil, err
	}
	want := map[string][]string{}
	for _, s := range segments {
		dir := filepath.Join(root, "segments", s.Name())
		if _, err := fsys.Stat(dir + "/_SUCCESS"); err != nil {
			continue
		}
		done = append(done, s.Name())
		want["segment"] = append(want["segment"], strings.TrimPrefix(dir, "/c/"))
		b, err := disk.ReadFile(fsys, dir+"/manifest.json", 1<<20)
		if err != nil {
			return nil, err
		}
		var m struct {
			Crawl, Segment string
			Records, Bytes int64
			Files          []struct {
				Name, SHA256   string
				Bytes, Records int64
			}
			Tables []struct {
				Name  string
				Bytes int64
			}
		}
		if err := json.Unmarshal(b, &m); err != nil || m.Segment != s.Name() || m.Crawl != "web" {
			return nil, fmt.Errorf("%s: manifest %+v, %w", s.Name(), m, err)
		}
		var index, lines []string
		records, size, names := int64(0), int64(0), map[string]bool{"manifest.json": true, "_SUCCESS": true}
		for _, f := range m.Files {
			b, err := disk.ReadFile(fsys, filepath.Join(dir, f.Name), 1<<20)
			if err != nil {
				return nil, err
			}
			if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != f.SHA256 || int64(len(b)) != f.Bytes {
				return nil, fmt.Errorf("%s: %d bytes with the digest %s, want %+v", f.Name, len(b), got, f)
			}
			size, records, names[f.Name] = size+f.Bytes, records+f.Records, true
			list := filepath.Dir(f.Name)
			if f.Name == "index.cdxj" {
				index, list = slices.Collect(strings.Lines(string(b))), "cdxj"
			}
			want[list] = append(want[list], strings.TrimPrefix(filepath.Join(dir, f.Name), "/c/"))
			if list == "cdxj" || list == "logs" || list == "links" {
				continue
			}
			before := len(lines)
			err = warc.Index(bytes.NewReader(b), strings.TrimPrefix(filepath.Join(dir, f.Name), "/c/"),
				func(line []byte) error { lines = append(lines, string(line)); return nil })
			if err != nil || int64(len(lines)-before) != f.Records {
				return nil, fmt.Errorf("%s: %d records, want %d, %w", f.Name, len(lines)-before, f.Records, err)
			}
		}
		for _, t := range m.Tables {
			if size += t.Bytes; strings.Contains(t.Name, "/cc-main/") {
				want["cc-index-table"] = append(want["cc-index-table"], t.Name)
			}
		}
		slices.Sort(lines)
		if !slices.Equal(index, lines) || records != m.Records || records == 0 || size != m.Bytes {
			return nil, fmt.Errorf("%s: index %q, want %q; %d records and %d bytes in %+v", s.Name(), index, lines,
				records, size, m)
		}
		if err := onlyThese(fsys, dir, "", names); err != nil {
			return nil, err
		}
	}
	if err := judgeLogs(fsys, done, false); err != nil {
		return done, err
	}
	for list, paths := range want {
		slices.Sort(paths)
		b, err := disk.ReadFile(fsys, root+"/"+list+".paths.gz", 1<<20)
		if err != nil {
			return done, err
		}
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return done, err
		}
		var got []string
		s := bufio.NewScanner(z)
		for s.Scan() {
			got = append(got, s.Text())
		}
		slices.Sort(got)
		if !slices.Equal(got, paths) {
			return done, fmt.Errorf("%s.paths.gz has %q, want %q", list, got, paths)
		}
	}
	return done, nil
}

// onlyThese checks that a folder has no other files.
func onlyThese(fsys disk.FS, dir, below string, names map[string]bool) error {
	entries, err := fsys.ReadDir(filepath.Join(dir, below))
	for _, e := range entries {
		name := strings.TrimPrefix(below+"/"+e.Name(), "/")
		if e.IsDir() {
			err = errors.Join(err, onlyThese(fsys, dir, name, names))
		} else if !names[name] {
			err = errors.Join(err, fmt.Errorf("%s: the file %s is not in the manifest", dir, name))
		}
	}
	return err
}

func TestCommit(t *testing.T) {
	mem := testdisk.NewMem()
	archive(t, mem)
	must.Do(t, commitAll(mem))
	done, err := judge(mem)
	if err != nil || len(done) < 2 {
		t.Fatalf("%d segments are committed, %v", len(done), err)
	}
	must.Do(t, judgeLogs(mem, done, true))
	must.Do(t, judgeTables(mem, done))
	before := mem.Clone()
	must.Do(t, commitAll(mem)) // a committed segment stays as it is
	for _, name := range done {
		for _, file := range []string{"manifest.json", "index.cdxj"} {
			path := filepath.Join("/c/crawl-data/web/segments", name, file)
			a, err := disk.ReadFile(before, path, 1<<20)
			must.Do(t, err)
			b, err := disk.ReadFile(mem, path, 1<<20)
			must.Do(t, err)
			if !bytes.Equal(a, b) {
				t.Errorf("%s has changed", path)
			}
		}
	}
}

// TestEveryWriteFails lets the disk fail at each change, then kills the process or cuts the power. What is committed
// is whole, and the next commit completes the rest.
func TestEveryWriteFails(t *testing.T) {
	whole := testdisk.NewMem()
	archive(t, whole)
	counted := testdisk.NewFaulty(whole.Clone(), nil)
	must.Do(t, commitAll(counted))
	_, changes := counted.Calls()
	for n := int64(1); n <= changes; n += int64(testtier.Rounds(5, 1)) {
		mem := whole.Clone()
		if err := commitAll(testdisk.NewFaulty(mem, testdisk.FailFrom(n, syscall.ENOSPC))); !disk.IsFull(err) {
			t.Errorf("change %d: commit ended with %v", n, err)
		}
		for name, after := range map[string]*testdisk.Mem{"killed": mem, "power lost": mem.Crash(uint64(n))} {
			if done, err := judge(after); err != nil && len(done) == 0 {
				t.Errorf("change %d, %s: %v", n, name, err)
			}
			must.Do(t, commitAll(after))
			done, err := judge(after)
			err = errors.Join(err, judgeLogs(after, done, true), judgeTables(after, done))
			if err != nil || len(done) < 2 {
				t.Errorf("change %d, %s, committed again: %d segments, %v", n, name, len(done), err)
			}
		}
	}
}

// TestUnfinished does not commit what is being written, removes an empty folder only if no crawl writes, and stops when
// it is told to.
func TestUnfinished(t *testing.T) {
	mem := testdisk.NewMem()
	archive(t, mem)
	c := Committer{FS: mem, Dir: "/c", Crawl: "web"}
	names, err := c.Waiting()
	must.Do(t, err)
	files, err := warc.SegmentFiles(mem, c.path(names[0]))
	must.Do(t, err)
	must.Do(t, mem.Rename(files[0].Path, files[0].Path+".open"))
	if _, ok, err := c.Commit(context.Background(), names[0]); ok || !errors.Is(err, ErrUnfinished) {
		t.Errorf("an open file: %v, %v", ok, err)
	}
	gone, stop := context.WithCancel(context.Background())
	stop()
	if _, ok, err := c.Commit(gone, names[1]); ok || !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v, %v", ok, err)
	}
	empty := c.path("20260102150405000-00099-agent")
	must.Do(t, mem.MkdirAll(empty+"/warc", 0o755))
	for _, c.Idle = range []bool{false, true} {
		if _, ok, err := c.Commit(context.Background(), filepath.Base(empty)); ok || err != nil {
			t.Errorf("an empty folder: %v, %v", ok, err)
		}
		if _, err := mem.Stat(empty); errors.Is(err, os.ErrNotExist) != c.Idle {
			t.Errorf("idle %v: %v", c.Idle, err)
		}
	}
}

// TestNameNotSynced: a kill comes between the renaming of a finished WARC file and the sync of its folder. The next run
// completes the segment, and the power is cut. The file keeps its last name.
func TestNameNotSynced(t *testing.T) {
	mem := testdisk.NewMem()
	archive(t, mem)
	c := Committer{FS: mem, Dir: "/c", Crawl: "web"}
	names := must.Get(c.Waiting())(t)
	file := must.Get(warc.SegmentFiles(mem, c.path(names[0])))(t)[0].Path
	must.Do(t, mem.Rename(file, file+".open"))
	must.Do(t, mem.SyncDir(filepath.Dir(file)))
	must.Do(t, mem.Rename(file+".open", file))
	must.Do(t, commitAll(mem))
	for seed := range uint64(20) {
		if _, err := mem.Crash(seed).Stat(file); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// TestHostileManifest refuses manifests that name files elsewhere, or of another format.
// A damaged manifest keeps no other segment out of the lists. A folder without a WARC file is removed if it has nothing
// else.
func TestOthersGoOn(t *testing.T) {
	mem := testdisk.NewMem()
	archive(t, mem)
	root := "/c/crawl-data/web/segments/"
	for _, dir := range []string{"0-empty/warc", "1-notes/warc", "1-notes/mine"} {
		must.Do(t, mem.MkdirAll(root+dir, 0o755))
	}
	must.Do(t, disk.WriteFile(mem, root+"1-notes/mine/text", []byte("precious")))
	must.Do(t, commitAll(mem))
	if _, err := mem.Stat(root + "0-empty"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty folder is still there: %v", err)
	}
	must.Get(disk.ReadFile(mem, root+"1-notes/mine/text", 100))(t)

	done := must.Get(judge(mem))(t)
	must.Do(t, disk.WriteFile(mem, filepath.Join(root, done[0], ManifestName), []byte("{")))
	if err := commitAll(mem); !errors.Is(err, warc.ErrDamaged) || !strings.Contains(err.Error(), done[0]) {
		t.Errorf("the error is %v", err)
	}
	must.Do(t, mem.Remove(filepath.Join(root, done[0], ManifestName)))
	if err := commitAll(mem); !errors.Is(err, warc.ErrDamaged) {
		t.Errorf("without a manifest, the error is %v", err)
	}
	must.Do(t, mem.Remove(filepath.Join(root, done[0], SuccessName)))
	must.Do(t, commitAll(mem))
	if again := must.Get(judge(mem))(t); !slices.Equal(again, done) {
		t.Errorf("completed again: %q, want %q", again, done)
	}
}

func TestHostileManifest(t *testing.T) {
	mem := testdisk.NewMem()
	must.Do(t, mem.MkdirAll("/s", 0o755))
	for _, text := range []string{
		"", "{", "null", "[]", `{"format":"orbweaver-segment-2","files":[]}`,
		`{"format":"orbweaver-segment-1","files":[{"name":"../../secret"}]}`,
		`{"format":"orbweaver-segment-1","files":[{"name":"/etc/passwd"}]}`,
		`{"format":"orbweaver-segment-1","files":[{"name":"warc/../../x"}]}`,
		`{"format":"orbweaver-segment-1","files":[{"name":""}]}`,
		`{"format":"orbweaver-segment-1","files":[{"name":"a","bytes":1e99}]}`,
	} {
		must.Do(t, disk.WriteFile(mem, "/s/manifest.json", []byte(text)))
		if m, err := ReadManifest(mem, "/s"); err == nil {
			t.Errorf("%s: read as %+v", text, m)
		}
	}
	must.Do(t, disk.WriteFile(mem, "/s/manifest.json", bytes.Repeat([]byte(" "), maxManifest+1)))
	if _, err := ReadManifest(mem, "/s"); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a manifest above the bound: %v", err)
	}
}
