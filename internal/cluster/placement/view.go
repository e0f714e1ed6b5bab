package placement

import (
	"cmp"
	"math"
	"slices"
)

// A View is a Placement as one agent sees it, with the history of that agent's hosts. It never
// changes.
//
// spans divide the circle of the hosts' points. They are ordered by from, and the first one begins at
// 0. Adjacent spans differ. Their number stays small. With Rendezvous there are at most as many as
// buckets. On a Ring each replica of the agent has some spans around it, because a host's distance
// from the replica decides when the agent gained or lost it.
type View struct {
	Placement
	self   string
	begin  Begin
	number uint32 // the first view has the number 1
	spans  []span
}

// Begin says what an agent knows at the beginning of its process.
type Begin struct {
	// First reports that the crawl begins with the first view.
	First bool
	// Before reports that the agent may have owned any host in an earlier process.
	Before bool
}

// A Tenure says for how long an agent has owned a host.
type Tenure struct {
	// Mine reports that the agent owns the host, and Since is the number of the view since which it
	// has owned it without a break; 0: since the crawl began.
	Mine  bool
	Since uint32
	// Ever reports that the agent may have owned the host in some view. Began reports that it owned
	// the host when the crawl began.
	Ever, Began bool
}

// A span is the points from from up to the next span. Their hosts have the same tenure.
type span struct {
	from uint64
	Tenure
}

// NewView returns the first view of the agent self.
func NewView(p Placement, self string, begin Begin) *View {
	v := &View{self: self, begin: begin, spans: []span{{}}}
	return v.Next(p)
}

// Next returns the view after a change of the agents.
func (v *View) Next(p Placement) *View {
	n := &View{Placement: p, self: v.self, begin: v.begin, number: v.number + 1}
	size := 0
	n.eachSpan(v.spans, func(span) { size++ })
	n.spans = make([]span, 0, size) // there may be some ten thousand
	n.eachSpan(v.spans, func(s span) { n.spans = append(n.spans, s) })
	return n
}

// eachSpan calls yield for the spans of a view that follows one with the spans old.
func (v *View) eachSpan(old []span, yield func(span)) {
	gained := v.number
	if gained == 1 && v.begin.First {
		gained = 0
	}
	var last Tenure
	some := false
	// add passes on a part of the old span s, from the point from on, with its new owner.
	add := func(s span, from uint64, mine bool) {
		s.from = from
		if mine && !s.Mine {
			s.Since = gained
		}
		if s.Mine = mine; !mine {
			s.Since = 0
		}
		s.Ever = s.Ever || mine || v.begin.Before
		s.Began = s.Began || mine && s.Since == 0
		if !some || last != s.Tenure {
			yield(s)
		}
		last, some = s.Tenure, true
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
	for r := range v.Ranges(v.self) {
		if r.First > from {
			upTo(r.First-1, false)
		}
		upTo(r.Last, true)
		all = r.Last == math.MaxUint64
	}
	if !all {
		upTo(math.MaxUint64, false)
	}
}

// Tenure returns the tenure of a host, by binary search.
func (v *View) Tenure(host uint64) Tenure {
	i, found := slices.BinarySearchFunc(v.spans, Point(host),
		func(s span, p uint64) int { return cmp.Compare(s.from, p) })
	if !found {
		i--
	}
	return v.spans[i].Tenure
}

// Heir returns the first agent other than self in the order of a host, or "" if there is none. It
// keeps the replica of the host. If self does not own the host, it is the owner.
func (v *View) Heir(host uint64) string {
	var two [2]Owner
	for _, a := range v.Nearest(two[:0], host, 2) {
		if a.Name != v.self {
			return a.Name
		}
	}
	return ""
}

// Others returns all agents other than self in the order of a host: first the agent that would own the
// host if self were absent, and so on.
func (v *View) Others(host uint64) (names []string) {
	for _, a := range v.Nearest(nil, host, len(v.Agents())) {
		if a.Name != v.self {
			names = append(names, a.Name)
		}
	}
	return names
}
