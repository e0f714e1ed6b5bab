package frontier

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// bySeed is a ClassOf by the first letter of the link's seed.
func bySeed(l *link.Link) uint8 {
	if l.Seed == "" {
		return 0
	}
	return l.Seed[0] - 'a' + 1
}

// classed returns n links of a class at each of some hosts.
func classed(t testing.TB, seed string, level uint8, n int, hosts ...string) (ls []link.Link) {
	for i := range n {
		for _, h := range hosts {
			l := linkOf(t, fmt.Sprintf("http://%s/%s%d", h, seed, i), level)
			l.Seed = seed
			ls = append(ls, l)
		}
	}
	return ls
}

func hostNames(n int, prefix string) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s%d.example", prefix, i))
	}
	return names
}

// counts takes n links, and counts them by their seeds.
func counts(t testing.TB, f *Frontier, now time.Time, n int) map[string]int {
	t.Helper()
	by := map[string]int{}
	for range n {
		l, ok := take(t, f, now)
		if !ok {
			break
		}
		by[l.Seed]++
	}
	must.Do(t, f.check())
	return by
}

// TestClassShares checks that classes get their shares when all have ready hosts: each with hosts of its own, all at
// the same hosts, all at one host, and from pools.
func TestClassShares(t *testing.T) {
	for _, c := range []struct {
		name   string
		hosts  [2][]string
		active int
	}{
		{"own hosts", [2][]string{hostNames(400, "a"), hostNames(400, "b")}, -1},
		{"same hosts", [2][]string{hostNames(400, "a"), hostNames(400, "a")}, -1},
		{"one host", [2][]string{hostNames(1, "a"), hostNames(1, "a")}, -1},
		{"many and one", [2][]string{hostNames(400, "a"), hostNames(1, "b")}, -1},
		{"pools", [2][]string{hostNames(400, "a"), hostNames(400, "b")}, 20},
		{"pools of the same hosts", [2][]string{hostNames(400, "a"), hostNames(400, "a")}, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := open(t, Config{HostDelay: -1, Burst: -1, Active: c.active,
				MemoryBytes: 64 << 10, ClassOf: bySeed})
			f.SetClasses([]Class{1: {Weight: 3}, 2: {Weight: 1}})
			each := 8000 / len(c.hosts[0])
			bulk(t, f, classed(t, "a", 0, each, c.hosts[0]...), 500)
			bulk(t, f, classed(t, "b", 0, 8000/len(c.hosts[1]), c.hosts[1]...), 500)
			counts(t, f, start, 400) // hosts that were ready before b came
			by := counts(t, f, start, 4000)
			if share := float64(by["a"]) / 4000; share < 0.72 || share > 0.78 {
				t.Errorf("%v: class a got %.3f of the requests, want 0.75", by, share)
			}
			for f.Len() > 0 { // nothing is lost
				if n := counts(t, f, start, 1000); len(n) == 0 {
					t.Fatalf("%d links are left", f.Len())
				}
			}
		})
	}
}

// TestClassInDelay checks the shares at a host whose delay is the bottleneck, also for a class that comes later.
func TestClassInDelay(t *testing.T) {
	f := open(t, Config{HostDelay: time.Second, ClassOf: bySeed})
	f.SetClasses(nil)
	bulk(t, f, classed(t, "a", 0, 1000, "h.example"), 1000)
	now := start
	for range 100 {
		now = now.Add(time.Second)
		counts(t, f, now, 1)
	}
	bulk(t, f, classed(t, "b", 0, 1000, "h.example"), 1000)
	by := map[string]int{}
	for range 100 {
		now = now.Add(time.Second)
		for s, n := range counts(t, f, now, 1) {
			by[s] += n
		}
	}
	if by["a"] < 48 || by["b"] < 48 {
		t.Errorf("%v: two classes of equal weight, and one host", by)
	}
}

