package readout

import (
	"cmp"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/report"
)

// Snapshot turns the status of a crawl into the numbers that the progress of a terminal shows. done says that the crawl
// has ended without an error. The result has no memory and no limits.
func Snapshot(s *crawl.Status, done bool) report.Snapshot {
	p := report.Snapshot{
		Revisits: s.Revisits, Unchanged: s.Unchanged, NextIn: until(s.NextVisit.Time, s.At.Time),
		Elapsed: s.Elapsed, Pages: s.Pages, Files: s.Files, Fetched: s.Fetched, Bytes: s.Bytes,
		Queued: s.Queued, Unique: s.Unique, Open: s.Open, Resolving: s.Resolving,
		Ready: s.Frontier.Ready, Resting: s.Frontier.Resting, Paused: s.Frontier.Paused,
		Denied: s.Denied, Duplicates: s.Duplicates, Skipped: s.Skipped, Errors: s.Errors, Retrying: s.Retrying,
		RetryIn: until(s.NextRetry.Time, s.At.Time), Exchange: s.Cluster.Exchange,
		LastURL: s.LastURL, NowURL: s.Live.NowURL, WaitingFor: s.WaitsFor, Agents: s.Cluster.Agents, Disk: s.Disk.Space,
	}
	switch {
	case done:
		p.State, p.WaitingFor = "done", ""
		return p
	case s.Stop != "":
		p.State = "stopping"
		last := "the index and the reports to be written"
		if s.Disk.Unsent > 0 {
			last += ", and segments to be sent to the store"
		}
		p.WaitingFor = cmp.Or(p.WaitingFor, last)
	case s.Paused:
		p.State = "paused"
	case s.WaitsFor != "":
		p.State = "waiting"
	}
	p.Hosts = hostRows(s)
	return p
}

// until returns the time from now until t; 0 if t is zero or past.
func until(t, now time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(t.Sub(now), 0)
}

// hostRows returns the rows of the live display.
func hostRows(s *crawl.Status) (rows []report.HostRow) {
	for _, g := range s.Live.Hosts {
		r := report.HostRow{Host: g.Host, Links: g.Links, Delay: g.Delay, URL: g.URL, State: g.State,
			In: until(g.Due, s.At.Time)}
		switch {
		case g.State == "fetching" || g.State == "resolving":
			r.Open = max(s.At.Sub(g.Since), 1)
		case g.Leased:
			r.Why, r.Open = "lease of "+g.Behind, s.At.Sub(g.Since)
		case g.Holder != "":
			r.Why = "after " + g.Behind + ", busy with " + g.Holder
		case g.Behind != "":
			r.Why = "after " + g.Behind
		}
		if s.Stop == "" || r.Open > 0 && !g.Leased { // no other request will begin
			rows = append(rows, r)
		}
	}
	return rows
}
