package frontier

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// TestSpill pushes far more links than the memory can hold, and takes them all back from a real disk.
func TestSpill(t *testing.T) {
	for _, memory := range []int64{1, 20_000, 200_000, 1 << 30} {
		t.Run(fmt.Sprint(memory), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "frontier")
			f, err := Open(disk.OS, dir, Config{HostDelay: -1, Burst: -1, MemoryBytes: memory, SegmentBytes: 64 << 10})
			must.Do(t, err)
			want := manyLinks(t, testtier.Rounds(10_000, 20_000), 50)
			for i := 0; i < len(want); i += 100 {
				must.Do(t, f.Push(want[i:i+100]))
			}
			must.Do(t, f.check())
			s := f.Stats()
			if spilled := s.SpilledBytes > 0; spilled != (memory < 1<<30) {
				t.Fatalf("%d bytes spilled with a memory of %d", s.SpilledBytes, memory)
			}
			// With less than a block per host, the references take more memory than the links, so there is no bound.
			if bound := memory + memory/4 + 50*hostOverhead; memory >= 200_000 && s.RAMBytes > bound {
				t.Errorf("%d bytes in RAM, want at most %d", s.RAMBytes, bound)
			}
			if f.queues.ram > f.queues.budget() {
				t.Errorf("%d bytes of queues in RAM, want at most %d", f.queues.ram, f.queues.budget())
			}
			shows(t, f, want)
			drains(t, f, want, nil)
			if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
				t.Errorf("spill files are left: %v, %v", names, err)
			}
			must.Do(t, f.Close())
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the directory after Close: %v, want none", err)
			}
		})
	}
}

// TestSpillLevels has many hosts with one block of links each, and a few links of higher levels before it. They must
// keep within the memory as without these links, and no push may search the dictionary in vain.
func TestSpillLevels(t *testing.T) {
	const hosts, memory = 1000, 2 << 20
	pad := strings.Repeat("x", 900)
	for levels := range uint8(4) {
		t.Run(fmt.Sprint(levels), func(t *testing.T) {
			f := open(t, Config{HostDelay: -1, Burst: -1, Active: -1, MemoryBytes: memory})
			want := make([][]link.Link, levels+1)
			for i := range hosts {
				var ls []link.Link
				for j := range 7 {
					ls = append(ls, linkOf(t, fmt.Sprintf("http://h%d.example/%d/%s", i, j, pad), 0))
				}
				for level := uint8(1); level <= levels; level++ {
					ls = append(ls, linkOf(t, fmt.Sprintf("http://h%d.example/%d", i, level), level))
				}
				for _, l := range ls {
					want[levels-l.Level] = append(want[levels-l.Level], l)
				}
				must.Do(t, f.Push(ls))
				if f.queues.ram > f.queues.budget() {
					t.Fatalf("host %d: %d bytes of queues in RAM, want at most %d", i, f.queues.ram, f.queues.budget())
				}
			}
			must.Do(t, f.check())
			s := f.Stats()
			t.Logf("%d bytes in RAM, %d of them of queues; %d spilled", s.RAMBytes, f.queues.ram, s.SpilledBytes)
			if s.RAMBytes > memory {
				t.Errorf("%d bytes in RAM, want at most %d", s.RAMBytes, memory)
			}
			drains(t, f, slices.Concat(want...), nil)
			must.Do(t, f.Close())
		})
	}
}

// Links that a test writes to files whose names begin with a prefix: from the queues of hosts, or from the pools.
var written = map[string]struct {
	n, hosts int
	cfg      Config
}{
	"spill-": {3000, 20, Config{HostDelay: -1, Burst: -1, MemoryBytes: 10_000, SegmentBytes: 30_000}},
	"pool-":  {5000, 2000, Config{HostDelay: -1, Burst: -1, MemoryBytes: 10_000, SegmentBytes: 30_000, Active: 10}},
}

// TestDiskFull fills the disk while queues or pools are written. Push must return the error, and nothing may be lost.
// When there is room again, everything must go on.
func TestDiskFull(t *testing.T) {
	for prefix, c := range written {
		want := manyLinks(t, c.n, c.hosts)
		for _, room := range []int64{0, 1, 1000, 50_000, 100_000} {
			t.Run(fmt.Sprint(prefix, room), func(t *testing.T) {
				mem := testdisk.NewMem()
				faulty := testdisk.NewFaulty(mem, nil)
				f := openOn(t, faulty, c.cfg)
				faulty.Break(testdisk.FullAfter(room))
				failed := 0
				for i := 0; i < len(want); i += 50 {
					if err := f.Push(want[i : i+50]); err != nil {
						if !disk.IsFull(err) || !strings.Contains(err.Error(), prefix) {
							t.Fatalf("push: %v", err)
						}
						failed++
					}
					if i%500 == 0 || c.n < 4000 {
						must.Do(t, f.check())
					}
					if i == c.n-1000 {
						faulty.Heal()
					}
				}
				if failed == 0 {
					t.Fatal("no push failed; the disk was never full")
				}
				drains(t, f, want, nil)
				if names, err := mem.ReadDir("frontier"); err != nil || len(names) != 0 {
					t.Errorf("files are left: %v, %v", names, err)
				}
			})
		}
	}
}

