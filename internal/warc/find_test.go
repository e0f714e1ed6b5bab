package warc

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
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
			if _, err := w.Write(page(url, "HTTP/1.1 200 OK\nContent-Type: text/html", body)); err != nil {
				t.Fatal(err)
			}
			want = append(want, SURT(url)+" ")
		}
		slices.Sort(want)
	}
	open := func() *Writer {
		t.Helper()
		w, _, err := Open(Config{Dir: dir, MaxBytes: 8 << 10, Now: func() time.Time {
			now = now.Add(time.Second)
			return now
		}})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	check := func(w *Writer) {
		t.Helper()
		p := Place{Dir: dir, Live: w}
		var got []string
		after := ""
		for {
			lines, err := FindLines(t.Context(), nil, p, "example,h", after, 7)
			if err != nil {
				t.Fatal(err)
			}
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
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := BuildIndex(nil, dir); err != nil {
		t.Fatal(err)
	}
	w = open()
	check(w)
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(indexPath(dir), later, later); err != nil {
		t.Fatal(err)
	}
	if files, err := indexFiles(w.cfg.FS, Place{Dir: dir}); err != nil || len(files) != 1 {
		t.Errorf("old runs are read: %q, %v", files, err)
	}
	check(w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
