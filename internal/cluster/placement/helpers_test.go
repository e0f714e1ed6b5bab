package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"
)

// A changing Placement can return a Placement with one agent more or less.
type changing[T any] interface {
	Placement
	With(Owner) (T, error)
	Without(name string) (T, error)
	Shares() []float64
}

// each runs a test of the conformance suite for both implementations, and for a ring with few
// replicas.
func each(t *testing.T, ring func(*testing.T, func([]Owner) (*Ring, error)),
	rendezvous func(*testing.T, func([]Owner) (*Rendezvous, error))) {
	for _, k := range []int{Replicas, 10} {
		t.Run(fmt.Sprintf("ring of %d", k), func(t *testing.T) {
			ring(t, func(agents []Owner) (*Ring, error) { return NewRing(agents, k) })
		})
	}
	t.Run("rendezvous", func(t *testing.T) {
		rendezvous(t, func(agents []Owner) (*Rendezvous, error) { return NewRendezvous(agents, 1<<10) })
	})
}

func must[T any](t interface{ Fatal(...any) }) func(T, error) T {
	return func(v T, err error) T {
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// some draws agents. Some names are prefixes of others, and capacities may differ by a factor of a
// thousand.
func some(t *rapid.T, least, most int) []Owner {
	even := rapid.Bool().Draw(t, "even")
	return rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Owner {
		a := Owner{Name: rapid.StringMatching("[ab0]{1,4}").Draw(t, "name"), Capacity: 1}
		if !even {
			a.Capacity = rapid.SampledFrom([]float64{0.004, 0.5, 1, 1.5, 2, 4, 10}).Draw(t, "capacity")
		}
		return a
	}), least, most, func(a Owner) string { return a.Name }).Draw(t, "agents")
}

// keyOf is link.HostKey.
func keyOf(host string) uint64 { return xxhash.Sum64String(host) }

// keys returns n keys of hosts, drawn from a seed.
func keys(seed uint64, n int) []uint64 {
	ks := make([]uint64, n)
	for i := range ks {
		ks[i] = xxhash.Sum64String(fmt.Sprintf("host%d-%d.example", seed, i))
	}
	return ks
}

// named returns n agents of the same capacity.
func named(n int) []Owner {
	agents := make([]Owner, n)
	for i := range agents {
		agents[i] = Owner{fmt.Sprintf("agent-%d", i), 1}
	}
	return agents
}

func shuffled(t *rapid.T, agents []Owner) []Owner {
	out := slices.Clone(agents)
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "shuffle"), 0))
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
