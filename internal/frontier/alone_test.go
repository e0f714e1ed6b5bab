package frontier

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// TestShareEnds checks that a share returns the end of a response, rounded up to a millisecond, until the stored value
// wraps around.
func TestShareEnds(t *testing.T) {
	const ms, around = int64(time.Millisecond), shareEnds * int64(time.Millisecond)
	for _, at := range []int64{0, 1, ms, ms + 1, around - 1, around, around + 1, 7*around + 5*ms + 3} {
		for _, later := range []int64{0, 1, ms, int64(aloneMost), around - 2*ms} {
			s := endedAt(at)
			got, ok := s.ended(at + later)
			if want := (at + ms - 1) / ms * ms; !ok || !s.alone() || s == unasked || got != want {
				t.Errorf("ended at %d, seen %d later: %d, %v; want %d", at, later, got, ok, want)
			}
		}
	}
	for _, s := range []share{0, unasked, free, free + 1} {
		if _, ok := s.ended(around); ok {
			t.Errorf("share %x has an end, want none", uint32(s))
		}
	}
}

// TestTable compares the tables of hosts that are alone with maps.
func TestTable(t *testing.T) {
	r := testseed.Rand(t)
	at, in := newTable(), newTable()
	want := map[int]*host{}
	keys := func(i int) (addr, site bucketKey) {
		addr = bucketKey{addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})}
		return addr, bucketKey{site: fmt.Sprintf("s%d.example", i)}
	}
	for step := range 60_000 {
		i := r.IntN(8000)
		addr, site := keys(i)
		h := want[i]
		if at.of(addr) != h || in.of(site) != h {
			t.Fatalf("step %d: %v gives %p, %v gives %p, want %p", step, addr, at.of(addr), site, in.of(site), h)
		}
		// Fill and empty the tables in turn.
		switch fill := step/15_000%2 == 0; {
		case h == nil && (fill || r.IntN(10) == 0):
			h = &host{extra: &noExtra, name: "www." + site.site, ip4: addr.addr.As4()}
			at.add(h, addr)
			in.add(h, site)
			want[i] = h
		case h != nil && (!fill || r.IntN(10) == 0):
			at.remove(h, addr)
			in.remove(h, site)
			delete(want, i)
		}
		if at.n != len(want) || in.n != len(want) {
			t.Fatalf("step %d: the tables have %d and %d hosts, want %d", step, at.n, in.n, len(want))
		}
	}
	for i, h := range want {
		if addr, site := keys(i); at.of(addr) != h || in.of(site) != h {
			t.Fatalf("%s was not found", h.name)
		}
	}
}
