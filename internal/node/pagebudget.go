package node

import (
	"maps"
	"slices"
)

// A pageBudget counts the pages of all agents, for the one among them that gives the
// rations. Whoever comes to be that one begins with an empty pageBudget, and gives
// nothing before every agent there is has told what it holds. So two of them,
// one after the other, never give the same page twice: an agent asks one at a
// time, and what the first gave is in what it tells the second.
//
// What always holds: what the agents hold and what those hold that are gone is
// never more than the limit by what is given here. An agent that is gone is
// taken to have used all that it held, as it may have been only cut off; that is
// known to all agents, so that it outlives the pageBudget: but for what whoever counted
// gave itself after the others last heard of it.
type pageBudget struct {
	limit  int64
	living map[string]*account
	gone   map[string]int64
}

// An account is what an agent told last, and what it was given then.
type account struct {
	boot, seq  uint64
	used, held int64
	told       bool // that all is spent
}

func newPageBudget(limit int64) *pageBudget {
	return &pageBudget{limit: limit, living: map[string]*account{}, gone: map[string]int64{}}
}

// A request is what an agent tells, and wants.
type request struct {
	name             string
	boot, seq        uint64
	used, held, want int64
	known            map[string]int64
}

// ask takes a request down, of one of the agents that are there, and says what
// the asker holds from now on, and whether the limit is reached. ok is false for
// a request that came too late: a newer one has been answered.
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
		// The nearer the end, the less each holds while others wait.
		a.held += min(r.want, max(1, left/int64(2*len(there))))
	}
	a.told = used >= p.limit
	return a.held, a.told, true
}

// removeGone counts those that are there no longer among the gone.
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

// sum is what all have used and hold.
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

// everybody says that each of those that are there knows that all is spent.
func (p *pageBudget) everybody(there []string) bool {
	for _, name := range there {
		if a := p.living[name]; a == nil || !a.told {
			return false
		}
	}
	return true
}

// known is what all hold, and held that are gone.
func (p *pageBudget) known() map[string]int64 {
	all := maps.Clone(p.gone)
	for name, a := range p.living {
		all[name] = a.held
	}
	return all
}
