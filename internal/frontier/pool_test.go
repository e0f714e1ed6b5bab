package frontier

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// TestPoolOrder checks that equally available hosts' links come out by number, and that a host with links only in the
// pool takes no memory.
func TestPoolOrder(t *testing.T) {
	for _, active := range []int{1, 50, 1000} {
		for _, memory := range []int64{1, 100_000, 1 << 30} {
			t.Run(fmt.Sprintf("active=%d/memory=%d", active, memory), func(t *testing.T) {
				cfg := Config{HostDelay: -1, Burst: -1, Active: active, MemoryBytes: memory, SegmentBytes: 100_000}
				f := pooling(t, testdisk.NewMem(), cfg)
				n := testtier.Rounds(8000, 20_000)
				want := manyLinks(t, n, 3000)
				bulk(t, f, want, 100)
				s := f.Stats()
				if s.Queued != int64(n) || s.Pooled < int64(n)*5/8 || s.PoolBytes == 0 != (memory == 1<<30) &&
					s.PoolFiles == 0 {
					t.Fatalf("stats %+v", s)
				}
				if s.Hosts > active {
					t.Errorf("%d hosts in RAM, want at most %d", s.Hosts, active)
				}
				must.Do(t, f.check())
				shows(t, f, want)
				most := 0
				drains(t, f, want, func() { most = max(most, f.hosts.dict.len()) })
				if bound := active + 1500; most > bound { // 1500: the hosts of one frame
					t.Errorf("up to %d hosts in RAM, want at most %d", most, bound)
				}
			})
		}
	}
}

// TestPoolFiles checks that pool files are made, read and deleted on a real disk, and that Close leaves none.
func TestPoolFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "frontier")
	cfg := Config{HostDelay: -1, Burst: -1, Active: 5, SegmentBytes: 256 << 10, MemoryBytes: 32 << 20}
	f, err := Open(disk.OS, dir, cfg)
	must.Do(t, err)
	want := manyLinks(t, 60_000, 2000)
	bulk(t, f, want, 200)
	files := func() (n int, size int64) {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(dir, "pool-*"))
		must.Do(t, err)
		for _, name := range names {
			st, err := os.Stat(name)
			must.Do(t, err)
			size += st.Size()
		}
		return len(names), size
	}
	n, size := files()
	if s := f.Stats(); n < 3 || n != s.PoolFiles || size != s.PoolBytes {
		t.Fatalf("%d files of %d bytes, stats %+v", n, size, s)
	}
	for range want[:30_000] {
		if _, ok := take(t, f, start); !ok {
			t.Fatal(f.Err())
		}
	}
	if after, _ := files(); after >= n {
		t.Errorf("%d files, and still %d after half of the links were read", n, after)
	}
	must.Do(t, f.Close())
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory after Close: %v, want none", err)
	}
}

// TestPoolLevels checks that a link of a higher level does not wait for the pools of lower levels.
func TestPoolLevels(t *testing.T) {
	f := pooling(t, testdisk.NewMem(), Config{HostDelay: -1, Burst: -1})
	bulk(t, f, manyLinks(t, 3000, 500), 100)
	for i, level := range []uint8{3, 1, 2, 3, 1} {
		must.Do(t, f.Push([]link.Link{linkOf(t, fmt.Sprintf("http://up%d.example/", i), level)}))
	}
	var got []string
	for range 5 {
		l, ok := take(t, f, start)
		if !ok {
			t.Fatal(f.Err())
		}
		got = append(got, strings.TrimSuffix(l.URL.Host(), ".example"))
	}
	if got := strings.Join(got, " "); got != "up0 up3 up2 up1 up4" {
		t.Errorf("order %s, want up0 up3 up2 up1 up4", got)
	}
	must.Do(t, f.check())
}

// TestPoolWhale has a host with very many links before all others in the pool. The frontier must read past it in steps.
// A host that becomes due meanwhile must have its turn after at most one step.
func TestPoolWhale(t *testing.T) {
	f := pooling(t, testdisk.NewMem(), Config{HostDelay: time.Second, MemoryBytes: 4 << 20, Active: 3})
	now := start
	push(t, f, "http://a.example/1", "http://b.example/1", "http://c.example/1")
	var whale []link.Link
	for i := range 50_000 {
		whale = append(whale, linkOf(t, fmt.Sprintf("http://whale.example/%d", i), 0))
	}
	bulk(t, f, whale, 1000)
	push(t, f, "http://a.example/2", "http://d.example/1")
	for _, want := range []string{"a", "b", "c", "whale"} {
		if got, ok := take(t, f, now); !ok || got.URL.Host() != want+".example" {
			t.Fatalf("got %v, want %s", got, want)
		}
	}
	calls := 0
	for {
		queued := f.hosts.queued
		task, wake, ok := f.Next(now)
		if read := f.hosts.queued - queued; read > int64(framesRead*frameMax/20) {
			t.Fatalf("one call reads %d links", read)
		}
		if ok {
			if task.Host != "d.example" {
				t.Fatalf("got %s, want d", task.Link.URL)
			}
			break
		}
		if calls++; calls == 1 {
			push(t, f, "http://e.example/1") // goes to the end of the pool
		}
		if wake.Sub(now) > time.Microsecond {
			t.Fatalf("wake in %v, though d is not found yet; want at once", wake.Sub(now))
		}
	}
	if calls < 3 {
		t.Errorf("the whale was read in %d calls, want at least 3", calls)
	}
	must.Do(t, f.Done("d.example", Done{NoRequest: true}, now))
	// If a host is ready, a call reads one frame and gives the host out.
	must.Do(t, f.PushFront(linkOf(t, "http://f.example/", 0)))
	if task, _, ok := f.Next(now); !ok || task.Host != "f.example" {
		t.Fatalf("got %v, %v, want f", task.Link.URL, ok)
	}
	must.Do(t, f.check())
}

