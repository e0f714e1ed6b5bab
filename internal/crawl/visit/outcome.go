package visit

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
	// Failed is a request without an HTTP response; Response.Failure has the reason.
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
	// OverQuota is a URL of a host that has reached crawl.Config.HostPageLimit.
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

// Ends reports that no later visit can bring another outcome, unless it is a response that asks for one.
func (o Outcome) Ends() bool { return o == Fetched || o == Denied || o == OverQuota || o == Dropped }

// SaysNothing reports that the visit tells nothing about its origin.
func (o Outcome) SaysNothing() bool { return o == Abandoned || o == Stale || o == Elsewhere }

// Patience says how often and when a kind of failure is retried.
type Patience struct {
	Tries int           // visits in all; 1 is no retry
	Wait  time.Duration // before the second visit; doubles with each, see Backoff
	Host  bool          // the whole host fails, not only the URL or its origin: all its URLs wait
}

// Policy returns how a failed visit is retried. The table holds shares of Config.Retries and
// Config.RetryWait.
func (p *Pool) Policy(v *Attempt) Patience {
	how := Patience{Tries: 1}
	n := p.cfg.Retries + 1
	w := p.cfg.RetryWait
	switch v.Outcome {
	case Unresolved:
		if !v.Lookup.NoSuchHost {
			how = Patience{n, w, true}
		}
	case RobotsUnreachable:
		how = Patience{n, w, false} // its origin sets the wait, as for failures to connect
	case Failed:
		switch v.Response.Failure {
		case fetch.Connect, fetch.ConnectTimeout, fetch.Proxy:
			how = Patience{n, w, false}
		case fetch.TLS:
			if v.Response.Fail.Retryable() { // cut off, not refused or not trusted
				how = Patience{n, w, false}
			}
		case fetch.Broken:
			how = Patience{n, w / 4, false}
		case fetch.FirstByteTimeout, fetch.IdleTimeout, fetch.TotalTimeout, fetch.RateTimeout:
			how = Patience{min(n, 3), w, false}
		case fetch.DNS:
			how = Patience{n, w, true}
		}
	case Fetched:
		switch v.Response.Status {
		case 429, 503:
			how = Patience{n, 0, true} // the frontier's slow-down sets the wait
		case 502, 504:
			how = Patience{min(n, 3), w, false}
		}
	}
	if v.Last || v.Task.Link.IsGuess() {
		how.Tries = 1
	}
	return how
}

// Final reports whether this visit is the URL's last one, which is archived and logged.
func (p *Pool) Final(v *Attempt) bool { return v.Task.Attempt+1 >= p.Policy(v).Tries }

// Backoff returns the wait before visit number attempt+2. It doubles each time, up to an hour.
func Backoff(wait time.Duration, attempt int) time.Duration {
	return min(wait<<min(attempt, 12), time.Hour)
}

// Code returns the visit's status for crawl.log: the HTTP status, or a negative code of
// Heritrix, a crawler.
func (v *Attempt) Code(exhausted bool) int {
	switch v.Outcome {
	case Fetched, Prerequisite:
		if v.Response.Failure == 0 {
			return v.Response.Status
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
	case v.Outcome == Unresolved:
		return report.CodeDNS
	}
	return v.Response.Fail.CrawlLogCode()
}

// ErrorKind returns the name of the failure in the reports, or "".
func (v *Attempt) ErrorKind() string {
	switch v.Outcome {
	case Unresolved:
		return "dns"
	case RobotsUnreachable:
		return "robots-unreachable"
	case Failed, Prerequisite:
		if v.Response.Failure != 0 {
			return v.Response.Failure.String()
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

// Reason returns why a visit will be repeated, for the events.
func (v *Attempt) Reason() string {
	if k := v.ErrorKind(); k != "" {
		return k
	}
	return strconv.Itoa(v.Response.Status)
}
