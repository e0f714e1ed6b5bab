package node

import (
	"maps"
	"slices"
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

// An account is an agent's last request and the grant that answered it.
type account struct {
	boot, seq  uint64
	used, held int64
	told       bool // the agent knows that the limit is reached
}

func newPageBudget(limit int64) *pageBudget {
	return &pageBudget{limit: limit, living: map[string]*account{}, gone: map[string]int64{}}
}

// A request is an agent's report of its pages, and the number of pages that it wants.
type request struct {
	name             string
	boot, seq        uint64
	used, held, want int64
	known            map[string]int64
}

// ask records the request of a present agent. It returns the number of pages that the agent holds
// from now on, and whether the limit is reached. ok is false if a newer request of that agent has
// been answered. there lists the present agents.
func (p *pageBudget) ask(r request, there []string) (held int64, spent, ok bool) {
	p.removeGone(there)
	if a := p.living[r.name]; a != nil && (r.boot < a.boot || r.boot == a.boot && r.seq <= a.seq) {
		return 0, false, false
	}
	for name, pages := range r.known {
		if !slices.Contains(there, name) {
			p.gone[name] = max(p.gone[name], pages)
		}
	}
	delete(p.gone, r.name)
	a := &account{boot: r.boot, seq: r.seq, used: r.used, held: max(r.held, r.used)}
	p.living[r.name] = a
	if len(p.living) < len(there) {
		return a.held, false, true
	}
	used, all := p.sum()
	if left := p.limit - all; r.want > 0 && left > 0 {
		// The fewer pages are left, the fewer one agent may hold while others wait.
		a.held += min(r.want, max(1, left/int64(2*len(there))))
	}
	a.told = used >= p.limit
	return a.held, a.told, true
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
		used += a.used
		held += a.held
	}
	for _, n := range p.gone {
		used += n
		held += n
	}
	return used, held
}

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
func (p *pageBudget) known() map[string]int64 {
	all := maps.Clone(p.gone)
	for name, a := range p.living {
		all[name] = a.held
	}
	return all
}
