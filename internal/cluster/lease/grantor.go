package lease

import (
	"slices"
	"time"
)

// A grantor is the side of a Peer that gives leases. Times are on the Peer's
// clock.
type grantor struct {
	cfg    *Config
	self   Agent
	serial uint64
	view   View
	points map[uint64]*record
	// due are points that nobody has and somebody waits for.
	due map[uint64]struct{}
	// news are the points of which holders are to be told.
	news map[Agent]map[uint64]struct{}
	// changes are the views that were in force before, with when they ended.
	changes []change
	// gone are agents that left the view, with when their leases end, and their
	// places in line: until then they may come back and know nothing of it.
	gone map[Agent]time.Duration
	// transfers are what agents have told that go, in this view.
	transfers map[Agent]*receivedTransfer
	// lost are agents that left the view, and may go on until then.
	lost   map[Agent]time.Duration
	survey survey
	// retired says that we go, and pending what others are yet to be told.
	retired bool
	pending map[Agent]*pendingTransfer
}

// A change is the end of a view; nil: of one that nothing is known of. Those who
// left have told what they knew of the points whose heir we were.
type change struct {
	at   time.Duration
	was  View
	left map[Agent]struct{}
	// known is when a survey found that all is known of what others granted
	// before; 0: none has.
	known time.Duration
}

// tells says that all is known of what was granted of a point before.
func (c *change) tells(point uint64, self Agent) bool {
	if c.was == nil || len(c.left) == 0 {
		return false
	}
	_, ok := c.left[c.was.Owner(point)]
	return ok && c.was.Heir(point) == self
}

// A record is what is known of a point.
type record struct {
	holder   Agent // 0: nobody
	serial   uint64
	since    time.Duration // granted
	until    time.Duration
	stamp    uint64        // of the call that asked for it,
	heard    time.Duration // and when that came
	told     bool          // the holder knows that it is the holder
	wanted   bool          // it was stalled when it asked
	called   bool          // the holder knows that others wait,
	calledAt time.Duration // since then
	pressed  bool          // the holder knows that one of them is stalled
	quiet    time.Duration // the longest that was asked for
	free     time.Duration // the quiet time is over
	line     []waiter      // in the order in which they asked
}

type waiter struct {
	agent   Agent
	stamp   uint64
	heard   time.Duration
	stalled bool
}

func newGrantor(cfg *Config, self Agent) *grantor {
	return &grantor{
		cfg: cfg, self: self,
		points:    make(map[uint64]*record),
		due:       make(map[uint64]struct{}),
		news:      make(map[Agent]map[uint64]struct{}),
		gone:      make(map[Agent]time.Duration),
		lost:      make(map[Agent]time.Duration),
		transfers: make(map[Agent]*receivedTransfer),
	}
}

// look begins a view. What was known of a point stays known, also when it is
// another's for a while: its holder may never have heard of that.
func (g *grantor) look(v View, clock time.Duration) {
	was := g.view
	g.view, g.pending = v, nil
	left := g.adopt(was, clock)
	if was != nil || !g.cfg.First {
		g.changed(was, left, clock)
	}
	g.lose(was, clock)
	end := clock + g.cfg.grace()
	for a := range g.gone {
		if v.Has(a) {
			delete(g.gone, a)
		}
	}
	missing := func(a Agent) {
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
			// The holder may have ignored messages of another view, and its answers of
			// that view may have gone to another grantor.
			if r.called, r.pressed = false, false; len(r.line) > 0 {
				g.tell(r.holder, point)
			}
		}
		for _, w := range r.line {
			missing(w.agent)
		}
	}
}

// doubt says that others may have granted our points without our knowing.
func (g *grantor) doubt(clock time.Duration) { g.changed(nil, nil, clock) }

func (g *grantor) changed(was View, left map[Agent]struct{}, clock time.Duration) {
	g.changes = slices.DeleteFunc(g.changes, func(c change) bool {
		return c.at+g.cfg.grace()+g.cfg.Hold < clock
	})
	g.changes = append(g.changes, change{at: clock, was: was, left: left})
	g.survey = survey{round: g.survey.round + 1}
	if len(g.changes) > maxChanges {
		g.changes = g.changes[1:]
		g.changes[0].was = nil
	}
}

