package crawl

import (
	"strconv"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
)

// Outcome is the result of a visit. Each visit has exactly one.
type Outcome uint8

const (
	// Fetched is an HTTP response of any status, complete or truncated.
	Fetched Outcome = iota
	// Failed is a request without an HTTP response; visit.failure has the reason.
	Failed
	// Denied is a URL that robots.txt forbids.
	Denied
	// RobotsUnreachable is a URL whose robots.txt cannot be fetched (RFC 9309, 2.3.1.4).
	RobotsUnreachable
	// Prerequisite is a visit that fetched robots.txt for the URL.
	Prerequisite
	// Elsewhere is a visit that must wait for a robots.txt on another host.
	Elsewhere
	// Stale is a visit over a kept connection that the server closed without an answer. The
	// next visit, after the delay, uses a new connection.
	Stale
	// OverQuota is a URL of a host that has reached Config.HostPageLimit.
	OverQuota
	// Unresolved is a host without an address.
	Unresolved
	// Dropped is a URL that the operator dropped before its visit.
	Dropped
	// Abandoned is a visit that the end of the run or the loss of a lease cut off. It is
	// repeated.
	Abandoned
	// Refused is a URL that a Planner wanted and the trap detection refuses. Only Planners see
	// it.
	Refused
)

// patience says how often and when a kind of failure is retried.
type patience struct {
	tries int           // visits in all; 1 is no retry
	wait  time.Duration // before the second visit; doubles with each, see backoff
	host  bool          // the whole host fails, not only the URL or its origin: all its URLs wait
}

// policy returns how a failed visit is retried. The table holds shares of Config.Retries and
// Config.RetryWait.
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
		p = patience{n, w, false} // its origin sets the wait, as for failures to connect
	case Failed:
		switch v.failure {
		case fetch.Connect, fetch.ConnectTimeout, fetch.Proxy:
			p = patience{n, w, false}
		case fetch.TLS:
			if v.fail.Retryable() { // cut off, not refused or not trusted
				p = patience{n, w, false}
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

// final reports whether this visit is the URL's last one, which is archived and logged.
func (c *Crawler) final(v *visit) bool { return v.task.Attempt+1 >= c.policy(v).tries }

// backoff returns the wait before visit number attempt+2. It doubles each time, up to an hour.
func backoff(wait time.Duration, attempt int) time.Duration {
	return min(wait<<min(attempt, 12), time.Hour)
}

// code returns the visit's status for crawl.log: the HTTP status, or a negative code of
// Heritrix, a crawler.
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

// errorKind returns the name of the failure in the reports, or "".
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
