package sites

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

func TestRight(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }
	r := NewRight(t0)
	want := func(s float64, may bool, why string) {
		t.Helper()
		if got := r.May(at(s)); got != may {
			t.Errorf("after %v s it may start visits: %t, want %t", s, got, may)
		}
		if got := r.Why(at(s)); !strings.Contains(got, why) || (got == "") != may {
			t.Errorf("after %v s: why not: %q, want %q", s, got, why)
		}
	}
	want(0, false, "have not taken this agent")
	r.Roster(true, []string{"b", "c"}, at(1))
	want(1, false, "no coordinator has answered this agent since it started")
	r.Met("b", at(1), at(1))
	r.Met("c", at(1), at(1))
	want(1, false, "no coordinator has answered") // others do not begin a right
	r.Answered(at(2), at(3))
	want(3, true, "")
	want(7.9, true, "")
	want(8, false, "for 6s, and neither have agents: b, c")
	r.Met("b", at(7), at(7.5))
	want(8, false, "neither have agents: c") // one of two does not prolong it
	r.Met("c", at(7.6), at(7.8))
	want(12.9, true, "")
	want(13, false, "")
	if due := r.Due(at(8)); len(due) != 0 {
		t.Errorf("after 8 s, %v are to be asked", due)
	}
	if due := r.Due(at(9.5)); !slices.Equal(due, []string{"b"}) {
		t.Errorf("after 9.5 s, %v are to be asked, want b", due)
	}
	r.Met("b", at(13), at(13.1)) // it has lapsed
	r.Met("c", at(13), at(13.1))
	want(13.2, false, "no coordinator has answered for 11s")
	r.Answered(at(7.4), at(13.5)) // too old when it comes
	want(13.5, false, "")
	r.Answered(at(13), at(14))
	want(18.9, true, "")
	r.Roster(true, nil, at(15)) // alone
	want(1e6, true, "")
	r.Roster(true, []string{"d"}, at(1e6))
	want(1e6+5, true, "")
	want(1e6+6, false, "neither have agents: d")
	r.Roster(false, []string{"d"}, at(1e6+1))
	want(1e6+2, false, "have not taken")
	r.Heard("d", at(1e6+3))
	if cs := r.contacts(at(1e6 + 5)); len(cs) != 1 || cs[0] != (Contact{"d", 2 * time.Second}) {
		t.Errorf("contacts: %v", cs)
	}
	r.Roster(false, nil, at(1e6+6))
	r.Forget(nil)
	if len(r.others) != 0 {
		t.Errorf("%d agents are remembered", len(r.others))
	}
}

// An event of a simulation happens at a time.
type event struct {
	at time.Duration
	do func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// A dispute simulates a leader and agents whose messages are delayed, whose lines are cut, whose clocks differ, and
// that are stopped and started again. It ends with an error if an agent may start visits when another one has its
// hosts.
type dispute struct {
	rng    *rand.Rand
	now    time.Duration
	queue  events
	agents []*disputant
	cut    map[[2]int]time.Duration // until when no message goes between two; the leader is -1

	term     uint64
	members  map[int]uint64 // agents that are up, and with which roster they came up
	proposed map[int]bool   // it is about to take them off the roster
	reports  map[int]report // the last one of each agent
	stamps   []time.Duration
	removed  int // members that were taken off
	without  int // agents that had the right while the leader did not hear of them
}

// A disputant is an agent of a dispute.
type disputant struct {
	id     int
	rate   float64 // of its clock
	right  *Right
	frozen time.Duration // until when it is stopped
	term   uint64
	up     bool
	stamp  int
	others []string
	boot   int
}

// A report is what the leader knows of an agent.
type report struct {
	heard    time.Duration
	boot     int
	stamp    int
	term     uint64
	contacts []Contact
}

func (d *dispute) after(wait time.Duration, do func()) { heap.Push(&d.queue, event{d.now + wait, do}) }

// clock is an agent's clock.
func (d *dispute) clock(a *disputant) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(float64(d.now) * a.rate))
}

// send delivers a message from one to the other, if the line holds; it may take long.
func (d *dispute) send(from, to int, do func()) {
	wait := time.Duration(d.rng.IntN(50)) * time.Millisecond
	if d.rng.IntN(20) == 0 {
		wait = time.Duration(d.rng.IntN(8000)) * time.Millisecond
	}
	if until := d.cut[[2]int{min(from, to), max(from, to)}]; d.now < until {
		if d.rng.IntN(2) == 0 {
			return
		}
		wait += until - d.now // it is sent again and again
	}
	var deliver func()
	deliver = func() {
		if to >= 0 && d.now < d.agents[to].frozen {
			d.after(d.agents[to].frozen-d.now, deliver)
			return
		}
		do()
	}
	d.after(wait, deliver)
}