// TestPoolSharedAddress checks that hosts that their address holds back do not count as ready, so that the frontier
// finds hosts after them in the pool.
func TestPoolSharedAddress(t *testing.T) {
	f := pooling(t, testdisk.NewMem(), Config{HostDelay: time.Second, IPDelay: time.Hour, Active: 2, MemoryBytes: 1})
	var ls []link.Link
	for i := range 300 {
		ls = append(ls, linkOf(t, fmt.Sprintf("http://s%d.example/", i), 0))
	}
	ls = append(ls, linkOf(t, "http://192.0.2.99/", 0))
	bulk(t, f, ls, 10)
	hosts := 0
	for {
		task, wake, ok := f.Next(start)
		if !ok {
			if wake.Sub(start) <= time.Microsecond {
				continue
			}
			t.Fatalf("the host at the other address is not found; wake %v, %+v", wake, f.Stats())
		}
		if task.Host == "192.0.2.99" {
			break
		}
		if !task.Addr.IsValid() {
			f.Resolved(task.Host, loopback, start.Add(time.Hour), start)
			continue
		}
		if hosts++; hosts > 1 {
			t.Fatalf("%s was given out at a busy address", task.Host)
		}
		must.Do(t, f.Done(task.Host, Done{}, start))
	}
	must.Do(t, f.check())
}

// TestPoolFault makes each operation of the disk fail in turn. A failed write must lose nothing. A failed read must
// stop the frontier with an error that names the file, and no wrong link may come out before.
func TestPoolFault(t *testing.T) {
	want := manyLinks(t, 1500, 300)
	run := func(faulty *testdisk.Faulty, f *Frontier) (got int) {
		for i := 0; i < len(want); i += 50 {
			err := f.Push(want[i : i+50])
			if err != nil && !errors.Is(err, syscall.EIO) {
				t.Fatalf("push: %v", err)
			}
		}
		for got < len(want) {
			task, _, ok := f.Next(start)
			if !ok {
				break
			}
			if !task.Addr.IsValid() {
				f.Resolved(task.Host, loopback, start.Add(time.Hour), start)
				continue
			}
			if task.Link != want[got] {
				t.Fatalf("link %d: %v, want %v", got, task.Link, want[got])
			}
			got++
			if err := f.Done(task.Host, Done{}, start); err != nil && !errors.Is(err, syscall.EIO) {
				t.Fatal(err)
			}
		}
		return got
	}
	open := func() (*testdisk.Faulty, *Frontier) {
		faulty := testdisk.NewFaulty(testdisk.NewMem(), nil)
		cfg := Config{HostDelay: -1, Burst: -1, MemoryBytes: 20_000, SegmentBytes: 20_000}
		return faulty, pooling(t, faulty, cfg)
	}
	faulty, f := open()
	before, _ := faulty.Calls()
	run(faulty, f)
	all, _ := faulty.Calls()
	stopped, went := 0, 0
	for n := int64(0); n < all-before; n += int64(testtier.Rounds(3, 1)) {
		faulty, f := open()
		var calls int64 = -1
		reading := false
		faulty.Break(func(c testdisk.Call) testdisk.Fault {
			if calls++; calls == n {
				reading = !c.Op.Grows()
				return testdisk.Fault{Err: syscall.EIO}
			}
			return testdisk.Fault{}
		})
		got := run(faulty, f)
		switch {
		case got == len(want) && f.Err() == nil:
			went++
		case !reading || !errors.Is(f.Err(), syscall.EIO) || !strings.Contains(f.Err().Error(), "frontier/"):
			t.Fatalf("call %d: %d links, then %v", n, got, f.Err())
		default:
			stopped++
		}
		if f.Err() == nil {
			must.Do(t, f.check())
		}
	}
	if stopped == 0 || went == 0 {
		t.Errorf("of %d faults, %d stopped the frontier and %d did not; want some of each", all-before, stopped, went)
	}
}

