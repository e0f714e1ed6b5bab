package crawl

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
)

// A progress tells how far a run is: since when it goes on, which visits are in progress, and why it stops. The
// dispatcher owns it.
type progress struct {
	cfg    *Config
	visits *visit.Pool

	began time.Time
	took  time.Duration // time of earlier runs
	rests time.Time     // no visit begins before, because the hosts rest after a restart
	busy  int           // visits that the workers have and that are not settled
	pages int           // of these, those that may bring a page, and not a file of one
	stop  Stop
}

// count adds n visits to those that the workers have.
func (p *progress) count(v *visit.Attempt, n int) {
	if p.busy += n; !v.Task.Link.IsFile() {
		p.pages += n
	}
}

// elapsed returns the time that the crawl has run, with earlier runs.
func (p *progress) elapsed(now time.Time) time.Duration {
	if p.began.IsZero() {
		return p.took
	}
	return p.took + now.Sub(p.began)
}

// underWay returns the number of visits in progress, as far as the dispatcher knows.
func (p *progress) underWay() int {
	slow := min(p.visits.Slow(), p.busy)
	return slow + min(p.busy-slow, p.cfg.Workers)
}

// isDone reports that the run ends because no work is left.
func (p *progress) isDone() bool { return p.stop == Finished || p.stop == OnlyBlocked }

// stops reports that the run ends.
func (p *progress) stops(time.Time) (bool, time.Time) { return p.stop != notStopping, time.Time{} }

func (p *progress) whyStops(time.Time) Hindrance {
	h := Hindrance{Until: "after the crawl is resumed"}
	switch p.stop {
	case PageLimit, SizeLimit, TimeLimit:
		h.Text = fmt.Sprintf("the run ends: the %s is reached", strings.ReplaceAll(string(p.stop), "-", " "))
		h.Until += " with a higher limit"
	case DiskLow:
		h.Text = "the run ends: less disk space is free than \"min-free-disk\" allows"
		h.Until += " with more free space"
	case Left:
		h.Text, h.Until = "this agent has left the crawl", "when another agent has taken over the host"
	default:
		h.Text = fmt.Sprintf("the run ends (%s)", p.stop)
	}
	return h
}

// crowded reports that no worker is free.
func (p *progress) crowded(time.Time) (bool, time.Time) {
	return p.busy-p.visits.Slow() >= p.cfg.Handed(), time.Time{}
}

func (p *progress) whyCrowded(time.Time) Hindrance {
	return Hindrance{Text: fmt.Sprintf("all %d workers are busy: %s; \"workers\" sets their number", p.cfg.Workers,
		english.Plural(p.busy, "visit is in progress", "visits are in progress")), Until: "when a visit ends"}
}

// resumes reports that the hosts rest after a restart.
func (p *progress) resumes(now time.Time) (bool, time.Time) { return p.rests.After(now), p.rests }

func (p *progress) whyResumes(now time.Time) Hindrance {
	return Hindrance{Text: fmt.Sprintf("all hosts rest after the restart, for %s: requests of the run before may have "+
		"been in progress", duration(p.rests.Sub(now))), Ends: p.rests}
}
