package membership

import (
	"maps"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

// A crawl must not end between the welcome of an agent and its arrival. Otherwise no agent would be
// left to tell it what is finished, and it would fetch everything again.

// admissionTime is how long a welcomed agent may take until it is a member. It may also never
// arrive.
const admissionTime = 5 * time.Second

// admitting is a state: may agents join?
type admitting uint8

const (
	open  admitting = iota
	ended           // the crawl is over
)

// An admittedAgent identifies an agent by its name, which its certificate proves, and its instance.
type admittedAgent struct {
	name     string
	instance rpc.ID
}

// admissions holds the agents that were told that they may join and have not arrived yet.
type admissions struct {
	mu    sync.Mutex // guards the fields below
	state admitting
	until time.Time // no agent is admitted before
	at    map[admittedAgent]arrival
}

// An arrival is the start of a welcomed agent, and the time of its welcome.
type arrival struct {
	boot uint64
	at   time.Time
}

func (g *admissions) set(s admitting) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state = s
}

// hold admits no agent before the time until.
func (g *admissions) hold(until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.until = until
}

// welcome records that an agent may join. It returns an error if the crawl is about to end or has
// ended. An agent that comes back can continue alone when no other agent is left.
func (g *admissions) welcome(a gossip.Agent, back bool, now time.Time) error {
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

// expected reports whether a welcomed agent may still arrive.
func (g *admissions) expected(v *gossip.View, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range v.Agents {
		delete(g.at, admittedAgent{a.Name, a.Instance})
	}
	maps.DeleteFunc(g.at, func(_ admittedAgent, a arrival) bool { return now.Sub(a.at) > admissionTime })
	return len(g.at) > 0
}

// admitted reports whether a caller is an agent of the cluster: gossip has named this
// start of it, or this agent has welcomed this start within admissionTime. Until gossip has
// named an agent that another agent welcomed, the calls of that agent are to be repeated.
//
// Only holders of the cluster's gossip key can gossip, and they are trusted: one that
// gossips without a welcome is admitted.
func (j *joining) admitted(from rpc.Caller) bool {
	m := j.members.Gossip()
	known := m != nil && m.Knows(from.Name, from.Instance, from.Boot) || j.admissions.welcomed(from, j.Clock.Now())
	if known {
		j.sites.Heard(from)
	}
	return known
}

// welcomed reports whether the caller was welcomed within admissionTime, in this start of it.
func (g *admissions) welcomed(from rpc.Caller, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	a, ok := g.at[admittedAgent{from.Name, from.Instance}]
	return ok && a.boot == from.Boot && now.Sub(a.at) <= admissionTime
}
