package testparts

import (
	"bytes"
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

// Verify reads every WARC file in Dir. It reports damaged files, and files that are still open.
func Verify(t testing.TB, fs disk.FS) {
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
		r, err := warc.Verify(bytes.NewReader(b))
		if err != nil || !r.OK() || strings.HasSuffix(e.Name(), ".open") {
			t.Errorf("%s: %v %v", e.Name(), err, r)
		}
	}
}
