package frontier

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A fakeLease gives and takes leases as the model decides.
type fakeLease struct {
	m      *model
	held   map[uint64]bool
	free   map[uint64]time.Time // end of the quiet times that other agents began
	using  map[uint64]string    // the host that uses it, once the model knows it
	wanted map[uint64]bool
	refuse bool // makes Begin return false
}

func newFakeLease(m *model) *fakeLease {
	return &fakeLease{
		m: m, held: map[uint64]bool{}, free: map[uint64]time.Time{}, using: map[uint64]string{},
		wanted: map[uint64]bool{},
	}
}

func (l *fakeLease) Want(point uint64, _ time.Duration, _ time.Time) { l.wanted[point] = true }

func (l *fakeLease) Ready(point uint64, quiet time.Duration, now time.Time) (bool, time.Time) {
	if !l.wanted[point] || quiet <= 0 {
		l.m.t.Fatalf("Ready(%x) without Want, or with quiet time %v", point, quiet)
	}
	if by, ok := l.using[point]; ok {
		l.m.t.Fatalf("Ready(%x), which %s uses", point, by)
	}
	if !l.held[point] {
		return false, time.Time{}
	}
	free := l.free[point]
	return !free.After(now), free
}

func (l *fakeLease) Begin(now time.Time, points ...uint64) bool {
	if l.refuse {
		return false
	}
	for _, p := range points {
		if _, used := l.using[p]; used || !l.held[p] || l.free[p].After(now) {
			l.m.t.Fatalf("Begin(%x): used %v, held %v, free at %v, now %v", p, used, l.held[p], l.free[p], now)
		}
		l.using[p] = ""
	}
	return true
}

func (l *fakeLease) Used(point uint64, end time.Time, quiet time.Duration, _ bool, now time.Time) {
	if _, ok := l.using[point]; !ok || end.After(now) || quiet < 0 {
		l.m.t.Fatalf("Used(%x), which is not in use: end %v, now %v, quiet %v", point, end, now, quiet)
	}
	delete(l.using, point)
}

func (l *fakeLease) Leave(point uint64, _ time.Time) {
	if _, used := l.using[point]; used {
		l.m.t.Fatalf("Leave(%x), which is in use", point)
	}
}

// point returns the point of a key from shared.
func (m *model) point(k string) uint64 {
	kind, name, _ := strings.Cut(k, " ")
	if kind == "ip" {
		return bucketKey{addr: netip.MustParseAddr(name)}.point()
	}
	return bucketKey{site: name}.point()
}

// leases gives or takes one lease, perhaps with a quiet time that another agent began.
func (m *model) leases() {
	if m.lease == nil {
		m.t.Skip("no leases")
	}
	var ps []uint64
	for _, h := range m.hosts {
		for _, k := range m.shared(h) {
			ps = append(ps, m.point(k))
		}
	}
	if len(ps) == 0 {
		m.t.Skip("no points")
	}
	slices.Sort(ps)
	p := rapid.SampledFrom(ps).Draw(m.t, "point")
	if m.lease.held[p] {
		if _, used := m.lease.using[p]; !used || rapid.IntRange(0, 2).Draw(m.t, "lost") == 0 {
			m.lease.held[p] = false
		}
		return
	}
	m.lease.held[p] = true
	rest := time.Duration(rapid.IntRange(-3, 3).Draw(m.t, "rest")) * time.Second
	if rest > 0 && m.now.Add(rest).After(m.lease.free[p]) {
		m.lease.free[p] = m.now.Add(rest)
	}
	m.f.Leased([]uint64{p, 1}, m.now)
}

// A slowLease grants each point after a while, for a while.
type slowLease struct {
	t     *testing.T
	rand  *rand.Rand
	until map[uint64]time.Time // granted points, and the end of the lease
	comes map[uint64]time.Time // requested points, and when they will be granted
	using map[uint64]bool
	most  time.Duration // limit of the time until a point is granted
	asked int
}