// TestClassBusyElsewhere checks the shares of two classes at a slow host, while a third one has fast hosts.
func TestClassBusyElsewhere(t *testing.T) {
	f := open(t, Config{HostDelay: time.Second, ClassOf: bySeed})
	f.SetClasses([]Class{1: {Weight: 3}, 2: {Weight: 1}})
	bulk(t, f, classed(t, "a", 0, 400, "h.example"), 400)
	bulk(t, f, classed(t, "b", 0, 400, "h.example"), 400)
	bulk(t, f, classed(t, "c", 0, 410, hostNames(3, "c")...), 500)
	now, by := start, map[string]int{}
	for range 400 {
		now = now.Add(time.Second)
		for seed, n := range counts(t, f, now, 10) {
			by[seed] += n
		}
	}
	if by["c"] != 1200 || by["a"]+by["b"] != 400 || by["a"] < 285 || by["a"] > 315 {
		t.Errorf("%v, want 1200 of c, and 300 of a", by)
	}
}

// TestClassIdle checks that a class gets all requests while the other one has no links, and no more than its share
// afterwards.
func TestClassIdle(t *testing.T) {
	f := open(t, Config{HostDelay: -1, Burst: -1, ClassOf: bySeed})
	f.SetClasses(nil)
	bulk(t, f, classed(t, "a", 0, 30, hostNames(100, "a")...), 3000)
	if by := counts(t, f, start, 1000); by["a"] != 1000 {
		t.Fatalf("%v: class a is alone", by)
	}
	bulk(t, f, classed(t, "b", 0, 30, hostNames(100, "b")...), 3000)
	counts(t, f, start, 200)
	if by := counts(t, f, start, 1000); by["a"] < 480 || by["b"] < 480 {
		t.Errorf("%v: both classes have the same weight", by)
	}
}

// TestClassLevels checks that higher levels come first within a class: strictly at a host, and early among the hosts.
func TestClassLevels(t *testing.T) {
	f := open(t, Config{HostDelay: -1, Burst: -1, ClassOf: bySeed})
	f.SetClasses(nil)
	bulk(t, f, classed(t, "a", 0, 5, "h.example"), 5)
	bulk(t, f, classed(t, "a", 200, 5, "h.example"), 5) // counts as 15
	bulk(t, f, classed(t, "b", 3, 5, "h.example"), 5)
	var order []string
	for range 15 {
		l, _ := take(t, f, start)
		order = append(order, fmt.Sprint(l.Seed, min(l.Level, 15)))
	}
	if got := strings.Join(order, " "); got != "a15 b3 b3 a15 b3 a15 b3 a15 b3 a15 a0 a0 a0 a0 a0" {
		t.Error(got)
	}
	bulk(t, f, classed(t, "a", 0, 1, hostNames(1000, "a")...), 1000)
	bulk(t, f, classed(t, "a", 15, 1, hostNames(10, "c")...), 10)
	for range 2 * 1000 / 16 {
		take(t, f, start)
	}
	for _, h := range hostNames(10, "c") {
		if x := f.Explain(h, start); x.State == "ready" {
			t.Fatalf("level 15 waits behind level 0: %v", x)
		}
	}
}

// TestClassHeld checks that the links of a held class stay, at hosts of their own and at shared ones, in queues and in
// pools, that other classes go on, and that they come when the class is free again.
func TestClassHeld(t *testing.T) {
	for _, active := range []int{-1, 10} {
		f := open(t, Config{HostDelay: -1, Active: active, MemoryBytes: 64 << 10,
			ClassOf: bySeed})
		f.SetClasses(nil)
		bulk(t, f, classed(t, "a", 0, 10, append(hostNames(100, "a"), hostNames(100, "c")...)...), 500)
		bulk(t, f, classed(t, "b", 0, 10, append(hostNames(100, "b"), hostNames(100, "c")...)...), 500)
		f.SetClasses([]Class{1: {Held: true}})
		if by := counts(t, f, start, 5000); by["a"] != 0 || by["b"] != 2000 {
			t.Fatalf("active %d: %v, while class a is held", active, by)
		}
		if n := f.Pending(); n != 2000 {
			t.Errorf("active %d: %d links are pending, want 2000", active, n)
		}
		_, wake, ok := f.Next(start)
		if ok || wake.IsZero() || wake.After(start.Add(time.Second)) {
			t.Errorf("active %d: Next returns %v, %v", active, wake, ok)
		}
		if x := f.Explain("c1.example", start); active < 0 && !strings.Contains(x.String(), "held for now") {
			t.Error(x)
		}
		f.SetClasses(nil)
		now := start.Add(2 * time.Second)
		if by := counts(t, f, now, 5000); by["a"] != 2000 || f.Len() != 0 {
			t.Fatalf("active %d: %v after class a is free; %d links left", active, by, f.Len())
		}
	}
}

