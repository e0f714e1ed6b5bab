package crawl

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
)

// A HostOrder is a count by which Hosts sorts.
type HostOrder int

// The orders of hosts: the largest count first, names ascending.
const (
	ByQueue HostOrder = iota
	ByErrors
	ByBytes
	ByLatency
	ByPageCount
	ByName
)

// A HostQuery chooses hosts.
type HostQuery struct {
	Search string // part of the name; empty: all hosts
	By     HostOrder
	Limit  int // rows; below 1: none
	// After is the last row of the page before; nil: there is none. AfterToo also returns that row.
	After    *HostMark
	AfterToo bool
}

// A HostMark is the place of a row among all rows.
type HostMark struct {
	Value int64 // of the count by which the rows are sorted
	Host  string
}

// A HostRow is what Hosts returns of a host.
type HostRow struct {
	Value   int64         // of the count by which the rows are sorted
	State   string        // as in an Explanation; "finished": all its URLs are done
	Queued  int64         // links in its queue, without those in pools
	Blocked bool          // by the operator
	Least   time.Duration // that its queue takes
	report.HostCount
}

func (m *HostMark) compare(o *HostMark) int {
	return cmp.Or(cmp.Compare(o.Value, m.Value), strings.Compare(m.Host, o.Host))
}

// hostsPiece is how many counted hosts Hosts reads in one turn of the dispatcher. That takes about a millisecond.
const hostsPiece = 8 << 10

// Hosts returns the hosts of this agent that were visited, or have links in a queue, and the number of hosts with the
// search in their name. Safe for concurrent use while Run runs; ctx bounds the wait. The dispatcher reads the counted
// hosts in pieces, so that the crawl goes on. It reads the hosts of the frontier, which are those that the crawl needs
// to be busy, at once.
func (v *View) Hosts(ctx context.Context, q HostQuery) (rows []HostRow, matches int64, err error) {
	if !v.run.Begun() {
		return nil, 0, ErrNotRunning
	}
	q.Limit = max(q.Limit, 0)
	s := hostSearch{q: q, search: strings.ToLower(q.Search)}
	for from, more := 0, true; more; {
		if err := v.run.Do(ctx, "hosts", func(time.Time) {
			next := v.parts.Tally.EachHostCount(from, hostsPiece, func(h *report.HostCount) {
				queued := int64(0)
				if q.By == ByQueue {
					queued, _, _ = v.parts.Frontier.HostQueue(h.Host)
				}
				s.add(h, queued)
			})
			from, more = next, next < v.parts.Tally.Hosts()
		}); err != nil {
			return nil, 0, err
		}
	}
	err = v.run.Do(ctx, "hosts", func(time.Time) {
		v.parts.Frontier.EachQueue(func(host string, links int64) {
			if v.parts.Tally.HostKnown(host) || links == 0 {
				return
			}
			s.add(&report.HostCount{Host: host}, links)
		})
		rows = s.top()
		for i := range rows {
			r := &rows[i]
			if n, ok := v.parts.Tally.HostCount(r.Host); ok {
				r.HostCount = n
			}
			var delay time.Duration
			r.Queued, delay, r.State = v.parts.Frontier.HostQueue(r.Host)
			r.Least = report.Least(r.Queued, delay)
			r.Blocked = v.gate.BarsKnown(r.Host)
			switch {
			case r.Blocked && r.Queued == 0:
				r.State = "blocked"
			case r.State == "unknown" || r.State == "empty" && r.Queued == 0:
				r.State = "finished"
			}
		}
	})
	return rows, s.matches, err
}

// A hostSearch keeps the first rows of a query.
type hostSearch struct {
	q       HostQuery
	search  string
	matches int64
	best    []HostMark
	worst   *HostMark // of best after the last sort, if it is full; no later row may be after it
}

func (s *hostSearch) add(h *report.HostCount, queued int64) {
	if s.search != "" && !strings.Contains(h.Host, s.search) {
		return
	}
	s.matches++
	m := HostMark{Host: h.Host}
	switch s.q.By {
	case ByQueue:
		m.Value = queued
	case ByErrors:
		m.Value = h.Errors
	case ByBytes:
		m.Value = h.Bytes
	case ByLatency:
		m.Value = int64(h.Latency / time.Microsecond)
	case ByPageCount:
		m.Value = h.Pages
	}
	if a := s.q.After; a != nil {
		if at := m.compare(a); at < 0 || at == 0 && !s.q.AfterToo {
			return
		}
	}
	if s.worst != nil && m.compare(s.worst) > 0 {
		return
	}
	m.Host = strings.Clone(m.Host)
	if s.best = append(s.best, m); len(s.best) >= 2*s.q.Limit+64 {
		s.sort()
	}
}

// sort keeps the first Limit rows.
func (s *hostSearch) sort() {
	slices.SortFunc(s.best, func(a, b HostMark) int { return a.compare(&b) })
	if len(s.best) >= s.q.Limit {
		s.best = s.best[:s.q.Limit]
		if s.q.Limit > 0 {
			w := s.best[s.q.Limit-1]
			s.worst = &w
		}
	}
}

func (s *hostSearch) top() []HostRow {
	s.sort()
	rows := make([]HostRow, len(s.best))
	for i := range rows {
		rows[i].Value, rows[i].Host = s.best[i].Value, s.best[i].Host
	}
	return rows
}
