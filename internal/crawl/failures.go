package crawl

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A FailedSeed is a seed, or the target of a seed's redirects, that brought no HTTP response.
type FailedSeed struct {
	URL weburl.URL
	// Via is the URL that redirects to it; empty for a seed.
	Via string
	// Code is the status code in crawl.log.
	Code int
	// Kind is the kind of error in errors.csv; empty if robots.txt forbids the seed.
	Kind string
	// Cause is the error in the words of the resolver, the connection or the TLS library, or
	// the line of robots.txt. It may contain text of a server.
	Cause string
}

const (
	// maxFailedSeeds bounds the failed seeds in the list; all are counted.
	maxFailedSeeds = 100
	// maxAgain bounds the failed seeds for SeedAgain: a list may have millions of seeds, and
	// all fail if the network is down.
	maxAgain = 10_000
	// maxCause bounds the text of an error in bytes, because x509 lists all names of a
	// certificate.
	maxCause = 300
	// maxRobotsTrouble bounds the origins whose robots.txt failed.
	maxRobotsTrouble = 1000
)

// failures holds what the operator of a crawl that fetched nothing needs to know.
type failures struct {
	tally *report.Tally
	rules *robots.Cache
	seeds []FailedSeed
	count int64
	// robots has, by origin, why the last fetch of robots.txt failed. robotsAt has the origin of
	// a robots.txt that redirects lead to.
	robots, robotsAt map[string]string
	// last is the last failure before the first response.
	last *FailedSeed
	// again has the encoded Links of the first maxAgain failed seeds in the order of
	// their finishes. It is empty once the crawl has an answer other than a redirect.
	again [][]byte
}

// isSeed reports whether l is a seed of the crawl itself, or a URL that such a seed redirected to.
func isSeed(l link.Link) bool { return visit.Trailing(l.Hops, 'R') == len(l.Hops) && l.App() == "" }

// FailedSeeds returns the first 100 seeds that brought no response in this run, and their
// number. For a seed that redirects, it returns the target of the redirects. Call it after
// Run.
func (c *Crawler) FailedSeeds() (first []FailedSeed, count int64) {
	return c.failures.seeds, c.failures.count
}

// A Standstill says why a run has fetched nothing before it was stopped.
type Standstill struct {
	// Last is the last visit that failed; nil: none.
	Last *FailedSeed
	// Waited is what the crawl waited for when it was stopped, in words; empty: not known.
	Waited string
}

// Standstill returns why the crawl has fetched nothing. It is empty if it has. Call it after Run.
func (c *Crawler) Standstill() (s Standstill) {
	if c.Tally.Fetched() > 0 {
		return s
	}
	return Standstill{c.failures.last, c.shown.waited}
}

// noteFailure records a visit that failed, until the crawl has a response.
func (c *Crawler) noteFailure(v *visit.Attempt) {
	if kind := v.ErrorKind(); kind != "" && c.Tally.Fetched() == 0 {
		u := v.Task.Link.URL
		c.failures.last = &FailedSeed{URL: u.Clone(), Code: v.Code(false), Kind: kind, Cause: c.causeOf(v)}
	}
}

// noteSeed records a seed whose visits ended without a response.
func (c *Crawler) noteSeed(v *visit.Attempt, f *state.Finish) {
	if !failedSeed(f) {
		return
	}
	n := &c.failures
	if n.count++; len(n.seeds) == maxFailedSeeds {
		return
	}
	l := v.Task.Link
	s := FailedSeed{URL: l.URL.Clone(), Via: strings.Clone(l.Via), Code: f.Code, Kind: f.Kind, Cause: f.Cause}
	if v.Outcome == visit.Denied {
		s.Cause = strings.Clone(v.Robots.Rule)
	}
	n.seeds = append(n.seeds, s)
}

// noteRobots records why a robots.txt could not be fetched.
func (c *Crawler) noteRobots(v *visit.Attempt) {
	origin := v.Task.Link.URL.Origin()
	n := &c.failures
	part := v.Response.Failure == 0 && v.Detail != "" // see RobotsReply
	if v.Response.Failure == 0 && v.Response.Status < 500 && v.Response.Status != 429 && !part {
		delete(n.robots, origin)
		return
	}
	why := c.causeOf(v)
	switch {
	case part:
		why = v.Detail
	case why == "":
		why = "status " + strconv.Itoa(v.Response.Status)
	case v.Response.Failure == fetch.Refused: // the kind tells the operator what to do
		why = v.ErrorKind() + ": " + why
	}
	setBounded(&n.robots, origin, why)
}

