package extsort

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

func newQueue(t testing.TB, fs disk.FS, limit int) *Queue {
	t.Helper()
	must.Do(t, fs.MkdirAll("/s", 0o755))
	return New(fs, "/s/run", limit, nil)
}

func randomRecord(rng *rand.Rand, size int) []byte {
	rec := make([]byte, rng.IntN(size))
	for i := range rec {
		rec[i] = byte(rng.IntN(3))
	}
	return rec
}

// noFiles checks that a closed Queue has left no files.
func noFiles(t *testing.T, fs disk.FS) {
	t.Helper()
	if es, err := fs.ReadDir("/s"); err != nil || len(es) > 0 {
		t.Errorf("%d files left, %v", len(es), err)
	}
}

// TestPriorityQueue compares a Queue with a sorted list, with memory for nearly no record and for all.
func TestPriorityQueue(t *testing.T) {
	rng := testseed.Rand(t)
	for round := range 12 {
		mem := testdisk.NewMem()
		q := newQueue(t, mem, 1<<(8+round))
		var want [][]byte
		late := uint64(1000) // what is pushed comes after what was popped, mostly
		for i := range 6000 {
			if rng.IntN(3) > 0 && i < 4000 {
				rec := binary.BigEndian.AppendUint64(nil, late+rng.Uint64N(1000)-50)
				rec = append(rec, randomRecord(rng, 60)...)
				must.Do(t, q.Push(rec))
				at, _ := slices.BinarySearchFunc(want, rec, bytes.Compare)
				want = slices.Insert(want, at, rec)
			} else if len(want) > 0 {
				got, ok := q.Min()
				if !ok || !bytes.Equal(got, want[0]) {
					t.Fatalf("round %d, step %d: %x, %v, want %x", round, i, got, ok, want[0])
				}
				late = binary.BigEndian.Uint64(got)
				must.Do(t, q.Pop())
				want = want[1:]
			}
			if q.Memory() > q.limit && len(q.ram.Items) > 8 || q.Len() != int64(len(want)) {
				t.Fatalf("round %d, step %d: %d of %d bytes, %d records, want %d", round, i, q.Memory(), q.limit,
					q.Len(), len(want))
			}
			if i%1000 == 999 {
				var all [][]byte
				must.Do(t, q.All(func(rec []byte) error { all = append(all, bytes.Clone(rec)); return nil }))
				slices.SortFunc(all, bytes.Compare)
				if !slices.EqualFunc(all, want, bytes.Equal) {
					t.Fatalf("round %d, step %d: %d records shown, want %d", round, i, len(all), len(want))
				}
			}
		}
		if round < 4 && q.made == 0 {
			t.Errorf("round %d: no run", round)
		}
		must.Do(t, q.Close())
		noFiles(t, mem)
	}
}

// sorted sorts random records twice with one Queue and compares them with a slice.
func sorted(q *Queue, rng *rand.Rand, records, size int) error {
	for range 2 {
		var want, got [][]byte
		for range records {
			rec := randomRecord(rng, size)
			want = append(want, rec)
			if err := q.Push(rec); err != nil {
				return err
			}
		}
		slices.SortFunc(want, bytes.Compare)
		if err := q.Each(func(rec []byte) error { got = append(got, bytes.Clone(rec)); return nil }); err != nil {
			return err
		}
		if !slices.EqualFunc(got, want, bytes.Equal) || q.Len() != 0 || q.Memory() != 0 {
			return errors.New("the records are others")
		}
	}
	return nil
}

// TestSort sorts in RAM, with a few runs, with merged runs, and with records larger than a block.
func TestSort(t *testing.T) {
	rng := testseed.Rand(t)
	for _, c := range []struct{ records, size, limit, runs int }{
		{0, 1, 1 << 20, 0}, {1000, 500, 1 << 20, 0}, {3000, 400, 1 << 18, 4}, {9000, 100, 1 << 12, 150},
		{200, 50_000, 1 << 20, 4}, {3, 900_000, 1 << 20, 0},
	} {
		mem := testdisk.NewMem()
		q := newQueue(t, mem, c.limit)
		if err := sorted(q, rng, c.records, c.size); err != nil || q.made < c.runs || c.runs == 0 && q.made > 0 {
			t.Errorf("%+v: %d runs, %v", c, q.made, err)
		}
		noFiles(t, mem)
	}
}

// TestFaults fails every operation in turn.
func TestFaults(t *testing.T) {
	for n := int64(2); ; n++ { // the first one is that of newQueue
		mem := testdisk.NewMem()
		fs := testdisk.NewFaulty(mem, func(c testdisk.Call) testdisk.Fault {
			if c.N == n {
				return testdisk.Fault{Err: syscall.ENOSPC}
			}
			return testdisk.Fault{}
		})
		q := newQueue(t, fs, 2000)
		err := sorted(q, rand.New(rand.NewPCG(1, 6)), 400, 100)
		if all, _ := fs.Calls(); all < n {
			if err != nil {
				t.Error(err)
			}
			return
		}
		if !disk.IsFull(err) {
			t.Fatalf("operation %d: %v", n, err)
		}
		_ = q.Close() // may fail again, for a file that is closed
	}
}