func newSlowLease(t *testing.T, seed uint64, most time.Duration) *slowLease {
	return &slowLease{t: t, rand: rand.New(rand.NewPCG(seed, 2)), most: most,
		until: map[uint64]time.Time{}, comes: map[uint64]time.Time{}, using: map[uint64]bool{}}
}

func (l *slowLease) Want(uint64, time.Duration, time.Time) {}

func (l *slowLease) Ready(point uint64, _ time.Duration, now time.Time) (bool, time.Time) {
	if l.until[point].After(now) {
		return true, time.Time{}
	}
	l.asked++
	if _, ok := l.comes[point]; !ok {
		l.comes[point] = now.Add(time.Duration(l.rand.Int64N(int64(l.most))) + 1)
	}
	return false, time.Time{}
}

// come grants the points that are due at now and returns those that it reports.
func (l *slowLease) come(now time.Time) (points []uint64) {
	for _, p := range slices.Sorted(maps.Keys(l.comes)) { // in order, so that one seed has one result
		if !l.comes[p].After(now) {
			delete(l.comes, p)
			l.until[p] = now.Add(time.Duration(l.rand.Int64N(int64(3 * time.Second))))
			if l.rand.IntN(10) > 0 { // one in ten is not reported
				points = append(points, p)
			}
		}
	}
	return points
}

func (l *slowLease) Begin(now time.Time, points ...uint64) bool {
	if l.rand.IntN(20) == 0 {
		return false
	}
	for _, p := range points {
		if l.using[p] || !l.until[p].After(now) {
			l.t.Fatalf("Begin(%x): used %v, held until %v, now %v", p, l.using[p], l.until[p], now)
		}
		l.using[p] = true
	}
	return true
}

func (l *slowLease) Used(point uint64, _ time.Time, _ time.Duration, _ bool, _ time.Time) {
	if !l.using[point] {
		l.t.Fatalf("Used(%x), which is not in use", point)
	}
	delete(l.using, point)
}

func (l *slowLease) Leave(uint64, time.Time) {}

