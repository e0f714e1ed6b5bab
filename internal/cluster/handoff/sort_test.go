package handoff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// sorted passes random items through a sorter on fs with room for two chunks, and compares with a
// slice. It returns the number of files.
func sorted(fs disk.FS, rng *rand.Rand, items, largest int, g *gauge) (files int, err error) {
	s := newSorter(context.Background(), fs, "sort", 2*chunkSize, g)
	defer s.close()
	var want [][]byte
	for i := range items {
		it := item{rng.Uint64N(3), byte(rng.IntN(3)), rng.Uint64N(5), uint64(i), make([]byte, rng.IntN(largest))}
		for k := range min(8, len(it.payload)) {
			it.payload[k] = byte(rng.Uint32())
		}
		if err := s.add(it); err != nil {
			return s.made, err
		}
		want = append(want, appendItem(nil, it))
	}
	slices.SortFunc(want, func(a, b []byte) int { return bytes.Compare(key(a), key(b)) })
	n := 0
	err = s.each(func(it item) error {
		if n == len(want) || !bytes.Equal(appendItem(nil, it), want[n]) {
			return fmt.Errorf("item %d is another", n)
		}
		n++
		return nil
	})
	if err == nil && n != items {
		err = fmt.Errorf("%d items of %d", n, items)
	}
	return s.made, err
}

// TestSorter sorts in RAM, with some files, and with more files than can be read at once.
func TestSorter(t *testing.T) {
	for seed, c := range []struct{ items, largest, files int }{
		{0, 1, 0}, {1000, 500, 0}, {3000, 4000, 3}, {60, 900_000, 30}, {40000, 40, 1},
	} {
		fs := testdisk.NewMem()
		var g gauge
		files, err := sorted(fs, rand.New(rand.NewPCG(uint64(seed), 5)), c.items, c.largest, &g)
		if err != nil || files < c.files {
			t.Errorf("%d items of at most %d octets: %d files, %v", c.items, c.largest, files, err)
		}
		if es, err := fs.ReadDir("."); err != nil || len(es) > 0 {
			t.Errorf("%d files stay, %v", len(es), err)
		}
		if g.now != 0 || g.peak > 2*chunkSize+writeSize {
			t.Errorf("%d items of at most %d octets: buffers have %d octets, and had %d", c.items, c.largest, g.now,
				g.peak)
		}
	}
}

// TestSorterFaults fails every operation in turn, and flips bits in between.
func TestSorterFaults(t *testing.T) {
	broken := errors.New("broken")
	for n := int64(1); ; n++ {
		mem := testdisk.NewMem()
		fs := testdisk.NewFaulty(mem, func(c testdisk.Call) testdisk.Fault {
			if c.N == n {
				return testdisk.Fault{Err: broken}
			}
			return testdisk.Fault{}
		})
		_, err := sorted(fs, rand.New(rand.NewPCG(1, 6)), 12, 900_000, &gauge{})
		if all, _ := fs.Calls(); all < n {
			if err != nil {
				t.Error(err)
			}
			break
		}
		// A file that cannot be closed or removed does no harm.
		if err != nil && !errors.Is(err, broken) {
			t.Fatalf("operation %d: %v", n, err)
		}
	}
	for seed := range uint64(20) {
		mem := testdisk.NewMem()
		rng := rand.New(rand.NewPCG(seed, 8))
		s := newSorter(context.Background(), mem, "sort", 0, &gauge{})
		for i := range 4000 {
			if err := s.add(item{host: rng.Uint64(), place: uint64(i), payload: make([]byte, 1000)}); err != nil {
				t.Fatal(err)
			}
		}
		name := s.runs[rng.IntN(len(s.runs))].name
		b, err := disk.ReadFile(mem, name, 1<<24)
		if err != nil {
			t.Fatal(err)
		}
		at := rng.IntN(len(b))
		b[at] ^= 1 << rng.IntN(8)
		if seed%4 == 0 {
			b = b[:at]
		}
		if err := disk.WriteFile(mem, name, b); err != nil {
			t.Fatal(err)
		}
		if err := s.each(func(item) error { return nil }); err == nil {
			t.Errorf("seed %d: bit at byte %d of %d flipped, without an error", seed, at, len(b))
		}
		s.close()
	}
}
