package node

import (
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

// A crawl does not end between the welcome of an agent and its coming: nobody would
// be left to tell it what is finished, and it would fetch all of it once more.

// admissionTime is how long an agent that was welcomed may take until it is one of the
// agents; it may also never come.
const admissionTime = 5 * time.Second

// An admitting is whether an agent may join.
type admitting uint8

const (
	open  admitting = iota
	ended           // the crawl is over
)

// An admittedAgent is an agent by its name, which is the certificate's, and its instance.
type admittedAgent struct {
	name     string
	instance rpc.ID
}

// admissions are the agents that were told that they may come, and are not there yet.
type admissions struct {
	mu    sync.Mutex // guards what follows
	state admitting
	until time.Time // no agent is admitted before
	at    map[admittedAgent]arrival
}

// An arrival is the start of an agent that was welcomed, and when it was.
type arrival struct {
	boot uint64
	at   time.Time
}

func (g *admissions) set(s admitting) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state = s
}

// hold admits no agent until a time.
func (g *admissions) hold(until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.until = until
}

// welcome notes that an agent may come, unless it is too late. One that comes back
// goes on alone when nobody is left.
func (g *admissions) welcome(a rpc.Agent, back bool, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.state == ended && !back:
		return &rpc.Refusal{Reason: "over", Text: "the crawl has ended: nothing is left to do in it"}
	case g.state != open || now.Before(g.until):
		return rpc.ErrAgain
	}
	if g.at == nil {
		g.at = map[admittedAgent]arrival{}
	}
	g.at[admittedAgent{a.Name, a.Instance}] = arrival{a.Boot, now}
	return nil
}

// expected says whether one of them may still come.
func (g *admissions) expected(v *gossip.View, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range v.Agents {
		delete(g.at, admittedAgent{a.Name, a.Instance})
	}
	for who, a := range g.at {
		if now.Sub(a.at) > admissionTime {
			delete(g.at, who)
		}
	}
	return len(g.at) > 0
}

// admitted reports whether a caller is an agent of the cluster: gossip has named this
// start of it, or this agent has welcomed this start within admissionTime. Until gossip has
// named an agent that another agent welcomed, the calls of that agent are to be repeated.
//
// Only holders of the cluster's gossip key can gossip, and they are trusted: one that
// gossips without a welcome is admitted.
func (c *membership) admitted(from rpc.Caller) bool {
	if m := c.member.Load(); m != nil && m.Knows(from.Name, from.Instance, from.Boot) {
		return true
	}
	return c.admissions.welcomed(from, c.a.now())
}

// welcomed reports whether this start of a caller was told within admissionTime that it
// may come.
func (g *admissions) welcomed(from rpc.Caller, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	a, ok := g.at[admittedAgent{from.Name, from.Instance}]
	return ok && a.boot == from.Boot && now.Sub(a.at) <= admissionTime
}
