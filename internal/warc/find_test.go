package warc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// A reader of a running crawl finds each capture as soon as Write has returned, wherever its line is: in memory, in a
// run, or in an index of an earlier crawl.
func TestFindLines(t *testing.T) {
	dir := t.TempDir()
	var want []string
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	write := func(w *Writer, from, n int) {
		t.Helper()
		for i := range n {
			url := fmt.Sprintf("http://h%d.example/p%04d", i%3, from+i)
			body := fmt.Sprintf("page %d", from+i)
			must.Get(w.Write(page(url, "HTTP/1.1 200 OK\nContent-Type: text/html", body)))(t)
			want = append(want, surt(url)+" ")
		}
		slices.Sort(want)
	}
	open := func() *Writer {
		t.Helper()
		w, _, err := Open(Config{Dir: dir, MaxBytes: 8 << 10, Clock: testclock.Func(func() time.Time {
			now = now.Add(time.Second)
			return now
		})})
		must.Do(t, err)
		return w
	}
	check := func(w *Writer) {
		t.Helper()
		p := Place{Dir: dir, Live: w}
		var got []string
		after := ""
		for {
			lines, err := FindLines(t.Context(), nil, p, "example,h", after, 7)
			must.Do(t, err)
			for _, l := range lines {
				key, _, _ := strings.Cut(l, " ")
				got = append(got, key+" ")
			}
			if len(lines) < 7 {
				break
			}
			after = lines[6]
		}
		if !slices.Equal(got, want) {
			t.Fatalf("found %d lines, want %d", len(got), len(want))
		}
		lines, err := Lookup(nil, p, "http://h1.example/p0001")
		if err != nil || len(lines) != 1 || lines[0].URL != "http://h1.example/p0001" {
			t.Errorf("Lookup: %v, %v", lines, err)
		}
		if lines, err := FindLines(t.Context(), nil, p, "example,nowhere)", "", 5); err != nil || len(lines) != 0 {
			t.Errorf("nothing: %v, %v", lines, err)
		}
	}
	w := open()
	write(w, 0, 5)
	check(w) // all in memory
	write(w, 5, 100)
	if finished, err := filepath.Glob(filepath.Join(runsDir(dir), "*")); err != nil || len(finished) < 2 {
		t.Fatalf("runs: %q, %v", finished, err)
	}
	check(w) // finished files, too
	must.Do(t, w.Close())
	must.Do(t, BuildIndex(nil, dir))
	w = open()
	check(w)
	later := time.Now().Add(time.Hour)
	must.Do(t, os.Chtimes(indexPath(dir), later, later))
	if files, err := indexFiles(w.cfg.FS, Place{Dir: dir}); err != nil || len(files) != 1 {
		t.Errorf("old runs are read: %q, %v", files, err)
	}
	check(w)
	must.Do(t, w.Close())
}

// A reader finds each capture while others write, also while a run of lines is on its way to the disk.
func TestFindMeanwhile(t *testing.T) {
	dir := t.TempDir()
	w, _, err := Open(Config{Dir: dir, MaxBytes: 4 << 10})
	must.Do(t, err)
	pages := testtier.Rounds(60, 300)
	var written atomic.Int64
	done := make(chan error, 1)
	go func() {
		for i := range pages {
			url := fmt.Sprintf("http://a.example/p%04d", i)
			x := page(url, "HTTP/1.1 200 OK\nContent-Type: text/html", fmt.Sprint("page ", i))
			if _, err := w.Write(x); err != nil {
				done <- err
				return
			}
			written.Add(1)
		}
		done <- nil
	}()
	for over := false; !over; {
		over = written.Load() == int64(pages)
		least := int(written.Load())
		lines, err := FindLines(t.Context(), nil, Place{Dir: dir, Live: w}, "example,a)", "", pages)
		must.Do(t, err)
		if len(lines) < least || !slices.IsSorted(lines) || len(slices.Compact(lines)) != len(lines) {
			t.Fatalf("%d lines, want at least %d", len(lines), least)
		}
		if len(done) > 0 && !over {
			break
		}
	}
	must.Do(t, errors.Join(<-done, w.Close()))
}

// A search in a crawl that has finished a thousand files since its index was built.
func BenchmarkFindLines(b *testing.B) {
	dir := b.TempDir()
	r := runs{fs: disk.OS, dir: runsDir(dir)}
	must.Do(b, os.MkdirAll(r.dir, 0o755))
	for f := range 1000 {
		name := fmt.Sprintf("f%04d.warc.gz", f)
		for i := range 300 {
			url := fmt.Sprintf("http://h%d.example/%d", i, f)
			l := Line{SURT: surt(url), Time: "20260102030405", URL: url, MIME: "text/html", Status: "200", File: name}
			r.add(l.AppendTo(nil))
		}
		must.Do(b, r.finish(name))
	}
	for b.Loop() {
		lines, err := FindLines(b.Context(), nil, Place{Dir: dir}, "example,h7)", "", 50)
		if err != nil || len(lines) != 50 {
			b.Fatal(len(lines), err)
		}
	}
}
