package sites

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// A table that is damaged is read again. What the cache has stays known.
func TestDamagedTable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const hosts = 1000
		f := newFake("a", "b")
		name := func(i int) string { return fmt.Sprintf("h%d.example", i) }
		for i := 0; i < hosts; i += 50 {
			var some []string
			for j := range 50 {
				some = append(some, name(i+j))
			}
			f.assign(some...)
		}
		disk := testdisk.NewMem()
		small := func(c *Config) { c.MemoryBytes = 16 << 10 }
		a := start(t, f, disk, small)
		sleep(5 * time.Second)
		damage(t, disk, "run-")
		for i := range hosts {
			a.Owner(name(i))
		}
		for range 2 { // the second one comes while the table is read again
			go func() {
				got, err := a.Lookup(t.Context(), []string{name(1), name(hosts - 1)})
				if err != nil || slices.Contains(got, "") {
					t.Errorf("Lookup: %q, %v", got, err)
				}
			}()
		}
		a.verify(t, f, hosts, name) // likewise
		if st := a.Status(); st.Rebuilt == 0 || !slices.Contains(a.events, "host-table-damaged") {
			t.Errorf("status: %+v, events %v", st, a.events)
		}
		a.verify(t, f, hosts, name)
		if len(a.rosters) != 1 {
			t.Errorf("rosters in effect: %v", a.rosters)
		}
		must.Do(t, a.stop())
		for _, file := range []string{"run-", "manifest"} {
			damage(t, disk, file)
			b := start(t, f, disk, small)
			sleep(5 * time.Second)
			b.verify(t, f, hosts, name)
			must.Do(t, b.stop())
		}
	})
}

// damage changes a byte in the middle of all files whose names begin so.
func damage(t *testing.T, disk *testdisk.Mem, prefix string) {
	t.Helper()
	entries, err := disk.ReadDir("sites")
	must.Do(t, err)
	n := 0
	for _, e := range entries {
		if !strings.HasPrefix(strings.ToLower(e.Name()), prefix) {
			continue
		}
		n++
		name := filepath.Join("sites", e.Name())
		file, err := disk.OpenFile(name, 2, 0) // O_RDWR
		must.Do(t, err)
		info, err := file.Stat()
		must.Do(t, err)
		b := make([]byte, info.Size())
		_, err = file.ReadAt(b, 0)
		must.Do(t, err)
		b[len(b)/2] ^= 0x55
		_, err = file.Write(b)
		must.Do(t, err)
		must.Do(t, file.Close())
	}
	if n == 0 {
		t.Fatalf("no file %s*", prefix)
	}
}

// After a power failure at any write, and after any failed write, the table has no gap: with what it asks for, all
// hosts are there again.
func TestPowerFailureAtEachWrite(t *testing.T) { bubble(t, testPowerFailure) }

func testPowerFailure(t *testing.T) {
	rng := testseed.Rand(t)
	const hosts = 600
	h := newHistory(rng)
	h.members["a"] = assignment.Member{Name: "a", Instance: [16]byte{1}, Boot: 1, Capacity: 1, State: assignment.Up}
	h.members["b"] = assignment.Member{Name: "b", Instance: [16]byte{1}, Boot: 1, Capacity: 1, State: assignment.Up}
	h.roster()
	for len(h.hosts) < hosts {
		h.assign(30)
		if rng.IntN(5) == 0 {
			h.roster()
		}
	}
	// live opens the table and reads on. It returns the error of the disk.
	live := func(t *testing.T, fs *testdisk.Faulty) (*reader, error) {
		s, err := Open(Config{FS: fs, Dir: "sites", Self: Self{"a", [16]byte{1}, 1}, MemoryBytes: 8 << 10})
		if err != nil {
			return nil, err
		}
		r := &reader{Sites: s}
		for s.View() == 0 || int(s.table.number) < len(h.entries) {
			from := int(s.table.number)
			a := &applying{entries: h.entries[from:min(len(h.entries), from+2)], last: uint64(len(h.entries))}
			if err := s.settle(s.apply(a), false); err != nil {
				return r, err
			}
			if s.table.syncing != nil {
				if err := s.settle(s.table.endSync(<-s.table.synced), true); err != nil {
					return r, err
				}
			}
			if s.table.syncing != nil {
				if err := s.settle(s.table.endSync(<-s.table.synced), false); err != nil {
					return r, err
				}
			}
		}
		return r, nil
	}
	var all int64
	mem := testdisk.NewMem()
	fs := testdisk.NewFaulty(mem, nil)
	r, err := live(t, fs)
	must.Do(t, err)
	must.Do(t, r.Close())
	if _, all = fs.Calls(); all < 100 {
		t.Fatalf("only %d writes", all)
	}
	for at := int64(1); at <= all; at += 1 + rng.Int64N(max(1, all/60)) {
		mem := testdisk.NewMem()
		fs := testdisk.NewFaulty(mem, testdisk.FailFrom(at, errAway))
		r, err := live(t, fs)
		if err == nil {
			err = r.Close()
		} else if r != nil {
			_ = r.Close()
		}
		if err == nil && at <= all/2 {
			t.Fatalf("write %d of %d failed, and nobody has noticed", at, all)
		}
		crashed := mem.Crash(rng.Uint64())
		r, err = live(t, testdisk.NewFaulty(crashed, nil))
		if err != nil {
			t.Fatalf("after a power failure at write %d: %v", at, err)
		}
		l := &lookup{hosts: h.hosts, places: make([]place, len(h.hosts)), left: 1, done: make(chan struct{})}
		must.Do(t, r.lookUp(l))
		must.Do(t, r.settle(nil, false))
		for i, host := range h.hosts {
			want := h.of[host]
			if p := l.places[i]; p == 0 || p.number() != want.number || r.table.names[p.agent()] != want.agent {
				t.Fatalf("after a power failure at write %d, %s has the place %x, want %v", at, host, p, want)
			}
		}
		must.Do(t, r.Close())
	}
}
