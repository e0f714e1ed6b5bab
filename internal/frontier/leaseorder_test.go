package frontier

import (
	"slices"
	"testing"
	"time"
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