// TestDamaged flips one byte of a file of queues or pools, or cuts a pool's file short. No wrong link may come out, and
// the error must name file and offset.
func TestDamaged(t *testing.T) {
	for prefix, c := range written {
		want := manyLinks(t, c.n, c.hosts)
		for _, at := range []int64{0, 5, 9, 13, 25, 5000, 20_000, -1} {
			if at == -1 && prefix == "spill-" {
				continue
			}
			t.Run(fmt.Sprint(prefix, at), func(t *testing.T) {
				mem := testdisk.NewMem()
				f := openOn(t, mem, c.cfg)
				bulk(t, f, want, 100)
				name := "frontier/" + prefix + "00000001"
				b, err := disk.ReadFile(mem, name, 1<<20)
				must.Do(t, err)
				if at >= 0 {
					b[at] ^= 0x10
				} else {
					b = b[:len(b)/2]
				}
				file, err := mem.OpenFile(name, os.O_RDWR|os.O_TRUNC, 0)
				must.Do(t, err)
				_, err = file.Write(b)
				must.Do(t, errors.Join(err, file.Close()))
				if err := f.each(func(link.Link) error { return nil }); !errors.Is(err, ErrSpill) {
					t.Errorf("each: %v", err)
				}
				for i := 0; ; i++ {
					got, ok := take(t, f, start)
					if !ok {
						break
					}
					if got != want[i] {
						t.Fatalf("link %d: %v, want %v", i, got, want[i])
					}
				}
				if err := f.Err(); !errors.Is(err, ErrSpill) || !strings.Contains(err.Error(), name+", byte ") {
					t.Errorf("Err = %v, want ErrSpill with file and offset", err)
				}
				if _, wake, ok := f.Next(start.Add(time.Hour)); ok || !wake.IsZero() {
					t.Errorf("Next after the damage: %v, wake %v; want false, zero", ok, wake)
				}
				if err := f.Push(want[:1]); !errors.Is(err, ErrSpill) {
					t.Errorf("Push after the damage: %v, want ErrSpill", err)
				}
			})
		}
	}
}

// TestSpillUnreadable checks that an I/O error on reading stops the frontier.
func TestSpillUnreadable(t *testing.T) {
	faulty := testdisk.NewFaulty(testdisk.NewMem(), nil)
	f := openOn(t, faulty, Config{HostDelay: -1, Burst: -1, MemoryBytes: 1})
	must.Do(t, f.Push(manyLinks(t, 500, 3)))
	faulty.Break(func(c testdisk.Call) testdisk.Fault {
		if !c.Op.Changes() {
			return testdisk.Fault{Err: syscall.EIO}
		}
		return testdisk.Fault{}
	})
	if _, ok := take(t, f, start); ok || !errors.Is(f.Err(), syscall.EIO) {
		t.Fatalf("Next: %v, Err: %v; want false, EIO", ok, f.Err())
	}
}

func TestOpenEmptiesItsDirectory(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "spill-00000009")
	must.Do(t, os.WriteFile(old, []byte("old"), 0o600))
	f, err := Open(disk.OS, dir, Config{})
	must.Do(t, err)
	defer f.Close()
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s still exists: %v", old, err)
	}
}

// TestLongLinks uses links that are longer than a block.
func TestLongLinks(t *testing.T) {
	f := open(t, Config{HostDelay: -1, Burst: -1, MemoryBytes: 1})
	var want []link.Link
	for i, n := range []int{10, blockBytes, 3, 5 * blockBytes, 1500, spillBlockBytes - 50, 1} {
		l := linkOf(t, fmt.Sprintf("http://a.example/%d", i), 0)
		l.Via = "http://a.example/" + strings.Repeat("x", n)
		want = append(want, l)
		must.Do(t, f.Push(want[i:]))
	}
	shows(t, f, want)
	drains(t, f, want, nil)
}

// TestReadAhead checks that, with memory for a block of each host, a link is read when the previous one is done, not
// when it is due.
func TestReadAhead(t *testing.T) {
	inNext, reads, readsInNext := false, 0, 0
	fs := testdisk.NewFaulty(testdisk.NewMem(), func(c testdisk.Call) testdisk.Fault {
		if c.Op == testdisk.OpRead {
			if reads++; inNext {
				readsInNext++
			}
		}
		return testdisk.Fault{}
	})
	f, err := Open(fs, "/q", Config{HostDelay: time.Second, MemoryBytes: 4 << 20, Active: 1000})
	must.Do(t, err)
	defer f.Close()
	const hosts, each = 20, 2000
	for j := range each {
		var ls []link.Link
		for i := range hosts {
			ls = append(ls, linkOf(t, fmt.Sprintf("http://h%d.example/%d/%0200d", i, j, j), 0))
		}
		must.Do(t, f.Push(ls))
	}
	now := start
	for n := 0; n < hosts*each; {
		inNext = true
		l, wake, ok := f.Next(now)
		inNext = false
		if !ok {
			if err := f.Err(); err != nil || !wake.After(now) {
				t.Fatalf("after %d links: %v, wake %v, now %v", n, err, wake, now)
			}
			now = wake
			continue
		}
		n++
		must.Do(t, f.Done(l.Host, Done{}, now))
	}
	t.Logf("%d reads, %d of them in Next", reads, readsInNext)
	if reads < hosts || readsInNext > 0 {
		t.Errorf("%d of %d reads were in Next, want none", readsInNext, reads)
	}
}