// mine says whether the leases of a point are ours to give.
func (g *grantor) mine(point uint64) bool {
	return g.view != nil && !g.retired && g.view.Owner(point) == g.self
}

// newAt is the change by which the point last became ours; nil if it always was.
func (g *grantor) newAt(point uint64) *change {
	for i := len(g.changes) - 1; i >= 0; i-- {
		if c := &g.changes[i]; c.was == nil || c.was.Owner(point) != g.self {
			return c
		}
	}
	return nil
}

// settled says whether a point that nobody has may be granted, and brings its
// quiet time to what others may have caused before it was ours.
func (g *grantor) settled(point uint64, r *record, clock time.Duration) bool {
	c := g.newAt(point)
	if c == nil || c.tells(point, g.self) {
		return true
	}
	end := c.at + g.cfg.grace()
	if c.known > 0 {
		end = min(end, c.known)
	}
	if clock < end {
		g.survey.wanted = true
		return false
	}
	r.free = max(r.free, end+longer(r.quiet))
	return true
}

// record finds or makes what is known of a point, nil if there is no room.
func (g *grantor) record(point uint64, clock time.Duration) *record {
	r := g.points[point]
	if r == nil {
		if len(g.points) >= 2*g.cfg.Points {
			return nil
		}
		r = &record{}
		g.points[point] = r
	}
	g.expire(point, r, clock)
	return r
}

// expire ends a lease whose time is over: its holder began nothing since, and
// has cut off what it was doing.
func (g *grantor) expire(point uint64, r *record, clock time.Duration) {
	if r.holder == 0 {
		return
	}
	end := r.until
	if t, ok := g.gone[r.holder]; ok {
		end = min(end, t)
	}
	if clock >= end {
		g.release(point, r, end+longer(r.quiet))
	}
}

// release takes a point from its holder; free is when its quiet time is over.
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

// give takes a lease back.
func (g *grantor) give(from Agent, v Give, clock time.Duration) {
	r := g.points[v.Point]
	if r == nil || r.holder != from || r.serial != v.Serial {
		return
	}
	g.release(v.Point, r, clock+longer(v.Rest))
}

