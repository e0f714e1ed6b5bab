package frontier

import (
	"fmt"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// TestDict compares the dictionary with a map while hosts are added and removed.
func TestDict(t *testing.T) {
	r := testseed.Rand(t)
	d := newDict()
	want := map[string]*host{}
	check := func() {
		t.Helper()
		if d.len() != len(want) {
			t.Fatalf("%d hosts, want %d", d.len(), len(want))
		}
		n := 0
		for h := range d.all() {
			if n++; want[h.name] != h {
				t.Fatalf("all() gives %s, want %v", h.name, want[h.name])
			}
		}
		if n != len(want) {
			t.Fatalf("all() gives %d hosts, want %d", n, len(want))
		}
		slots := 0
		for _, p := range d.parts {
			slots += len(p.slots)
		}
		if most := 4*n + dictParts*dictMin; slots > most {
			t.Fatalf("%d slots for %d hosts, want at most %d", slots, n, most)
		}
	}
	for _, most := range []int{1, 30, 20_000, 3000, 0, 500} {
		names := func() string { return fmt.Sprintf("h%d.example", r.IntN(2*most+1)) }
		for range 5*most + 20 {
			name := names()
			if got := d.of(name); got != want[name] {
				t.Fatalf("of(%q) = %v, want %v", name, got, want[name])
			}
			switch h := want[name]; {
			case h != nil && (len(want) > most || r.IntN(2) == 0):
				d.remove(h)
				delete(want, name)
			case h == nil && len(want) < most:
				h = &host{name: name}
				p, hash := d.place(h.name)
				d.add(h, p, hash)
				want[name] = h
			}
		}
		for name, h := range want { // remove hosts until this round's limit is met
			if len(want) <= most {
				break
			}
			d.remove(h)
			delete(want, name)
		}
		check()
	}
}
