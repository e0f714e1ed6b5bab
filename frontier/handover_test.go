package frontier

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/disk"
	"github.com/orbweaver/orbweaver/weburl"
)

// TestHandOver: hosts that are handed over have the same queues, clocks and
// numbers as in a frontier that kept them, and their links come out there at
// the same times and in the same order; the others stay as they were.
func TestHandOver(t *testing.T) {
	first := rand.Uint64()
	t.Logf("seed %d", first)
	for seed := first; seed < first+40; seed++ {
		const hosts = 12
		name := func(i int) string { return fmt.Sprintf("h%d.s%d.example", i, i%3) }
		live := func() (*Frontier, time.Time, map[string]bool) {
			r := rand.New(rand.NewPCG(seed, 3))
			f, err := Open(disk.NewMem(), "q", Config{HostDelay: time.Second, NoAddresses: true, Seed: seed,
				Active: []int{-1, 1, 4}[r.IntN(3)], MemoryBytes: []int64{1, 1 << 20}[r.IntN(2)], SegmentBytes: 2000})
			if err != nil {
				t.Fatal(err)
			}
			f.frameBytes = 300
			now, serial := start, 0
			busy := map[string]bool{}
			var running []Task
			for range 400 {
				switch r.IntN(6) {
				case 0, 1:
					var ls []weburl.Link
					for range 1 + r.IntN(6) {
						serial++
						ls = append(ls, link(t, fmt.Sprintf("http://%s/%d", name(r.IntN(hosts)), serial), uint8(max(0, r.IntN(6)-3))))
					}
					if err := f.Push(ls); err != nil {
						t.Fatal(err)
					}
				case 2:
					if r.IntN(4) == 0 {
						serial++
						if err := f.PushFront(link(t, fmt.Sprintf("http://%s/robots.txt?%d", name(r.IntN(hosts)), serial), 1)); err != nil {
							t.Fatal(err)
						}
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
					if err := f.Done(task.Host, d, now); err != nil {
						t.Fatal(err)
					}
				}
			}
			f.tick(now)
			return f, now, busy
		}
		kept, now, busy := live()
		giver, _, _ := live()
		taker, err := Open(disk.NewMem(), "q", Config{HostDelay: time.Second, NoAddresses: true, Active: -1, MemoryBytes: 1})
		if err != nil {
			t.Fatal(err)
		}
		var given []string
		for i := range hosts {
			if i%2 == 0 && !busy[name(i)] {
				given = append(given, name(i))
			}
		}
		for h := range busy {
			if _, err := giver.HandOver([]string{h, given[0]}, nil); !errors.Is(err, ErrInProcess) {
				t.Fatalf("seed %d: %s is in process, HandOver says %v", seed, h, err)
			}
		}
		// An error leaves all as it was.
		broken := errors.New("broken")
		all := giver.Len()
		if _, err := giver.HandOver(given, func(Waiting) error { return broken }); err != nil && !errors.Is(err, broken) || giver.Len() != all {
			t.Fatalf("seed %d: %v, %d links, want %d", seed, err, giver.Len(), all)
		}
		var ws []Waiting
		states, err := giver.HandOver(append(given, given[0], "unknown.example"), func(w Waiting) error { ws = append(ws, w); return nil })
		if err != nil {
			t.Fatal(err)
		}
		taker.tick(now)
		for _, s := range states {
			taker.Restore(s)
		}
		for part := range slices.Chunk(ws, 7) {
			if err := taker.TakeOver(part); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range []*Frontier{giver, taker} {
			if err := f.check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if giver.Len()+int64(len(ws)) != kept.Len() || taker.Len() != int64(len(ws)) {
			t.Fatalf("seed %d: %d + %d links of %d", seed, giver.Len(), taker.Len(), kept.Len())
		}
		for i := range hosts {
			h, owner := name(i), giver
			if slices.Contains(given, h) {
				owner = taker
				if giver.hosts.of(h) != nil {
					t.Fatalf("seed %d: the giver knows %s", seed, h)
				}
			}
			got, want := owner.Host(h), kept.Host(h)
			if got.Delay != want.Delay && (want.NotBefore.After(now) || want.Slow > 0) || got.Slow != want.Slow || got.Blocked != want.Blocked || !got.SlowUntil.Equal(want.SlowUntil) ||
				!got.NotBefore.Equal(want.NotBefore) && want.NotBefore.After(now) {
				t.Fatalf("seed %d: %s is %+v, want %+v", seed, h, got, want)
			}
		}
		// Each host's links, with their times, as where they were kept.
		type turn struct {
			At      time.Time
			URL     string
			Number  uint64
			Attempt int
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
				out[task.Host] = append(out[task.Host], turn{at, task.Link.URL.String(), task.Number, task.Attempt})
				if err := f.Done(task.Host, Done{}, at); err != nil {
					t.Fatal(err)
				}
			}
			if f.Err() != nil {
				t.Fatal(f.Err())
			}
			return out
		}
		want, left, taken := drain(kept), drain(giver), drain(taker)
		for i := range hosts {
			h := name(i)
			got := left[h]
			if slices.Contains(given, h) {
				got = taken[h]
			}
			if diff := cmp.Diff(want[h], got, cmp.Comparer(func(a, b time.Time) bool { return a.Sub(b).Abs() < time.Microsecond })); diff != "" {
				t.Fatalf("seed %d: %s (-kept +handed over):\n%s", seed, h, diff)
			}
		}
	}
}

// TestTakeOver: a taker that has links and pools of its own keeps its order:
// early links come early, and numbers never run backwards in a host.
func TestTakeOver(t *testing.T) {
	first := rand.Uint64()
	t.Logf("seed %d", first)
	for seed := first; seed < first+40; seed++ {
		r := rand.New(rand.NewPCG(seed, 4))
		f, err := Open(disk.NewMem(), "q", Config{HostDelay: -1, Burst: -1, NoAddresses: true, Active: 1 + r.IntN(5),
			Gather: r.IntN(4) == 0, MemoryBytes: []int64{1, 1 << 20}[r.IntN(2)], SegmentBytes: 2000})
		if err != nil {
			t.Fatal(err)
		}
		f.frameBytes = 200
		want := map[string]bool{}
		number, serial := uint64(0), 0
		add := func(kind string, host int) weburl.Link {
			serial++
			l := link(t, fmt.Sprintf("http://%s%d.example/%s%d", kind[:1], host, kind, serial), 0)
			want[l.URL.String()] = true
			return l
		}
		for range 50 + r.IntN(200) {
			switch r.IntN(3) {
			case 0:
				if err := f.Push([]weburl.Link{add("own", r.IntN(9)), add("shared", r.IntN(3))}); err != nil {
					t.Fatal(err)
				}
			case 1:
				number += uint64(r.IntN(3)) // as fast as ours, more or less
				w := Waiting{Link: add([]string{"given", "shared"}[r.IntN(2)], r.IntN(3)), Number: number, Attempt: 0}
				if r.IntN(9) == 0 {
					w.Front, w.Attempt = true, 2
				}
				if err := f.TakeOver([]Waiting{w}); err != nil {
					t.Fatal(err)
				}
			case 2:
				if task, _, ok := f.Next(start); ok {
					if !want[task.Link.URL.String()] {
						t.Fatalf("seed %d: %s comes out twice", seed, task.Link.URL)
					}
					delete(want, task.Link.URL.String())
					if err := f.Done(task.Host, Done{}, start); err != nil {
						t.Fatal(err)
					}
				}
			}
			if !f.cfg.Gather {
				if err := f.check(); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		}
		last := map[string]uint64{}
		for {
			task, _, ok := f.Next(start)
			if !ok {
				break
			}
			if !want[task.Link.URL.String()] {
				t.Fatalf("seed %d: %s comes out twice", seed, task.Link.URL)
			}
			delete(want, task.Link.URL.String())
			if task.Number < last[task.Host] && task.Attempt == 0 && !f.cfg.Gather {
				t.Fatalf("seed %d: %s has number %d, after %d", seed, task.Link.URL, task.Number, last[task.Host])
			}
			if task.Attempt == 0 {
				last[task.Host] = task.Number
			}
			if err := f.Done(task.Host, Done{}, start); err != nil {
				t.Fatal(err)
			}
		}
		if len(want) > 0 || f.Len() != 0 || f.Err() != nil {
			t.Fatalf("seed %d: %d links did not come out, %v", seed, len(want), f.Err())
		}
		if err := f.Push([]weburl.Link{add("own", 1)}); err != nil || f.number <= number && number > 0 {
			t.Fatalf("seed %d: number %d after %d, %v", seed, f.number, number, err)
		}
	}
}
