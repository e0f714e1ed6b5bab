package crawl

import (
	"context"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/plan"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A Cluster is the rest of the cluster, as the crawl loop of one agent sees it, by what the loop asks. The dispatcher
// calls all methods, except those that are safe for concurrent use. The zero Cluster stands for a crawl without other
// agents. Owners, Turns and Moves are there together. A cluster joins the ledger of the crawl itself, see
// ledger.Cluster.
type Cluster struct {
	Owners   Owners
	Turns    Turns
	Moves    Moves
	Contents visit.Contents // nil: contents are not compared with those of other agents
	Boundary Boundary       // nil: all agents keep the pages that they have fetched
	Sharing  visit.Sharing  // nil: no other agent's archive is asked
}

// Owners answer: whose is this host?
type Owners interface {
	visit.Owners
	// Peek is Owner for a person's question: if the owner is not known, nobody is asked for it. Safe for concurrent
	// use.
	Peek(host string) (agent string, mine bool)
	// PagesElsewhere returns how many pages of a host other agents have fetched, as far as this agent has been told.
	// Before a visit that MayVisit allows, it has been told of all that their last owners know.
	PagesElsewhere(host string) int64
}

// Turns are the parts of the dispatcher's turns that concern other agents: may this link be visited, what is due, and
// is all done?
type Turns interface {
	// Bind gives the cluster its loop, and returns the conditions of the cluster under which this agent may begin no
	// visit. The loop calls it once, before all other methods. The cluster joins the Ledger of the loop.
	Bind(loop *Loop) []Obstacle
	// MayVisit reports whether t, just taken from the frontier, may be visited. If not, t is put away.
	MayVisit(t *frontier.Task, now time.Time) bool
	// Permit returns the permission to contact the addresses and domains that the host shares with hosts of other
	// agents. Nil means that the host shares none.
	Permit(host string) *visit.Permit
	// Tick does what is due. wake is the time of the next work; zero means not before an answer arrives. Work in the
	// background uses the context.
	Tick(work context.Context, now time.Time) (wake time.Time)
	// Deliver acknowledges and ships what is durable. wake is as with Tick.
	Deliver(work context.Context, now time.Time) (wake time.Time)
	// Waits reports that the loop, which has no work itself, has to wait for other agents: while the run goes on for
	// links and for the common end, and if it is to stop until they have what this agent knows. Then the first call
	// begins a time that bounds the wait.
	Waits(now time.Time) bool
	// Rest is called when no work is left here. The cluster decides about the end.
	Rest()
	// Ending reports that this agent has agreed to end the run together with all others, or is about to. Meanwhile
	// nothing may give it work.
	Ending() bool
	// Outgoing returns the number of links that wait to be sent to other agents.
	Outgoing() int64
	// Status returns the counts of the cluster, for the Status.
	Status(now time.Time) ClusterStatus
}

// Moves let what this agent knows of hosts and URLs move to other agents.
type Moves interface {
	// SendAway takes a link that was withdrawn from the frontier because its host has another owner now. sent is false
	// if the operator has dropped the link.
	SendAway(w frontier.Waiting) (sent bool, err error)
	plan.Moves
}

// Boundary answers: which agent keeps this page?
type Boundary interface {
	visit.Boundary
	// Direct sets the destination of a seed if every agent may fetch it.
	Direct(seed *link.Link)
}

// peek returns the agent that crawls a host, see Owners.Peek. Safe for concurrent use.
func (c *Cluster) peek(host string) (agent string, mine bool) {
	if c.Owners == nil {
		return "", true
	}
	return c.Owners.Peek(host)
}

// agentOf returns the other agent that crawls host. It is "" if this agent crawls host, or
// if the owner is not known.
func (c *Cluster) agentOf(host string) string {
	if c.Owners == nil {
		return ""
	}
	owner, mine := c.Owners.Owner(host)
	if mine {
		return ""
	}
	return owner
}

// pagesElsewhere returns Owners.PagesElsewhere.
func (c *Cluster) pagesElsewhere(host string) int64 {
	if c.Owners == nil {
		return 0
	}
	return c.Owners.PagesElsewhere(host)
}

// direct sets the destination of a seed if every agent may fetch it.
func (c *Cluster) direct(seed *link.Link) {
	if c.Boundary != nil {
		c.Boundary.Direct(seed)
	}
}

// isSpread reports whether other agents may have the page of a link because pages are divided by their content. Only an
// application's link finds such a page: one of the crawl itself leads to a URL that this agent has not fetched.
func (c *Cluster) isSpread(l link.Link) bool {
	return c.Sharing != nil && c.Boundary != nil && l.App() != ""
}

// mustWait reports that the loop, which has no work itself, has to wait for other agents.
func (c *Cluster) mustWait(now time.Time) bool { return c.Turns != nil && c.Turns.Waits(now) }

// Ending reports that this agent is ending the run together with all others.
func (c *Cluster) Ending() bool { return c.Turns != nil && c.Turns.Ending() }

// deliver acknowledges and ships what is durable.
func (c *Cluster) deliver(work context.Context, now time.Time) (wake time.Time) {
	if c.Turns == nil {
		return time.Time{}
	}
	return c.Turns.Deliver(work, now)
}

// status returns the counts of the cluster.
func (c *Cluster) status(now time.Time) (s ClusterStatus) {
	if c.Turns == nil {
		return s
	}
	return c.Turns.Status(now)
}

// outgoing returns the number of links that wait to be sent to other agents.
func (c *Cluster) outgoing() int64 {
	if c.Turns == nil {
		return 0
	}
	return c.Turns.Outgoing()
}

// ClusterStatus is the part of a Status that tells of other agents.
type ClusterStatus struct {
	Waits    string           `json:"-"`                // what this agent waits for, in words; see Status.WaitsFor
	Leaving  string           `json:"-"`                // the same of an agent that leaves; "": it does not leave
	Agents   []string         `json:"agents,omitempty"` // the agents that are present
	Outgoing int64            `json:"urls_outgoing"`    // waiting to be sent to other agents
	Received int64            `json:"urls_received"`    // from other agents, in this run
	Copying  int64            `json:"copies_outgoing"`  // records waiting to be sent to heirs
	CopyLagS float64          `json:"copies_lag_s"`     // age of the oldest of them, in seconds
	Leases   *report.Leases   `json:"leases,omitempty"`
	Moves    *report.Moves    `json:"moves,omitempty"` // of hosts between agents
	Contents *report.Contents `json:"contents,omitempty"`
	Boundary *report.Boundary `json:"boundary,omitempty"` // pages on their way between agents
	// Categories are those of this agent's pages, by name, and the others of pages that it keeps.
	Categories []report.Category `json:"categories,omitempty"`
	Lost       *report.Lost      `json:"lost,omitempty"`     // archives that were lost with other agents
	Exchange   *report.Exchange  `json:"exchange,omitempty"` // messages to other agents, in this run
	Sites      *report.Sites     `json:"sites,omitempty"`    // what the coordinators say
}
