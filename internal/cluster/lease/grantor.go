package lease

import (
	"maps"
	"slices"
	"time"
)

// A grantor is the side of a Peer that grants leases. Times are on the Peer's clock.
type grantor struct {
	cfg    *Config
	self   AgentID
	serial uint64
	view   View
	points map[uint64]*record
	// due has the points without a holder for which an agent waits.
	due map[uint64]struct{}
	// news has, for each holder, the points about which the grantor must tell it something.
	news map[AgentID]map[uint64]struct{}
	// changes are the ends of earlier views.
	changes []change
	// gone has the agents that left the view, with the time when their leases and their places in
	// the queues end. Until then such an agent may come back without knowing that it was gone.
	gone map[AgentID]time.Duration
	// departed has the agents that left the view lately.
	departed map[AgentID]departure
	survey   survey
}

// A change is the end of a view. If was is nil, the grantor knows nothing of the view that ended.
type change struct {
	at  time.Duration
	was View
	// back says that the new view has agents that the old one did not have, and that may have
	// leases. They come from the other side of a partition, where other agents granted the points.
	// So does a view that lacked some agents by mistake.
	back bool
	// known is when a survey found that this grantor knows all leases granted before the change.
	// Zero means that no survey has ended.
	known time.Duration
}

// A record is what the grantor knows about a point.
type record struct {
	holder   AgentID // 0: none
	serial   uint64
	since    time.Duration // when it was granted
	until    time.Duration
	stamp    uint64        // of the call that asked for the lease
	heard    time.Duration // when that call came
	told     bool          // the holder knows of the lease
	wanted   bool          // the holder was stalled when it asked
	called   bool          // the holder knows that other agents wait
	calledAt time.Duration // when it was told
	pressed  bool          // the holder knows that a waiting agent is stalled
	quiet    time.Duration // the longest delay of all asks
	free     time.Duration // when the delay ends
	line     []waiter      // in the order of the first asks
	notes    notes         // as of the last message of a holder
	noted    time.Duration // when that came
	cold     time.Duration // until then agents may have used it whose notes are lost; 0: none
}

type waiter struct {
	agent   AgentID
	stamp   uint64
	heard   time.Duration
	stalled bool
}

func newGrantor(cfg *Config, self AgentID) *grantor {
	return &grantor{
		cfg: cfg, self: self,
		points:   make(map[uint64]*record),
		due:      make(map[uint64]struct{}),
		news:     make(map[AgentID]map[uint64]struct{}),
		gone:     make(map[AgentID]time.Duration),
		departed: make(map[AgentID]departure),
	}
}

// look begins a view. heard tells when this agent last got a call from an agent. The grantor keeps
// what it knows of a point while another agent grants it: its holder may never learn of the other
// grantor.
func (g *grantor) look(v View, heard func(AgentID) time.Duration, clock time.Duration) {
	was := g.view
	g.view = v
	g.changed(was, clock)
	g.changes[len(g.changes)-1].back = was != nil && slices.ContainsFunc(v.Agents(), func(a AgentID) bool {
		return !was.Has(a) && !v.Fresh(a)
	})
	g.lose(was, heard, clock)
	end := clock + g.cfg.grace()
	for a := range g.gone {
		if v.Has(a) {
			delete(g.gone, a)
		}
	}
	missing := func(a AgentID) {
		switch _, known := g.gone[a]; {
		case v.Has(a):
		case v.Over(a):
			g.gone[a] = clock
		case !known:
			g.gone[a] = end
		}
	}
	for point, r := range g.points {
		if r.holder != 0 {
			missing(r.holder)
			// The holder may have ignored messages because it had another view. In that view it may
			// have answered another grantor.
			if r.called, r.pressed = false, false; len(r.line) > 0 {
				g.tell(r.holder, point)
				g.survey.wanted = g.survey.wanted || !v.Has(r.holder)
			}
		}
		for _, w := range r.line {
			missing(w.agent)
		}
	}
}

// doubt notes that other agents may have granted this agent's points without its knowledge.
func (g *grantor) doubt(clock time.Duration) { g.changed(nil, clock) }

func (g *grantor) changed(was View, clock time.Duration) {
	g.changes = slices.DeleteFunc(g.changes, func(c change) bool {
		return c.at+g.cfg.grace()+g.cfg.Hold < clock
	})
	g.changes = append(g.changes, change{at: clock, was: was})
	g.survey = survey{round: g.survey.round + 1}
	if len(g.changes) > maxChanges {
		g.changes = g.changes[1:]
		g.changes[0].was = nil
	}
}

