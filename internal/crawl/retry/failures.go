package retry

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A FailedSeed is a seed, or the target of a seed's redirects, that brought no page.
type FailedSeed struct {
	URL weburl.URL
	// Via is the URL that redirects to it; empty for a seed.
	Via string
	// Code is the status code in crawl.log.
	Code int
	// Kind is the kind of error in errors.csv; empty if robots.txt forbids the seed, or if a server has answered.
	Kind string
	// Cause is the error in the words of the resolver, the connection or the TLS library, or
	// the line of robots.txt, or what the answer says. It may contain text of a server.
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

// Failures has what the operator of a crawl that fetched nothing needs to know. The caller sets Tally and Rules first.
// It is a participant of the ledger. It implements ledger.Participant.
type Failures struct {
	Tally *report.Tally
	Rules *robots.Cache

	seeds []FailedSeed
	count int64
	// robots has, by origin, why the last fetch of robots.txt failed. robotsAt has the origin of
	// a robots.txt that redirects lead to.
	robots, robotsAt map[string]string
	// last is the last failure before the first response.
	last *FailedSeed
	// again has the encoded Links of the first maxAgain failed seeds in the order of
	// their finishes. It is empty once a seed has given a page.
	again [][]byte
}

// Seeds returns the first 100 seeds that brought no page in this run, and their number. For a seed that redirects,
// it has the target of the redirects.
func (n *Failures) Seeds() (first []FailedSeed, count int64) { return n.seeds, n.count }

// Last returns the last failure before the first response; nil: none.
func (n *Failures) Last() *FailedSeed { return n.last }

// Again returns the encoded Links of the first 10,000 failed seeds, in the order of their finishes. It returns none if
// a seed has given a page in any run of the crawl.
func (n *Failures) Again() [][]byte {
	if n.Tally.SeedPages() > 0 {
		return nil
	}
	return n.again
}

// IsSeed reports whether l is a seed of the crawl itself, or a URL that such a seed redirected to.
func IsSeed(l link.Link) bool { return visit.Trailing(l.Hops, 'R') == len(l.Hops) && l.App() == "" }

// NoteFailure records a visit that failed, until the crawl has a response.
func (n *Failures) NoteFailure(v *visit.Attempt) {
	if kind := v.ErrorKind(); kind != "" && n.Tally.Fetched() == 0 {
		u := v.Task.Link.URL
		n.last = &FailedSeed{URL: u.Clone(), Code: v.Code(false), Kind: kind, Cause: n.CauseOf(v)}
	}
}

// Why returns in words why the seed gave no page. It may contain text of a server.
func (s *FailedSeed) Why() string {
	cause := strings.TrimPrefix(s.Cause, s.Kind+": ") // the TLS library writes "tls: ", too
	if s.Kind == visit.RobotsUnreachable.String() {
		cause = strings.TrimPrefix(cause, "robots.txt: ")
	}
	switch {
	case s.Code == report.CodeRobotsDenied:
		return "robots.txt forbids it: " + s.Cause
	case s.Kind == "":
		return s.Cause
	case cause == "":
		return report.ErrorText(s.Kind)
	}
	return report.ErrorText(s.Kind) + ": " + cause
}

// refusal returns why the response to a seed leads to no page; "" if it is a page, or leads on.
func refusal(v *visit.Attempt, f *state.Finish) string {
	if f.Code >= 400 {
		return strings.TrimSpace(strconv.Itoa(f.Code) + " " + http.StatusText(f.Code))
	}
	if f.Code < 300 || f.Code == http.StatusNotModified {
		return ""
	}
	for _, s := range v.Skipped {
		if s.Link.Hops == v.Task.Link.Hops+"R" {
			why := cmp.Or(report.ReasonText(report.SplitReason(s.Reason)), s.Reason)
			return fmt.Sprintf("redirects to %s: %s", s.Link.URL, why)
		}
	}
	return ""
}

// NoteSeed records a seed whose visits ended without a page.
func (n *Failures) NoteSeed(v *visit.Attempt, f *state.Finish) {
	cause := f.Cause
	if !failedSeed(f) {
		if !IsSeed(f.Link) || f.IsRobots() || f.Flags&state.FlagAgain != 0 {
			return
		}
		if cause = refusal(v, f); cause == "" {
			return
		}
	}
	if n.count++; len(n.seeds) == maxFailedSeeds {
		return
	}
	l := v.Task.Link
	s := FailedSeed{URL: l.URL.Clone(), Via: strings.Clone(l.Via), Code: f.Code, Kind: f.Kind, Cause: cause}
	if v.Outcome == visit.Denied {
		s.Cause = strings.Clone(v.Robots.Rule)
	}
	n.seeds = append(n.seeds, s)
}

// NoteRobots records why a robots.txt could not be fetched, or that it was.
func (n *Failures) NoteRobots(v *visit.Attempt) {
	origin := v.Task.Link.URL.Origin()
	part := v.Response.Failure == 0 && v.Detail != "" // see RobotsReply
	if v.Response.Failure == 0 && v.Response.Status < 500 && v.Response.Status != 429 && !part {
		delete(n.robots, origin)
		return
	}
	why := n.CauseOf(v)
	switch {
	case part:
		why = v.Detail
	case why == "":
		why = "status " + strconv.Itoa(v.Response.Status)
	case v.Response.Failure == fetch.Refused: // the kind tells the operator what to do
		why = v.ErrorKind() + ": " + why
	}
	n.RobotsFailed(origin, why)
}

// RobotsFailed records why the robots.txt of an origin could not be fetched.
func (n *Failures) RobotsFailed(origin, why string) { setBounded(&n.robots, origin, why) }

// NoteRobotsAt records that an origin's robots.txt is on another host.
func (n *Failures) NoteRobotsAt(origin, other string) {
	setBounded(&n.robotsAt, origin, strings.Clone(other))
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
func (n *Failures) robotsCause(origin string) string {
	if why := n.robots[origin]; why != "" {
		return "robots.txt: " + why
	}
	if other := n.robotsAt[origin]; n.robots[other] != "" {
		_, host, _ := strings.Cut(other, "://")
		return "robots.txt on " + host + ": " + n.robots[other]
	}
	return ""
}

// CauseOf returns the text of a visit's error without its kind.
func (n *Failures) CauseOf(v *visit.Attempt) string {
	kind := v.ErrorKind()
	if kind == "" {
		return ""
	}
	cause := strings.TrimPrefix(v.Detail, kind+": ")
	if v.Outcome == visit.RobotsUnreachable {
		cause = n.robotsCause(v.Task.Link.URL.Origin())
	}
	cause = strings.ReplaceAll(cause, "\x00", "")
	return cause[:min(len(cause), maxCause)]
}

// failedSeed reports whether f finishes a seed without a response.
func failedSeed(f *state.Finish) bool {
	dropped := f.Code == report.CodeDeletedByUser || f.Code == report.CodeQuota // no failure
	return f.Code <= 0 && !dropped && !f.IsRobots() && IsSeed(f.Link)
}

// Finished keeps a failed seed for Again until a seed gives a page.
func (n *Failures) Finished(f *state.Finish, _ bool) {
	switch {
	case f.Code > 0 && n.again == nil || f.Flags&state.FlagAgain != 0:
	case failedSeed(f) && n.Tally.SeedPages() == 0:
		if len(n.again) == maxAgain {
			return
		}
		n.again = append(n.again, f.Link.AppendTo(nil))
	case n.Tally.SeedPages() > 0:
		n.again = nil
	}
}

// TakeBack removes the first kept seed from the counts of URLs and forgets its robots.txt,
// because the seed is accepted again.
func (n *Failures) TakeBack(enc []byte) (link.Link, error) {
	l, _, err := link.Decode(enc)
	if err != nil {
		return l, err
	}
	if len(n.again) > 0 && bytes.Equal(n.again[0], enc) {
		n.again = n.again[1:]
		n.Tally.TakeBack(l.URL.Host(), l.Seed, l.Hops == "")
	} // else its finish did not survive a power failure
	n.Rules.Forget(l.URL) // a setting of ours, or the site, may have changed
	return l, nil
}

// Kinds implements ledger.Participant. The ledger orders Again among the finishes.
func (n *Failures) Kinds() []ledger.Kind {
	return []ledger.Kind{
		{Kind: state.Failed, Name: "failed"},
		{Kind: state.Again, Name: "again"},
	}
}

func (n *Failures) Save(put func(kind byte, p []byte) error, _ time.Time) error {
	for _, enc := range n.again {
		if err := put(state.Failed, enc); err != nil {
			return err
		}
	}
	return nil
}

func (n *Failures) Load(kind byte, p []byte) error {
	if kind == state.Again {
		_, err := n.TakeBack(p)
		return err
	}
	n.again = append(n.again, slices.Clone(p))
	return nil
}
