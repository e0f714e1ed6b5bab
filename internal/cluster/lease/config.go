package lease

import "time"

// Config tunes a Peer. The zero Config is safe. All agents of a cluster must
// have the same Term and Settle.
type Config struct {
	// Term is how long after its last contact with the cluster an agent may begin requests. It
	// also bounds the time to get a lease confirmed after a change of the view. Zero means
	// 10 s.
	Term time.Duration
	// Settle is the time within which the agents' views agree after a change. Zero means 3 s.
	Settle time.Duration
	// Hold is how long a lease lasts if it is not recalled. It is long, so that a slow crawl
	// still has the leases that it requested in advance. Zero means 1 h.
	Hold time.Duration
	// Every is the least time between two calls to the same agent, and the interval at which
	// the caller calls Calls. Zero means 250 ms.
	Every time.Duration
	// Timeout is the time after which a call without an answer has failed. Zero means 5 s.
	Timeout time.Duration
	// Entries bounds the number of points that a call asks for, and that it returns. Zero means
	// 256.
	Entries int
	// Points bounds the points that the Peer holds or asks for, and separately the points that
	// it grants. Zero means 65536.
	Points int
	// First reports that this agent starts the cluster. Then no other agent can have leases,
	// and the Peer need not wait at its start.
	First bool
	// PerPage bounds the number of calls per page: an agent that is not stalled asks for leases
	// only if it has made fewer calls. Zero means 0.03.
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

// Turn returns how long a holder with work keeps a point for which others wait. It is the time of
// 30 requests, so that points change hands rarely, but at least 10 s and at most 10 min.
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

// A View is an agent's view of the cluster, with itself. It never changes.
type View interface {
	// Owner returns the grantor of a point.
	Owner(point uint64) Agent
	// Heir returns the agent that becomes the grantor when the Owner is gone; 0: none.
	Heir(point uint64) Agent
	// Grantors returns all agents that are grantors of points.
	Grantors() []Agent
	// Digest is equal for two views only if they are equal.
	Digest() uint64
	// Has reports whether an agent, in this start, is in the view.
	Has(a Agent) bool
	// Agents returns all agents in the view.
	Agents() []Agent
	// Over reports that an agent outside of the view has no request in progress and begins
	// none: it has said so, or it has been started again.
	Over(a Agent) bool
	// Missing reports whether an agent that this one knew before its restart is not in the
	// view. Then possibly no agent knows the leases of the missing one.
	Missing() bool
	// Len returns the number of agents.
	Len() int
}
