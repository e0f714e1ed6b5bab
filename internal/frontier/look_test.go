package frontier

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// TestLeast compares the lowest members of a heap with a sorted list.
func TestLeast(t *testing.T) {
	rnd := testseed.Rand(t)
	for range 200 {
		var h heap[*member]
		var keys []uint64
		for range rnd.IntN(100) {
			m := &member{key: uint64(rnd.IntN(50)), pos: -1}
			h.push(m, m.key)
			keys = append(keys, m.key)
		}
		slices.Sort(keys)
		n := rnd.IntN(120)
		var got []uint64
		h.least(n, func(m *member) { got = append(got, m.key) })
		if want := keys[:min(n, len(keys))]; !slices.Equal(got, want) {
			t.Fatalf("the least %d of %v: %v", n, keys, got)
		}
	}
}

// TestLook: with time a caller sees the hosts with the most links, however many hosts there are, and hosts in trouble
// besides.
func TestLook(t *testing.T) {
	f := open(t, Config{HostDelay: time.Second, Active: -1, SlowBase: time.Hour})
	rnd := rand.New(rand.NewPCG(1, 2))
	const hosts = 2000
	for i := range hosts {
		n := 1 + rnd.IntN(3)
		if i%200 == 7 {
			n = 10 + i/200
		}
		for j := range n {
			push(t, f, fmt.Sprintf("http://h%d.example/%d", i, j))
		}
	}
	var names []string
	var got []Glimpse
	now := start
	for range 250 { // so that each host is asked once at least
		for range 20 {
			task, _, ok := f.Next(now)
			if !ok {
				break
			}
			if !task.Addr.IsValid() {
				f.Resolved(task.Host, loopback, now.Add(time.Hour), now)
				continue
			}
			must.Do(t, f.Done(task.Host, Done{SlowDown: task.Host == "h3.example"}, now))
		}
		now = now.Add(10 * time.Millisecond)
		got = f.Look(names, 8, now)
		if len(got) != 8 {
			t.Fatalf("%d glimpses", len(got))
		}
		names = names[:0]
		for _, g := range got {
			names = append(names, g.Host)
		}
		now = now.Add(40 * time.Millisecond)
	}
	for _, g := range got[:6] {
		var i int
		if n, err := fmt.Sscanf(g.Host, "h%d.example", &i); n != 1 || err != nil || i%200 != 7 {
			t.Errorf("%+v is not one of the hosts with the most links", g)
		}
		if g.URL == "" || g.State == "resting" && !g.Due.After(now.Add(-time.Second)) {
			t.Errorf("%+v", g)
		}
	}
	if !slices.IsSortedFunc(got[:6], func(a, b Glimpse) int { return int(b.Links - a.Links) }) {
		t.Errorf("not sorted: %+v", got)
	}
	pauses := func(g Glimpse) bool { return g.Host == "h3.example" && g.State == "paused" }
	if !slices.ContainsFunc(got, pauses) {
		t.Errorf("the host that pauses is not among %+v", got)
	}
}

// A lateLease gives no lease until it is told to.
type lateLease struct{ given bool }

func (l *lateLease) Want(uint64, time.Duration, time.Time) {}
func (l *lateLease) Ready(uint64, time.Duration, time.Time) (bool, time.Time) {
	return l.given, time.Time{}
}
func (l *lateLease) Begin(time.Time, ...uint64) bool                        { return true }
func (l *lateLease) Used(uint64, time.Time, time.Duration, bool, time.Time) {}
func (l *lateLease) Leave(uint64, time.Time)                                {}

// TestComing: if no host is ready, Coming says which host comes next, and why not now.
func TestComing(t *testing.T) {
	lease := &lateLease{given: true}
	f := open(t, Config{HostDelay: 4 * time.Second, IPDelay: time.Second, Lease: lease, SlowBase: time.Minute})
	if g, ok := f.Coming(start); ok {
		t.Fatalf("an empty frontier: %+v", g)
	}
	push(t, f, "http://a.example/1", "http://b.example/1", "http://a.example/2", "http://b.example/2")
	task := begin(t, f, start)
	now := start.Add(3 * time.Second)
	if g, ok := f.Oldest(false); !ok || g.URL != "http://a.example/1" || !g.Since.Equal(start) ||
		g.State != "fetching" {
		t.Errorf("oldest: %+v", g)
	}
	if g, ok := f.Oldest(true); ok {
		t.Errorf("a look-up: %+v", g)
	}
	must.Do(t, f.Done(task.Host, Done{}, now))
	task, _, ok := f.Next(now)
	if !ok || task.Host != "b.example" {
		t.Fatalf("%+v, want a look-up of b.example", task)
	}
	if g, ok := f.Oldest(true); !ok || g.Host != "b.example" || g.State != "resolving" {
		t.Errorf("look-up: %+v", g)
	}
	f.Resolved("b.example", loopback, now.Add(time.Hour), now)
	if task, _, ok := f.Next(now); ok {
		t.Fatalf("%+v before the address is free", task)
	}
	g, ok := f.Coming(now)
	if !ok || g.Host != "b.example" || g.State != "resting" || g.Behind != "192.0.2.7" ||
		!g.Due.Equal(now.Add(time.Second)) {
		t.Errorf("behind an address: %+v", g)
	}
	lease.given = false
	now = now.Add(time.Second)
	for range 3 { // the frontier asks again every 5 s
		if _, _, ok := f.Next(now); ok {
			t.Fatal("a request without a lease")
		}
		now = now.Add(6 * time.Second)
	}
	f.Next(now)
	g, ok = f.Coming(now)
	if !ok || !g.Leased || g.Behind != "192.0.2.7" || now.Sub(g.Since) != 18*time.Second {
		t.Errorf("behind a lease: %+v", g)
	}
	lease.given = true
	now = now.Add(6 * time.Second)
	f.Next(now)
	if len(f.hosts.shares.asked) != 0 {
		t.Errorf("%d leases are still missing", len(f.hosts.shares.asked))
	}
}

// BenchmarkLook measures a look at ten thousand hosts, some of which wait at shared addresses.
func BenchmarkLook(b *testing.B) {
	for _, n := range []int{30, 200} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := open(b, Config{HostDelay: time.Second, IPDelay: time.Second, Active: -1})
			for i := range 10_000 {
				push(b, f, fmt.Sprintf("http://h%d.example/", i), fmt.Sprintf("http://h%d.example/1", i))
			}
			now := start
			for range 2000 {
				task, _, ok := f.Next(now)
				if !ok {
					break
				}
				f.Resolved(task.Host, loopback, now.Add(time.Hour), now)
			}
			var names []string
			for b.Loop() {
				names = names[:0]
				for _, g := range f.Look(names, n, now) {
					names = append(names, g.Host)
				}
			}
		})
	}
}
