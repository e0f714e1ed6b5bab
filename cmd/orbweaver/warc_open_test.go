package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A running crawl may finish a file after a command has listed the files.
func TestFileFinishedMeanwhile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.warc.gz")
	must.Do(t, os.WriteFile(name, nil, 0o644))
	read := ""
	must.Do(t, withWARC(disk.OS, name+".open", func(f disk.File) error { read = f.Name(); return nil }))
	if read != name {
		t.Errorf("opened %q, want %q", read, name)
	}
}

// TestVerifyMore counts as more only what is asked for and not listed.
func TestVerifyMore(t *testing.T) {
	for _, c := range []struct {
		warnings, errors int
		asked            bool
		want             string
	}{
		{1010, 0, false, ""},
		{1010, 0, true, "and 10 more"},
		{0, 1010, false, "and 10 more"},
		{1010, 1, false, "and 1 more"}, // no room is left for the error
	} {
		rep := &warc.Report{}
		for i := range c.warnings + c.errors {
			rep.Add(warc.Problem{Offset: warc.NoOffset, Text: "odd", Warning: i < c.warnings})
		}
		var out strings.Builder
		must.Do(t, (&WarcVerifyCmd{Warnings: c.asked}).print(&out, "a.warc", rep, nil))
		_, more, _ := strings.Cut(out.String(), "    and ")
		if more != "" {
			more = "and " + strings.TrimSuffix(more, "\n")
		}
		if more != c.want {
			t.Errorf("%+v: %q", c, more)
		}
	}
}
