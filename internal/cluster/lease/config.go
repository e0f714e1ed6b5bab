package lease

import "time"

// Config tunes a Peer. The zero Config is safe. All agents of a cluster must
// have the same Term and Settle.
type Config struct {
	// Term is how long after its last contact with the cluster an agent may begin requests. It
	// also bounds the time to get a lease confirmed after a change of the view. Zero means
	// 5 s.
	Term time.Duration
	// Settle is the time within which the agents' views agree after a change. Zero means 3 s.
	Settle time.Duration
	// Hold is how long a lease lasts if it is not recalled. It is long, so that a slow crawl
	// still has the leases that it requested in advance. Zero means 1 h.
	Hold time.Duration
	// Every is the least time between two calls to the same agent, and the interval at which
	// the caller calls Calls. Zero means 250 ms.
	Every time.Duration
	// Timeout is the time after which a call without an answer has failed. Zero means 3 s.
	Timeout time.Duration
	// Entries bounds the number of points that a call asks for, and that it returns. Zero means
	// 256.
	Entries int
	// Points bounds the points that the Peer holds or asks for, and separately the points that
	// it grants. Zero means 65536.
	Points int
	// PerPage bounds the number of calls per page: an agent that is not stalled asks for leases
	// only if it has made fewer calls. Zero means 0.03, or 0.045 with Batch: then no other call is
	// free, except those for safety.
	PerPage float64
	// Batch is the number of requests for which a holder with work keeps a point that others
	// wait for, if all agents crawl the same hosts. All of them must have the same Batch. Zero
	// means that a turn ends by its time (Turn).
	Batch int
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.Term, 5*time.Second)
	def(&c.Settle, 3*time.Second)
	def(&c.Hold, time.Hour)
	def(&c.Every, 250*time.Millisecond)
	def(&c.Timeout, 3*time.Second)
	if c.Entries <= 0 {
		c.Entries = 256
	}
	c.Entries = min(c.Entries, maxItems)
	if c.Points <= 0 {
		c.Points = 1 << 16
	}
	if c.PerPage <= 0 {
		c.PerPage = 0.03
		if c.Batch > 0 {
			c.PerPage = 0.045
		}
	}
	return c
}

// The clocks of two agents may differ in speed by up to a hundredth. The package allows for a
// fiftieth. A time that must have ended at another agent is made longer here. A time that must not
// have ended there yet is made shorter.

func longer(d time.Duration) time.Duration  { return d + d/50 }
func shorter(d time.Duration) time.Duration { return d - d/50 }

// grace returns the time after which everything that an earlier view allowed has ended. An agent
// that left the view may have had contact with other agents until Settle later. It may come back
// into views that begin up to Settle apart. It begins no request later than Term after its last
// contact. See DESIGN.md.
func (c *Config) grace() time.Duration { return longer(c.Term + 2*c.Settle) }

// Turn returns how long a holder with work keeps a point for which others wait. It is the time of
// 30 requests, so that points change hands rarely, but at least 10 s and at most 10 min. If one of
// the others is stalled, it is the time of 10 requests, and at least 5 s.
func Turn(quiet time.Duration, stalled bool) time.Duration {
	if stalled {
		return min(max(10*quiet, 5*time.Second), 10*time.Minute)
	}
	return min(max(30*quiet, 10*time.Second), 10*time.Minute)
}

const (
	// batchMost bounds the time of a batch of requests (Config.Batch).
	batchMost = 30 * time.Minute
	// dueMost bounds how far ahead the next use of a point keeps a recalled lease. busyMost bounds
	// how far ahead it says that the agent is not stalled.
	dueMost  = 10 * time.Minute
	busyMost = 5 * time.Second
	// stallAfter is the time after which an agent is stalled: it wanted to begin a request, and
	// leases have held back all requests since. A frontier with other hosts that are due begins one
	// of them at once.
	stallAfter = 60 * time.Millisecond
	// stallEvery is how often a stalled agent repeats those asks of which the grantor does not know
	// that the agent is stalled.
	stallEvery = 250 * time.Millisecond
	// surveyEvery is the least time between two questions of a survey to an agent.
	surveyEvery = 250 * time.Millisecond
	// probeEvery is the least time between two calls that are made only for the contact.
	probeEvery = 500 * time.Millisecond
	// idleAfter is how long an agent that begins pages without a pause may leave a recalled point
	// unused. Any other agent may leave it unused for two of its pauses between pages.
	idleAfter = time.Second
	// quiet/idleShare, grantMost and readyMost bound how long a point may stay unused while a
	// stalled agent waits for it. The first counts from the end of the delay after a use: a host
	// that is due uses the point at that moment. grantMost counts from the grant, as long as no host could use
	// the point. readyMost counts from when a host could use the point but waits for its other
	// point. readyMost is the longest: a host asks for its address first and for its domain second,
	// and the domain may have to be handed over.
	idleShare = 25
	grantMost = 500 * time.Millisecond
	readyMost = 2 * time.Second
	// prepaidCalls is how many calls an agent can make before its first page.
	prepaidCalls = 24
	// savings bounds how many paid calls an agent saves. A fast crawl uses them for its slow end.
	savings = 256
	// trickle is the interval in which an agent may make one call that no page pays for.
	trickle = 10 * time.Minute
	// spaceEach, for each agent of the view, is the time between two calls to an agent with
	// Config.Batch, up to spaceMost.
	spaceEach = 100 * time.Millisecond
	spaceMost = 4 * time.Second
	// askAgain is when the agent asks again for a refused point.
	askAgain = time.Second
	// lineAgain is when the agent repeats an ask that waits in the grantor's queue. lineSoon is
	// when it does so after a new view.
	lineAgain = 10 * time.Minute
	lineSoon  = 5 * time.Second
	// callAgain is how long after the end of its turn the grantor recalls a point again from a
	// holder that does not return it.
	callAgain = 5 * time.Second
	// sweepEvery is the interval between two sweeps over all points.
	sweepEvery = 10 * time.Second
	// roomEvery is that interval for the holder's points while nearly all places are in use. A
	// crawl of many small hosts needs new points all the time.
	roomEvery = time.Second
	// aheadAt is the number of points wanted in advance that makes a call worth its cost.
	aheadAt = 64
	// maxChanges bounds how many past views a grantor keeps. They tell which points are new to it.
	maxChanges = 16
)

// A View is an agent's view of the cluster, with itself. It never changes.
type View interface {
	// Owner returns the grantor of a point.
	Owner(point uint64) AgentID
	// Digest is equal for two views only if they are equal.
	Digest() uint64
	// Has reports whether an agent, in this start, is in the view.
	Has(a AgentID) bool
	// Agents returns all agents in the view.
	Agents() []AgentID
	// Fresh reports that an agent of the view cannot have a lease yet: this agent knew it before it
	// began to crawl, and has known it since. False is always right.
	Fresh(a AgentID) bool
	// Over reports that an agent outside of the view has no request in progress and begins
	// none: it has said so, or it has been started again.
	Over(a AgentID) bool
	// Silent returns for how long this agent has not heard from an agent that has left the view.
	// Nothing that the agent sent later may have been answered in a view with it. Zero is always
	// right.
	Silent(a AgentID) time.Duration
	// Missing reports whether an agent that this one knew before its restart is not in the
	// view. Then possibly no agent knows the leases of the missing one.
	Missing() bool
	// Len returns the number of agents.
	Len() int
}
