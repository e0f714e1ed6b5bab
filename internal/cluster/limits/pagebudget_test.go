package limits

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// A spender models an agent: it fetches only pages that it holds.
type spender struct {
	name       string
	used, held int64
	boot, seq  uint64
	known      map[string]uint64
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
			all = append(all, &spender{name: fmt.Sprintf("a%d", i), boot: 1, lives: true, known: map[string]uint64{}})
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
			g := p.ask(s.name, s.boot, &pb.BudgetRequest{Seq: s.seq, Used: uint64(s.used), Held: uint64(s.held),
				Want: uint32(want), Known: s.known}, there())
			if g == nil {
				t.Fatalf("round %d: a new report of %s is an old one", round, s.name)
			}
			held := int64(g.Held)
			if held < s.held || held > s.held+want {
				t.Fatalf("round %d: %s held %d, wants %d, holds %d", round, s.name, s.held, want, held)
			}
			if lost && s != counter { // the counter's answers to itself are not lost
				return false
			}
			s.held = held
			maps.Copy(s.known, g.Known)
			return g.Spent
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
					s.known = map[string]uint64{}
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
							heard = max(heard, unheard[d]+int64(o.known[d.name]))
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

// A late report changes nothing.
func TestPageBudgetLateReport(t *testing.T) {
	p := newPageBudget(100)
	there := []string{"a", "b"}
	p.ask("b", 1, &pb.BudgetRequest{Seq: 1}, there)
	if g := p.ask("a", 2, &pb.BudgetRequest{Seq: 5, Used: 1, Held: 1, Want: 10}, there); g.GetHeld() != 11 {
		t.Fatalf("granted: %v", g)
	}
	for _, r := range []struct {
		boot uint64
		q    *pb.BudgetRequest
	}{{2, &pb.BudgetRequest{Seq: 5}}, {2, &pb.BudgetRequest{Seq: 4, Want: 10}}, {1, &pb.BudgetRequest{Seq: 9}}} {
		if p.ask("a", r.boot, r.q, there) != nil {
			t.Errorf("report %d of start %d is taken for a new one", r.q.Seq, r.boot)
		}
	}
	if _, held := p.sum(); held != 11 {
		t.Errorf("held %d", held)
	}
}

// Agents that name as many gone agents as a message may have, with as many pages, get no pages, and are answered in
// messages that they accept.
func TestPageBudgetOfManyAgents(t *testing.T) {
	known := func(of string) map[string]uint64 {
		m := map[string]uint64{}
		for i := range maxAgents {
			m[fmt.Sprint(of, "-", i)] = maxPages
		}
		return m
	}
	p, there := newPageBudget(100), []string{"a", "b"}
	p.ask("b", 1, &pb.BudgetRequest{Seq: 1, Known: known("b")}, there)
	q := &pb.BudgetRequest{Seq: 1, Used: maxPages, Held: maxPages, Want: 10, Known: known("a")}
	g := p.ask("a", 1, q, there)
	if err := checkGrant(q, g); g.Held != maxPages || !g.Spent || err != nil {
		t.Errorf("%d more pages, spent: %t, %v", g.Held-maxPages, g.Spent, err)
	}
	if used, held := p.sum(); used != math.MaxInt64 || held != math.MaxInt64 {
		t.Errorf("%d pages used, %d held", used, held)
	}
}

// FuzzReport: a report that passes the check of its message is answered by a message that passes its own check, and
// grants no page above the limit.
func FuzzReport(f *testing.F) {
	for _, q := range []*pb.BudgetRequest{
		{Seq: 1, Want: 5}, {Seq: 2, Used: 3, Held: 4, Want: 1 << 20}, {Seq: 3, Held: maxPages, Want: 1},
		{Seq: 4, Held: 90, Want: 20, Known: map[string]uint64{"gone": 5, "b": 7, "gone-2": maxPages}},
	} {
		b := must.Get(proto.Marshal(q))(f)
		f.Add(b, b)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		const limit = 100
		p, there := newPageBudget(limit), []string{"a", "b"}
		for i, b := range [][]byte{first, second} {
			q := new(pb.BudgetRequest)
			if proto.Unmarshal(b, q) != nil || checkReport(q) != nil {
				return
			}
			g := p.ask(there[i], 1, q, there)
			if g == nil {
				continue // a late report
			}
			must.Do(t, checkGrant(q, g))
			if _, held := p.sum(); held > limit && g.Held > q.Held {
				t.Fatalf("%d of %d pages are held after a grant of %d", held, limit, g.Held-q.Held)
			}
		}
	})
}

// An agent holds enough pages to continue, gives back those that it does not need, and reports
// regularly in any case.
func TestRationer(t *testing.T) {
	var r rationer
	now := time.Unix(0, 0)
	n := Need{Pending: 5}
	q, tell := r.tell(n, now)
	if !tell || q.Want != rationLeast {
		t.Fatalf("at the start: %v, %v", q, tell)
	}
	r.told = now
	n.Allowed = int64(q.Held) + int64(q.Want)
	var wants []uint32
	for range 30 { // a fast crawl
		now = now.Add(rationEvery)
		n.Pages = n.Allowed
		q, tell = r.tell(n, now)
		if !tell {
			t.Fatalf("with nothing left nothing is asked for: %+v", n)
		}
		wants = append(wants, q.Want)
		n.Allowed, r.told = int64(q.Held)+int64(q.Want), now
	}
	if !slices.IsSorted(wants) || wants[len(wants)-1] < 1000 {
		t.Errorf("wants %v", wants)
	}
	n.Pending = 0 // no links left
	q, tell = r.tell(n, now.Add(rationEvery))
	if !tell || q.Held != uint64(n.Pages) || q.Want != 0 {
		t.Errorf("idle: %v, %v", q, tell)
	}
	n.Allowed, r.told = int64(q.Held), now
	if _, tell = r.tell(n, now.Add(rationEvery)); tell {
		t.Error("an idle agent has nothing to tell yet")
	}
	if _, tell = r.tell(n, now.Add(tellEvery)); !tell {
		t.Error("an idle agent is not heard of")
	}
}
