package folder_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/object/folder"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// able is what a folder can do.
var able = object.Abilities{IfAbsent: true, IfAbsentParts: true, IfTag: true, Checksums: true, Attests: true}

func TestConformance(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (disk.FS, string){
		"machine": func(t *testing.T) (disk.FS, string) { return disk.OS, t.TempDir() },
		"memory":  func(*testing.T) (disk.FS, string) { return testdisk.NewMem(), "/" },
	} {
		t.Run(name, func(t *testing.T) {
			teststore.Conform(t, func(t *testing.T) *object.Store {
				fsys, dir := open(t)
				b := must.Get(folder.Open(fsys, dir))(t)
				return object.New(b, b.Base(), teststore.Config)
			}, able)
		})
	}
}

// TestWritersWait: a write waits while another process has the lock of the directory for a moment. If that takes
// longer, the error does not ask to stop the process: it may be another agent.
func TestWritersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testdisk.NewMem()
		b := must.Get(folder.Open(mem, "/"))(t)
		s := object.New(b, b.Base(), object.Config{Tries: 1})
		for _, c := range []struct {
			has time.Duration
			err error
		}{{time.Second, nil}, {time.Minute, object.ErrConflict}} {
			lock := must.Get(mem.Lock("/.orbweaver-store-lock"))(t)
			time.AfterFunc(c.has, func() { lock.Close() })
			key, text := c.has.String(), strings.NewReader("text")
			_, err := s.Put(t.Context(), key, text, object.Condition{IfAbsent: true})
			if !errors.Is(err, c.err) || err != nil && strings.Contains(err.Error(), "stop") {
				t.Errorf("%v: %v", c.has, err)
			}
			time.Sleep(time.Hour)
		}
	})
}

// TestPowerFailure: what Put has confirmed survives a power failure, and what it has not confirmed is whole or absent.
func TestPowerFailure(t *testing.T) {
	confirmed, kept, replaced := 0, 0, 0
	old, text := strings.Repeat("old", 1000), strings.Repeat("new", 2000)
	for seed := range uint64(testtier.Rounds(200, 5000)) {
		mem := testdisk.NewMem()
		b := must.Get(folder.Open(mem, "/"))(t)
		s := object.New(b, b.Base(), object.Config{Tries: 1})
		must.Get(s.Put(t.Context(), "a/b/first", strings.NewReader(old), object.Condition{}))(t)
		crashed := mem.Crash(seed)
		wantWhole(t, crashed, "a/b/first", old)

		// The second write ends at some call of the file system.
		left := int(seed % 200)
		faulty := testdisk.NewFaulty(mem, func(testdisk.Call) testdisk.Fault {
			if left--; left < 0 {
				return testdisk.Fault{Err: errors.New("the power has failed")}
			}
			return testdisk.Fault{}
		})
		var err error
		if b, err = folder.Open(faulty, "/"); err != nil {
			continue
		}
		_, err = object.New(b, b.Base(), object.Config{Tries: 1}).Put(t.Context(), "a/b/first", strings.NewReader(text),
			object.Condition{})
		switch crashed = mem.Crash(seed); {
		case err == nil:
			confirmed++
			wantWhole(t, crashed, "a/b/first", text)
		case wantWhole(t, crashed, "a/b/first", old, text) == old:
			kept++
		default:
			replaced++
		}
	}
	if confirmed == 0 || kept == 0 || replaced == 0 {
		t.Errorf("%d writes were confirmed; %d others left the old file and %d the new one", confirmed, kept, replaced)
	}
}

// wantWhole checks that an object has one of some contents, and that no other object is listed. It returns the content.
func wantWhole(t *testing.T, fsys disk.FS, key string, texts ...string) string {
	t.Helper()
	b := must.Get(folder.Open(fsys, "/"))(t)
	s := object.New(b, b.Base(), object.Config{Tries: 1})
	got := must.Get(s.ReadAll(t.Context(), key, 1<<20))(t)
	if !slices.Contains(texts, string(got)) {
		t.Errorf("%s has %d bytes: %.20q", key, len(got), got)
	}
	for _, i := range must.Get(s.List(t.Context(), "", "", 10))(t).Objects {
		if i.Key != key && !strings.HasPrefix(i.Key, ".orbweaver-probe-") {
			t.Errorf("%s is listed", i.Key)
		}
	}
	return string(got)
}

// TestFull: the message of a disk that is full says what to do, and has no path.
func TestFull(t *testing.T) {
	mem := testdisk.NewMem()
	b := must.Get(folder.Open(testdisk.NewFaulty(mem, testdisk.FullAfter(1000)), "/"))(t)
	s := object.New(b, b.Base(), object.Config{Tries: 1})
	_, err := s.Put(t.Context(), "a/b", strings.NewReader(strings.Repeat("x", 2000)), object.Condition{})
	if !errors.Is(err, object.ErrFull) || strings.Contains(err.Error(), "no space") {
		t.Errorf("error %v", err)
	}
	if _, err := s.Stat(t.Context(), "a/b"); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("an object is there: %v", err)
	}
}

// TestGone: if the directory of the store goes away, no request says that an object does not exist. A Store tries
// again, and goes on when the disk is back.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testdisk.NewMem()
		must.Do(t, mem.MkdirAll("/mnt/store", 0o755))
		b := must.Get(folder.Open(mem, "/mnt/store/"))(t)
		if b.Base() != "file:///mnt/store/" {
			t.Errorf("the URL is %s", b.Base())
		}
		s := object.New(b, b.Base(), object.Config{Tries: 2})
		must.Get(s.Put(t.Context(), "a/b", strings.NewReader("x"), object.Condition{}))(t)
		must.Do(t, mem.Rename("/mnt/store", "/mnt/away"))
		_, put := s.Put(t.Context(), "a/c", strings.NewReader("x"), object.Condition{IfAbsent: true})
		_, stat := s.Stat(t.Context(), "a/b")
		_, read := s.ReadAll(t.Context(), "a/b", 10)
		_, list := s.List(t.Context(), "a/", "", 10)
		for name, err := range map[string]error{"put": put, "stat": stat, "read": read, "list": list,
			"delete": s.Delete(t.Context(), "a/b")} {
			if !errors.Is(err, object.ErrUnmounted) || errors.Is(err, object.ErrNotFound) ||
				!strings.Contains(err.Error(), "is its disk mounted?") || !strings.Contains(err.Error(), "/mnt/store") {
				t.Errorf("%s: %v", name, err)
			}
		}
		time.AfterFunc(100*time.Millisecond, func() { must.Do(t, mem.Rename("/mnt/away", "/mnt/store")) })
		if _, err := s.Stat(t.Context(), "a/b"); err != nil {
			t.Errorf("the disk is back: %v", err)
		}
		if _, err := s.Stat(t.Context(), "a/none"); !errors.Is(err, object.ErrNotFound) {
			t.Errorf("an object that is not there: %v", err)
		}
	})
}
