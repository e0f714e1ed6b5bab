package frontier

import (
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A halfLease grants some points and not others, and records which are asked for.
type halfLease struct {
	freeLease
	held  map[uint64]bool
	asked []uint64
}

func (l *halfLease) Ready(point uint64, _ time.Duration, _ time.Time) (bool, time.Time) {
	l.asked = append(l.asked, point)
	return l.held[point], time.Time{}
}

// TestLeaseOfTheAddressFirst checks that a host asks for the lease of its site only with the lease of its address. If
// one agent had the address and another the site, each would wait for the other.
func TestLeaseOfTheAddressFirst(t *testing.T) {
	ip, site := bucketKey{addr: loopback}.point(), bucketKey{site: "site.example"}.point()
	l := &halfLease{held: map[uint64]bool{site: true}}
	f := open(t, Config{HostDelay: time.Second, IPDelay: time.Second, SiteDelay: time.Second, Lease: l})
	push(t, f, "http://a.site.example/")
	task, _, ok := f.Next(start)
	if !ok || task.Addr.IsValid() {
		t.Fatalf("got %+v, %v; want a host without an address", task, ok)
	}
	f.Resolved(task.Host, loopback, start.Add(time.Hour), start)
	for _, step := range []struct {
		held map[uint64]bool
		asks []uint64
		ok   bool
	}{
		{map[uint64]bool{}, []uint64{ip}, false},
		{map[uint64]bool{ip: true}, []uint64{ip, site}, false},
		{map[uint64]bool{ip: true, site: true}, []uint64{ip, site}, true},
	} {
		l.held, l.asked = step.held, nil
		f.Leased([]uint64{ip, site}, start)
		if task, _, ok := f.Next(start); ok != step.ok || !slices.Equal(l.asked, step.asks) {
			t.Errorf("with %v: %+v, %v, asked for %x, want %x", step.held, task, ok, l.asked, step.asks)
		}
	}
}

// TestLeaseRemind checks that the frontier asks once more for a lease that it awaits, when its last other host has been
// asked: only then the lease holds back all that is left. It does not do so while another host has its turn soon.
func TestLeaseRemind(t *testing.T) {
	for _, soon := range []bool{false, true} {
		mine, theirs := bucketKey{site: "mine.example"}.point(), bucketKey{site: "theirs.example"}.point()
		l := &halfLease{held: map[uint64]bool{mine: true}}
		f := open(t, Config{HostDelay: time.Second, SiteDelay: time.Second, NoAddresses: true, Lease: l})
		push(t, f, "http://a.theirs.example/", "http://b.mine.example/")
		if soon {
			push(t, f, "http://b.mine.example/2")
		}
		task, _, ok := f.Next(start)
		if !ok || task.Host != "b.mine.example" || !slices.Contains(l.asked, theirs) {
			t.Fatalf("got %+v, %v, asked for %x", task, ok, l.asked)
		}
		must.Do(t, f.Done(task.Host, Done{}, start))
		for round := range 3 {
			l.asked = nil
			_, wake, ok := f.Next(start.Add(time.Millisecond))
			if want := round == 0 && !soon; ok || wake.IsZero() || slices.Contains(l.asked, theirs) != want {
				t.Errorf("another host soon: %v, round %d: %v, %v, asked for %x", soon, round, ok, wake, l.asked)
			}
		}
	}
}
