package outbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// A receiver is an agent whose states are saved now and then, and which is set back to its saved state at times.
type receiver struct {
	has    map[uint64]bool // links, in memory and on its disk
	saved  map[uint64]bool // links of its saved state
	cut    map[uint64]bool // links of the state that is being saved; nil: none is
	number uint64          // of the saved state
	boot   uint64
	by     uint64 // the boot that has saved the state
}

func (r *receiver) begin() {
	r.cut = map[uint64]bool{}
	for n := range r.has {
		r.cut[n] = true
	}
}

func (r *receiver) end() { r.saved, r.cut, r.number, r.by = r.cut, nil, r.number+1, r.boot }

// TestKeptModel compares random deliveries, saves and losses with a model: a link that Settle ends is in the saved
// state of its receiver, now and after every loss.
func TestKeptModel(t *testing.T) {
	for seed := range uint64(testtier.Rounds(8, 200)) {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			mem := testdisk.NewMem()
			k := must.Get(OpenKept(mem, "/kept", 8<<10))(t)
			agents := map[string]*receiver{}
			for _, name := range []string{"a", "b", "c"} {
				agents[name] = &receiver{has: map[uint64]bool{}, saved: map[uint64]bool{}, boot: 1}
			}
			to := map[uint64]string{}    // by link: its receiver
			pending := map[uint64]bool{} // links that the sender lists
			next, ended := uint64(0), map[uint64]bool{}
			deliver := func(n uint64) {
				name := to[n]
				agents[name].has[n] = true
				must.Do(t, k.Add(name, agents[name].boot, n, linkOf(n)))
			}
			settle := func() {
				saved := map[string]Saved{}
				for name, r := range agents {
					saved[name] = Saved{Boot: r.by, Number: r.number}
				}
				var again []uint64
				must.Do(t, k.Settle(saved, func(e Entry) error {
					if string(e.Link) != string(linkOf(e.Number)) {
						t.Fatalf("link %d is another one", e.Number)
					}
					delete(pending, e.Number)
					ended[e.Number] = true
					return nil
				}, func(e Entry) error { again = append(again, e.Number); return nil }))
				for _, n := range again {
					deliver(n)
				}
			}
			for range 2000 {
				name := []string{"a", "b", "c"}[rng.IntN(3)]
				r := agents[name]
				switch rng.IntN(12) {
				case 0, 1, 2, 3, 4, 5, 6:
					next++
					to[next], pending[next] = name, true
					deliver(next)
				case 7, 8:
					settle()
				case 9:
					r.begin()
				case 10:
					if r.cut != nil {
						r.end()
					}
				case 11: // the machine and its disk are lost, or only the process
					r.cut = nil
					r.boot++
					if rng.IntN(2) == 0 {
						r.has = map[uint64]bool{}
						for n := range r.saved {
							r.has[n] = true
						}
					}
				}
				if k.Len() != int64(len(pending)) {
					t.Fatalf("%d links kept, want %d", k.Len(), len(pending))
				}
				for n := range ended {
					if !agents[to[n]].saved[n] {
						t.Fatalf("link %d has ended, and the saved state of %s lacks it", n, to[n])
					}
				}
			}
			for range 4 { // in peace everything ends
				for _, r := range agents {
					r.begin()
					r.end()
				}
				settle()
			}
			if k.Len() > 0 || len(pending) > 0 {
				t.Errorf("%d links are left, %v", k.Len(), pending)
			}
			must.Do(t, k.Close())
		})
	}
}

// TestKeptLeft: the links of an agent that has left go out again, and an error loses none.
func TestKeptLeft(t *testing.T) {
	k := must.Get(OpenKept(testdisk.NewMem(), "/kept", 8<<10))(t)
	b := &Batch{Agent: "a"}
	for n := uint64(1); n <= 5; n++ {
		b.Numbers, b.Links = append(b.Numbers, n), append(b.Links, linkOf(n)...)
		b.ends = append(b.ends, len(b.Links))
	}
	must.Do(t, k.AddBatch(b, 3))
	var again []uint64
	stop := errors.New("stop")
	left := map[string]Saved{"a": {Boot: 3, Number: 9, Left: true}}
	none := func(e Entry) error { t.Errorf("link %d has ended", e.Number); return nil }
	err := k.Settle(left, none, func(e Entry) error {
		if len(again) == 2 {
			return stop
		}
		again = append(again, e.Number)
		return nil
	})
	if !errors.Is(err, stop) || k.Len() != 3 {
		t.Fatalf("%d links kept, %v", k.Len(), err)
	}
	must.Do(t, k.Settle(left, none, func(e Entry) error { again = append(again, e.Number); return nil }))
	if want := []uint64{1, 2, 3, 4, 5}; !slices.Equal(again, want) || k.Len() != 0 {
		t.Errorf("again %d, %d kept", again, k.Len())
	}
	must.Do(t, k.Close())
}