// mine reports whether this agent grants the leases of a point.
func (g *grantor) mine(point uint64) bool {
	return g.view != nil && g.view.Owner(point) == g.self
}

// newAt returns the change by which the point last became this agent's. nil means that it always
// was.
func (g *grantor) newAt(point uint64) *change {
	for i := len(g.changes) - 1; i >= 0; i-- {
		if c := &g.changes[i]; c.was == nil || c.was.Owner(point) != g.self {
			return c
		}
	}
	return nil
}

// backSince reports whether agents that may have leases have come back since a time.
func (g *grantor) backSince(clock time.Duration) bool {
	return slices.ContainsFunc(g.changes, func(c change) bool { return c.back && c.at >= clock })
}

// settled reports whether a point without a holder may be granted. If so, it extends the point's
// delay, because an agent may have used the point before this agent became its grantor, or with a
// lease of another grantor before it came back.
func (g *grantor) settled(point uint64, r *record, clock time.Duration) bool {
	first, end := g.newAt(point), time.Duration(0)
	for i := len(g.changes) - 1; i >= 0; i-- {
		c := &g.changes[i]
		if c == first || c.back {
			till := c.at + g.cfg.grace()
			if c.known > 0 {
				till = min(till, c.known)
			}
			end = max(end, till)
		}
		if c == first {
			break
		}
	}
	if end == 0 {
		return true
	}
	if clock < end {
		g.survey.wanted = true
		return false
	}
	r.free, r.cold = max(r.free, end+longer(r.quiet)), max(r.cold, end)
	return true
}

// record returns the record of a point, and makes it if necessary. nil means that there is no room.
func (g *grantor) record(point uint64, clock time.Duration) *record {
	r := g.points[point]
	if r == nil {
		if len(g.points) >= g.most() {
			return nil
		}
		r = &record{}
		g.points[point] = r
	}
	g.expire(point, r, clock)
	return r
}

// most bounds the points. If few agents grant all points, each has those that all agents hold.
func (g *grantor) most() int {
	if g.cfg.Batch > 0 {
		return g.cfg.Points * max(2, g.view.Len())
	}
	return 2 * g.cfg.Points
}

// expire ends a lease whose time is over. By then its holder has cut off its requests at the point
// and begins no others.
func (g *grantor) expire(point uint64, r *record, clock time.Duration) {
	if r.holder == 0 {
		return
	}
	end := r.until
	if t, ok := g.gone[r.holder]; ok {
		end = min(end, t)
	}
	if clock >= end {
		r.cold = max(r.cold, end)
		g.release(point, r, end+longer(r.quiet))
	}
}

// release takes a point from its holder. free is when the delay of the point ends.
func (g *grantor) release(point uint64, r *record, free time.Duration) {
	if n := g.news[r.holder]; n != nil {
		delete(n, point)
	}
	r.holder = 0
	r.free = max(r.free, free)
	if len(r.line) > 0 {
		g.due[point] = struct{}{}
	}
}

// give takes a returned lease.
func (g *grantor) give(from AgentID, v Give, clock time.Duration) {
	r := g.points[v.Point]
	if r == nil || r.holder != from || r.serial != v.Serial {
		return
	}
	g.note(r, v.Notes, clock)
	g.release(v.Point, r, clock+longer(v.Rest))
}

// note takes the notes of the holder of a point.
func (g *grantor) note(r *record, in []Note, clock time.Duration) {
	if len(in) == 0 {
		return
	}
	var free time.Duration
	r.notes, free = received(in, clock)
	r.free, r.noted = max(r.free, free), clock
}

