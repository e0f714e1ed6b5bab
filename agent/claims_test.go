package agent

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/crawl"
	"github.com/orbweaver/orbweaver/ring"
)

// A host is ours since the first of the views in which it has been ours without
// a break; 0 only if it has been from the crawl's beginning on.
func TestTenure(t *testing.T) {
	const seed = 5
	rng := rand.New(rand.NewPCG(seed, 1))
	for round := range 6 {
		began, before := round%2 == 0, round%3 == 0
		var now *tenure
		since := make([]uint32, ring.Buckets)
		ever, first := make([]bool, ring.Buckets), make([]bool, ring.Buckets)
		for view := uint32(1); view <= 5; view++ {
			agents := []ring.Agent{{Name: "a0", Capacity: 1}}
			for i := 1; i < 4; i++ {
				if rng.IntN(2) == 0 {
					agents = append(agents, ring.Agent{Name: fmt.Sprint("a", i), Capacity: 1})
				}
			}
			if view > 1 && rng.IntN(4) == 0 && len(agents) > 1 {
				agents = agents[1:] // it leaves
			}
			r, err := ring.NewRendezvous(agents, 0)
			if err != nil {
				t.Fatal(err)
			}
			was := now
			now = was.next(r, "a0", began, before)
			for b := range since {
				mine, had := r.OwnerOf(b).Name == "a0", was != nil && since[b] != gone
				switch {
				case !mine:
					since[b] = gone
				case had:
				case was == nil && began:
					since[b] = 0
				default:
					since[b] = view
				}
				ever[b] = ever[b] || mine || before
				first[b] = first[b] || since[b] == 0
				if now.since[b] != since[b] || now.ever[b] != ever[b] || now.began[b] != first[b] {
					t.Fatalf("seed %d, round %d, view %d, bucket %d: %d %v, want %d %v", seed, round, view, b, now.since[b], now.ever[b], since[b], ever[b])
				}
			}
		}
	}
}

func TestClock(t *testing.T) {
	want := crawl.Clock{Delay: time.Second, Quiet: 1500 * time.Microsecond, SlowFor: time.Hour, Slow: 3, Blocked: true}
	got, err := decodeClock(appendClock(nil, want))
	if want.Quiet = 2 * time.Millisecond; err != nil || *got != want { // rounded up: never too early
		t.Errorf("%+v came back as %+v, %v", want, got, err)
	}
}

// FuzzHand: what another agent says of a host is read, or refused.
func FuzzHand(f *testing.F) {
	f.Add(true, appendClock(nil, crawl.Clock{Delay: time.Second, Slow: 2}))
	f.Add(false, []byte{42, 0, 0, 0, 0, 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, clock bool, b []byte) {
		if clock {
			k, err := decodeClock(b)
			if err != nil {
				return
			}
			again, err := decodeClock(appendClock(nil, *k))
			if err != nil || *again != *k || k.Delay < 0 || k.Quiet < 0 || k.Quiet > clockMost {
				t.Fatalf("%+v came back as %+v, %v", k, again, err)
			}
			return
		}
		if len(b) < 1 || len(b)%8 != 1 || b[0] == 0 || b[0] > 64 {
			return // exchange does not let it through
		}
		l, err := decodePaths(b)
		if err != nil {
			return
		}
		for _, p := range l.Paths {
			if l.Width < 64 && p>>l.Width != 0 {
				t.Fatalf("%x has more than %d bits", p, l.Width)
			}
		}
	})
}
