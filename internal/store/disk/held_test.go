//go:build unix

package disk_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
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
	must.Do(t, err)
	held(true)
	held(true)
	must.Do(t, l.Close())
	held(false)
	if l, err = disk.Lock(disk.OS, dir); err != nil {
		t.Errorf("after Held: %v", err)
	} else if err := l.Close(); err != nil {
		t.Error(err)
	}
	name := filepath.Join(dir, disk.LockName)
	must.Do(t, os.Remove(name))
	must.Do(t, os.Symlink("elsewhere", name))
	if _, err := disk.Held(dir); err == nil {
		t.Error("a symbolic link is taken for a lock")
	}
}