// ask answers one Ask: it grants the lease, puts the ask into the point's queue, or refuses it.
func (g *grantor) ask(from AgentID, a Ask, stamp uint64, clock time.Duration) (gr Grant, granted, refused bool) {
	if !g.mine(a.Point) || !g.view.Has(from) {
		return Grant{}, false, true
	}
	r := g.record(a.Point, clock)
	if r == nil {
		return Grant{}, false, true
	}
	r.quiet = max(r.quiet, min(a.Quiet, g.cfg.Hold))
	w := waiter{from, stamp, clock, a.Stalled}
	c := g.newAt(a.Point)
	// If another agent has been the grantor since, the lease known here may have ended.
	stale := c != nil && r.holder != 0 && r.since < c.at
	// The holder may have been on the other side of a partition. There another grantor may have
	// granted the point to others after this holder.
	apart := r.holder != 0 && g.backSince(r.since)
	told := c != nil && c.known > 0
	if a.Holding && c != nil && clock < c.at+g.cfg.grace() && (stale || r.holder == 0 && !told) {
		if r.holder != 0 {
			g.release(a.Point, r, 0)
		}
		g.note(r, a.Notes, clock)
		g.grant(a.Point, r, w, clock)
		gr = g.answer(a.Point, r, clock)
		gr.Rest = 0 // no other agent has used it since
		return gr, true, false
	}
	if (stale || apart) && r.holder == from && !a.Holding && (a.Serial != r.serial || r.serial == 0) {
		g.release(a.Point, r, 0)
	}
	r.free = max(r.free, clock+longer(min(a.Rest, g.cfg.Hold)))
	switch {
	case r.holder == from:
		if r.stamp, r.heard = stamp, clock; len(r.line) == 0 {
			r.until = clock + g.cfg.Hold
			delete(g.news[from], a.Point)
		}
		if r.told = true; a.Serial == r.serial {
			g.note(r, a.Notes, clock)
		}
		return g.asGrant(a.Point, r, clock), true, false
	case a.Holding:
		return Grant{}, false, true
	case r.holder == 0 && !g.awaited(r) && g.settled(a.Point, r, clock):
		g.grant(a.Point, r, w, clock)
		return g.answer(a.Point, r, clock), true, false
	case !a.Urgent:
		return Grant{}, false, true
	}
	g.queue(a.Point, r, w)
	return Grant{}, false, false
}

// awaited reports whether an agent in the view waits for r.
func (g *grantor) awaited(r *record) bool {
	return slices.ContainsFunc(r.line, func(w waiter) bool { return g.view.Has(w.agent) })
}

// queue puts w into the queue of a point. An agent that asks again keeps its place.
func (g *grantor) queue(point uint64, r *record, w waiter) {
	i := slices.IndexFunc(r.line, func(o waiter) bool { return o.agent == w.agent })
	if i >= 0 {
		r.line[i] = w
	} else {
		r.line = append(r.line, w)
	}
	if r.holder == 0 {
		g.due[point] = struct{}{}
		return
	}
	g.survey.wanted = g.survey.wanted || !g.view.Has(r.holder)
	if !r.called || w.stalled && !r.pressed {
		g.tell(r.holder, point)
	}
}

// stalled reports whether an agent that waits for r is stalled.
func (g *grantor) stalled(r *record) bool {
	return slices.ContainsFunc(r.line, func(w waiter) bool { return w.stalled && g.view.Has(w.agent) })
}

// hasNews reports whether the grantor must tell an agent something, and whether a stalled agent
// waits for that.
func (g *grantor) hasNews(a AgentID) (any, stalled bool) {
	for point := range g.news[a] {
		r := g.points[point]
		if r == nil || r.holder != a {
			continue
		}
		if any = true; !r.told && r.wanted || g.stalled(r) {
			return true, true
		}
	}
	return any, false
}

func (g *grantor) tell(a AgentID, point uint64) {
	n := g.news[a]
	if n == nil {
		n = make(map[uint64]struct{})
		g.news[a] = n
	}
	n[point] = struct{}{}
}

// grant leases a point without a holder to w.
func (g *grantor) grant(point uint64, r *record, w waiter, clock time.Duration) {
	r.line = slices.DeleteFunc(r.line, func(o waiter) bool { return o.agent == w.agent })
	g.serial++
	r.holder, r.serial, r.since = w.agent, g.serial, clock
	r.until = clock + g.cfg.Hold
	r.stamp, r.heard = w.stamp, w.heard
	r.told, r.wanted, r.called, r.pressed = false, w.stalled, false, false
	delete(g.due, point)
}

// answer returns the lease for the answer to its ask. If the answer is lost, the holder asks again.
func (g *grantor) answer(point uint64, r *record, clock time.Duration) Grant {
	v := g.asGrant(point, r, clock)
	r.told, r.called, r.calledAt, r.pressed = true, v.Shared, clock, v.Stalled
	return v
}

func (g *grantor) asGrant(point uint64, r *record, clock time.Duration) Grant {
	v := Grant{
		Point: point, Serial: r.serial, Stamp: r.stamp,
		Held: clock - r.heard, Term: r.until - clock, Rest: max(r.free-clock, 0),
		Shared: len(r.line) > 0, Stalled: g.stalled(r), Notes: r.notes.asNotes(clock),
	}
	if r.isCold(clock) {
		v.Cold, v.Since = true, clock-r.cold
	}
	return v
}

