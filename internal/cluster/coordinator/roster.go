package coordinator

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
)

// maxWeight bounds the weights of all members, as package placement does.
const maxWeight = 1 << 24

// A life is an instance of an agent: the same name with another instance has none of its data.
type life struct {
	name     string
	instance [16]byte
}

func lifeOf(m assignment.Member) life { return life{m.Name, m.Instance} }

// An agent is what this leader has heard of a life. It was heard since first, and last at at, with this boot. Its last
// report was sent at sent or later; zero: that is not known.
type agent struct {
	assignment.Member // with the state that it wants
	first, at, sent   time.Time
	term, number      uint64 // read
	hosts, urls       uint64
	assigned          uint64 // hosts assigned to it at at
	heard             map[string]time.Duration
}

// A situation is all that decides who belongs to the next roster.
type situation struct {
	now     time.Time
	started time.Time // when this leader became the leader
	roster  assignment.Roster
	// since and read are those of the state.
	since, read map[string]uint64
	agents      map[life]*agent
	// forgotten are agents of which a person has said that they do not run.
	forgotten map[life]bool
	// lostAfter and fresh are those of the Config.
	lostAfter, fresh time.Duration
}

// silence returns how long this leader has not heard of an agent. All count as heard when it became the leader.
func (s *situation) silence(l life) time.Duration {
	at := s.started
	if a := s.agents[l]; a != nil && a.at.After(at) {
		at = a.at
	}
	return s.now.Sub(at)
}

// isFresh reports whether the last report of a life is new enough to be a witness, however long it was on its way.
func (s *situation) isFresh(l life) bool {
	a := s.agents[l]
	return a != nil && s.now.Sub(a.sent) <= s.fresh
}

// isLost reports whether m certainly has no right to start visits, so that others may take over its hosts:
//
//   - this leader has not heard of m for lostAfter, and
//   - no member with a fresh report has heard of m for lostAfter, and
//   - at least one such member is up, and has been since a term up to which m has read the stream. So it is up in
//     m's last roster, whichever that is, and m's right depends on it.
//
// It is also lost if a person has said that it does not run, and this leader has not heard of it for lostAfter.
//
// An agent that has started since counts as having heard of m when its first report came.
func (s *situation) isLost(m assignment.Member) bool {
	if s.silence(lifeOf(m)) < s.lostAfter {
		return false
	}
	if s.forgotten[lifeOf(m)] {
		return true
	}
	known := max(s.since[m.Name], s.read[m.Name])
	if a := s.agents[lifeOf(m)]; a != nil {
		known = max(known, min(a.term, s.roster.Term))
	}
	witness := false
	for _, o := range s.roster.Members {
		if o.Name == m.Name || !s.isFresh(lifeOf(o)) {
			continue
		}
		a := s.agents[lifeOf(o)]
		silent, ok := a.heard[m.Name]
		if !ok {
			silent = a.at.Sub(a.first)
		}
		if silent < s.lostAfter {
			return false
		}
		witness = witness || o.State == assignment.Up && s.since[o.Name] <= known
	}
	return witness
}

// next returns the next roster, and the names of the members that it loses. It returns nil if there is no change.
func (s *situation) next() (next *assignment.Roster, lost []string) {
	if s.roster.Ended {
		return nil, nil
	}
	next = &assignment.Roster{Lost: slices.Clone(s.roster.Lost)}
	changed := false
	stays := !slices.ContainsFunc(s.roster.Members, isUp) // all are leaving: the first that wants to stay may
	for _, m := range s.roster.Members {
		if s.isLost(m) {
			next.Lost, lost, changed = append(next.Lost, m), append(lost, m.Name), true
			continue
		}
		old := m
		if a := s.agents[lifeOf(m)]; a != nil && s.may(m, a.State) {
			m = follow(m, a.Member)
			if stays && m.State == assignment.Leaving && isUp(a.Member) {
				m.State, stays = assignment.Up, false
			}
		}
		changed = changed || m != old
		if m.State != assignment.Gone {
			next.Members = append(next.Members, m)
		}
	}
	for _, l := range slices.SortedFunc(maps.Keys(s.agents), compare) {
		a := s.agents[l]
		if s.now.Sub(a.at) > s.fresh || a.State != assignment.Up && a.State != assignment.Leaving {
			continue
		}
		if _, taken := s.roster.Member(l.name); taken || admit(next, a.Member) != nil {
			continue
		}
		next.Members, changed = append(next.Members, a.Member), true
		next.Lost = slices.DeleteFunc(next.Lost, func(m assignment.Member) bool { return lifeOf(m) == l })
	}
	if !changed {
		return nil, nil
	}
	slices.SortFunc(next.Members, assignment.Member.Compare)
	slices.SortFunc(next.Lost, assignment.Member.Compare)
	if n := len(next.Lost) - assignment.MaxMembers; n > 0 {
		next.Lost = next.Lost[n:]
	}
	return next, lost
}

