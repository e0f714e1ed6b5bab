package limits

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

// A pageBudget counts the pages of all agents and divides the page limit among them. One agent, the
// counter, has it.
//
// A new counter begins with an empty pageBudget. It grants no pages until every agent of the
// cluster has told what it holds. So two counters, one after the other, never grant the same page
// twice: an agent has one request under way, and it tells the second counter what the first one
// granted.
//
// Invariant: grants never raise the sum of the pages that present and gone agents hold above the
// limit. An agent that is gone may only be cut off, so it counts as having used all that it held.
// All agents know what the gone agents held, so this knowledge survives the counter. There is one
// exception: pages that a counter granted to itself after its last report to the others.
type pageBudget struct {
	limit  int64
	living map[string]*account
	gone   map[string]int64
}

// An account is an agent's last report and the grant that answered it.
type account struct {
	boot, seq  uint64
	used, held int64
	told       bool // the agent knows that the limit is reached
}

func newPageBudget(limit int64) *pageBudget {
	return &pageBudget{limit: limit, living: map[string]*account{}, gone: map[string]int64{}}
}

// ask records the report of a present agent. It returns the pages that the agent holds from now on, and whether the
// limit is reached. The result is nil if a newer report of that agent has been answered. there lists the present
// agents.
func (p *pageBudget) ask(name string, boot uint64, q *pb.BudgetRequest, there []string) *pb.BudgetResponse {
	p.removeGone(there)
	if a := p.living[name]; a != nil && (boot < a.boot || boot == a.boot && q.Seq <= a.seq) {
		return nil
	}
	for name, pages := range q.Known {
		if !slices.Contains(there, name) {
			p.gone[name] = max(p.gone[name], int64(pages))
		}
	}
	delete(p.gone, name)
	keepMost(p.gone)
	a := &account{boot: boot, seq: q.Seq, used: int64(q.Used), held: int64(max(q.Held, q.Used))}
	p.living[name] = a
	if len(p.living) == len(there) {
		used, all := p.sum()
		if left := p.limit - all; q.Want > 0 && left > 0 {
			// The fewer pages are left, the fewer one agent may hold while others wait.
			a.held += min(int64(q.Want), max(1, left/int64(2*len(there))))
		}
		a.told = used >= p.limit
	}
	return &pb.BudgetResponse{Held: uint64(a.held), Spent: a.told, Known: p.known()}
}

// removeGone moves the accounts of agents that are not in there to gone.
func (p *pageBudget) removeGone(there []string) {
	for name, a := range p.living {
		if !slices.Contains(there, name) {
			p.gone[name] = max(p.gone[name], a.held)
			delete(p.living, name)
		}
	}
	for _, name := range there {
		if p.living[name] != nil {
			delete(p.gone, name)
		}
	}
}

// sum returns the pages that all agents have used and those that they hold, gone agents included.
func (p *pageBudget) sum() (used, held int64) {
	for _, a := range p.living {
		used, held = plus(used, a.used), plus(held, a.held)
	}
	for _, n := range p.gone {
		used, held = plus(used, n), plus(held, n)
	}
	return used, held
}

// plus returns a+b, or the largest number if that is less. The numbers of other agents may be large.
func plus(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }

// everybody reports whether every agent in there knows that the limit is reached.
func (p *pageBudget) everybody(there []string) bool {
	for _, name := range there {
		if a := p.living[name]; a == nil || !a.told {
			return false
		}
	}
	return true
}

// known returns the pages that each agent holds, or held when it went.
func (p *pageBudget) known() map[string]uint64 {
	all := map[string]uint64{}
	for name, pages := range p.gone {
		all[name] = uint64(pages)
	}
	for name, a := range p.living {
		all[name] = uint64(a.held)
	}
	keepMost(all)
	return all
}

// keepMost removes the agents with the fewest pages, so that a message may name all others.
func keepMost[N int64 | uint64](pages map[string]N) {
	if len(pages) <= maxAgents {
		return
	}
	names := slices.SortedFunc(maps.Keys(pages), func(a, b string) int { return cmp.Compare(pages[b], pages[a]) })
	for _, name := range names[maxAgents:] {
		delete(pages, name)
	}
}
