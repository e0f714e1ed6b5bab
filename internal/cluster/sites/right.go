package sites

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// The times of the rule for lost agents. The difference between them covers clocks that differ by 1/100 and a
// leader that does not know for at most 1.5 s that another one has replaced it.
const (
	// RightFor is how long an answer gives the right to start visits, from when it was asked for.
	RightFor = 6 * time.Second
	// LostAfter is how long the coordinators and the other agents must not have heard of an agent before the
	// coordinators take it off the roster.
	LostAfter = 9 * time.Second
)

// A Right says whether this agent may start visits now. It has no clock: the caller passes all times. Safe for
// concurrent use.
//
// The agent gets the right from the leader of the coordinators, which has answered it as a member of the last
// roster (Answered). The right lasts for RightFor from the question on. It is prolonged
//
//   - by the next such answer, or
//   - by round trips with all other agents that are up in the last roster, each of which began within RightFor
//     (Met). If there is no other agent, it lasts for ever.
//
// A right that has lapsed is not prolonged: it begins anew with an answer of the leader.
//
// The leader takes another agent off the roster only if it has not heard of it for LostAfter, and neither has an
// agent that the other one must reach to prolong its right. DESIGN.md has the rule, and why it is safe.
type Right struct {
	began time.Time

	mu      sync.Mutex // guards the fields below
	self    bool       // this agent is up in the last roster
	until   time.Time  // zero: never had, or taken
	forever bool       // until does not count: there is no other agent
	asked   time.Time  // when the last question was sent that the leader has answered
	others  map[string]*contact
}

// NewRight returns the Right of an agent that starts now: it has none yet.
func NewRight(now time.Time) *Right { return &Right{began: now, others: map[string]*contact{}} }

// A contact is what is known of the contact with another agent.
type contact struct {
	met   time.Time // when the last round trip began
	heard time.Time // when the last message came
	up    bool      // it is up in the last roster
}

// Roster tells that a roster takes effect. up are the other agents that are up in it, self reports that this
// agent is. The answer of the leader that brought it is passed to Answered after that.
func (r *Right) Roster(self bool, up []string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.forever && len(up) > 0 {
		r.forever, r.until = false, now.Add(RightFor)
	}
	if r.self = self; !self {
		r.forever, r.until = false, time.Time{}
	}
	for _, c := range r.others {
		c.up = false
	}
	for _, name := range up {
		r.contact(name).up = true
	}
	r.prolong(now)
}

func (r *Right) contact(name string) *contact {
	c := r.others[name]
	if c == nil {
		c = &contact{}
		r.others[name] = c
	}
	return c
}

// Answered tells that the leader has answered a question of the time sent, that this agent is a member of its
// last roster, and that this is the roster of the last call of Roster.
func (r *Right) Answered(sent, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sent.After(r.asked) {
		r.asked = sent
	}
	if until := sent.Add(RightFor); r.self && until.After(now) && until.After(r.until) {
		r.until = until
	}
	r.prolong(now)
}

// Met tells of a round trip with another agent, the instance of the last roster: it has answered a question of the
// time sent.
func (r *Right) Met(name string, sent, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.contact(name)
	c.met, c.heard = later(c.met, sent), later(c.heard, now)
	r.prolong(now)
}

// Heard tells that a message of another agent has come.
func (r *Right) Heard(name string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.contact(name)
	c.heard = later(c.heard, now)
}

// Forget forgets the agents that are not in names.
func (r *Right) Forget(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.others, func(name string, c *contact) bool { return !c.up && !slices.Contains(names, name) })
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// prolong prolongs a right that has not lapsed by the round trips with all others.
func (r *Right) prolong(now time.Time) {
	if !r.self || !r.has(now) {
		return
	}
	first, alone := time.Time{}, true
	for _, c := range r.others {
		if c.up && (alone || c.met.Before(first)) {
			first, alone = c.met, false
		}
	}
	if r.forever = alone; !alone {
		r.until = later(r.until, first.Add(RightFor))
	}
}

func (r *Right) has(now time.Time) bool {
	return r.self && (r.forever || now.Before(r.until))
}

// May reports whether the agent may start visits.
func (r *Right) May(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.has(now)
}

// Why says in words why the agent may not start visits; it is empty if it may.
func (r *Right) Why(now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.has(now):
		return ""
	case !r.self:
		return "the coordinators have not taken this agent into the crawl"
	case r.asked.IsZero():
		return "no coordinator has answered this agent since it started"
	}
	ago := func(t time.Time) string { return now.Sub(t).Round(time.Second).String() }
	var silent []string
	for name, c := range r.others {
		if c.up && !now.Before(c.met.Add(RightFor)) {
			silent = append(silent, name)
		}
	}
	slices.Sort(silent)
	if n := len(silent); n > 3 {
		silent = append(silent[:3], fmt.Sprintf("%d more", n-3))
	}
	why := "no coordinator has answered for " + ago(r.asked)
	if len(silent) > 0 {
		why += ", and neither have agents: " + strings.Join(silent, ", ")
	}
	return why + "; others may own its hosts"
}

// Due returns the other agents to be asked for an answer, any one, because the right would lapse otherwise: the
// leader has not answered for a third of RightFor, and neither has the agent. Ask again every second.
func (r *Right) Due(now time.Time) (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.has(now) || now.Sub(r.asked) < RightFor/3 {
		return nil
	}
	for name, c := range r.others {
		if c.up && now.Sub(c.met) >= RightFor/3 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// A Contact says for how long this agent has not heard of another one: at most since its own start, because it
// does not know what was before.
type Contact struct {
	Agent  string
	Silent time.Duration
}

// contacts returns the contacts with the other agents that are up.
func (r *Right) contacts(now time.Time) (cs []Contact) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, c := range r.others {
		if c.up {
			cs = append(cs, Contact{name, max(0, now.Sub(later(r.began, c.heard)))})
		}
	}
	slices.SortFunc(cs, func(a, b Contact) int { return strings.Compare(a.Agent, b.Agent) })
	return cs
}
