package delivery

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// A modelLine is a line of the model, with the position after it.
type modelLine struct {
	text string
	next int64
}

// TestLogAgainstModel compares a Log with a list. The machine fails or the process is killed at random.
func TestLogAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.New(t), 1))
	fsys := testdisk.NewMem()
	for _, dir := range []string{"/crawl/state", "/crawl", "/"} {
		must.Do(t, errors.Join(fsys.MkdirAll(dir, 0o755), fsys.SyncDir(dir)))
	}
	open := func() (*Store, *Log) {
		s := must.Get(open(fsys, "/crawl/state/applications", 300))(t)
		l := must.Get(s.Create("news"))(t)
		return s, l
	}
	s, l := open()
	var all []modelLine
	durable, acked, last := 0, 0, int64(0) // numbers of lines
	check := func(l *Log, want []modelLine) {
		t.Helper()
		from := int64(0)
		for _, w := range want {
			got, err := l.Read(from, 1+rng.IntN(3))
			if err != nil || len(got) == 0 {
				t.Fatalf("read from %d: %d lines, %v; want %q", from, len(got), err, w.text)
			}
			if string(got[0].Text) != w.text || got[0].Next != w.next {
				t.Fatalf("read from %d: %q up to %d, want %q up to %d", from, got[0].Text, got[0].Next, w.text, w.next)
			}
			from = w.next
		}
	}
	for i := range 3000 {
		switch n := rng.IntN(100); {
		case n < 60:
			text := fmt.Sprintf("line %d %s", i, strings.Repeat("x", rng.IntN(60)))
			must.Do(t, l.Append(func(b []byte) []byte { return append(b, text...) }))
			all = append(all, modelLine{text, l.end64()})
		case n < 70:
			tell, before := s.Syncing(), len(all)
			must.Do(t, s.Flush())
			must.Do(t, s.Sync())
			changed := l.Changed()
			tell()
			if before > durable {
				<-changed
			}
			durable = before
		case n < 80:
			if durable > acked {
				acked += 1 + rng.IntN(durable-acked)
				last = all[acked-1].next
				must.Do(t, l.Acknowledge(last+int64(rng.IntN(2))))
			}
		case n < 82:
			if err := l.Acknowledge(last / 2); err != nil { // it never goes back
				t.Fatal(err)
			}
		case n < 90:
			check(l, all[acked:durable])
			if got, err := l.Read(0, len(all)+1); err != nil || len(got) > durable-acked {
				t.Fatalf("%d lines, %v; %d are durable", len(got), err, durable-acked)
			}
		case n < 92:
			if n == 90 {
				fsys = fsys.Crash(rng.Uint64())
			} else {
				fsys = fsys.Clone()
			}
			s, l = open()
			left := must.Get(l.Read(0, 1<<20))(t)
			// Of the lines that were not durable, any may be lost.
			kept := slices.Clone(all[:acked])
			for i, m := range all[acked:] {
				if n := len(kept) - acked; n < len(left) && left[n].Next == m.next && string(left[n].Text) == m.text {
					kept = append(kept, m)
				} else if acked+i < durable {
					t.Fatalf("the durable line %q is lost", m.text)
				}
			}
			if len(kept)-acked != len(left) {
				t.Fatalf("%d lines after a crash, of which %d were appended", len(left), len(kept)-acked)
			}
			all = kept
			durable = len(all)
			check(l, all[acked:])
		}
		if w := l.Waiting(); w != len(all)-acked {
			t.Fatalf("%d lines wait, want %d", w, len(all)-acked)
		}
	}
	if files, err := fsys.ReadDir("/crawl/state/applications/news"); err != nil || len(files) > 3+(len(all)-acked)/3 {
		t.Errorf("%d files for %d lines, %v", len(files), len(all)-acked, err)
	}
}

