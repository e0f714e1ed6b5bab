package node

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// A spender models an agent: it fetches only pages that it holds.
type spender struct {
	name       string
	used, held int64
	boot, seq  uint64
	known      map[string]int64
	lives      bool
}

// Agents fetch, report, die and come back, with their disk or without. Answers are lost, and the
// counter changes. Together the agents never fetch more than the limit and the slack, and at the
// end the limit is reached. The slack is what a counter granted itself and died before any report,
// and what no living agent remembers.
func TestPageBudget(t *testing.T) {
	seed := testseed.New(t)
	for round := range testtier.Rounds(100, 3000) {
		rng := rand.New(rand.NewPCG(seed, uint64(round)))
		limit := 1 + rng.Int64N(500)
		var all []*spender
		for i := range 1 + rng.IntN(6) {
			all = append(all, &spender{name: fmt.Sprintf("a%d", i), boot: 1, lives: true, known: map[string]int64{}})
		}
		there := func() (names []string) {
			for _, s := range all {
				if s.lives {
					names = append(names, s.name)
				}
			}
			return names
		}
		var counter *spender
		var p *pageBudget
		elect := func() {
			var living []*spender
			for _, s := range all {
				if s.lives {
					living = append(living, s)
				}
			}
			counter, p = living[rng.IntN(len(living))], newPageBudget(limit)
		}
		elect()
		tell := func(s *spender, want int64, lost bool) (spent bool) {
			s.seq++
			held, spent, ok := p.ask(request{name: s.name, boot: s.boot, seq: s.seq, used: s.used, held: s.held,
				want: want, known: s.known}, there())
			if !ok {
				t.Fatalf("round %d: a new request of %s is an old one", round, s.name)
			}
			if held < s.held || held > s.held+want {
				t.Fatalf("round %d: %s held %d, wants %d, holds %d", round, s.name, s.held, want, held)
			}
			if lost && s != counter { // the counter's answers to itself are not lost
				return false
			}
			s.held = held
			maps.Copy(s.known, p.known())
			return spent
		}
		slack, unheard := int64(0), map[*spender]int64{}
		for range rng.IntN(400) {
			s := all[rng.IntN(len(all))]
			if !s.lives {
				if rng.IntN(4) == 0 { // it comes back, with its disk or without
					s.lives = true
					s.boot++
					s.seq = 0
					delete(unheard, s)
					if rng.IntN(2) == 0 {
						s.used = 0
					}
					s.held = s.used
					s.known = map[string]int64{}
				}
				continue
			}
			switch k := rng.IntN(20); {
			case k < 8:
				s.used += rng.Int64N(s.held - s.used + 1)
			case k < 16:
				if rng.IntN(3) == 0 {
					s.held -= rng.Int64N(s.held - s.used + 1) // it gives pages back
				}
				tell(s, rng.Int64N(40), rng.IntN(4) == 0)
			case k == 16:
				elect()
			case len(there()) > 1 && rng.IntN(3) == 0:
				s.lives = false
				was := p
				if s == counter {
					elect()
				}
				// The pages that it held without a report are lost, and so is its knowledge of agents
				// that went before, if the living ones have just come.
				for _, d := range all {
					if d.lives {
						continue
					}
					heard := unheard[d]
					if was == p {
						heard += p.gone[d.name]
						if a := p.living[d.name]; a != nil {
							heard = unheard[d] + a.held
						}
					}
					for _, o := range all {
						if o.lives {
							heard = max(heard, unheard[d]+o.known[d.name])
						}
					}
					more := max(0, d.held-heard)
					unheard[d] += more
					slack += more
				}
				// Now every agent reports, because what only one agent knows of another may die
				// with it.
				for _, o := range all {
					if o.lives {
						tell(o, 0, false)
					}
				}
				for _, o := range all {
					if o.lives {
						tell(o, 0, false)
					}
				}
			}
			sum := int64(0)
			for _, s := range all {
				sum += s.used
			}
			if sum > limit+slack {
				t.Fatalf("round %d: %d pages of %d, slack %d", round, sum, limit, slack)
			}
		}
		// Without more failures the present agents reach the limit.
		told := map[string]bool{}
		for i := 0; len(told) < len(there()); i++ {
			if i > 100_000 {
				t.Fatalf("round %d: the limit is never reached: %+v", round, p)
			}
			s := all[rng.IntN(len(all))]
			if !s.lives {
				continue
			}
			s.used = s.held
			if tell(s, 8, false) {
				told[s.name] = true
			}
		}
		if !p.everybody(there()) {
			t.Fatalf("round %d: some agents do not know", round)
		}
		if used, _ := p.sum(); used < limit {
			t.Fatalf("round %d: %d pages of %d", round, used, limit)
		}
	}
}

// A late request changes nothing.
func TestPageBudgetLateRequest(t *testing.T) {
	p := newPageBudget(100)
	there := []string{"a", "b"}
	p.ask(request{name: "b", boot: 1, seq: 1}, there)
	if held, _, ok := p.ask(request{name: "a", boot: 2, seq: 5, used: 1, held: 1, want: 10}, there); !ok || held != 11 {
		t.Fatalf("held %d, %v", held, ok)
	}
	for _, r := range []request{{name: "a", boot: 2, seq: 5}, {name: "a", boot: 2, seq: 4, want: 10},
		{name: "a", boot: 1, seq: 9}} {
		if _, _, ok := p.ask(r, there); ok {
			t.Errorf("%+v is taken for a new one", r)
		}
	}
	if _, held := p.sum(); held != 11 {
		t.Errorf("held %d", held)
	}
}

// An agent holds enough pages to continue, gives back those that it does not need, and reports
// regularly in any case.
func TestRationer(t *testing.T) {
	var r rationer
	now := time.Unix(0, 0)
	n := cluster.Need{Pending: 5}
	b, tell := r.tell(n, now)
	if !tell || b.Want != rationLeast {
		t.Fatalf("at the start: %+v, %v", b, tell)
	}
	r.told = now
	n.Allowed = b.Held + b.Want
	var wants []int64
	for range 30 { // a fast crawl
		now = now.Add(rationEvery)
		n.Pages = n.Allowed
		b, tell = r.tell(n, now)
		if !tell {
			t.Fatalf("with nothing left nothing is asked for: %+v", n)
		}
		wants = append(wants, b.Want)
		n.Allowed, r.told = b.Held+b.Want, now
	}
	if !slices.IsSorted(wants) || wants[len(wants)-1] < 1000 {
		t.Errorf("wants %v", wants)
	}
	n.Pending = 0 // no links left
	b, tell = r.tell(n, now.Add(rationEvery))
	if !tell || b.Held != n.Pages || b.Want != 0 {
		t.Errorf("idle: %+v, %v", b, tell)
	}
	n.Allowed, r.told = b.Held, now
	if _, tell = r.tell(n, now.Add(rationEvery)); tell {
		t.Error("an idle agent has nothing to tell yet")
	}
	if _, tell = r.tell(n, now.Add(tellEvery)); !tell {
		t.Error("an idle agent is not heard of")
	}
}
