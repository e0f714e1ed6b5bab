package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
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
