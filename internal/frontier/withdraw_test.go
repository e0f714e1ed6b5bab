package frontier

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// TestHandOver checks that hosts that are handed over have the same queues and clocks as in a frontier that kept them.
// Their links must come out at the same times and in the same order, and the other hosts must not change.
func TestHandOver(t *testing.T) {
	first := testseed.New(t)
	for seed := first; seed < first+40; seed++ {
		const hosts = 12
		name := func(i int) string { return fmt.Sprintf("h%d.s%d.example", i, i%3) }
		live := func() (*Frontier, time.Time, map[string]bool) {
			r := rand.New(rand.NewPCG(seed, 3))
			f := open(t, Config{HostDelay: time.Second, NoAddresses: true, Seed: seed,
				Active: []int{-1, 1, 4}[r.IntN(3)], MemoryBytes: []int64{1, 1 << 20}[r.IntN(2)], SegmentBytes: 2000})
			f.pools.frameBytes = 300
			now, serial := start, 0
			busy := map[string]bool{}
			var running []Task
			for range 400 {
				switch r.IntN(6) {
				case 0, 1:
					var ls []link.Link
					for range 1 + r.IntN(6) {
						serial++
						ls = append(ls, linkOf(t, fmt.Sprintf("http://%s/%d", name(r.IntN(hosts)), serial),
							uint8(max(0, r.IntN(6)-3))))
					}
					must.Do(t, f.Push(ls))
				case 2:
					if r.IntN(4) == 0 {
						serial++
						l := linkOf(t, fmt.Sprintf("http://%s/robots.txt?%d", name(r.IntN(hosts)), serial), 1)
						must.Do(t, f.PushFront(l))
					}
					if h := name(r.IntN(hosts)); r.IntN(8) == 0 {
						f.Block(h)
					} else if r.IntN(8) == 0 {
						f.Unblock(h)
					}
				case 3, 4:
					if task, _, ok := f.Next(now); ok {
						running, busy[task.Host] = append(running, task), true
					}
				case 5:
					now = now.Add(time.Duration(r.IntN(900)) * time.Millisecond)
					if len(running) == 0 {
						break
					}
					task := running[0]
					running = running[1:]
					delete(busy, task.Host)
					d := Done{SlowDown: r.IntN(5) == 0, Delay: time.Duration(r.IntN(3)) * time.Second}
					if r.IntN(3) == 0 {
						d.Again, d.Attempt = &task.Link, task.Attempt+1
					}
					must.Do(t, f.Done(task.Host, d, now))
				}
			}
			f.tick(now)
			return f, now, busy
		}
		kept, now, busy := live()
		from, _, _ := live()
		cfg := Config{HostDelay: time.Second, NoAddresses: true, Active: -1, MemoryBytes: 1}
		taker := open(t, cfg)
		var given []string
		for i := range hosts {
			if i%2 == 0 && !busy[name(i)] {
				given = append(given, name(i))
			}
		}
		for h := range busy {
			if _, err := from.HandOver(h); !errors.Is(err, ErrInProcess) {
				t.Fatalf("seed %d: HandOver of %s, which is in process: %v, want ErrInProcess", seed, h, err)
			}
		}
		taker.tick(now)
		for _, h := range append(given, given[0], "unknown.example") {
			s, err := from.HandOver(h)
			must.Do(t, err)
			if !reflect.DeepEqual(s, HostState{Host: h}) {
				taker.Restore(s)
			}
		}
		// Links in the pools come last; nothing else is left there then.
		moved := int64(0)
		move := func() {
			for done := false; !done; {
				var err error
				if done, err = from.Withdrawn(7, func(w Waiting) error {
					moved++
					if w.Front {
						return taker.PushFront(w.Link)
					}
					return taker.Push([]link.Link{w.Link})
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
		move()
		total := from.Len()
		for len(from.pools.list) > 0 {
			must.Do(t, from.readOn(from.pools.list[0]))
			if err := from.check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		move()
		for _, f := range []*Frontier{from, taker} {
			if err := f.check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if from.Len()+moved != kept.Len() || taker.Len() != moved || total < from.Len() {
			t.Fatalf("seed %d: %d + %d links, want %d", seed, from.Len(), taker.Len(), kept.Len())
		}
		for i := range hosts {
			h, owner := name(i), from
			if slices.Contains(given, h) {
				owner = taker
				if from.hosts.dict.of(h) != nil {
					t.Fatalf("seed %d: the from still knows %s", seed, h)
				}
			}
			got, want := owner.Host(h), kept.Host(h)
			wrongDelay := got.Delay != want.Delay && (want.NotBefore.After(now) || want.Slow > 0)
			wrongTime := !got.NotBefore.Equal(want.NotBefore) && want.NotBefore.After(now)
			if wrongDelay || wrongTime || got.Slow != want.Slow || got.Blocked != want.Blocked ||
				!got.SlowUntil.Equal(want.SlowUntil) {
				t.Fatalf("seed %d: %s is %+v, want %+v", seed, h, got, want)
			}
		}
		// The links of each host must come at the same times as in the frontier that kept them.
		type turn struct {
			At  time.Time
			URL string
		}
		drain := func(f *Frontier) map[string][]turn {
			out := map[string][]turn{}
			for i := range hosts {
				f.Unblock(name(i))
			}
			for at := now; ; {
				task, wake, ok := f.Next(at)
				if !ok {
					if wake.IsZero() {
						break
					}
					at = wake
					continue
				}
				out[task.Host] = append(out[task.Host], turn{at, task.Link.URL.String()})
				must.Do(t, f.Done(task.Host, Done{}, at))
			}
			if f.Err() != nil {
				t.Fatal(f.Err())
			}
			return out
		}
		want, left, taken := drain(kept), drain(from), drain(taker)
		for i := range hosts {
			h := name(i)
			got := left[h]
			if slices.Contains(given, h) {
				got = taken[h]
			}
			near := cmp.Comparer(func(a, b time.Time) bool { return a.Sub(b).Abs() < time.Microsecond })
			if diff := cmp.Diff(want[h], got, near); diff != "" {
				t.Fatalf("seed %d: %s (-kept +handed over):\n%s", seed, h, diff)
			}
		}
	}
}

// TestWithdrawPooled checks that links that are withdrawn while in the pools are delivered once by Withdrawn, and no
// others, in any order of their numbers.
func TestWithdrawPooled(t *testing.T) {
	for _, memory := range []int64{20_000, 1 << 20} {
		f := pooling(t, testdisk.NewMem(), Config{HostDelay: -1, Burst: -1, MemoryBytes: memory})
		ls := manyLinks(t, 2000, 30)
		bulk(t, f, ls, 100)
		f.tick(start)
		want := map[string]bool{} // withdrawn URLs
		note := func(host string, ls []link.Link) {
			for _, l := range ls {
				if l.URL.Host() == host {
					want[l.URL.String()] = true
				}
			}
		}
		f.Block("h3.example")
		f.Withdraw("h3.example") // works for a blocked host too
		note("h3.example", ls)
		f.Withdraw("h5.example")
		f.Withdraw("h5.example")
		note("h5.example", ls)
		f.Withdraw("unknown.example")
		late := []link.Link{linkOf(t, "http://h5.example/late", 0), linkOf(t, "http://h6.example/late", 0)}
		if err := f.PushAt(late, []uint64{2000, 2000}); err != nil { // the last number again
			t.Fatal(err)
		}
		f.Withdraw("h6.example")
		note("h6.example", ls)
		note("h6.example", late)
		f.Unblock("h3.example")
		push(t, f, "http://h6.example/later")
		given, shown := map[string]bool{}, map[string]bool{}
		for i := 0; len(given)+len(shown) < 2003; i++ {
			if i%20 == 0 {
				must.Do(t, f.check())
			}
			if l, ok := take(t, f, start); ok {
				given[l.URL.String()] = true
			}
			before := len(shown)
			_, err := f.Withdrawn(3, func(w Waiting) error { shown[w.Link.URL.String()] = true; return nil })
			must.Do(t, err)
			if len(shown) > before+3 {
				t.Fatalf("Withdrawn(3) gives %d links", len(shown)-before)
			}
		}
		if diff := cmp.Diff(want, shown); diff != "" {
			t.Fatalf("withdrawn (-want +got):\n%s", diff)
		}
		for u := range given {
			if want[u] {
				t.Fatalf("%s was both given out and withdrawn", u)
			}
		}
		if f.Len() != 0 || f.Withdrawing("h3.example") || f.Withdrawing("h6.example") {
			t.Errorf("%d links are left, or marks are left in the pools", f.Len())
		}
	}
}

// TestWithdrawAtOnce checks that Withdraw reads nothing from disk, however many links a host has.
func TestWithdrawAtOnce(t *testing.T) {
	fs := &countingFS{FS: testdisk.NewMem()}
	f := pooling(t, fs, Config{HostDelay: -1, Burst: -1, MemoryBytes: 20_000})
	bulk(t, f, manyLinks(t, 5000, 30), 100)
	f.tick(start)
	f.Next(start) // puts some links into queues
	if s := f.Stats(); s.Pooled < 4000 || s.PoolBytes == 0 {
		t.Fatalf("%+v", s)
	}
	reads := fs.reads
	for i := range 30 {
		f.Block(fmt.Sprintf("h%d.example", i))
		f.Withdraw(fmt.Sprintf("h%d.example", i))
	}
	if fs.reads != reads {
		t.Errorf("Withdraw made %d reads, want none", fs.reads-reads)
	}
	if f.Len() != 5000 {
		t.Errorf("%d links after Withdraw, want 5000", f.Len())
	}
}

// A countingFS counts reads.
type countingFS struct {
	disk.FS
	reads int
}

func (c *countingFS) OpenFile(name string, flag int, perm os.FileMode) (disk.File, error) {
	f, err := c.FS.OpenFile(name, flag, perm)
	return countingFile{f, c}, err
}

type countingFile struct {
	disk.File
	fs *countingFS
}

func (f countingFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.reads++
	return f.File.ReadAt(p, off)
}