func isUp(m assignment.Member) bool { return m.State == assignment.Up }

// may reports whether a member may take the state that it wants.
func (s *situation) may(m assignment.Member, wants assignment.State) bool {
	switch {
	case wants == assignment.Leaving:
		return s.mayLeave(m)
	case wants == assignment.Gone && isUp(m):
		return s.mayStop(m)
	}
	return true
}

// mayStop reports whether a member that is up may go: this leader has heard of another member, or there is none. A
// member that stops while all others are silent stays in the roster. When it returns, it can be a witness that they are
// lost, because it is in the last roster that they have read. Otherwise nobody could, and their hosts would have no
// owner for ever.
func (s *situation) mayStop(m assignment.Member) bool {
	return len(s.roster.Members) == 1 || slices.ContainsFunc(s.roster.Members, func(o assignment.Member) bool {
		return o.Name != m.Name && s.isFresh(lifeOf(o))
	})
}

// mayLeave reports whether a member may begin to leave: another member is up that this leader has heard of, and that
// does not leave itself. The leaving member's hosts go to the others. If these were dead, no member that is up could
// be a witness of that, and the hosts would have no owner for ever.
func (s *situation) mayLeave(m assignment.Member) bool {
	return slices.ContainsFunc(s.roster.Members, func(o assignment.Member) bool {
		a := s.agents[lifeOf(o)]
		return o.Name != m.Name && o.State == assignment.Up && s.isFresh(lifeOf(o)) && a.State == assignment.Up
	})
}

func compare(a, b life) int {
	return cmp.Or(cmp.Compare(a.name, b.name), slices.Compare(a.instance[:], b.instance[:]))
}

// follow returns a member with what the same life reports about itself. Within a start, its state only goes forward
// and nothing else changes: so an agent cannot make rosters without end.
func follow(m, report assignment.Member) assignment.Member {
	switch {
	case report.Boot > m.Boot:
		if report.State == assignment.Joining { // it reads the stream again, and owns its hosts all the time
			report.State = m.State
		}
		return report
	case report.Boot == m.Boot && report.State > m.State:
		m.State = report.State
	}
	return m
}

// admit returns the rpc.Refusal of an agent that cannot join a roster, or nil.
func admit(r *assignment.Roster, a assignment.Member) error {
	if len(r.Members) >= assignment.MaxMembers {
		return refuse("full", "agent %q cannot join: the crawl has %d agents, which is the most", a.Name,
			assignment.MaxMembers)
	}
	all := weight(a.Capacity)
	for _, m := range r.Members {
		if m.Name == a.Name {
			return refuse("name", "agent %q is in the crawl already, with another directory", a.Name)
		}
		if xxhash.Sum64String(m.Name) == xxhash.Sum64String(a.Name) {
			return refuse("name", "the names of agents %q and %q have the same hash: choose another name for the one "+
				"that joins", m.Name, a.Name)
		}
		all += weight(m.Capacity)
	}
	if all > maxWeight {
		return refuse("full", "agent %q cannot join: the capacities come to more than %d", a.Name, maxWeight/200)
	}
	return nil
}