// TestLeaseNothingStarves checks that all links come out, however leases come and go, and that it is enough to call
// Next at the times that it returns.
func TestLeaseNothingStarves(t *testing.T) {
	for seed := range uint64(testtier.Rounds(3, 8)) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := newSlowLease(t, seed, 8*time.Second)
		f := open(t, Config{HostDelay: time.Second, IPDelay: 300 * time.Millisecond, SiteDelay: 200 * time.Millisecond,
			Active: 1 + r.IntN(5), Lease: l, Seed: seed})
		f.pools.frameBytes = 200
		var ls []link.Link
		for i := range 300 {
			ls = append(ls, linkOf(t, fmt.Sprintf("http://h%d.s%d.example/%d", r.IntN(40), r.IntN(9), i),
				uint8(r.IntN(2))))
		}
		bulk(t, f, ls, 20)
		now, got, steps := start, 0, 0
		out := map[string]time.Time{} // hosts in process, and the end of the response
		for f.Len() > 0 {
			if now.Sub(start) > 2*time.Hour {
				t.Fatalf("seed %d: only %d of %d links after %v; %+v", seed, got, len(ls), now.Sub(start), f.Stats())
			}
			if points := l.come(now); len(points) > 0 {
				f.Leased(points, now)
			}
			task, wake, ok := f.Next(now)
			must.Do(t, f.Err())
			switch {
			case ok && !task.Addr.IsValid():
				addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(r.IntN(12))})
				f.Resolved(task.Host, addr, now.Add(time.Duration(r.IntN(30))*time.Second), now)
			case ok:
				got++
				out[task.Host] = now.Add(time.Duration(r.IntN(900)) * time.Millisecond)
			default:
				// Advance to the next time at which anything happens.
				next := wake
				for _, at := range l.comes {
					next = sooner(next, at)
				}
				for _, at := range out {
					next = sooner(next, at)
				}
				if next.IsZero() {
					t.Fatalf("seed %d: Next waits for nothing, with %d links left; %+v", seed, f.Len(), f.Stats())
				}
				if next.After(now) {
					now = next
				}
			}
			for _, host := range slices.Sorted(maps.Keys(out)) {
				if !out[host].After(now) {
					delete(out, host)
					must.Do(t, f.Done(host, Done{}, now))
				}
			}
			if steps++; steps%10 > 0 {
				continue
			}
			if err := f.check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if got != len(ls) || l.asked == 0 {
			t.Errorf("seed %d: %d links with %d refusals; want %d links and some refusals", seed, got, l.asked, len(ls))
		}
	}
}

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// TestLeaseCrowd checks that while leases are awaited, the pools are not read for ever more hosts.
func TestLeaseCrowd(t *testing.T) {
	l := newSlowLease(t, 1, time.Hour)
	f := open(t, Config{IPDelay: time.Second, SiteDelay: time.Second, Active: 10, Lease: l})
	f.pools.frameBytes = 500
	for i := range 5000 {
		push(t, f, fmt.Sprintf("http://www.host-%d.example/", i))
	}
	now, addr := start, uint32(0)
	for range 100 {
		task, wake, ok := f.Next(now)
		switch {
		case ok && task.Addr.IsValid():
			t.Fatalf("%s was given out without a lease", task.Host)
		case ok:
			addr++
			a := netip.AddrFrom4([4]byte{10, 0, byte(addr >> 8), byte(addr)})
			f.Resolved(task.Host, a, now.Add(time.Hour), now)
		case wake.IsZero():
			t.Fatalf("Next waits for nothing: %+v", f.Stats())
		default:
			now = wake
		}
	}
	s := f.Stats()
	if s.Hosts > 60 || s.LeasesAwaited < awaitedShare*10 || s.LeaseWaits == 0 {
		t.Errorf("%d hosts, %d leases awaited, %d waits; want few hosts and many leases awaited",
			s.Hosts, s.LeasesAwaited, s.LeaseWaits)
	}
	f.Next(now) // asks for all leases again
	e := f.Explain("www.host-0.example", now)
	waits := "waits for the lease of address 10.0.0.1, which another agent may have"
	if e.State != "resting" || !strings.Contains(e.String(), waits) {
		t.Errorf("Explain gives %s", e)
	}
}

// TestLeaseUsing checks Points, and that a request that did not happen leaves no quiet time.
func TestLeaseUsing(t *testing.T) {
	l := newSlowLease(t, 3, time.Nanosecond)
	f := open(t, Config{HostDelay: -1, SiteDelay: time.Second, NoAddresses: true, Lease: l})
	push(t, f, "http://a.one.example/", "http://b.one.example/")
	point := bucketKey{site: "one.example"}.point()
	if point != link.HostKey("site:one.example") {
		t.Errorf("point is %x, want the HostKey of \"site:one.example\"", point)
	}
	now := start
	l.until[point] = start.Add(time.Hour)
	var task Task
	for ok := false; !ok; {
		var wake time.Time
		if task, wake, ok = f.Next(now); !ok {
			now = wake // Begin refused
		}
	}
	if ps := f.Points(task.Host); !slices.Equal(ps, []uint64{point}) {
		t.Errorf("Points = %x, want %x", ps, point)
	}
	must.Do(t, f.Done(task.Host, Done{NoRequest: true}, now))
	if len(f.Points(task.Host)) > 0 || l.using[point] {
		t.Error("the point is still in use after Done")
	}
	if _, _, ok := f.Next(now); !ok && f.Stats().LeaseWaits > 0 {
		t.Error("the next host waits, though nothing was sent")
	}
}

// A freeLease grants everything at once.
type freeLease struct{}

func (freeLease) Want(uint64, time.Duration, time.Time)                    {}
func (freeLease) Ready(uint64, time.Duration, time.Time) (bool, time.Time) { return true, time.Time{} }
func (freeLease) Begin(time.Time, ...uint64) bool                          { return true }
func (freeLease) Used(uint64, time.Time, time.Duration, bool, time.Time)   {}
func (freeLease) Leave(uint64, time.Time)                                  {}