// noteRobotsAt records that an origin's robots.txt is on another host.
func (c *Crawler) noteRobotsAt(origin, other string) {
	setBounded(&c.failures.robotsAt, origin, strings.Clone(other))
}

// setBounded sets an element of a map of at most maxRobotsTrouble origins.
func setBounded(m *map[string]string, origin, to string) {
	if *m == nil {
		*m = map[string]string{}
	}
	if _, ok := (*m)[origin]; ok || len(*m) < maxRobotsTrouble {
		(*m)[strings.Clone(origin)] = to
	}
}

// robotsCause returns why an origin's robots.txt could not be fetched, or "" if it is not known.
func (n *failures) robotsCause(origin string) string {
	if why := n.robots[origin]; why != "" {
		return "robots.txt: " + why
	}
	if other := n.robotsAt[origin]; n.robots[other] != "" {
		_, host, _ := strings.Cut(other, "://")
		return "robots.txt on " + host + ": " + n.robots[other]
	}
	return ""
}

// causeOf returns the text of a visit's error without its kind.
func (c *Crawler) causeOf(v *visit.Attempt) string {
	kind := v.ErrorKind()
	if kind == "" {
		return ""
	}
	cause := strings.TrimPrefix(v.Detail, kind+": ")
	if v.Outcome == visit.RobotsUnreachable {
		cause = c.failures.robotsCause(v.Task.Link.URL.Origin())
	}
	cause = strings.ReplaceAll(cause, "\x00", "")
	return cause[:min(len(cause), maxCause)]
}

// failedSeed reports whether f finishes a seed without a response.
func failedSeed(f *state.Finish) bool {
	dropped := f.Code == report.CodeDeletedByUser || f.Code == report.CodeQuota // no failure
	return f.Code <= 0 && !dropped && !f.IsRobots() && isSeed(f.Link)
}

// Finished keeps a failed seed for SeedAgain until the crawl has an answer. In a cluster it keeps nothing.
func (n *failures) Finished(f *state.Finish, _ bool) {
	switch {
	case f.Code > 0 && n.again == nil || f.Flags&state.FlagAgain != 0:
	case failedSeed(f) && n.tally.Answered() == 0:
		if len(n.again) == maxAgain {
			return
		}
		n.again = append(n.again, f.Link.AppendTo(nil))
	case n.tally.Answered() > 0:
		n.again = nil
	}
}

// SeedAgain accepts the first 10,000 failed seeds once more if no run of the crawl got an
// answer other than a redirect, because the operator may have changed flags. Call it after
// Recover and before Run.
func (c *Crawler) SeedAgain() error {
	again := c.failures.again
	if c.Tally.Answered() > 0 {
		again = nil
	}
	retrier, _ := c.planner.(visit.Retrier)
	now := c.cfg.Now()
	for _, enc := range again {
		// Accept appends the batch, so both records are in it.
		c.ledger.Add(state.Again, enc)
		l, err := c.failures.takeBack(enc)
		if err != nil {
			return err
		}
		c.origins.forgetHost(l.URL.Host()) // the tries of its origin are counted anew, too
		c.origins.record(c, l.URL.Host(), now)
		if retrier != nil {
			retrier.Retry(l.URL)
		}
		c.stamped = c.stamped[:0]
		key := c.cluster.Keys().Of(l.Key(), false)
		if err := c.Accept([]keyset.Item{{Key: key, Aux: c.stamp(enc)}}); err != nil {
			return err
		}
	}
	if len(again) > 0 {
		c.fail(c.ledger.Secure())
	}
	return c.fatal
}

// takeBack removes the first kept seed from the counts of URLs and forgets its robots.txt,
// because the seed is accepted again.
func (n *failures) takeBack(enc []byte) (link.Link, error) {
	l, _, err := link.Decode(enc)
	if err != nil {
		return l, err
	}
	if len(n.again) > 0 && bytes.Equal(n.again[0], enc) {
		n.again = n.again[1:]
		n.tally.TakeBack(l.URL.Host(), l.Seed, l.Hops == "")
	} // else its finish did not survive a power failure
	n.rules.Forget(l.URL) // a setting of ours, or the site, may have changed
	return l, nil
}
