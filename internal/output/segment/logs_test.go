package segment

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
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

	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// appendLogs appends n lines to crawl.log, and more to the link log, of which it finishes some files. A part of a line
// is at the end of crawl.log, as a kill leaves it.
func appendLogs(t *testing.T, fsys disk.FS, n int) {
	t.Helper()
	must.Do(t, fsys.MkdirAll("/c/logs", 0o755))
	f := must.Get(fsys.OpenFile("/c/logs/crawl.log", os.O_RDWR|os.O_CREATE, 0o644))(t)
	defer f.Close()
	at := must.Get(f.Seek(0, io.SeekEnd))(t)
	if at > 0 {
		must.Do(t, f.Truncate(at-4))
		at = must.Get(f.Seek(0, io.SeekEnd))(t)
	}
	for i := range n {
		must.Get(fmt.Fprintf(f, "2026-01-02T15:04:05.000Z  200  10 http://a.example/%d/%d%s L - text/html #1 - - - -\n",
			at, i, strings.Repeat("x", i)))(t)
	}
	must.Get(io.WriteString(f, "line"))(t)
	for i := range n {
		w := must.Get(linklog.Open(linklog.Config{Dir: "/c", FS: fsys, Clock: testclock.At(testTime)}))(t)
		for k := range 3 {
			url := fmt.Sprintf("http://a.example/%d/%d/%d", at, i, k)
			var links linklog.Links
			links.Reset(true)
			links.Add("http://b.example/1", "a@href", nil, nil)
			links.Add("http://b.example/2", "a@href", nil, []byte("text"))
			w.Write(&linklog.Line{URL: url, Time: testTime, Status: 200, Links: &links})
		}
		if must.Do(t, w.Flush()); i%3 == 0 && i < n-1 {
			must.Do(t, w.Close())
		}
	}
}

// judgeLogs checks with standard tools that the committed segments have no line of the logs twice, and if all is set
// that they have every complete line.
func judgeLogs(fsys disk.FS, done []string, all bool) error {
	type log struct {
		Log      string
		From, To int64
		Lines    int
	}
	var ranges []log
	got := map[string]int{}
	for _, s := range done {
		dir := "/c/crawl-data/web/segments/" + s
		b, err := disk.ReadFile(fsys, dir+"/manifest.json", 1<<20)
		var m struct {
			Logs  []log
			Files []struct {
				Name  string
				Lines int
			}
		}
		if err = errors.Join(err, json.Unmarshal(b, &m)); err != nil {
			return err
		}
		ranges = append(ranges, m.Logs...)
		want, have := 0, 0
		for _, r := range m.Logs {
			want += r.Lines
		}
		for _, f := range m.Files {
			if path.Dir(f.Name) != "logs" && path.Dir(f.Name) != "links" {
				continue
			}
			text, err := unzipped(fsys, filepath.Join(dir, f.Name))
			if err != nil || strings.Count(text, "\n") != f.Lines || !strings.HasSuffix(text, "\n") {
				return fmt.Errorf("%s of %s: %d lines, %q, %w", f.Name, s, f.Lines, text, err)
			}
			have += f.Lines
			for line := range strings.Lines(text) {
				got[line]++
			}
		}
		if have != want {
			return fmt.Errorf("%s: %d lines of logs, the ranges say %d", s, have, want)
		}
	}
	slices.SortFunc(ranges, func(a, b log) int { return int(a.From - b.From) })
	ends := map[string]int64{}
	for _, r := range ranges {
		if r.From < ends[r.Log] || all && r.From > ends[r.Log] {
			return fmt.Errorf("%+v begins behind %d", r, ends[r.Log])
		}
		ends[r.Log] = r.To
	}
	for line, n := range got {
		if n != 1 {
			return fmt.Errorf("%d times: %s", n, line)
		}
	}
	if !all {
		return nil
	}
	want, err := disk.ReadFile(fsys, "/c/logs/crawl.log", 1<<20)
	lines := bytes.Count(want, []byte("\n"))
	entries, bad := fsys.ReadDir("/c/links")
	for _, e := range entries {
		name := "/c/links/" + e.Name()
		text, worse := unzipped(fsys, name)
		if err = errors.Join(err, worse); strings.HasSuffix(name, ".tmp") {
			continue
		}
		lines += strings.Count(text, "\n")
	}
	if err = errors.Join(err, bad); err != nil || lines != len(got) {
		return fmt.Errorf("the logs have %d lines, the segments have %d; %w", lines, len(got), err)
	}
	return nil
}

