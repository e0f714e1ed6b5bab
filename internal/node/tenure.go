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
	// views is the number of views so far. The first view has the number 1.
	views uint32
	// spans divide the circle of the hosts' points. They are ordered by from, and the first begins
	// at 0. Adjacent spans differ.
	spans []span
}

// A span is the points from from up to the next span. Its hosts have the same history.
type span struct {
	from uint64
	// since is the view since which this agent has owned the hosts without a break. It is 0 if the
	// agent has owned them since the crawl began, and gone if another agent owns them.
	since uint32
	// ever reports that this agent may have owned them in some view. began reports that it owned
	// them when the crawl began.
	ever, began bool
}

const gone = math.MaxUint32

// next returns the tenure after a change of the agents. t is nil before the first one. Only for the
// first tenure, began reports that the crawl began with these agents. before reports that this
// agent may have owned any host in an earlier run.
//
// The number of spans stays small. With rendezvous there are at most as many as buckets. On a ring
// each replica of this agent has some spans around it, because a host's distance from the replica
// decides when the agent gained or lost it.
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
	// add appends a part of the old span s, from the point from on, with its new owner.
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
	i, from := 0, uint64(0) // old[i] contains the point from, which is added next
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
	all := false // the last point has been added
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

// at returns the span of a point, by binary search.
func (t *tenure) at(point uint64) span {
	i, found := slices.BinarySearchFunc(t.spans, point, func(s span, p uint64) int { return cmp.Compare(s.from, p) })
	if !found {
		i--
	}
	return t.spans[i]
}
