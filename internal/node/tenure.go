package node

import (
	"cmp"
	"math"
	"slices"

	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A tenure says which agent owns a host, and since which view of the agents this
// agent has owned its hosts. It never changes.
type tenure struct {
	owners placement.Placement
	// views counts the views; the first is 1.
	views uint32
	// spans divide the circle of hosts' points. They are ordered; the first begins
	// at 0. Two that follow each other differ.
	spans []span
}

// A span is the points from one up to the next span: hosts with one history.
type span struct {
	from uint64
	// since is the view since which this agent owns the hosts without a break: 0
	// since the crawl began, gone if another agent owns them.
	since uint32
	// ever: this agent may have owned them in any view. began: it owned them when the
	// crawl began.
	ever, began bool
}

const gone = math.MaxUint32

// next returns the tenure after a change of the agents. t is nil before the first
// one. began says of the first tenure that the crawl began with these agents; before,
// that this agent may have owned any host in an earlier run.
//
// There are never many spans. With rendezvous there are at most as many as buckets.
// On a ring the hosts that one of this agent's replicas had or has lie around it, and
// the farther a host is, the later it came; so there are some spans for each replica.
func (t *tenure) next(owners placement.Placement, self string, began, before bool) *tenure {
	n := &tenure{owners: owners, views: 1}
	old := []span{{since: gone}}
	if t != nil {
		n.views, old = t.views+1, t.spans
	}
	gained := n.views
	if t == nil && began {
		gained = 0
	}
	// add appends what becomes of a part of an old span.
	add := func(s span, from uint64, mine bool) {
		s.from = from
		switch {
		case !mine:
			s.since = gone
		case s.since == gone:
			s.since = gained
		}
		s.ever = s.ever || mine || before
		s.began = s.began || s.since == 0
		if i := len(n.spans) - 1; i < 0 || !n.spans[i].alike(s) {
			n.spans = append(n.spans, s)
		}
	}
	i, from := 0, uint64(0) // old[i] has the point from, which is the next to be added
	upTo := func(last uint64, mine bool) {
		add(old[i], from, mine)
		for i+1 < len(old) && old[i+1].from <= last {
			i++
			add(old[i], old[i].from, mine)
		}
		if from = last + 1; i+1 < len(old) && old[i+1].from == from {
			i++
		}
	}
	all := false // the last point is added
	for _, r := range owners.Ranges(self) {
		if r.First > from {
			upTo(r.First-1, false)
		}
		upTo(r.Last, true)
		all = r.Last == math.MaxUint64
	}
	if !all {
		upTo(math.MaxUint64, false)
	}
	return n
}

// alike reports whether the hosts of two spans have the same history.
func (s span) alike(o span) bool {
	o.from = s.from
	return s == o
}

// of returns the span of a host, given by its name.
func (t *tenure) of(host string) span { return t.at(placement.Point(weburl.HostKey(host))) }

// at returns the span of a point. The time is that of a binary search.
func (t *tenure) at(point uint64) span {
	i, found := slices.BinarySearchFunc(t.spans, point, func(s span, p uint64) int { return cmp.Compare(s.from, p) })
	if !found {
		i--
	}
	return t.spans[i]
}
