package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// A maker makes a Placement.
type maker func([]Owner) (Placement, error)

// makers has every way to divide the hosts.
var makers = map[string]maker{
	"rendezvous": func(as []Owner) (Placement, error) { return NewRendezvous(as, 0) },
	"ring":       func(as []Owner) (Placement, error) { return NewRing(as, 0) },
	"ring of 3":  func(as []Owner) (Placement, error) { return NewRing(as, 3) },
}

// Since is the first of the views in which this agent has owned the host without a break. It is 0
// only if the agent has owned the host since the crawl began.
func TestTenure(t *testing.T) {
	for name, place := range makers {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(testseed.New(t), 1))
			for round := range 6 {
				checkTenure(t, place, rng, Begin{First: round%2 == 0, Before: round%3 == 0})
			}
		})
	}
}

// checkTenure compares the tenures of a series of views with a map that records the history of some
// hosts.
func checkTenure(t *testing.T, place maker, rng *rand.Rand, begin Begin) {
	t.Helper()
	var now *View
	model := map[uint64]Tenure{}
	hosts := make([]uint64, testtier.Rounds(500, 2000))
	for i := range hosts {
		hosts[i] = rng.Uint64()
	}
	for number := uint32(1); number <= 8; number++ {
		agents := []Owner{{Name: "a0", Capacity: 1}}
		for i := 1; i < 5; i++ {
			if rng.IntN(2) == 0 {
				agents = append(agents, Owner{Name: fmt.Sprint("a", i), Capacity: 1 + float64(rng.IntN(2))})
			}
		}
		if number > 1 && rng.IntN(4) == 0 && len(agents) > 1 {
			agents = agents[1:] // an agent leaves
		}
		owners := must[Placement](t)(place(agents))
		if now == nil {
			now = NewView(owners, "a0", begin)
		} else {
			now = now.Next(owners)
		}
		for _, host := range hosts {
			s, mine := model[host], owners.Owner(host).Name == "a0"
			switch had := s.Mine; {
			case !mine:
				s.Since = 0
			case had:
			case number == 1 && begin.First:
				s.Since = 0
			default:
				s.Since = number
			}
			s.Mine = mine
			s.Ever = s.Ever || mine || begin.Before
			s.Began = s.Began || mine && s.Since == 0
			model[host] = s
			if got := now.Tenure(host); got != s {
				t.Fatalf("view %d, host %x: %+v, want %+v", number, host, got, s)
			}
			all := owners.Nearest(nil, host, len(agents))
			all = slices.DeleteFunc(all, func(a Owner) bool { return a.Name == "a0" })
			var heir string
			if len(all) > 0 {
				heir = all[0].Name
			}
			if got := now.Heir(host); got != heir || len(now.Others(host)) != len(all) {
				t.Fatalf("view %d, host %x: heir %s, want %s", number, host, got, heir)
			}
		}
		if now.number != number || now.spans[0].from != 0 {
			t.Fatalf("view %d: it is view %d, the first span begins at %x", number, now.number, now.spans[0].from)
		}
		for i, s := range now.spans[1:] {
			if s.from <= now.spans[i].from || s.Tenure == now.spans[i].Tenure {
				t.Fatalf("view %d: span %+v after %+v", number, s, now.spans[i])
			}
		}
	}
}

// The number of spans on a ring stays bounded as agents come and go. With rendezvous there is at
// most one span for each bucket.
func TestTenureIsBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.New(t), 2))
	var now *View
	for range 300 {
		agents := []Owner{{Name: "self", Capacity: 1}}
		for i := range 30 {
			if rng.IntN(2) == 0 {
				agents = append(agents, Owner{Name: fmt.Sprint("a", i), Capacity: 1})
			}
		}
		owners := must[*Ring](t)(NewRing(agents, 0))
		if now == nil {
			now = NewView(owners, "self", Begin{First: true})
		} else {
			now = now.Next(owners)
		}
		// Some spans on either side of each of our replicas.
		if most := 2 * 10 * Replicas; len(now.spans) > most {
			t.Fatalf("%d spans after %d views, want at most %d", len(now.spans), now.number, most)
		}
	}
	t.Logf("%d spans", len(now.spans))
}

// BenchmarkView measures a change of the agents: the placement of 20 agents, and the view after
// another agent has joined.
func BenchmarkView(b *testing.B) {
	var agents []Owner
	for i := range 20 {
		agents = append(agents, Owner{Name: fmt.Sprint("a", i), Capacity: 1})
	}
	for name, place := range makers {
		was := NewView(must[Placement](b)(place(agents[1:])), "a5", Begin{First: true})
		b.Run(name+"/place", func(b *testing.B) {
			for b.Loop() {
				must[Placement](b)(place(agents))
			}
		})
		owners := must[Placement](b)(place(agents))
		b.Run(name+"/next", func(b *testing.B) {
			for b.Loop() {
				was.Next(owners)
			}
		})
		now, host := was.Next(owners), uint64(0)
		b.Run(name+"/tenure", func(b *testing.B) {
			for b.Loop() {
				host += 0x9e3779b97f4a7c15
				now.Tenure(host)
			}
		})
	}
}