// ask answers one Ask: with a grant; or it stands in line; or it is refused.
func (g *grantor) ask(from Agent, a Ask, stamp uint64, clock time.Duration) (gr Grant, granted, refused bool) {
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
	// What is known from a time before others granted it may be over.
	stale := c != nil && r.holder != 0 && r.since < c.at
	told := c != nil && (c.known > 0 || c.tells(a.Point, g.self))
	if a.Holding && c != nil && clock < c.at+g.cfg.grace() && (stale || r.holder == 0 && !told) {
		if r.holder != 0 {
			g.release(a.Point, r, 0)
		}
		g.grant(a.Point, r, w, clock)
		gr = g.answer(a.Point, r, clock)
		gr.Rest = 0 // it alone has used it
		return gr, true, false
	}
	if stale && r.holder == from && !a.Holding && (a.Serial != r.serial || r.serial == 0) {
		g.release(a.Point, r, 0)
	}
	r.free = max(r.free, clock+longer(min(a.Rest, g.cfg.Hold)))
	switch {
	case r.holder == from:
		if r.stamp, r.heard = stamp, clock; len(r.line) == 0 {
			r.until = clock + g.cfg.Hold
			delete(g.news[from], a.Point)
		}
		r.told = true
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

// awaited says whether somebody waits who is there.
func (g *grantor) awaited(r *record) bool {
	return slices.ContainsFunc(r.line, func(w waiter) bool { return g.view.Has(w.agent) })
}

// queue lets w wait in line, where it was if it has asked before.
func (g *grantor) queue(point uint64, r *record, w waiter) {
	i := slices.IndexFunc(r.line, func(o waiter) bool { return o.agent == w.agent })
	if i >= 0 {
		r.line[i] = w
	} else {
		r.line = append(r.line, w)
	}
	if r.holder == 0 {
		g.due[point] = struct{}{}
	} else if !r.called || w.stalled && !r.pressed {
		g.tell(r.holder, point)
	}
}

// stalled reports whether an agent that waits for r is stalled.
func (g *grantor) stalled(r *record) bool {
	return slices.ContainsFunc(r.line, func(w waiter) bool { return w.stalled && g.view.Has(w.agent) })
}

// hasNews says whether an agent is to be told something, and whether a stalled
// agent waits for that.
func (g *grantor) hasNews(a Agent) (any, stalled bool) {
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

func (g *grantor) tell(a Agent, point uint64) {
	n := g.news[a]
	if n == nil {
		n = make(map[uint64]struct{})
		g.news[a] = n
	}
	n[point] = struct{}{}
}

// grant gives a point that nobody has to w.
func (g *grantor) grant(point uint64, r *record, w waiter, clock time.Duration) {
	r.line = slices.DeleteFunc(r.line, func(o waiter) bool { return o.agent == w.agent })
	g.serial++
	r.holder, r.serial, r.since = w.agent, g.serial, clock
	r.until = clock + g.cfg.Hold
	r.stamp, r.heard = w.stamp, w.heard
	r.told, r.wanted, r.called, r.pressed = false, w.stalled, false, false
	delete(g.due, point)
}

// answer is a lease that the holder is told of in the answer to its ask. If
// that is lost it asks again.
func (g *grantor) answer(point uint64, r *record, clock time.Duration) Grant {
	v := g.asGrant(point, r, clock)
	r.told, r.called, r.calledAt, r.pressed = true, v.Shared, clock, v.Stalled
	return v
}

func (g *grantor) asGrant(point uint64, r *record, clock time.Duration) Grant {
	return Grant{
		Point: point, Serial: r.serial, Stamp: r.stamp,
		Held: clock - r.heard, Term: r.until - clock, Rest: max(r.free-clock, 0),
		Shared: len(r.line) > 0, Stalled: g.stalled(r),
	}
}

// pass gives points that nobody has to those who wait.
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

// notice puts what a holder is to be told into b.
func (g *grantor) notice(a Agent, b *Batch, clock time.Duration) {
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

// noticed says that the holder has been told what stands in b.
func (g *grantor) noticed(a Agent, b, ans *Batch, clock time.Duration) {
	for _, v := range b.Grants {
		if r := g.heldBy(a, v.Point, v.Serial); r != nil {
			r.told, r.called, r.calledAt, r.pressed = true, v.Shared, clock, v.Stalled
			g.leaveNews(a, v.Point, r)
		}
	}
	for _, v := range b.Recalls {
		if slices.Contains(ans.Refused, v.Point) {
			continue // its view is another one: it is told again
		}
		if r := g.heldBy(a, v.Point, v.Serial); r != nil {
			r.called, r.calledAt, r.pressed = true, clock, v.Stalled
			g.leaveNews(a, v.Point, r)
		}
	}
}

func (g *grantor) heldBy(a Agent, point, serial uint64) *record {
	if r := g.points[point]; r != nil && r.holder == a && r.serial == serial {
		return r
	}
	return nil
}

// leaveNews forgets that the holder is to be told of a point if it knows all.
func (g *grantor) leaveNews(a Agent, point uint64, r *record) {
	if len(r.line) == 0 || r.called && (r.pressed || !g.stalled(r)) {
		delete(g.news[a], point)
	}
}

// reap ends the leases of those who are gone for long enough.
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
	for a, t := range g.gone {
		if clock >= t {
			delete(g.gone, a)
		}
	}
}

// sweep forgets points of which there is nothing to remember.
func (g *grantor) sweep(clock time.Duration) {
	for a, n := range g.news {
		if len(n) == 0 {
			delete(g.news, a)
		}
	}
	for point, r := range g.points {
		g.expire(point, r, clock)
		r.line = slices.DeleteFunc(r.line, func(w waiter) bool { return w.heard+g.cfg.Hold < clock })
		if r.holder != 0 && len(r.line) > 0 && r.called && clock-r.calledAt > Turn(r.quiet)+callAgain {
			r.called, r.pressed = false, false // it may have heard that before it knew that it is the holder
			g.tell(r.holder, point)
		}
		if r.holder == 0 && len(r.line) == 0 && r.free <= clock {
			delete(g.points, point)
			delete(g.due, point)
		}
	}
}

func sorted(m map[uint64]struct{}) []uint64 {
	s := make([]uint64, 0, len(m))
	for p := range m {
		s = append(s, p)
	}
	slices.Sort(s)
	return s
}