func TestStoreKeeps(t *testing.T) {
	fsys := testdisk.NewMem()
	s, err := Open(fsys, "/apps")
	must.Do(t, err)
	for _, name := range []string{"a", "b"} {
		l := must.Get(s.Create(name))(t)
		must.Do(t, l.Append(func(b []byte) []byte { return append(b, "page of "+name...) }))
	}
	changed := s.Log("b").Changed()
	must.Do(t, s.Keep(func(name string) bool { return name == "a" }))
	<-changed // a reader that waits must look again
	if s.Log("b") != nil || s.Log("a") == nil {
		t.Error("the wrong log was deleted")
	}
	must.Do(t, s.Close())
	if s, err = Open(fsys, "/apps"); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, err := s.Log("a").Read(0, 9); err != nil || len(got) != 1 || string(got[0].Text) != "page of a" {
		t.Errorf("%+v, %v", got, err)
	}
	if s.Log("b") != nil {
		t.Error("a deleted log is back")
	}
	var none *Store
	if none.Log("a") != nil || none.Flush() != nil || none.Sync() != nil || none.Close() != nil {
		t.Error("no Store has a log")
	}
	none.Syncing()()
}

// TestAcknowledgeFails checks that a position that could not be made durable does not count.
func TestAcknowledgeFails(t *testing.T) {
	mem := testdisk.NewMem()
	faulty := testdisk.NewFaulty(mem, nil)
	s := must.Get(Open(faulty, "/apps"))(t)
	defer s.Close()
	l := must.Get(s.Create("a"))(t)
	must.Do(t, l.Append(func(b []byte) []byte { return append(b, "x"...) }))
	tell := s.Syncing()
	must.Do(t, s.Sync())
	tell()
	faulty.Break(testdisk.FailFrom(1, disk.ErrLocked))
	if err := l.Acknowledge(2); err == nil {
		t.Error("no error")
	}
	faulty.Heal()
	if got, err := l.Read(0, 9); err != nil || !slices.EqualFunc(got, []string{"x"}, func(l Line, s string) bool {
		return string(l.Text) == s
	}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestKeepDeletesLater: if the files of a Log cannot be deleted, the next Keep deletes them, and a Log that is created
// again under the name does not have their lines.
func TestKeepDeletesLater(t *testing.T) {
	const dir = "/state/applications"
	broken := errors.New("input/output error")
	for _, c := range []struct {
		name string
		then func(s *Store) error
		left bool // a directory of this name is left
	}{
		{"keep", func(s *Store) error { return s.Keep(func(string) bool { return true }) }, false},
		{"create", func(s *Store) error { _, err := s.Create("news"); return err }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := testdisk.NewMem()
			fsys := testdisk.NewFaulty(mem, nil)
			s := must.Get(Open(fsys, dir))(t)
			l := must.Get(s.Create("news"))(t)
			add := func(b []byte) []byte { return append(b, "{}"...) }
			must.Do(t, errors.Join(l.Append(add), s.Flush()))
			fsys.Break(func(call testdisk.Call) testdisk.Fault {
				if call.Op == testdisk.OpRemoveAll {
					return testdisk.Fault{Err: broken}
				}
				return testdisk.Fault{}
			})
			none := func(string) bool { return false }
			for range 2 {
				if err := s.Keep(none); !errors.Is(err, broken) {
					t.Fatalf("Keep: %v, want %v", err, broken)
				}
			}
			if s.Log("news") != nil {
				t.Error("the Log is still there")
			}
			if _, err := s.Create("news"); !errors.Is(err, broken) {
				t.Errorf("Create: %v, want %v", err, broken)
			}
			fsys.Heal()
			must.Do(t, c.then(s))
			if l := s.Log("news"); l != nil && l.Waiting() > 0 {
				t.Errorf("the new Log has %d lines of the old one", l.Waiting())
			}
			if _, err := mem.Stat(dir + "/news"); (err == nil) != c.left {
				t.Errorf("the directory is left: %t, want %t", err == nil, c.left)
			}
		})
	}
}
