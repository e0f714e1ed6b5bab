package saving

import (
	"maps"
	"slices"
	"sync"
)

// owed has the agents that were there in this run. An agent that has gone stays until a state of this agent was cut
// after the other one had left: only then it is known that this agent owes it no link any more. Safe for concurrent
// use.
type owed struct {
	mu    sync.Mutex      // guards all below
	there map[string]bool // whether the agent is there now
	asked bool            // the crawl would end, if it were not for an agent that has gone
}

// see notes which other agents are there. It returns these, and those that have gone.
func (o *owed) see(others []string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.there == nil {
		o.there = map[string]bool{}
	}
	for name := range o.there {
		o.there[name] = false
	}
	for _, name := range others {
		o.there[name] = true
	}
	return slices.Sorted(maps.Keys(o.there))
}

// settle forgets agents that have gone.
func (o *owed) settle(names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range names {
		if !o.there[name] {
			delete(o.there, name)
		}
	}
}

// gone returns the agents that have gone. If there is one, the next state is due.
func (o *owed) gone() (names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, there := range o.there {
		if !there {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	o.asked = len(names) > 0
	return names
}

// due reports that gone has returned an agent since the last call.
func (o *owed) due() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.asked
	o.asked = false
	return was
}
