package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A work folder never takes over what another program has under its name.
func TestWork(t *testing.T) {
	at := filepath.Join(t.TempDir(), "out.partial")
	kept := filepath.Join(t.TempDir(), "kept")
	for name, c := range map[string]struct {
		make func() error
		want error
	}{
		"nothing":     {func() error { return nil }, nil},
		"empty":       {func() error { return os.Mkdir(at, 0o755) }, nil},
		"a file":      {func() error { return os.WriteFile(at, []byte("x"), 0o644) }, disk.ErrForeign},
		"a folder":    {func() error { return os.MkdirAll(filepath.Join(at, "tree"), 0o755) }, disk.ErrForeign},
		"a link":      {func() error { return os.Symlink(filepath.Dir(kept), at) }, disk.ErrForeign},
		"a lost link": {func() error { return os.Symlink("nowhere", at) }, disk.ErrForeign},
		"a lock": {func() error {
			return errors.Join(os.Mkdir(at, 0o755), os.WriteFile(filepath.Join(at, "lock"), nil, 0o644))
		}, disk.ErrForeign},
		"a marker of others": {func() error {
			return errors.Join(os.Mkdir(at, 0o755),
				os.WriteFile(filepath.Join(at, "orbweaver-unfinished"), []byte("x"), 0o644))
		}, disk.ErrForeign},
		"a marker that is a link": {func() error {
			return errors.Join(os.Mkdir(at, 0o755), os.Symlink(kept, filepath.Join(at, "orbweaver-unfinished")))
		}, disk.ErrForeign},
	} {
		must.Do(t, errors.Join(os.RemoveAll(at), os.WriteFile(kept, nil, 0o644), c.make()))
		w, err := disk.OpenWork(disk.OS, at)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if _, there := os.Lstat(at); c.want != nil && there != nil {
			t.Errorf("%s is gone", name)
		}
		if err == nil {
			must.Do(t, os.WriteFile(filepath.Join(at, "x"), nil, 0o644))
			if _, err := disk.OpenWork(disk.OS, at); !errors.Is(err, disk.ErrLocked) {
				t.Errorf("%s, twice: %v", name, err)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(at); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: it is still there after Close: %v", name, err)
			}
		}
		if _, err := os.Stat(kept); err != nil {
			t.Errorf("%s: the file behind the link is gone: %v", name, err)
		}
	}
}

// What a killed process has left is emptied.
func TestWorkOfAKilledProcess(t *testing.T) {
	at := filepath.Join(t.TempDir(), "out.partial")
	w, err := disk.OpenWork(disk.OS, at)
	must.Do(t, err)
	marker, err := os.ReadFile(filepath.Join(at, "orbweaver-unfinished"))
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	must.Do(t, errors.Join(os.MkdirAll(filepath.Join(at, "tree"), 0o755),
		os.WriteFile(filepath.Join(at, "lock"), nil, 0o644),
		os.WriteFile(filepath.Join(at, "orbweaver-unfinished"), marker, 0o644)))
	if w, err = disk.OpenWork(disk.OS, at); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := os.Stat(filepath.Join(at, "tree")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old tree is still there: %v", err)
	}
}
