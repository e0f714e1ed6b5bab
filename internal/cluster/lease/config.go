package lease

import "time"

// Config tunes a Peer. The zero Config is safe. All agents of a cluster must
// have the same Term and Settle.
type Config struct {
	// Term is how long after its last contact with the cluster an agent may
	// still begin requests, and the time to get a lease confirmed when the view
	// has changed. Zero means 10s.
	Term time.Duration
	// Settle is within what time the agents' views agree. Zero means 3s.
	Settle time.Duration
	// Hold is how long a lease lasts that nobody calls back: long, so that
	// what is asked for ahead is still held when it is used by a slow crawl.
	// Zero means 1h.
	Hold time.Duration
	// Every is the least time between two calls to the same agent, and how
	// often the caller asks for calls. Zero means 250ms.
	Every time.Duration
	// Timeout is how long a call is waited for. Zero means 5s.
	Timeout time.Duration
	// Entries bounds what one call asks for, and what it gives back. Zero
	// means 256.
	Entries int
	// Points bounds how many points the peer has, or asks for; and as often
	// again as grantor, for how many others. Zero means 65536.
	Points int
	// First says that this agent begins the cluster: nobody can have used
	// anything before it, so it need not wait at its start.
	First bool
	// PerPage is how many calls a page pays for: an agent that wants to ask
	// for leases waits until a call is paid for, unless it is stalled. Zero
	// means 0.03.
	PerPage float64
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.Term, 10*time.Second)
	def(&c.Settle, 3*time.Second)
	def(&c.Hold, time.Hour)
	def(&c.Every, 250*time.Millisecond)
	def(&c.Timeout, 5*time.Second)
	if c.Entries <= 0 {
		c.Entries = 256
	}
	c.Entries = min(c.Entries, maxItems)
	if c.Points <= 0 {
		c.Points = 1 << 16
	}
	if c.PerPage <= 0 {
		c.PerPage = 0.03
	}
	return c
}

// A clock that runs up to a hundredth faster or slower than another's is met
// by a margin of a fiftieth: what must be over at another's place is longer
// here, what must not be over there yet is shorter.

func longer(d time.Duration) time.Duration  { return d + d/50 }
func shorter(d time.Duration) time.Duration { return d - d/50 }

// grace is after how long what another view allowed has ended: an agent that
// one view has lost was in contact with others until Settle later; it may come
// back into views that are Settle apart; and it begins nothing Term after its
// last contact. See DESIGN.md.
func (c *Config) grace() time.Duration { return longer(c.Term + 2*c.Settle) }

// Turn is how long a holder keeps a point for which others wait, if it has
// work there: 30 requests, so that handing it over is rare, but at least 10 s
// and at most 10 min.
func Turn(quiet time.Duration) time.Duration {
	return min(max(30*quiet, 10*time.Second), 10*time.Minute)
}

const (
	// stallAfter is how long an agent that wanted to begin something, and has
	// begun nothing since, waits until it is stalled: it has nothing else to do.
	stallAfter = time.Second
	// stallEvery is how often a stalled agent looks for asks that its grantors
	// do not know to be those of a stalled agent.
	stallEvery = time.Second
	// surveyEvery is the least time between two questions of a survey to an agent.
	surveyEvery = 500 * time.Millisecond
	// idleAfter is how long a point that is called back may be unused by an
	// agent that begins pages without a pause; by another it is two pauses.
	idleAfter = time.Second
	// idleMost, grantMost and readyMost are how long a point for which a stalled
	// agent waits may be unused: since it was used last; since it was granted, if
	// no host could use it; and since a host could use it that waits for its other
	// point. A host is given the longest, as it asks for its address first and for
	// its domain then, and needs the time of a hand-over for the second.
	idleMost  = time.Second
	grantMost = 500 * time.Millisecond
	readyMost = 2 * time.Second
	// prepaidCalls is how many calls can be paid for in advance; the start needs some.
	prepaidCalls = 24
	// savings is how many are kept: a fast crawl ends with what is slow.
	savings = 256
	// trickle is the time in which a call is paid for that no page pays.
	trickle = 10 * time.Minute
	// askAgain is when a refused point is asked for again.
	askAgain = time.Second
	// lineAgain is when an ask that stands in line is repeated.
	lineAgain = 10 * time.Minute
	// callAgain is how long after its turn a holder that gives nothing back is
	// called again.
	callAgain = 30 * time.Second
	// sweepEvery is how often everything is looked at.
	sweepEvery = 10 * time.Second
	// roomEvery is the same for the points that an agent has, while these are
	// nearly as many as it may have: a crawl of many small hosts has new ones all
	// the time.
	roomEvery = time.Second
	// aheadAt is how many points that are wanted ahead are worth a call.
	aheadAt = 64
	// maxChanges is how many views are kept to tell what is new to a grantor.
	maxChanges = 16
)

// A View is an agent's picture of the cluster, itself included. It does not
// change.
type View interface {
	// Owner is the agent that grants the leases of a point.
	Owner(point uint64) Agent
	// Heir is the agent that grants them when the Owner does no more; 0: nobody.
	Heir(point uint64) Agent
	// Grantors are all that grant any.
	Grantors() []Agent
	// Digest is the same for two views only if they say the same.
	Digest() uint64
	// Has says whether an agent is in it, in this life.
	Has(a Agent) bool
	// Agents are all that are in it.
	Agents() []Agent
	// Over says that an agent which is not in it begins nothing any more and has
	// nothing under way: it has said so, or its next life has begun.
	Over(a Agent) bool
	// Missing reports whether an agent that this one knew in an earlier life is not
	// in the view. No agent may know the leases of the missing one.
	Missing() bool
	// Len is the number of agents.
	Len() int
}