// follow asks the leader, as Sites does.
func (d *dispute) follow(a *disputant) {
	if d.now < a.frozen {
		d.after(a.frozen-d.now, func() { d.follow(a) })
		return
	}
	boot, sent := a.boot, d.clock(a)
	rep := report{boot: boot, stamp: a.stamp, term: a.term, contacts: a.right.contacts(sent)}
	next := false
	again := func() {
		if !next {
			next = true
			d.follow(a)
		}
	}
	d.send(a.id, -1, func() {
		was := d.reports[a.id]
		if rep.boot < was.boot || rep.boot == was.boot && rep.stamp < was.stamp {
			rep = was // it is older
		}
		rep.heard = d.now
		d.reports[a.id] = rep
		if _, in := d.members[a.id]; !in && !d.proposed[a.id] && d.rng.IntN(3) == 0 {
			d.members[a.id] = d.term + 1
			d.roster()
		}
		_, in := d.members[a.id]
		d.stamps = append(d.stamps, d.now)
		term, stamp, in, names := d.term, len(d.stamps), in && !d.proposed[a.id], d.names(a.id)
		d.after(time.Duration(d.rng.IntN(500))*time.Millisecond, func() {
			d.send(-1, a.id, func() {
				if a.boot != boot {
					return
				}
				a.stamp = max(a.stamp, stamp)
				if term > a.term {
					a.term, a.up, a.others = term, in, names
					a.right.Roster(in, names, d.clock(a))
				}
				if in && term == a.term {
					a.right.Answered(sent, d.clock(a))
				}
				again()
			})
		})
	})
	d.after(3*time.Second, func() {
		if a.boot == boot {
			again()
		}
	})
}

func (d *dispute) names(without int) (names []string) {
	for id := range d.members {
		if id != without {
			names = append(names, fmt.Sprint(id))
		}
	}
	slices.Sort(names)
	return names
}

func (d *dispute) roster() { d.term++ }

// ping asks another agent.
func (d *dispute) ping(a *disputant) {
	d.after(time.Duration(300+d.rng.IntN(1000))*time.Millisecond, func() { d.ping(a) })
	if d.now < a.frozen {
		return
	}
	for _, b := range d.agents {
		if b == a || d.rng.IntN(2) == 0 {
			continue
		}
		boot, sent := a.boot, d.clock(a)
		d.send(a.id, b.id, func() {
			b.right.Heard(fmt.Sprint(a.id), d.clock(b))
			d.send(b.id, a.id, func() {
				if a.boot == boot {
					a.right.Met(fmt.Sprint(b.id), sent, d.clock(a))
				}
			})
		})
	}
}

// judge takes silent members off the roster, as the leader does.
func (d *dispute) judge() {
	d.after(100*time.Millisecond, d.judge)
	for x := range d.members {
		rx := d.reports[x]
		if d.now-rx.heard < LostAfter || d.proposed[x] {
			continue
		}
		witnesses, silent := 0, true
		for y, came := range d.members {
			ry, ok := d.reports[y]
			if y == x || !ok || ry.stamp == 0 || d.now-d.stamps[ry.stamp-1] > 2*time.Second || rx.term < came {
				continue
			}
			for _, c := range ry.contacts {
				if c.Agent == fmt.Sprint(x) {
					witnesses++
					silent = silent && c.Silent >= LostAfter
				}
			}
		}
		if witnesses == 0 || !silent {
			continue
		}
		d.proposed[x] = true
		d.after(time.Duration(d.rng.IntN(3000))*time.Millisecond, func() { // it is agreed on
			delete(d.proposed, x)
			delete(d.members, x)
			d.roster()
			d.removed++
		})
	}
}

func (d *dispute) trouble() {
	d.after(time.Duration(d.rng.IntN(4000))*time.Millisecond, d.trouble)
	long := time.Duration(d.rng.IntN(25000)) * time.Millisecond
	switch x := d.rng.IntN(10); {
	case x < 5: // a line is cut
		a, b := d.rng.IntN(len(d.agents)+1)-1, d.rng.IntN(len(d.agents)+1)-1
		d.cut[[2]int{min(a, b), max(a, b)}] = d.now + long
	case x < 7: // the leader hears of some agents only
		for _, a := range d.agents {
			if d.rng.IntN(2) == 0 {
				d.cut[[2]int{-1, a.id}] = d.now + long
			}
		}
	case x < 8: // an agent is stopped
		d.agents[d.rng.IntN(len(d.agents))].frozen = d.now + long
	case x < 9: // an agent starts again
		a := d.agents[d.rng.IntN(len(d.agents))]
		a.boot++
		a.right, a.term, a.up, a.stamp = NewRight(d.clock(a)), 0, false, 0
		d.follow(a)
	}
}

// No agent may start visits while another one has its hosts: from the moment on at which the coordinators have agreed
// on a roster without it.
func TestRightIsExclusive(t *testing.T) {
	removed, without := 0, 0
	for round := range testtier.Rounds(40, 400) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			rng := testseed.Rand(t)
			d := &dispute{rng: rng, cut: map[[2]int]time.Duration{}, members: map[int]uint64{},
				proposed: map[int]bool{}, reports: map[int]report{}}
			for id := range 2 + rng.IntN(4) {
				a := &disputant{id: id, rate: 0.99 + 0.02*rng.Float64()}
				a.right = NewRight(d.clock(a))
				d.agents = append(d.agents, a)
				d.follow(a)
				d.ping(a)
			}
			d.after(0, d.judge)
			d.after(0, d.trouble)
			for d.now < 20*time.Minute {
				e := heap.Pop(&d.queue).(event)
				d.now = e.at
				e.do()
				for _, a := range d.agents {
					if !a.right.May(d.clock(a)) {
						continue
					}
					if _, in := d.members[a.id]; !in {
						t.Fatalf("after %v, agent %d may start visits, and is not in roster %d", d.now, a.id, d.term)
					}
					if d.now-d.reports[a.id].heard > LostAfter {
						d.without++
					}
				}
			}
			removed, without = removed+d.removed, without+d.without
		})
	}
	if removed < 100 || without < 1000 {
		t.Errorf("agents were taken off %d times, and went on without the leader %d times: too few", removed, without)
	}
}