// unzipped returns the text of a file, which is compressed if its name says so.
func unzipped(fsys disk.FS, name string) (string, error) {
	b, err := disk.ReadFile(fsys, name, 1<<20)
	if err != nil || !strings.HasSuffix(name, ".gz") {
		return string(b), err
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(z)
	return string(text), err
}

func committer(fsys disk.FS) *Committer {
	return &Committer{FS: fsys, Dir: "/c", Crawl: "web", Idle: true, Clock: testclock.At(testTime)}
}

// TestLogsOnly gives lines that no segment has a segment of their own. It has no WARC file. A crawl that archived
// nothing has only such a segment.
func TestLogsOnly(t *testing.T) {
	mem := testdisk.NewMem()
	must.Do(t, mem.MkdirAll("/c", 0o755))
	if _, ok, err := committer(mem).CommitLogs(context.Background()); ok || err != nil {
		t.Errorf("without logs: %v, %v", ok, err)
	}
	if _, err := mem.Stat("/c/crawl-data"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without logs there is a folder: %v", err)
	}
	appendLogs(t, mem, 8)
	m, ok, err := committer(mem).CommitLogs(context.Background())
	if !ok || err != nil || m.Records != 0 || m.First != "" {
		t.Fatalf("a segment of logs: %+v, %v, %v", m, ok, err)
	}
	must.Do(t, judgeLogs(mem, []string{m.Segment}, true))
	if again, ok, err := committer(mem).CommitLogs(context.Background()); ok || err != nil {
		t.Errorf("once more: %+v, %v, %v", again, ok, err)
	}
	archive(t, mem)
	must.Do(t, commitAll(mem))
	must.Do(t, judgeLogs(mem, segmentsOf(t, mem), true))
}

func segmentsOf(t *testing.T, fsys disk.FS) (names []string) {
	t.Helper()
	for _, e := range must.Get(fsys.ReadDir("/c/crawl-data/web/segments"))(t) {
		names = append(names, e.Name())
	}
	return names
}

// TestLogsAgain: a segment that is committed again because its manifest was damaged gets its lines again. A crawl.log
// that has taken the place of another one is read from its beginning.
func TestLogsAgain(t *testing.T) {
	mem := testdisk.NewMem()
	archive(t, mem)
	must.Do(t, commitAll(mem))
	first := segmentsOf(t, mem)[0]
	appendLogs(t, mem, 7)
	if _, ok, err := committer(mem).CommitLogs(context.Background()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, name := range []string{ManifestName, SuccessName} {
		must.Do(t, mem.Remove(filepath.Join("/c/crawl-data/web/segments", first, name)))
	}
	appendLogs(t, mem, 3)
	must.Do(t, commitAll(mem))
	must.Do(t, judgeLogs(mem, segmentsOf(t, mem), true))

	must.Do(t, disk.WriteFile(mem, "/c/logs/crawl.log", []byte("another log\n")))
	m, ok, err := committer(mem).CommitLogs(context.Background())
	if err != nil || !ok || len(m.Logs) != 1 || m.Logs[0].From != 0 || m.Logs[0].To != 12 {
		t.Errorf("after another log has come: %+v, %v, %v", m, ok, err)
	}
}

// TestDamagedLinkLog: damage in a file of the link log keeps no line before it, and no other file, out of a segment.
func TestDamagedLinkLog(t *testing.T) {
	mem := testdisk.NewMem()
	must.Do(t, mem.MkdirAll("/c/links", 0o755))
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for i := range 20_000 {
		fmt.Fprintf(z, "line %x of a damaged file\n", i*i*7919)
	}
	must.Do(t, z.Close())
	for name, text := range map[string][]byte{
		"a.jsonl.gz": nil, "b.jsonl.gz": []byte("no gzip at all"), "c.jsonl.gz": b.Bytes()[:b.Len()/2],
		"d.jsonl.gz": b.Bytes(), "e.jsonl.open": []byte("one\ntw"),
	} {
		must.Do(t, disk.WriteFile(mem, "/c/links/"+name, text))
	}
	m, ok, err := committer(mem).CommitLogs(context.Background())
	if !ok || err != nil || len(m.Logs) != 5 {
		t.Fatalf("%+v, %v, %v", m, ok, err)
	}
	for i, want := range []Range{
		{End: true, Damaged: true}, {End: true, Damaged: true}, {End: true, Damaged: true}, {End: true}, {},
	} {
		r := m.Logs[i]
		if r.End != want.End || r.Damaged != want.Damaged || (r.Lines > 0) != (i > 1) || i == 3 && r.Lines != 20_000 {
			t.Errorf("%+v, want %+v", r, want)
		}
	}
	if m, ok, err := committer(mem).CommitLogs(context.Background()); ok || err != nil {
		t.Errorf("once more: %+v, %v", m, err)
	}
}
