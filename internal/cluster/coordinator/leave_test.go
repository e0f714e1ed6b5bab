package coordinator

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
)

// An agent leaves or stops only for another one that this leader hears. If the only other one is silent, it is lost
// first.
func TestLeavesForTheLiving(t *testing.T) {
	now := time.Now()
	member := func(name string, state assignment.State) assignment.Member {
		return assignment.Member{Name: name, Instance: [16]byte{name[0]}, Boot: 1, Capacity: 1, State: state}
	}
	const up, leaving, gone = assignment.Up, assignment.Leaving, assignment.Gone
	for _, c := range []struct {
		silent time.Duration    // of b
		first  assignment.State // that a wants
		wants  assignment.State // that b wants
		a, b   assignment.State // in the next roster; Gone: not there
	}{
		{time.Second, leaving, up, leaving, up},
		{time.Second, leaving, leaving, up, up},
		{5 * time.Second, leaving, up, up, up},
		{10 * time.Second, leaving, up, up, gone},
		{time.Second, gone, up, gone, up},
		{time.Second, gone, leaving, gone, up},
		{5 * time.Second, gone, up, up, up},
		{10 * time.Second, gone, up, up, gone},
	} {
		s := situation{now: now, started: now.Add(-time.Minute), lostAfter: 9 * time.Second, fresh: 2 * time.Second,
			since: map[string]uint64{"a": 1, "b": 1}, agents: map[life]*agent{}}
		s.roster.Members = []assignment.Member{member("a", assignment.Up), member("b", assignment.Up)}
		for _, m := range []assignment.Member{member("a", c.first), member("b", c.wants)} {
			at := now
			if m.Name == "b" {
				at = now.Add(-c.silent)
			}
			s.agents[lifeOf(m)] = &agent{Member: m, first: now.Add(-time.Minute), at: at, sent: at,
				heard: map[string]time.Duration{"b": c.silent}}
		}
		got := assignment.Roster{Members: s.roster.Members}
		if next, _ := s.next(); next != nil {
			got = *next
		}
		for name, want := range map[string]assignment.State{"a": c.a, "b": c.b} {
			m, ok := got.Member(name)
			if !ok {
				m.State = assignment.Gone
			}
			if m.State != want {
				t.Errorf("%+v: %s is in state %d, want %d", c, name, m.State, want)
			}
		}
	}
}
