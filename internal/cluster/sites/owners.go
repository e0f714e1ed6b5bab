package sites

import (
	"cmp"
	"iter"
	"slices"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
)

// A place is the assignment of a host: the index of its agent's name in the top 16 bits, and the number of the
// entry below. It is never 0.
type place uint64

const (
	numberBits = 48
	maxAgents  = 1 << (64 - numberBits)
)

func placeOf(agent int, number uint64) place { return place(uint64(agent)<<numberBits | number) }

func (p place) agent() int     { return int(p >> numberBits) }
func (p place) number() uint64 { return uint64(p) & (1<<numberBits - 1) }

// A spell says since when this agent is up without a break, by the rosters.
type spell struct {
	first uint64 // term of the first roster in which this instance was up; 0: none
	since uint64 // term since which it is up; 0: it is not
	// came is the term of the last roster with which a stranger came; 0: none. A stranger has crawled before, with
	// coordinators that are lost: it may know any host.
	came uint64
}

// next returns the spell after a roster.
func (s spell) next(r *assignment.Roster, self Self) spell {
	m, ok := r.Member(self.Name)
	if !ok || m.Instance != self.Instance || m.State != assignment.Up {
		s.since = 0
		return s
	}
	s.since = cmp.Or(s.since, r.Term)
	s.first = cmp.Or(s.first, r.Term)
	return s
}

// owners says which agent owns a host, by a roster. It never changes.
type owners struct {
	roster *assignment.Roster
	self   Self
	spell
	agents  []standing // by the index of the name
	heirs   *Heirs     // nil: no agent is up
	history *placement.View
	views   uint32 // the number of history
}

// A standing is the state of one agent.
type standing struct {
	name string
	up   bool
	self bool   // it is this agent, or another instance of it
	away uint32 // number of the view since which it is not up
	ever bool   // it was not up in some view
}

// Heirs assigns an heir to each host, by the agents that are up. It never changes.
type Heirs struct {
	*placement.Rendezvous
	self string
}

// Heir returns the first agent other than this one in the order of the host with this key (link.HostKey), or ""
// if there is none. It owns the host if this agent owns it now and is gone.
func (h *Heirs) Heir(host uint64) string {
	var two [2]placement.Owner
	for _, a := range h.Nearest(two[:0], host, 2) {
		if a.Name != h.self {
			return a.Name
		}
	}
	return ""
}

// unowned is a placement of which this agent owns nothing.
type unowned struct{ placement.Placement }

func (unowned) Ranges(string) iter.Seq[placement.Range] { return func(func(placement.Range) bool) {} }

// next returns the owners of the next roster. o is nil before the first one. names are the agents by index.
func (o *owners) next(r *assignment.Roster, sp spell, names []string, self Self) (*owners, error) {
	n := &owners{roster: r, self: self, spell: sp}
	var up []placement.Owner
	for _, m := range r.Members {
		if m.State == assignment.Up {
			up = append(up, placement.Owner{Name: m.Name, Capacity: m.Capacity})
		}
	}
	var old *Heirs
	if o != nil {
		old = o.heirs
	}
	var err error
	if n.heirs, err = old.next(up, self.Name); err != nil {
		return nil, err
	}
	switch {
	case o == nil:
		n.views = 1
		n.history = placement.NewView(n.owned(), self.Name, placement.Begin{Before: self.Boot > 1})
	case n.heirs != o.heirs || (n.since == 0) != (o.since == 0):
		n.views = o.views + 1
		n.history = o.history.Next(n.owned())
	default:
		n.views, n.history = o.views, o.history
	}
	n.agents = make([]standing, len(names))
	for i, name := range names {
		a := &n.agents[i]
		if o != nil && i < len(o.agents) {
			*a = o.agents[i]
		}
		was := a.up
		a.name, a.self = name, name == self.Name
		m, ok := r.Member(name)
		a.up = ok && m.State == assignment.Up
		if !a.up {
			a.ever = true
			if was || a.away == 0 {
				a.away = n.views
			}
		}
	}
	return n, nil
}

