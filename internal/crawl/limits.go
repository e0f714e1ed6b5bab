package crawl

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/crawl/orders"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// limits are the bounds of a crawl: pages, bytes, time and disk space, and the pages of each host.
type limits struct {
	cfg      *Config
	sheets   *sheet.Live
	tally    *report.Tally
	cluster  *Cluster
	gate     *orders.Gate
	progress *progress
	space    space
}

// full reports that a host has as many pages as its limit allows.
func (m *limits) full(host string) bool {
	limit := m.ofHost(host)
	return limit > 0 && m.pages(host) >= limit
}

// ofHost returns the limit of a host's pages; 0: none.
func (m *limits) ofHost(host string) int64 {
	if own := m.sheets.Table().Host(host).HostPageLimit; own != nil {
		return *own
	}
	return m.cfg.HostPageLimit
}

// skip says that a link is not visited because its host is full.
func (m *limits) skip(l link.Link) visit.Skip {
	s := visit.Skip{Link: l, Reason: "hostPageLimit"}
	if r := m.sheets.Table().Decides(l.URL, "host-page-limit"); r != nil {
		s.Reason = report.ReasonBy(s.Reason, r.Text)
	}
	return s
}

// pages returns the number of pages of a host that this agent and the others have fetched.
func (m *limits) pages(host string) int64 {
	return m.tally.HostPages(host) + m.cluster.pagesElsewhere(host)
}

// timeLeft returns the time until the time limit, without pauses to come; 0 without a limit.
func (m *limits) timeLeft(now time.Time) time.Duration {
	return max(m.cfg.TimeLimit-m.active(now), 0)
}

// reached returns the limit that the run has reached, or notStopping.
func (m *limits) reached(now time.Time) Stop {
	switch {
	case m.cfg.PageLimit > 0 && m.tally.Pages() >= m.cfg.PageLimit:
		return PageLimit
	case m.cfg.SizeLimit > 0 && m.tally.Bytes() >= m.cfg.SizeLimit:
		return SizeLimit
	case m.cfg.TimeLimit > 0 && m.active(now) >= m.cfg.TimeLimit:
		return TimeLimit
	case m.space.low(now):
		return DiskLow
	}
	return notStopping
}

// active returns how long this run has been going on without pauses.
func (m *limits) active(now time.Time) time.Duration {
	return now.Sub(m.progress.began) - m.gate.Pauses(now)
}

// limited reports that no visit may begin because of the page limit.
func (m *limits) limited(time.Time) (bool, time.Time) {
	return m.cfg.PageLimit > 0 && m.tally.Pages()+int64(m.progress.busy) >= m.cfg.PageLimit, time.Time{}
}

func (m *limits) whyLimited(time.Time) Hindrance {
	return Hindrance{Text: fmt.Sprintf("page limit: %s and %s of at most %d", report.Count(m.tally.Pages(), "page"),
		english.Plural(m.progress.busy, "visit in progress", "visits in progress"), m.cfg.PageLimit),
		Until: "if a visit in progress brings no page; else with a higher limit"}
}
