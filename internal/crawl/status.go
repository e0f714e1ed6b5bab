package crawl

import (
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/orders"
	"github.com/orbweaver/orbweaver/internal/crawl/plan"
	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
)

// Status is the state of a crawl at most 250 ms ago.
type Status struct {
	Type      string         `json:"type"` // "status"
	At        clock.Stamp    `json:"at"`
	Began     clock.Stamp    `json:"began"` // start of this run
	Elapsed   time.Duration  `json:"-"`     // time of all runs
	ElapsedS  float64        `json:"elapsed_s"`
	Pages     int64          `json:"pages"`   // over all runs
	Files     int64          `json:"files"`   // that pages embed
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
	Sizes      Sizes            `json:"-"`
	Blocked    []string         `json:"blocked_hosts"` // by the operator
	Errors     map[string]int64 `json:"errors_by_kind"`
	Denied     int64            `json:"robots_denied"`
	Duplicates int64            `json:"duplicates"`
	Earlier    int64            `json:"earlier_duplicates"`  // of Duplicates: an earlier crawl has the payload
	Near       int64            `json:"near_duplicates"`     // pages nearly the same as an archived one
	Refetched  int64            `json:"refetched"`           // pages of lost archives that were fetched again
	Revisits   int64            `json:"revisits"`            // visits to URLs visited before
	Unchanged  int64            `json:"unchanged"`           // revisits that found no change
	NextVisit  clock.Stamp      `json:"next_visit,omitzero"` // when a Planner wants the next URL
	Skipped    map[string]int64 `json:"skipped"`             // links that are not followed, by reason
	Sent       int64            `json:"urls_sent"`           // sent to other agents
	Cluster    ClusterStatus    `json:"-"`                   // what it tells of other agents
	Retrying   map[string]int64 `json:"retrying"`            // URLs that failed and will be retried, by kind
	NextRetry  clock.Stamp      `json:"next_retry,omitzero"`
	LastURL    string           `json:"last_url"`
	WaitsFor   string           `json:"waiting_for,omitempty"` // in words, if no visit has ended lately
	Live       Live             `json:"-"`
	PagesPerS  float64          `json:"pages_per_s"`      // over the last seconds
	Paused     bool             `json:"paused,omitempty"` // by the operator: no visit begins
	Stop       Stop             `json:"stop_reason,omitempty"`
	Disk       Disk             `json:"disk"`
}

// Live is what a live display shows of single URLs and hosts.
type Live struct {
	NowURL string             // of the last visit that began
	Hosts  []frontier.Glimpse // see View.Watch
	// TimeLeft is the time until Config.TimeLimit, which stands still in a pause; 0 without one.
	TimeLeft time.Duration
}