// pass grants points without a holder to the agents that wait for them.
func (g *grantor) pass(clock time.Duration) {
	for _, point := range sorted(g.due) {
		r := g.points[point]
		if !g.mine(point) || !g.settled(point, r, clock) {
			continue
		}
		if len(r.line) == 0 {
			delete(g.due, point)
			continue
		}
		if i := slices.IndexFunc(r.line, func(w waiter) bool { return g.view.Has(w.agent) }); i >= 0 {
			w := r.line[i]
			g.grant(point, r, w, clock)
			g.tell(w.agent, point)
		}
	}
}

// notice puts into b what a holder must be told.
func (g *grantor) notice(a AgentID, b *Batch, clock time.Duration) {
	for _, point := range sorted(g.news[a]) {
		if len(b.Grants)+len(b.Recalls) >= g.cfg.Entries {
			return
		}
		r := g.points[point]
		if r == nil || r.holder != a {
			delete(g.news[a], point)
			continue
		}
		if !r.told {
			b.Grants = append(b.Grants, g.asGrant(point, r, clock))
		} else {
			b.Recalls = append(b.Recalls, Recall{point, r.serial, g.stalled(r)})
		}
	}
}

// noticed notes that the holder has received b and answered ans.
func (g *grantor) noticed(a AgentID, b, ans *Batch, clock time.Duration) {
	for _, v := range b.Grants {
		if r := g.heldBy(a, v.Point, v.Serial); r != nil {
			r.told, r.called, r.calledAt, r.pressed = true, v.Shared, clock, v.Stalled
			g.leaveNews(a, v.Point, r)
		}
	}
	for _, v := range b.Recalls {
		if slices.Contains(ans.Refused, v.Point) {
			continue // the holder has another view: tell it again
		}
		if r := g.heldBy(a, v.Point, v.Serial); r != nil {
			r.called, r.calledAt, r.pressed = true, clock, v.Stalled
			g.leaveNews(a, v.Point, r)
		}
	}
}

func (g *grantor) heldBy(a AgentID, point, serial uint64) *record {
	if r := g.points[point]; r != nil && r.holder == a && r.serial == serial {
		return r
	}
	return nil
}

// leaveNews removes the point from the holder's news if the holder has been told everything.
func (g *grantor) leaveNews(a AgentID, point uint64, r *record) {
	if len(r.line) == 0 || r.called && (r.pressed || !g.stalled(r)) {
		delete(g.news[a], point)
	}
}

// reap ends the leases of agents that have been gone for long enough.
func (g *grantor) reap(clock time.Duration) {
	over := false
	for _, t := range g.gone {
		over = over || clock >= t
	}
	if !over {
		return
	}
	for point, r := range g.points {
		g.expire(point, r, clock)
		r.line = slices.DeleteFunc(r.line, func(w waiter) bool {
			t, gone := g.gone[w.agent]
			return gone && clock >= t
		})
	}
	maps.DeleteFunc(g.gone, func(_ AgentID, t time.Duration) bool { return clock >= t })
}

// sweep ends leases whose time is over, and forgets points without anything to remember.
func (g *grantor) sweep(clock time.Duration) {
	maps.DeleteFunc(g.news, func(_ AgentID, points map[uint64]struct{}) bool { return len(points) == 0 })
	for point, r := range g.points {
		g.expire(point, r, clock)
		r.line = slices.DeleteFunc(r.line, func(w waiter) bool { return w.heard+g.cfg.Hold < clock })
		if r.holder != 0 && len(r.line) > 0 && r.called && clock-r.calledAt > Turn(r.quiet, r.pressed)+callAgain {
			r.called, r.pressed = false, false // the recall may have come before the grant
			g.tell(r.holder, point)
		}
		over := !g.remembers(r, clock) || len(g.points) > g.most()/2
		if r.holder == 0 && len(r.line) == 0 && r.free <= clock && over {
			delete(g.points, point)
			delete(g.due, point)
		}
	}
}

// remembers reports whether the notes of a point without a holder are still of use.
func (g *grantor) remembers(r *record, clock time.Duration) bool {
	return r.isCold(clock) || len(r.notes) > 0 && clock < max(r.notes.end(clock), r.noted+noteLife)
}

func sorted(m map[uint64]struct{}) []uint64 {
	return slices.Sorted(maps.Keys(m))
}