// owned returns the placement of the hosts whose agents are away.
func (o *owners) owned() placement.Placement {
	switch {
	case o.heirs == nil:
		return unowned{}
	case o.since == 0:
		return unowned{o.heirs}
	}
	return o.heirs
}

// buckets is the number of buckets of the rendezvous; 0: the default. Tests take fewer.
var buckets = 0

// next returns the heirs when these agents are up, ordered by name: h itself, if they are the same.
func (h *Heirs) next(up []placement.Owner, self string) (*Heirs, error) {
	if len(up) == 0 {
		return nil, nil
	}
	var r *placement.Rendezvous
	var err error
	var come, gone []placement.Owner
	if h != nil {
		was := h.Agents()
		come = slices.DeleteFunc(slices.Clone(up), func(a placement.Owner) bool { return slices.Contains(was, a) })
		gone = slices.DeleteFunc(was, func(a placement.Owner) bool { return slices.Contains(up, a) })
	}
	switch {
	case h != nil && len(come)+len(gone) == 0:
		return h, nil
	case h != nil && len(come) == 1 && len(gone) == 0:
		r, err = h.With(come[0])
	case h != nil && len(come) == 0 && len(gone) == 1:
		r, err = h.Without(gone[0].Name)
	default:
		r, err = placement.NewRendezvous(up, buckets)
	}
	if err != nil {
		return nil, err
	}
	return &Heirs{r, self}, nil
}

// owner returns the agent that owns a host, and reports whether it is this one. The agent is empty if no agent is
// up. key is the host's link.HostKey.
func (o *owners) owner(p place, key uint64) (name string, mine bool) {
	if i := p.agent(); i < len(o.agents) && o.agents[i].up {
		name = o.agents[i].name
	} else if o.heirs != nil {
		name = o.heirs.Owner(key).Name
	}
	return name, name == o.self.Name && o.since > 0
}

// tenure is owner, and returns since when this agent owns the host.
func (o *owners) tenure(p place, key uint64) (name string, mine bool, since uint64) {
	if name, mine = o.owner(p, key); !mine {
		return name, false, 0
	}
	i, away := p.agent(), uint32(1)
	switch {
	case i >= len(o.agents): // no roster has had the agent
	case !o.agents[i].self:
		away = o.agents[i].away
	case p.number() > o.since:
		return name, true, o.came
	default:
		return name, true, max(o.since, o.came)
	}
	return name, true, uint64(max(away, o.history.Tenure(key).Since)) + o.came // the sum changes with each of both
}

// had reports what this agent may know about a host that another one owns: ever that it may have owned it in some
// roster, began that it owned it when it was assigned.
func (o *owners) had(p place, key uint64) (ever, began bool) {
	i := p.agent()
	if i >= len(o.agents) {
		return true, false // it should not be
	}
	if o.agents[i].self {
		return true, o.first > 0 && p.number() > o.first
	}
	return o.self.Boot > 1 || o.agents[i].ever && o.history.Tenure(key).Ever, false
}

// before returns the other agents, in the order in which they may have owned a host: the members that are leaving,
// then the others in the order of the host. leaving is the number of the first.
func (o *owners) before(key uint64) (names []string, leaving int) {
	for _, m := range o.roster.Members {
		if m.State != assignment.Up && m.Name != o.self.Name {
			names = append(names, m.Name)
		}
	}
	leaving = len(names)
	if o.heirs == nil {
		return names, leaving
	}
	for _, a := range o.heirs.Nearest(nil, key, len(o.heirs.Agents())) {
		if a.Name != o.self.Name {
			names = append(names, a.Name)
		}
	}
	if o.came > 0 {
		leaving = len(names)
	}
	return names, leaving
}

// up returns the names of the other agents that are up.
func (o *owners) up() (names []string) {
	for _, m := range o.roster.Members {
		if m.State == assignment.Up && m.Name != o.self.Name {
			names = append(names, m.Name)
		}
	}
	return names
}