// stopped is a Stop with an error.
type stopped struct{ err error }

func (s stopped) Err() error { return s.err }

// TestStopped: the error of stop ends a long write, and the reading of many records.
func TestStopped(t *testing.T) {
	mem := testdisk.NewMem()
	q := newQueue(t, mem, 1<<20)
	over := errors.New("over")
	q.stop = stopped{over}
	if err := sorted(q, rand.New(rand.NewPCG(1, 1)), 30_000, 50); !errors.Is(err, over) {
		t.Errorf("stopped: %v", err)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	noFiles(t, mem)
	q = newQueue(t, mem, 1<<20)
	for range 2000 {
		must.Do(t, q.Push([]byte("x")))
	}
	q.stop = stopped{over}
	if err := q.Each(func([]byte) error { return nil }); !errors.Is(err, over) {
		t.Errorf("stopped while it reads: %v", err)
	}
}

// TestDamage changes a bit of a run or cuts it.
func TestDamage(t *testing.T) {
	rng := testseed.Rand(t)
	for round := range 40 {
		mem := testdisk.NewMem()
		q := newQueue(t, mem, 20_000)
		for range 400 {
			must.Do(t, q.Push(randomRecord(rng, 500)))
		}
		r := q.runs.Items[rng.IntN(len(q.runs.Items))]
		b, err := disk.ReadFile(mem, r.name, 1<<20)
		must.Do(t, err)
		at := int(r.off) + rng.IntN(len(b)-int(r.off)) // the first block was read already
		if b[at] ^= 1 << rng.IntN(8); round%4 == 0 {
			b = b[:at]
		}
		f, err := mem.OpenFile(r.name, 1, 0) // os.O_WRONLY
		if err == nil {
			_, err = f.Write(b)
		}
		if err == nil {
			err = errors.Join(f.Truncate(int64(len(b))), f.Close())
		}
		must.Do(t, err)
		if err := q.Each(func([]byte) error { return nil }); err == nil {
			t.Errorf("round %d: byte %d of %d changed, without an error", round, at, len(b))
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}
}

func FuzzRun(f *testing.F) {
	mem := testdisk.NewMem()
	q := newQueue(f, mem, 1)
	for i := range byte(20) {
		must.Do(f, q.Push([]byte{i, 'a', 'b'}))
	}
	b := must.Get(disk.ReadFile(mem, q.runs.Items[0].name, 1<<20))(f)
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		mem := testdisk.NewMem()
		must.Do(t, disk.WriteFile(mem, "/r", b))
		file := must.Get(mem.OpenFile("/r", 0, 0))(t)
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

// BenchmarkSort sorts a million records of 60 bytes in 16 MB.
func BenchmarkSort(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	rec := make([]byte, 60)
	n := 0
	for b.Loop() {
		q := New(disk.OS, b.TempDir()+"/run", 16<<20, nil)
		for range 1_000_000 {
			binary.BigEndian.PutUint64(rec, rng.Uint64())
			must.Do(b, q.Push(rec))
		}
		must.Do(b, q.Each(func([]byte) error { n++; return nil }))
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
}

// A read that fails leaves the run where it was, so that the error names the block, and a later read goes on.
func TestFailedRead(t *testing.T) {
	mem := testdisk.NewMem()
	fails := false
	fs := testdisk.NewFaulty(mem, func(c testdisk.Call) testdisk.Fault {
		if fails && c.Op == testdisk.OpRead {
			return testdisk.Fault{Err: syscall.EIO}
		}
		return testdisk.Fault{}
	})
	q := newQueue(t, fs, 1<<20)
	r := must.Get(q.write(0, func(put func([]byte) error) error {
		for i := range 3000 {
			if err := put(binary.BigEndian.AppendUint32(nil, uint32(i))); err != nil {
				return err
			}
		}
		return nil
	}))(t)
	n := 1 // write has read the first record
	for {
		before := r.off
		fails = n%7 != 0
		ok, err := r.next()
		if err != nil {
			if !errors.Is(err, syscall.EIO) || r.off != before {
				t.Fatalf("after %d records: %v, and the run goes on at %d, not at %d", n, err, r.off, before)
			}
			fails = false
			ok, err = r.next()
		}
		if err != nil || ok && binary.BigEndian.Uint32(r.head) != uint32(n) {
			t.Fatalf("record %d: %x, %v", n, r.head, err)
		}
		if !ok {
			break
		}
		n++
	}
	if n != 3000 {
		t.Errorf("%d records", n)
	}
}
