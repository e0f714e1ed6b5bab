package disk_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

func TestWritable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	for _, c := range []struct {
		name string
		want error
	}{
		{dir, nil},
		{filepath.Join(dir, "a", "b"), nil},
		{filepath.Join(file, "a"), syscall.ENOTDIR},
		{file, syscall.ENOTDIR},
		{filepath.Join(dir, strings.Repeat("x", 300)), syscall.ENAMETOOLONG},
	} {
		if err := disk.Writable(c.name); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if entries, err := os.ReadDir(dir); len(entries) != 1 || err != nil {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if _, err := os.Stat("/proc/self"); err != nil {
		return // not Linux
	}
	// /proc has neither files without a name nor new directories, whatever its permissions say.
	err := disk.Writable("/proc/crawl")
	if p, ok := errors.AsType[*fs.PathError](err); !ok || p.Path != "/proc/crawl" {
		t.Errorf("/proc/crawl: %v", err)
	}
}