// TestClassModel compares a frontier with classes with a plain list: whatever happens, each link is given out once, and
// the structure stays sound.
func TestClassModel(t *testing.T) {
	for seed := range uint64(testtier.Rounds(6, 20)) {
		r := rand.New(rand.NewPCG(seed, 1))
		f, err := Open(testdisk.NewMem(), "frontier", Config{HostDelay: 500 * time.Millisecond,
			IPDelay: 200 * time.Millisecond, Active: 5 + r.IntN(20), MemoryBytes: 32 << 10, ClassOf: bySeed,
			Seed: seed})
		must.Do(t, err)
		if seed%2 == 0 {
			f.SetClasses(nil)
		}
		waits := map[string]bool{}
		now, n := start, 0
		var open []Task
		for step := 0; step < 3000 || f.Len() > 0; step++ {
			switch k := r.IntN(100); {
			case k < 10 && step < 3000:
				var ls []link.Link
				for range 1 + r.IntN(40) {
					n++
					l := linkOf(t, fmt.Sprintf("http://h%d.example/%d", r.IntN(40), n), uint8(r.IntN(20)))
					l.Seed = []string{"", "a", "b", "o"}[r.IntN(4)]
					ls = append(ls, l)
					waits[l.URL.String()] = true
				}
				must.Do(t, f.Push(ls))
			case k < 12:
				cs := make([]Class, r.IntN(MaxClasses+1))
				for i := range cs {
					cs[i] = Class{r.Float64() * 4, r.IntN(4) == 0 && step < 3000}
				}
				f.SetClasses(cs)
			case k < 15:
				now = now.Add(time.Duration(r.IntN(1500)) * time.Millisecond)
			case k < 18 && step < 3000:
				f.Withdraw(fmt.Sprintf("h%d.example", r.IntN(40)))
			case k < 25:
				must.Get(f.Withdrawn(50, func(w Waiting) error {
					if u := w.Link.URL.String(); !waits[u] {
						return fmt.Errorf("%s is given back twice", u)
					}
					delete(waits, w.Link.URL.String())
					return nil
				}))(t)
			case k < 55 && len(open) > 0:
				i := r.IntN(len(open))
				task := open[i]
				open = append(open[:i], open[i+1:]...)
				d := Done{NoRequest: r.IntN(4) == 0}
				if l := task.Link; r.IntN(5) == 0 {
					d.Again = &l
				} else {
					delete(waits, l.URL.String())
				}
				must.Do(t, f.Done(task.Host, d, now))
			default:
				task, _, ok := f.Next(now)
				switch {
				case !ok:
					now = now.Add(100 * time.Millisecond)
				case !task.Addr.IsValid():
					f.Resolved(task.Host, netip.AddrFrom4([4]byte{192, 0, 2, byte(r.IntN(9))}), now.Add(time.Hour), now)
				case !waits[task.Link.URL.String()]:
					t.Fatalf("seed %d: %s is given out twice", seed, task.Link.URL)
				default:
					task.Link.URL = task.Link.URL.Clone()
					open = append(open, task)
				}
			}
			if step%50 == 0 {
				if err := f.check(); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
			}
			if step > 200_000 {
				t.Fatalf("seed %d: %d links are left", seed, f.Len())
			}
		}
		if len(waits) != 0 {
			t.Fatalf("seed %d: %d links are lost", seed, len(waits))
		}
		if s := f.Stats(); s.RAMBytes > f.hosts.overhead() {
			t.Errorf("seed %d: an empty frontier counts %+v", seed, s)
		}
	}
}
