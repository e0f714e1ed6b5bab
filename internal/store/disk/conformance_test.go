package disk_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// TestConformance runs the same suite on every implementation of FS.
func TestConformance(t *testing.T) {
	impls := []struct {
		name string
		fs   func(t *testing.T) (disk.FS, string)
	}{
		{"OS", func(t *testing.T) (disk.FS, string) { return disk.OS, t.TempDir() }},
		{"Mem", func(t *testing.T) (disk.FS, string) { return testdisk.NewMem(), "/" }},
		{"FaultyMem", func(t *testing.T) (disk.FS, string) { return testdisk.NewFaulty(testdisk.NewMem(), nil), "." }},
		{"FaultyOS", func(t *testing.T) (disk.FS, string) { return testdisk.NewFaulty(disk.OS, nil), t.TempDir() }},
		{"Patient", func(t *testing.T) (disk.FS, string) { return disk.Patient(disk.OS, nil), t.TempDir() }},
		{"Private", func(t *testing.T) (disk.FS, string) { return disk.Private(disk.OS), t.TempDir() }},
		{"CrashedMem", func(t *testing.T) (disk.FS, string) { return testdisk.NewMem().Crash(1), "/" }},
	}
	for _, impl := range impls {
		t.Run(impl.name, func(t *testing.T) {
			for _, c := range conformance {
				t.Run(c.name, func(t *testing.T) {
					fsys, dir := impl.fs(t)
					c.run(t, fsys, dir)
				})
			}
		})
	}
}

