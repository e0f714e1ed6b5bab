package testparts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// Lines reads crawl.log.
func (p *Parts) Lines(t testing.TB, fs disk.FS) []report.Line {
	t.Helper()
	if err := p.Log.Flush(); err != nil {
		t.Fatal(err)
	}
	b, err := disk.ReadFile(fs, p.dir+"/logs/crawl.log", 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	if err := Agree(fs, p.dir); err != nil {
		t.Error(err)
	}
	var ls []report.Line
	for s := range strings.Lines(string(b)) {
		l, err := report.ReadLine(s)
		if err != nil {
			t.Fatal(err)
		}
		ls = append(ls, l)
	}
	return ls
}

// Agree compares crawl.jsonl with crawl.log, in the crawl directory dir. crawl.jsonl may have more lines before,
// because it keeps its own if crawl.log is gone.
func Agree(fs disk.FS, dir string) error {
	log, err := disk.ReadFile(fs, dir+"/logs/crawl.log", 1<<30)
	if err != nil {
		return err
	}
	objects, err := disk.ReadFile(fs, dir+"/logs/crawl.jsonl", 1<<30)
	if err != nil {
		return err
	}
	var columns, fields strings.Builder
	for line := range strings.Lines(string(log)) {
		c := strings.Fields(line)
		fmt.Fprintln(&columns, c[0], c[1], c[3])
	}
	for line := range bytes.Lines(objects) {
		var o struct {
			TS     string
			Status int
			URL    string
		}
		if err := json.Unmarshal(line, &o); err != nil {
			return fmt.Errorf("crawl.jsonl: %w: %s", err, line)
		}
		fmt.Fprintln(&fields, o.TS, o.Status, o.URL)
	}
	if !strings.HasSuffix(fields.String(), columns.String()) {
		return fmt.Errorf("crawl.jsonl has\n%s\nand crawl.log has\n%s", &fields, &columns)
	}
	return nil
}

// Verify reads every WARC file in Dir. It reports damaged files, and files that are still open.
func Verify(t testing.TB, fs disk.FS) {
	t.Helper()
	eachFile(t, fs, func(name string, b []byte) {
		r, err := new(warc.Verifier).Verify(bytes.NewReader(b))
		if err != nil || !r.OK() || strings.HasSuffix(name, ".open") {
			t.Errorf("%s: %v %v", name, err, r)
		}
	})
}

// A Capture is a response or revisit record of an archive.
type Capture struct {
	Type, URL string
	Header    warc.Header
	Block     string
}

// Captures returns the captures in the archive in Dir, in the order of the files, up to the first damaged record of
// each file. If url is not empty, it returns those of url only.
func Captures(t testing.TB, fs disk.FS, url string) (all []Capture) {
	t.Helper()
	Records(t, fs, func(rec *warc.Record) {
		if rec.Type() != "response" && rec.Type() != "revisit" || url != "" && rec.URL() != url {
			return
		}
		block, err := io.ReadAll(rec)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Capture{rec.Type(), rec.URL(), slices.Clone(rec.Header), string(block)})
	})
	return all
}

// Records calls fn with the records of the archive in Dir, in the order of the files, up to the first damaged record of
// each file.
func Records(t testing.TB, fs disk.FS, fn func(*warc.Record)) {
	t.Helper()
	eachFile(t, fs, func(_ string, b []byte) {
		r := warc.NewReader(bytes.NewReader(b))
		for rec, err := r.Next(); err == nil; rec, err = r.Next() {
			fn(rec)
		}
	})
}

// eachFile reads the files of the archive in Dir, in the order of their names.
func eachFile(t testing.TB, fs disk.FS, fn func(name string, b []byte)) {
	t.Helper()
	entries, err := fs.ReadDir(Dir + "/archive")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := disk.ReadFile(fs, Dir+"/archive/"+e.Name(), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		fn(e.Name(), b)
	}
}
