package crawl

import (
	"strconv"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
)

// Outcome says what came of a visit. Every visit ends in exactly one.
type Outcome uint8

const (
	// Fetched is an HTTP response, whatever its status, whole or truncated.
	Fetched Outcome = iota
	// Failed is an exchange that brought no HTTP response; visit.failure says why.
	Failed
	// Denied is forbidden by robots.txt.
	Denied
	// RobotsUnreachable is a URL whose robots.txt could not be had (RFC 9309, 2.3.1.4).
	RobotsUnreachable
	// Prerequisite is a visit that fetched robots.txt on behalf of the URL.
	Prerequisite
	// Elsewhere is a visit that must wait for a robots.txt on another host.
	Elsewhere
	// Stale is a visit over a kept connection that the server ended without a
	// word: the next one, after the quiet time, goes over a new connection.
	Stale
	// OverQuota is a URL of a host that has had all its pages.
	OverQuota
	// Unresolved is a host without an address.
	Unresolved
	// Dropped is a URL that the operator gave up before its turn.
	Dropped
	// Abandoned is a visit cut short by the end of the run, or by the loss of a
	// lease; it will be made again.
	Abandoned
	// Refused is for a Planner: a URL that it wanted is not visited at all, by
	// a guard against traps.
	Refused
)

// patience is how a kind of failure is met.
type patience struct {
	tries int           // visits in all; 1 is no retry
	wait  time.Duration // before the second visit; doubles with each, see backoff
	host  bool          // the host is in trouble, not the URL alone: all of it waits
}

// policy says how often and how patiently a failed visit is made again. tries
// is scaled by Config.Retries, wait by Config.RetryWait: the table holds shares.
func (c *Crawler) policy(v *visit) patience {
	p := patience{tries: 1}
	n := c.cfg.Retries + 1
	w := c.cfg.RetryWait
	switch v.outcome {
	case Unresolved:
		if !v.noSuchHost {
			p = patience{n, w, true}
		}
	case RobotsUnreachable:
		p = patience{n, w, true}
	case Failed:
		switch v.failure {
		case fetch.Connect, fetch.ConnectTimeout, fetch.Proxy:
			p = patience{n, w, true}
		case fetch.TLS:
			if v.fail.Retryable() { // cut off, not refused or not trusted
				p = patience{n, w, true}
			}
		case fetch.Broken:
			p = patience{n, w / 4, false}
		case fetch.FirstByteTimeout, fetch.IdleTimeout, fetch.TotalTimeout, fetch.RateTimeout:
			p = patience{min(n, 3), w, false}
		case fetch.DNS:
			p = patience{n, w, true}
		}
	case Fetched:
		switch v.status {
		case 429, 503:
			p = patience{n, 0, true} // the frontier's slow-down sets the wait
		case 502, 504:
			p = patience{min(n, 3), w, false}
		}
	}
	if v.last {
		p.tries = 1
	}
	return p
}

// final says whether this visit is the URL's last, so that it is archived and logged.
func (c *Crawler) final(v *visit) bool { return v.task.Attempt+1 >= c.policy(v).tries }

// backoff is the wait before visit number attempt+2: doubling, at most an hour.
func backoff(wait time.Duration, attempt int) time.Duration {
	return min(wait<<min(attempt, 12), time.Hour)
}

// code is the visit's status for crawl.log: HTTP's, or one of Heritrix's negative ones.
func (v *visit) code(exhausted bool) int {
	switch v.outcome {
	case Fetched, Prerequisite:
		if v.failure == 0 {
			return v.status
		}
	case Denied:
		return report.CodeRobotsDenied
	case RobotsUnreachable:
		return report.CodeRobotsUnfetchable
	case OverQuota:
		return report.CodeQuota
	case Dropped:
		return report.CodeDeletedByUser
	}
	switch {
	case exhausted:
		return report.CodeTooManyRetries
	case v.outcome == Unresolved:
		return report.CodeDNS
	}
	return v.fail.CrawlLogCode()
}

// errorKind names the failure in the reports by error; empty for none.
func (v *visit) errorKind() string {
	switch v.outcome {
	case Unresolved:
		return "dns"
	case RobotsUnreachable:
		return "robots-unreachable"
	case Failed, Prerequisite:
		if v.failure != 0 {
			return v.failure.String()
		}
	}
	return ""
}

func (o Outcome) String() string {
	names := [...]string{"fetched", "failed", "denied", "robots-unreachable", "prerequisite", "elsewhere", "stale",
		"over-quota", "unresolved", "dropped", "abandoned", "refused"}
	if int(o) < len(names) {
		return names[o]
	}
	return "outcome " + strconv.Itoa(int(o))
}
