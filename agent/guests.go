package agent

import (
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/exchange"
	"github.com/orbweaver/orbweaver/member"
)

// A crawl does not end between the welcome of an agent and its coming: nobody would
// be left to tell it what is finished, and it would fetch all of it once more.

// guestTime is how long an agent that was welcomed may take until it is one of the
// agents; it may also never come.
const guestTime = 5 * time.Second

// A door says who may come.
type door uint8

const (
	open   door = iota
	ending      // whoever asks is to ask again
	ended       // the crawl is over
)

// A guest is an agent by its name, which is the certificate's, and its instance.
type guest struct {
	name     string
	instance exchange.ID
}

// guests are the agents that were told that they may come, and are not there yet.
type guests struct {
	mu   sync.Mutex // guards what follows
	door door
	at   map[guest]time.Time
}

func (g *guests) shut(d door) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.door = d
}

// welcome notes that an agent may come, unless it is too late. One that comes back
// goes on alone when nobody is left.
func (g *guests) welcome(a exchange.Agent, back bool, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.door == ended && !back:
		return &exchange.Refusal{Reason: "over", Text: "the crawl has ended: nothing is left to do in it"}
	case g.door != open:
		return exchange.ErrAgain
	}
	if g.at == nil {
		g.at = map[guest]time.Time{}
	}
	g.at[guest{a.Name, a.Instance}] = now
	return nil
}

// expected says whether one of them may still come.
func (g *guests) expected(v *member.View, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range v.Agents {
		delete(g.at, guest{a.Name, a.Instance})
	}
	for who, at := range g.at {
		if now.Sub(at) > guestTime {
			delete(g.at, who)
		}
	}
	return len(g.at) > 0
}

// admitted reports whether a caller is an agent of the cluster: one that this agent has
// seen in a view or has told that it may come. Until gossip has told of an agent that
// another one let in, its calls are to be repeated.
func (c *colony) admitted(from exchange.Caller) bool {
	if m := c.member.Load(); m != nil && m.Knows(from.Name, from.Instance, from.Boot) {
		return true
	}
	return c.guests.welcomed(from)
}

// welcomed reports whether a caller was told that it may come.
func (g *guests) welcomed(from exchange.Caller) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.at[guest{from.Name, from.Instance}]
	return ok
}
