package strategy

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

func newSchedule(t testing.TB, fs disk.FS, limit int64) *schedule {
	t.Helper()
	if err := fs.MkdirAll("/s", 0o755); err != nil {
		t.Fatal(err)
	}
	return &schedule{fs: fs, dir: "/s", limit: limit}
}

// TestScheduleModel compares a schedule with a sorted list, with memory for nearly no entry
// and for all.
func TestScheduleModel(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 0))
		mem := testdisk.NewMem()
		s := newSchedule(t, mem, 1<<(8+rng.IntN(12)))
		var want []entry
		late := int64(0) // what is pushed is due later than what was popped, mostly
		most := 0
		for i := range 6000 {
			if rng.IntN(3) > 0 && i < 4000 {
				data := make([]byte, rng.IntN(60))
				for j := range data {
					data[j] = byte(rng.IntN(3))
				}
				e := entry{late + int64(rng.IntN(1000)) - 50, data}
				if err := s.push(e.due, bytes.Clone(data)); err != nil {
					t.Fatal(err)
				}
				at, _ := slices.BinarySearchFunc(want, e, entry.compare)
				want = slices.Insert(want, at, e)
			} else if len(want) > 0 {
				peek, ok := s.earliest()
				if !ok || peek.compare(want[0]) != 0 {
					t.Fatalf("seed %d, step %d: earliest %v %v, want %v", seed, i, peek, ok, want[0])
				}
				got, err := s.pop()
				if err != nil || got.compare(want[0]) != 0 {
					t.Fatalf("seed %d, step %d: %v, %v, want %v", seed, i, got, err, want[0])
				}
				late = got.due
				want = want[1:]
			}
			most = max(most, len(s.runs))
			if s.ram > s.limit && len(s.heap) > 8 || s.n != int64(len(want)) {
				t.Fatalf("seed %d, step %d: %d of %d bytes, %d entries, want %d", seed, i, s.ram, s.limit, s.n,
					len(want))
			}
			if i%1000 == 999 {
				var all []entry
				if err := s.each(func(e entry) error {
					all = append(all, entry{e.due, bytes.Clone(e.data)})
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				slices.SortFunc(all, entry.compare)
				if !slices.EqualFunc(all, want, func(a, b entry) bool { return a.compare(b) == 0 }) {
					t.Fatalf("seed %d, step %d: %d entries shown, want %d", seed, i, len(all), len(want))
				}
			}
		}
		if seed < 3 {
			t.Logf("seed %d: budget %d, %d runs made, %d at once", seed, s.limit, s.made, most)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		if es, err := mem.ReadDir("/s"); err != nil || len(es) > 0 {
			t.Errorf("seed %d: %d files left, %v", seed, len(es), err)
		}
	}
}

// The schedule reports errors of the disk and changed blocks.
func TestScheduleErrors(t *testing.T) {
	fill := func(s *schedule) error {
		for i := range 2000 {
			if err := s.push(int64(i*7919%2000), fmt.Append(nil, "page ", i)); err != nil {
				return err
			}
		}
		return nil
	}
	full := testdisk.NewFaulty(testdisk.NewMem(), func(c testdisk.Call) testdisk.Fault {
		if c.Op == testdisk.OpWrite {
			return testdisk.Fault{Err: syscall.ENOSPC}
		}
		return testdisk.Fault{}
	})
	if err := fill(newSchedule(t, full, 4096)); !disk.IsFull(err) {
		t.Errorf("on a full disk: %v", err)
	}

	mem := testdisk.NewMem()
	s := newSchedule(t, mem, 4096)
	if err := fill(s); err != nil {
		t.Fatal(err)
	}
	name := s.runs[0].name
	b, err := disk.ReadFile(mem, name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-3] ^= 1
	f, err := mem.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.runs { // read again what is on disk
		r.off, r.rest = 0, nil
		if _, err := r.next(); err != nil {
			if !errors.Is(err, errSchedule) || r.name != name {
				t.Errorf("%s: %v", r.name, err)
			}
			if err := s.close(); err != nil {
				t.Error(err)
			}
			return
		}
	}
	t.Error("a changed block was not noticed")
}

func FuzzRun(f *testing.F) {
	mem := testdisk.NewMem()
	s := newSchedule(f, mem, 1)
	for i := range 20 {
		if err := s.push(int64(i), []byte("abc")); err != nil {
			f.Fatal(err)
		}
	}
	b, err := disk.ReadFile(mem, s.runs[0].name, 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		mem := testdisk.NewMem()
		if err := disk.WriteFile(mem, "/r", b); err != nil {
			t.Fatal(err)
		}
		file, err := mem.OpenFile("/r", os.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		r := &run{name: "/r", file: file, end: int64(len(b))}
		for n := 0; ; n++ {
			ok, err := r.next()
			if err != nil || !ok {
				return
			}
			if n > len(b) {
				t.Fatal("no end")
			}
		}
	})
}
