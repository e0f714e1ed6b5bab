//go:build unix

package disk_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

func TestHeld(t *testing.T) {
	dir := t.TempDir()
	held := func(want bool) {
		t.Helper()
		if got, err := disk.Held(dir); err != nil || got != want {
			t.Errorf("Held: %v, %v, want %v", got, err, want)
		}
	}
	held(false) // no lock file
	l, err := disk.Lock(disk.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	held(true)
	held(true)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	held(false)
	if l, err = disk.Lock(disk.OS, dir); err != nil {
		t.Errorf("after Held: %v", err)
	} else if err := l.Close(); err != nil {
		t.Error(err)
	}
	name := filepath.Join(dir, disk.LockName)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere", name); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Held(dir); err == nil {
		t.Error("a symbolic link is taken for a lock")
	}
}
