package lease

import "time"

// A survey ends a grantor's wait for points that are new to it. Agents may still hold leases from
// earlier grantors. Without a survey the grantor waits until every such lease has ended
// (Config.grace). A survey finds out sooner:
//
//	grantor -> Survey(view) -> every other agent of the view -> Survey, Lost
//
// An agent answers if it is in the same view, and if it has a lease of the grantor's points only if
// the grantor has granted or confirmed it. From then on, as long as it is in that view, it takes
// such leases only from this grantor, and grants none of these points. Only agents that have left a
// view can have other leases. The answer says how long these agents may still send requests. When
// all agents have answered and no lost agent can send requests, the points are free after one
// delay.
//
// A survey begins when a host waits for such a point. It belongs to one view: the
// next view begins another one. An answer counts only for a call of this survey.
type survey struct {
	round  int  // grows with each view
	wanted bool // an agent waits for a point that only a survey can free now
	began  bool
	open   map[Agent]time.Duration // agents without an answer, and when they were last asked
	till   time.Duration           // lost agents may send requests until then
}

// unknown is the key in grantor.lost for all agents that this one knew before its restart.
const unknown Agent = 0

// lose notes the agents that left the view and may still send requests.
func (g *grantor) lose(was View, clock time.Duration) {
	end := clock + g.cfg.grace()
	switch {
	case was == nil && g.view.Missing():
		g.lost[unknown] = end
	case !g.view.Missing():
		delete(g.lost, unknown)
	}
	if was != nil {
		for _, a := range was.Agents() {
			if _, known := g.lost[a]; !known && !g.view.Has(a) {
				g.lost[a] = end
			}
		}
	}
	for a, end := range g.lost {
		if a != unknown && (g.view.Has(a) || g.view.Over(a)) || clock >= end {
			delete(g.lost, a)
		}
	}
}

// lostFor returns how long lost agents may still send requests.
func (g *grantor) lostFor(clock time.Duration) (d time.Duration) {
	for _, end := range g.lost {
		d = max(d, end-clock)
	}
	return d
}

// survey begins a survey if one is wanted, and ends it when all answers are in.
func (p *Peer) survey() {
	g := p.grantor
	s := &g.survey
	if !s.wanted || g.retired || g.lostFor(p.clock) > 0 {
		return
	}
	if !s.began {
		s.began, s.open = true, make(map[Agent]time.Duration)
		for _, a := range g.view.Agents() {
			if a != g.self {
				s.open[a] = p.clock - surveyEvery
			}
		}
	}
	if len(s.open) > 0 || p.clock < s.till || !p.holder.clear(g.self, p.clock) {
		return
	}
	for i := range g.changes {
		if c := &g.changes[i]; c.known == 0 {
			c.known = p.clock
		}
	}
	s.wanted = false
	g.pass(p.clock)
}

// asks reports whether the grantor must ask an agent now.
func (g *grantor) asks(a Agent, clock time.Duration) bool {
	last, open := g.survey.open[a]
	return open && clock-last >= surveyEvery
}

// question puts the survey's question into a call.
func (g *grantor) question(a Agent, b *Batch, clock time.Duration) {
	if _, open := g.survey.open[a]; open {
		b.Survey = g.view.Digest()
		g.survey.open[a] = clock
	}
}

// surveyed takes the answer to a call. round is the survey's round when the call was made.
func (g *grantor) surveyed(b, ans *Batch, round int, clock time.Duration) {
	s := &g.survey
	if b.Survey == 0 || round != s.round || ans.Survey != b.Survey {
		return
	}
	delete(s.open, b.To)
	s.till = max(s.till, clock+longer(ans.Lost))
}

// clear reports whether this agent has only leases of the grantor's points that the grantor has
// granted or confirmed, and no request at these points without a lease.
func (h *holder) clear(grantor Agent, clock time.Duration) bool {
	for _, l := range h.lots {
		if l.grantor != grantor {
			continue
		}
		if l.state == orphaned && (l.using || clock < l.end) || l.using && (l.state != held || clock >= l.end) {
			return false
		}
	}
	return true
}
