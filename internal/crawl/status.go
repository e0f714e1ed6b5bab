package crawl

import (
	"math"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
)

// Status is the state of a crawl at most 250 ms ago.
type Status struct {
	Type      string         `json:"type"` // "status"
	At        time.Time      `json:"at"`
	Began     time.Time      `json:"began"` // start of this run
	Elapsed   time.Duration  `json:"-"`     // time of all runs
	ElapsedS  float64        `json:"elapsed_s"`
	Pages     int64          `json:"pages"`   // over all runs
	Fetched   int64          `json:"fetched"` // HTTP responses, without robots.txt
	Bytes     int64          `json:"bytes"`
	Queued    int64          `json:"urls_queued"`   // URLs accepted and not finished, without those in progress
	Later     int            `json:"later"`         // waiting for a retry outside of the queues
	Open      int            `json:"open_requests"` // visits in progress, with slow ones
	Slow      int            `json:"slow"`          // visits that wait for a slow server, without a worker
	Resolving int            `json:"resolving"`
	Unique    int64          `json:"urls_unique"` // URLs accepted
	Frontier  frontier.Stats `json:"frontier"`
	// number of hosts that the crawl wants to keep ready, by its speed
	Active     int              `json:"active_hosts"`
	Seen       keyset.Stats     `json:"-"`             // of the known URLs
	HostCounts int              `json:"-"`             // hosts that the Tally counts
	Blocked    []string         `json:"blocked_hosts"` // by the operator
	Errors     map[string]int64 `json:"errors"`
	Denied     int64            `json:"robots_denied"`
	Duplicates int64            `json:"duplicates"`
	Near       int64            `json:"near_duplicates"`     // pages nearly the same as an archived one
	Refetched  int64            `json:"refetched"`           // pages of lost archives that were fetched again
	Revisits   int64            `json:"revisits"`            // visits to URLs visited before
	Unchanged  int64            `json:"unchanged"`           // revisits that found no change
	NextVisit  time.Time        `json:"next_visit,omitzero"` // when a Planner wants the next URL
	Skipped    map[string]int64 `json:"skipped"`             // links that are not followed, by reason
	Sent       int64            `json:"urls_sent"`           // sent to other agents
	ClusterStatus
	Retrying  map[string]int64   `json:"retrying"` // URLs that failed and will be retried, by kind
	NextRetry time.Time          `json:"next_retry,omitzero"`
	LastURL   string             `json:"last_url"`
	WaitsFor  string             `json:"waiting_for,omitempty"` // in words, if no visit has ended lately
	NowURL    string             `json:"-"`                     // of the last visit that began
	Hosts     []frontier.Glimpse `json:"-"`                     // see Crawler.Watch
	PagesPerS float64            `json:"pages_per_s"`           // over the last seconds
	Paused    bool               `json:"paused,omitempty"`      // by the operator: no visit begins
	Stop      Stop               `json:"stop_reason,omitempty"`
	TimeLeft  time.Duration      `json:"-"` // until Config.TimeLimit, which stands still in a pause; 0 without one
}

// A speed is the rate at which a count grows. Old growth counts less and less: after speedTime a third as much.
type speed struct {
	rate float64 // per second
	at   time.Time
	n    int64
}

const speedTime = 5 * time.Second

func (s *speed) add(n int64, now time.Time) {
	if d := now.Sub(s.at); !s.at.IsZero() && d > 0 {
		s.rate += (float64(n-s.n)/d.Seconds() - s.rate) * (1 - math.Exp(-d.Seconds()/speedTime.Seconds()))
	}
	s.at, s.n = now, n
}

// publishEvery is the interval at which the dispatcher updates the Status.
const publishEvery = 250 * time.Millisecond

func (c *Crawler) publishEvery(now time.Time) {
	if s := c.status.Load(); now.Sub(s.At) >= publishEvery {
		c.publish(now)
	}
}

func (c *Crawler) publish(now time.Time) {
	retrying, next := c.retries.Sum(now)
	others := c.Cluster.status(now)
	paused, _ := c.gate.Paused()
	others.Categories = c.logs.countCategories(others.Categories)
	c.shown.speed.add(c.Tally.Pages(), now)
	c.shown.paused.Store(int64(c.gate.Pauses(now)))
	c.status.Store(&Status{
		Type: "status", At: now, Began: c.progress.began, Elapsed: c.Elapsed(now), ElapsedS: c.Elapsed(now).Seconds(),
		Pages: c.Tally.Pages(), Fetched: c.Tally.Fetched(), Bytes: c.Tally.Bytes(),
		Queued: c.queued(), Later: c.retries.Waiting(), Open: c.progress.underWay(), Slow: c.visits.Slow(),
		Resolving: c.lookups.open + len(c.lookups.waiting), Unique: c.Tally.Unique(),
		Frontier: c.Frontier.Stats(), Active: c.Frontier.Active(), Seen: c.Seen.Stats(), HostCounts: c.Tally.Hosts(),
		Blocked: c.gate.BlockedHosts(),
		Errors:  c.Tally.Errors(), Denied: c.Tally.Denied(), Duplicates: c.Tally.Duplicates(),
		Near: c.Tally.Near(), Refetched: c.Tally.Refetched(),
		Revisits: c.Tally.Revisits(), Unchanged: c.Tally.Unchanged(), NextVisit: c.plan.next,
		Skipped: c.Tally.SkippedBy(), Sent: c.Tally.SentTotal(), ClusterStatus: others,
		Retrying: retrying, NextRetry: next, LastURL: c.shown.lastURL, NowURL: c.shown.begun.String(),
		WaitsFor: c.waitsFor(others, now), Hosts: c.watch(now), Stop: c.progress.stop,
		Paused: paused, PagesPerS: c.shown.speed.rate, TimeLeft: c.limits.timeLeft(now),
	})
}

// Pending returns the number of accepted URLs that are not finished. During Run only the
// dispatcher may call it.
func (c *Crawler) Pending() int64 {
	return c.Frontier.Len() + c.Cluster.outgoing() + int64(c.retries.Waiting()-len(c.errands.queued)-len(c.plan.again))
}

// queued returns the number of accepted URLs that wait: for a visit, for a retry, or to be sent to other
// agents.
func (c *Crawler) queued() int64 {
	s := c.Frontier.Stats()
	return max(c.Pending()-int64(s.Fetching+s.Resolving), 0)
}

// Elapsed returns the time that the crawl has run, with earlier runs.
func (c *Crawler) Elapsed(now time.Time) time.Duration {
	return c.progress.elapsed(now)
}

// Status returns the state of the crawl, or nil before Run. Safe for concurrent use.
func (c *Crawler) Status() *Status { return c.status.Load() }

// The errors of commands.
var (
	// ErrNotRunning reports a command to a Crawler that does not run.
	ErrNotRunning = run.ErrNotRunning
	// ErrUnderWay reports a command that takes longer than its caller waits. The crawl still carries it out.
	ErrUnderWay = run.ErrUnderWay
)
