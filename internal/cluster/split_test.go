package cluster

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// cut reports whether calls from one agent to another are lost.
func (b *band) cut(from, to *mate) bool {
	sides := b.apart.Load()
	return sides != nil && (*sides)[from.name] != (*sides)[to.name]
}

// misses reports whether m still takes lost for dead.
func (m *mate) misses(lost *mate) bool {
	return slices.ContainsFunc(*m.bars.Load(), func(b barred) bool { return b.lost == lost })
}

// split separates the agents of two sides for a while. If it lasts, each agent takes the agents of
// the other side for dead, one after the other, and later learns that they are alive.
func (b *band) split(rng *rand.Rand) {
	time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
	all := b.living()
	sides := map[string]int{}
	order, n := rng.Perm(len(all)), 1+rng.IntN(len(all)-1)
	for i, k := range order {
		if i < n {
			sides[all[k].name] = 1
		}
	}
	b.apart.Store(&sides)
	b.divided = true
	b.Note("split: %v", sides)
	var hearing sync.WaitGroup
	healed := make(chan struct{})
	for _, m := range all {
		seed := rng.Uint64()
		hearing.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 23))
			var others []string
			for _, o := range all {
				if sides[o.name] != sides[m.name] {
					others = append(others, o.name)
				}
			}
			rng.Shuffle(len(others), func(i, k int) { others[i], others[k] = others[k], others[i] })
			for _, o := range others {
				time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
				if rng.IntN(10) > 0 && b.apart.Load() != nil {
					m.loses(o)
				}
			}
			<-healed
			for _, o := range others {
				time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
				m.gains(o)
			}
		})
	}
	time.Sleep(time.Duration(500+rng.IntN(6000)) * time.Millisecond)
	b.apart.Store(nil)
	b.Note("healed")
	close(healed)
	hearing.Wait()
	for _, m := range all {
		if len(strings.Split(m.view.Load().names, " ")) != len(all) {
			b.t.Errorf("%s sees %s", m.name, m.view.Load().names)
		}
	}
}

// quiet waits until no agent has work. Then agents that are making a checkpoint take one agent for
// dead for a while.
func (b *band) quiet(rng *rand.Rand) {
	for idle := false; !idle; time.Sleep(100 * time.Millisecond) {
		idle = true
		for _, m := range b.living() {
			p, err := m.w.Load().cl.Pulse(context.Background())
			if err != nil {
				b.t.Fatal(m.name, err)
			}
			idle = idle && p.Idle && m.busy.Load() == 0
		}
	}
	time.Sleep(time.Second) // until the last finishes are synced and shipped
	for _, m := range b.living() {
		w := m.w.Load()
		if err := w.cl.loop.Ask(context.Background(), "checkpoint", w.cl.loop.Checkpoint); err != nil {
			b.t.Fatal(m.name, err)
		}
	}
	one := b.living()[rng.IntN(len(b.living()))]
	b.hear(one, func(o *mate) {
		o.loses(one.name)
		time.Sleep(time.Duration(b.Roll(2000)) * time.Millisecond)
		o.gains(one.name)
	})
	b.calm()
}

// TestQuiet gives hosts new heirs while no agent has work or anything to write. The agents ship
// what they know of the hosts all the same.
func TestQuiet(t *testing.T) {
	deathModel(t, 6, func(seed uint64) fate { return fate{agents: 3, quiet: true, moves: seed%2 == 1} })
}

// TestSplit makes agents take living agents for dead while hosts move: a single one, or both halves
// each other. No URL is lost, and all agents end.
func TestSplit(t *testing.T) {
	deathModel(t, 30, func(seed uint64) fate {
		return fate{agents: 2 + int(seed%3), splits: 1 + int(seed/3%2), moves: true, harsh: seed%4 > 1,
			tiny: seed%5 == 4}
	})
}

// The same if one of them dies at the end.
func TestSplitDeath(t *testing.T) {
	deathModel(t, 30, func(seed uint64) fate {
		return fate{
			agents: 3 + int(seed%2), splits: int(seed % 3), doubts: seed%3 == 0, deaths: 1, moves: true,
			harsh: seed%4 > 1,
			ends:  int(seed / 2 % 2), crashes: true, tiny: seed%5 == 4,
		}
	})
}
