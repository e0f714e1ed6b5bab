package crawl

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/crawl/orders"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
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
	// parting says that a run at its page limit still fetches the files of its pages. A Planner may want pages again
	// for ever, and other agents have files of their own.
	parting bool
	files   int64         // that are accepted and not finished
	tried   int64         // of these: finished since the run has had all of its pages
	hosts   hostCounts    // of the frontier
	stuck   bool          // since: the files that are left wait for retries and pauses
	since   time.Duration // as of active
}

// hostCounts says how many hosts wait for what.
type hostCounts interface{ Stats() frontier.Stats }

// filesOfPage is how many files of pages a limit allows for each of its pages. It bounds what a hostile site can make
// the crawl fetch, and no ordinary site reaches it.
const filesOfPage = 1000

// bars reports that a link is not visited because its host has as many pages, or files of pages, as its limit allows.
func (m *limits) bars(l *link.Link) bool {
	host := l.URL.Host()
	if l.IsFile() {
		limit := m.ofHost(host)
		return limit > 0 && (m.tally.HostFiles(host)/filesOfPage >= limit || l.IsSitemap() && m.full(host))
	}
	return m.full(host)
}

// accepted counts a file of a page that the crawl is to fetch. A run that has all of its pages needs no sitemap.
func (m *limits) accepted(l *link.Link) {
	if link.IsFile(l.Hops) {
		m.files++
	}
}

// ended takes the file of a finish off the count of accepted.
func (m *limits) ended(f *state.Finish) {
	if f.Number > 0 && link.IsFile(f.Link.Hops) {
		m.files--
		if m.parts() {
			m.tried++
		}
	}
}

// stuckFor is how long nothing but retries and pauses holds back the files of a run that has all of its pages, until it
// leaves them to the next run. A server that is down would hold it for minutes.
const stuckFor = 2 * time.Second

// filesOver reports that a run with all of its pages waits for no files: it has them, it has tried as many as the limit
// allows, or those that are left wait for retries and pauses.
func (m *limits) filesOver(now time.Time) bool {
	if !m.parting || m.files <= 0 || m.tried/filesOfPage >= m.cfg.PageLimit {
		return true
	}
	s := m.hosts.Stats()
	was := m.stuck
	m.stuck = m.progress.busy == 0 && s.Ready+s.Resting+s.Resolving == 0 && s.Pooled == 0
	if m.stuck && !was {
		m.since = m.active(now)
	}
	return m.stuck && m.active(now)-m.since >= stuckFor
}

// parts reports that the run has all of its pages, and fetches their files before it ends.
func (m *limits) parts() bool {
	return m.parting && m.cfg.PageLimit > 0 && m.tally.Pages() >= m.cfg.PageLimit
}

// leaves reports that a link waits for a run with a higher page limit.
func (m *limits) leaves(l *link.Link) bool {
	return m.parts() && !link.IsFile(l.Hops) && !visit.IsErrand(*l)
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
	case m.cfg.PageLimit > 0 && m.tally.Pages() >= m.cfg.PageLimit && m.filesOver(now),
		m.cfg.PageLimit > 0 && m.tally.Files()/filesOfPage >= m.cfg.PageLimit:
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
	return m.cfg.PageLimit > 0 && !m.parts() && m.tally.Pages()+int64(m.progress.pages) >= m.cfg.PageLimit, time.Time{}
}

func (m *limits) whyLimited(time.Time) Hindrance {
	return Hindrance{Text: fmt.Sprintf("page limit: %s and %s of at most %d", report.Count(m.tally.Pages(), "page"),
		english.Plural(m.progress.pages, "visit in progress", "visits in progress"), m.cfg.PageLimit),
		Until: "if a visit in progress brings no page; else with a higher limit"}
}