var conformance = []struct {
	name string
	run  func(t *testing.T, fsys disk.FS, dir string)
}{
	{"write and read", func(t *testing.T, fsys disk.FS, dir string) {
		name := filepath.Join(dir, "a")
		f := open(t, fsys, name, os.O_RDWR|os.O_CREATE)
		if f.Name() != name {
			t.Errorf("Name() = %q, want %q", f.Name(), name)
		}
		must.Do(t, write(f, "hello "))
		must.Do(t, write(f, "world"))
		must.Do(t, f.Sync())
		must.Get(f.Seek(-5, io.SeekEnd))(t)
		var b [3]byte
		if n, err := f.Read(b[:]); n != 3 || err != nil || string(b[:]) != "wor" {
			t.Errorf("Read = %d, %v, %q", n, err, b)
		}
		if pos, err := f.Seek(0, io.SeekCurrent); pos != 9 || err != nil {
			t.Errorf("Seek = %d, %v, want 9", pos, err)
		}
		if n, err := f.ReadAt(b[:], 9); n != 2 || err != io.EOF {
			t.Errorf("ReadAt over the end = %d, %v, want 2, EOF", n, err)
		}
		if n, err := f.ReadAt(b[:], 100); n != 0 || err != io.EOF {
			t.Errorf("ReadAt beyond the end = %d, %v, want 0, EOF", n, err)
		}
		if _, err := f.Seek(-1, io.SeekStart); err == nil {
			t.Error("Seek before the start succeeded")
		}
		must.Do(t, f.Close())
		if _, err := f.Read(b[:]); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("Read after Close: %v", err)
		}
		wantFile(t, fsys, name, "hello world")
	}},
	{"flags", func(t *testing.T, fsys disk.FS, dir string) {
		name := filepath.Join(dir, "a")
		_, err := fsys.OpenFile(name, os.O_RDWR, 0)
		wantErr(t, "open a missing file", err, fs.ErrNotExist)
		_, err = fsys.OpenFile(filepath.Join(dir, "no", "a"), os.O_RDWR|os.O_CREATE, 0o644)
		wantErr(t, "create in a missing directory", err, fs.ErrNotExist)
		put(t, fsys, name, "one")
		_, err = fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
		wantErr(t, "create exclusively", err, fs.ErrExist)

		f := open(t, fsys, name, os.O_WRONLY|os.O_APPEND)
		must.Do(t, write(f, "two"))
		if _, err := f.Read(make([]byte, 1)); err == nil {
			t.Error("Read of a write-only file succeeded")
		}
		must.Do(t, f.Close())
		wantFile(t, fsys, name, "onetwo")

		f = open(t, fsys, name, os.O_RDONLY)
		if write(f, "x") == nil {
			t.Error("Write to a read-only file succeeded")
		}
		must.Do(t, f.Close())
		must.Do(t, open(t, fsys, name, os.O_WRONLY|os.O_TRUNC).Close())
		wantFile(t, fsys, name, "")
	}},
	{"truncate and holes", func(t *testing.T, fsys disk.FS, dir string) {
		name := filepath.Join(dir, "a")
		put(t, fsys, name, "123456")
		f := open(t, fsys, name, os.O_RDWR)
		must.Do(t, f.Truncate(3))
		must.Do(t, f.Truncate(5))
		must.Get(f.Seek(7, io.SeekStart))(t)
		must.Do(t, write(f, "x"))
		if fi, err := f.Stat(); err != nil || fi.Size() != 8 {
			t.Errorf("Stat = %v, %v, want 8 bytes", fi, err)
		}
		must.Do(t, f.Close())
		wantFile(t, fsys, name, "123\x00\x00\x00\x00x")
	}},
	{"rename", func(t *testing.T, fsys disk.FS, dir string) {
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "d", "b")
		must.Do(t, fsys.MkdirAll(filepath.Join(dir, "d"), 0o755))
		put(t, fsys, a, "new")
		put(t, fsys, b, "old")
		held := open(t, fsys, b, os.O_RDONLY)
		defer held.Close()
		must.Do(t, fsys.Rename(a, b))
		must.Do(t, fsys.SyncDir(filepath.Join(dir, "d")))
		wantFile(t, fsys, b, "new")
		if got, err := io.ReadAll(held); string(got) != "old" || err != nil {
			t.Errorf("the replaced file, still open, reads %q, %v; want \"old\"", got, err)
		}
		_, err := fsys.Stat(a)
		wantErr(t, "stat the old name", err, fs.ErrNotExist)
		wantErr(t, "rename a missing file", fsys.Rename(a, b), fs.ErrNotExist)
		if fsys.Rename(b, filepath.Join(dir, "d")) == nil {
			t.Error("renaming a file to the name of a directory succeeded")
		}
	}},
	{"directories", func(t *testing.T, fsys disk.FS, dir string) {
		sub := filepath.Join(dir, "x", "y")
		must.Do(t, fsys.MkdirAll(sub, 0o755))
		must.Do(t, fsys.MkdirAll(sub, 0o755))
		put(t, fsys, filepath.Join(sub, "b"), "22")
		put(t, fsys, filepath.Join(sub, "a"), "1")
		must.Do(t, fsys.MkdirAll(filepath.Join(sub, "c"), 0o755))
		es, err := fsys.ReadDir(sub)
		must.Do(t, err)
		var got []string
		for _, e := range es {
			fi, err := e.Info()
			must.Do(t, err)
			if e.IsDir() {
				got = append(got, e.Name()+"/")
			} else {
				got = append(got, e.Name()+strings.Repeat("*", int(fi.Size())))
			}
		}
		if g, want := strings.Join(got, " "), "a* b** c/"; g != want {
			t.Errorf("ReadDir = %q, want %q", g, want)
		}
		must.Do(t, fsys.Mkdir(filepath.Join(sub, "c", "d"), 0o755))
		for _, name := range []string{"a", "c"} {
			wantErr(t, "Mkdir of "+name, fsys.Mkdir(filepath.Join(sub, name), 0o755), fs.ErrExist)
		}
		wantErr(t, "Mkdir without a parent", fsys.Mkdir(filepath.Join(sub, "x", "y"), 0o755), fs.ErrNotExist)
		if fsys.MkdirAll(filepath.Join(sub, "a", "z"), 0o755) == nil {
			t.Error("MkdirAll below a file succeeded")
		}
		if fsys.Remove(sub) == nil {
			t.Error("Remove of a directory that is not empty succeeded")
		}
		_, err = fsys.ReadDir(filepath.Join(sub, "a"))
		if err == nil {
			t.Error("ReadDir of a file succeeded")
		}
		must.Do(t, fsys.RemoveAll(filepath.Join(dir, "x")))
		must.Do(t, fsys.RemoveAll(filepath.Join(dir, "x")))
		_, err = fsys.ReadDir(sub)
		wantErr(t, "read a removed directory", err, fs.ErrNotExist)
		wantErr(t, "sync a removed directory", fsys.SyncDir(sub), fs.ErrNotExist)
	}},
	{"remove", func(t *testing.T, fsys disk.FS, dir string) {
		name := filepath.Join(dir, "a")
		wantErr(t, "remove a missing file", fsys.Remove(name), fs.ErrNotExist)
		put(t, fsys, name, "x")
		f := open(t, fsys, name, os.O_RDONLY)
		must.Do(t, fsys.Remove(name))
		_, err := fsys.Stat(name)
		wantErr(t, "stat", err, fs.ErrNotExist)
		if got, err := io.ReadAll(f); string(got) != "x" || err != nil {
			t.Errorf("the removed file, still open, reads %q, %v; want \"x\"", got, err)
		}
		must.Do(t, f.Close())
	}},
	{"helpers", func(t *testing.T, fsys disk.FS, dir string) {
		name := filepath.Join(dir, "a")
		must.Do(t, disk.WriteFile(fsys, name, []byte("one")))
		must.Do(t, disk.WriteFile(fsys, name, []byte("three")))
		wantFile(t, fsys, name, "three")
		_, err := fsys.Stat(name + ".tmp")
		wantErr(t, "stat tmp", err, fs.ErrNotExist)
		_, err = disk.ReadFile(fsys, name, 4)
		wantErr(t, "read 5 bytes with a limit of 4", err, disk.ErrTooLarge)
		if b, err := disk.ReadFile(fsys, name, 5); string(b) != "three" || err != nil {
			t.Errorf("ReadFile = %q, %v", b, err)
		}
	}},
	{"secret", func(t *testing.T, fsys disk.FS, dir string) {
		name := filepath.Join(dir, "a")
		must.Do(t, disk.WriteFile(fsys, name, []byte("for all")))
		f, err := fsys.OpenFile(name+".tmp", os.O_WRONLY|os.O_CREATE, 0o644) // as after a crash
		must.Do(t, err)
		must.Do(t, f.Close())
		must.Do(t, disk.WriteSecret(fsys, name, []byte("for one")))
		wantFile(t, fsys, name, "for one")
		i, err := fsys.Stat(name)
		must.Do(t, err)
		if got := i.Mode().Perm(); got != 0o600 {
			t.Errorf("permissions %o, want 600", got)
		}
	}},
	{"lock", func(t *testing.T, fsys disk.FS, dir string) {
		l, err := disk.Lock(fsys, dir)
		must.Do(t, err)
		_, err = disk.Lock(fsys, dir)
		wantErr(t, "second lock", err, disk.ErrLocked)
		if want := "in use by this process"; !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not contain %q", err, want)
		}
		must.Do(t, l.Close())
		l, err = disk.Lock(fsys, dir)
		must.Do(t, err)
		must.Do(t, l.Close())
		_, err = disk.Lock(fsys, filepath.Join(dir, "none"))
		wantErr(t, "lock a missing directory", err, fs.ErrNotExist)
	}},
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: got %v, want %v", what, err, want)
	}
}

func open(t *testing.T, fsys disk.FS, name string, flag int) disk.File {
	t.Helper()
	f, err := fsys.OpenFile(name, flag, 0o644)
	must.Do(t, err)
	return f
}

func write(f disk.File, s string) error {
	n, err := f.Write([]byte(s))
	if err == nil && n != len(s) {
		return io.ErrShortWrite
	}
	return err
}

func put(t *testing.T, fsys disk.FS, name, data string) {
	t.Helper()
	f := open(t, fsys, name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	must.Do(t, write(f, data))
	must.Do(t, f.Close())
}

func wantFile(t *testing.T, fsys disk.FS, name, want string) {
	t.Helper()
	got, err := disk.ReadFile(fsys, name, 1<<20)
	must.Do(t, err)
	if !bytes.Equal(got, []byte(want)) {
		t.Errorf("%s holds %q, want %q", name, got, want)
	}
}