// Sizes are the sizes of data structures.
type Sizes struct {
	Seen  keyset.Stats // of the known URLs
	Hosts int          // hosts that the Tally counts
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

// A View answers what a person asks of a running crawl: how far is it, what does it wait for, and why is a host or a
// URL not fetched now? Only the dispatcher may use it, except for what is safe for concurrent use.
type View struct {
	cfg       *Config
	parts     *Parts
	run       *run.Run
	ledger    *ledger.Ledger
	gate      *orders.Gate
	book      *retry.Book
	origins   *retry.Origins
	failures  *retry.Failures
	visits    *visit.Pool
	apps      *applications.Set
	plan      *plan.Plan
	limits    *limits
	delays    *delays
	rateLimit *rateLimit
	lookups   *lookups
	proxy     *proxy
	errands   *errands
	logs      *logs
	progress  *progress
	obstacles *obstacles

	shown  shown
	before report.Counts // of earlier runs
	status atomic.Pointer[Status]
	counts atomic.Pointer[report.Counts] // of this run
}

// publishInterval is the interval at which the dispatcher updates the Status.
const publishInterval = 250 * time.Millisecond

func (v *View) publishEvery(now time.Time) {
	if s := v.status.Load(); now.Sub(s.At.Time) >= publishInterval {
		v.publish(now)
	}
}

func (v *View) publish(now time.Time) {
	tally, front := v.parts.Tally, v.parts.Frontier
	retrying, next := v.book.Sum(now)
	others := v.parts.Cluster.status(now)
	paused, _ := v.gate.Paused()
	others.Categories = v.logs.countCategories(others.Categories)
	v.shown.speed.add(tally.Pages(), now)
	v.shown.paused.Store(int64(v.gate.Pauses(now)))
	counts := tally.Counts().Since(v.before)
	v.counts.Store(&counts)
	v.status.Store(&Status{
		Type: "status", At: clock.Stamp{Time: now}, Began: clock.Stamp{Time: v.progress.began},
		Elapsed: v.Elapsed(now), ElapsedS: v.Elapsed(now).Seconds(),
		Pages: tally.Pages(), Files: tally.Files(), Fetched: tally.Fetched(), Bytes: tally.Bytes(),
		Queued: v.queued(), Later: v.book.Waiting(), Open: v.progress.underWay(), Slow: v.visits.Slow(),
		Resolving: v.lookups.open + len(v.lookups.waiting), Unique: tally.Unique(),
		Frontier: front.Stats(), Active: front.Active(),
		Sizes: Sizes{v.parts.Seen.Stats(), tally.Hosts()}, Blocked: v.gate.BlockedHosts(),
		Errors: tally.Errors(), Denied: tally.Denied(), Duplicates: tally.Duplicates(),
		Earlier: tally.Earlier(), Near: tally.Near(), Refetched: tally.Refetched(),
		Revisits: tally.Revisits(), Unchanged: tally.Unchanged(), NextVisit: clock.Stamp{Time: v.plan.Wake},
		Skipped: tally.SkippedBy(), Sent: tally.SentTotal(), Cluster: others,
		Retrying: retrying, NextRetry: clock.Stamp{Time: next}, LastURL: v.shown.lastURL,
		Live:     Live{v.shown.begun.String(), v.watch(now), v.limits.timeLeft(now)},
		WaitsFor: v.waitsFor(others, now), Stop: v.progress.stop,
		Paused: paused, PagesPerS: v.shown.speed.rate,
		Disk: v.limits.space.disk(),
	})
}

// Pending returns the number of accepted URLs that are not finished. During Run only the
// dispatcher may call it.
func (v *View) Pending() int64 {
	beside := v.book.Waiting() - len(v.errands.queued) - v.plan.Queued()
	return v.parts.Frontier.Len() + v.parts.Cluster.outgoing() + int64(beside)
}

// queued returns the number of accepted URLs that wait: for a visit, for a retry, or to be sent to other
// agents.
func (v *View) queued() int64 {
	s := v.parts.Frontier.Stats()
	return max(v.Pending()-int64(s.Fetching+s.Resolving), 0)
}

// Elapsed returns the time that the crawl has run, with earlier runs.
func (v *View) Elapsed(now time.Time) time.Duration {
	return v.progress.elapsed(now)
}

// Status returns the state of the crawl, or nil before Run. Safe for concurrent use.
func (v *View) Status() *Status { return v.status.Load() }

// Counts returns what this run has counted when Status was made last. Do not change its maps. Safe for concurrent use.
func (v *View) Counts() (c report.Counts) {
	if now := v.counts.Load(); now != nil {
		c = *now
	}
	return c
}

// The errors of commands.
var (
	// ErrNotRunning reports a command to a Crawler that does not run.
	ErrNotRunning = run.ErrNotRunning
	// ErrEnding reports URLs that come while all agents are idle and end the run together.
	ErrEnding = errors.New("no agent has a URL left, and they are ending the crawl together: give the URLs again in " +
		"some seconds or, if it has ended by then, to a run that continues it")
	// ErrUnderWay reports a command that takes longer than its caller waits. The crawl still carries it out.
	ErrUnderWay = run.ErrUnderWay
)