// TestPoolBlocked checks that links of blocked hosts move from the pools to the hosts' queues and are not given out.
func TestPoolBlocked(t *testing.T) {
	f := pooling(t, testdisk.NewMem(), Config{HostDelay: -1, Burst: -1, MemoryBytes: 20_000})
	ls := manyLinks(t, 2000, 30)
	of := map[string]int64{}
	for _, l := range ls {
		of[l.URL.Host()]++
	}
	bulk(t, f, ls, 100)
	f.tick(start)
	f.Block("h3.example")
	f.Restore(HostState{Host: "h4.example", Blocked: true, Delay: 5 * time.Second})
	if s := f.Host("h4.example"); !s.Blocked || s.Delay != 5*time.Second {
		t.Errorf("restored: %+v", s)
	}
	push(t, f, "http://h3.example/more")
	of["h3.example"]++
	if f.Stats().Pooled < 1000 || f.Len() != 2001 {
		t.Fatalf("%+v", f.Stats())
	}
	for i := range 2001 - of["h3.example"] - of["h4.example"] {
		l, ok := take(t, f, start)
		if !ok || l.URL.Host() == "h3.example" || l.URL.Host() == "h4.example" {
			t.Fatalf("got %v, %v, %v", l, ok, f.Err())
		}
		if i%20 > 0 {
			continue
		}
		must.Do(t, f.check())
	}
	for {
		_, wake, ok := f.Next(start)
		if ok {
			t.Fatal("a link of a blocked host was given out")
		}
		if wake.IsZero() {
			break
		}
	}
	if s := f.Stats(); f.Pending() != 0 || s.BlockedLinks != of["h3.example"]+of["h4.example"] {
		t.Fatalf("%d pending, %+v", f.Pending(), s)
	}
	f.Unblock("h4.example")
	f.Unblock("h3.example")
	for range of["h3.example"] + of["h4.example"] {
		if l, ok := take(t, f, start); !ok || l.URL.Host() != "h3.example" && l.URL.Host() != "h4.example" {
			t.Fatalf("got %v, %v, %v", l, ok, f.Err())
		}
	}
	if f.Len() != 0 {
		t.Errorf("%d links are left", f.Len())
	}
}

// TestPoolHush checks that in the quiet time of all hosts the pool is not read in search of a host.
func TestPoolHush(t *testing.T) {
	f := pooling(t, testdisk.NewMem(), Config{HostDelay: time.Minute, MemoryBytes: 20_000})
	bulk(t, f, manyLinks(t, 3000, 1000), 100)
	f.Hush(start)
	f.Touched("h1.example", time.Hour, start) // its quiet time is longer than that of the others
	for range 50 {
		if _, wake, ok := f.Next(start.Add(time.Second)); ok || !wake.Equal(start.Add(time.Minute)) {
			t.Fatalf("%v, wake in %v, want 1m", ok, wake.Sub(start))
		}
	}
	if n := f.hosts.dict.len(); n > 20 {
		t.Errorf("%d hosts in RAM, want at most 20", n)
	}
	if _, ok := take(t, f, start.Add(time.Minute)); !ok {
		t.Error("nothing is due after the quiet time")
	}
}

// TestPoolCrash checks that a frontier starts empty after a power failure, even if files are left.
func TestPoolCrash(t *testing.T) {
	mem := testdisk.NewMem()
	f := pooling(t, mem, Config{MemoryBytes: 20_000})
	bulk(t, f, manyLinks(t, 3000, 500), 100)
	for seed := range uint64(20) {
		g := pooling(t, mem.Crash(seed), Config{MemoryBytes: 20_000})
		if _, _, ok := g.Next(start); ok || g.Len() != 0 {
			t.Fatalf("seed %d: the new frontier has %d links", seed, g.Len())
		}
		bulk(t, g, manyLinks(t, 500, 100), 100)
		must.Do(t, g.check())
	}
}

func TestExplainPool(t *testing.T) {
	f := pooling(t, testdisk.NewMem(), Config{Active: 1})
	push(t, f, "http://a.example/", "http://b.example/", "http://b.example/2")
	want := "b.example: unknown\n" +
		"  no link is queued\n" +
		"  2 links are in the pools, in no host's queue yet; some may be of this host\n"
	if got := f.Explain("b.example", start).String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func FuzzDecodeFrame(f *testing.F) {
	c := frame{first: 7, last: 8, n: 2}
	for _, d := range []byte{0, 1} {
		enc := linkOf(f, "http://a.example/", 0).AppendTo(nil)
		c.entries = append(append(c.entries, d, byte(len(enc))), enc...)
	}
	good := c.appendTo(nil)
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(append(good, good...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, size, short, ok := decodeFrame(nil, b)
		if !ok {
			if short != 0 && short <= len(b) {
				t.Errorf("decodeFrame wants %d of %d bytes", short, len(b))
			}
			return
		}
		// Compare the decoded frames: another encoder may compress the bytes differently.
		again, n, _, ok := decodeFrame(nil, c.appendTo(nil))
		same := again.n == c.n && again.first == c.first && string(again.entries) == string(c.entries)
		if !ok || n == 0 || size == 0 || !same {
			t.Errorf("encoded and decoded again: %+v, want %+v", again, c)
		}
		at, number := 0, c.first
		for at < len(c.entries) {
			enc, n, end, ok := c.at(at, number)
			if !ok {
				return
			}
			if end <= at || end-at <= len(enc) {
				t.Fatalf("the entry at %d ends at %d", at, end)
			}
			at, number = end, n
		}
	})
}
