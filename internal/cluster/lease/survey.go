package lease

import (
	"maps"
	"time"
)

// A survey ends a grantor's wait for two kinds of points: those that are new to it, and those whose
// holder has left the view. Without a survey the grantor waits until every lease that it does not
// know, and every lease of an agent that left, has ended by itself (Config.grace). A survey finds out
// sooner:
//
//	grantor -> Survey -> every other agent of the view -> Survey, Lost
//
// An agent answers if it is in the same view, and if it has a lease of the grantor's points only if
// the grantor has granted or confirmed it. From then on, as long as it is in that view, it takes
// such leases only from this grantor, and grants none of these points. Only agents that have left a
// view can have other leases. The answer says when the last of these agents has stopped by itself,
// as far as the answering agent can tell (see lostFor). The survey ends when every agent has answered
// a question that was sent after all of these times. So at the latest of them, no agent of the view
// has had contact with a lost agent for Config.Term.
//
// A survey begins when a host waits for such a point. It belongs to one view: the next view begins
// another one. An answer counts only for a call of this survey.
type survey struct {
	round  int  // grows with each view
	wanted bool // an agent waits for a point that only a survey can free now
	began  bool
	last   map[AgentID]time.Duration // when each other agent was last asked
	sent   map[AgentID]time.Duration // when the last question was sent that each agent has answered
	till   time.Duration             // lost agents may send requests until then
}

// A departure is an agent that has left the view.
type departure struct {
	heard time.Duration // the last message of it that may have given it contact
	at    time.Duration // when the view without it began
}

// unknown is the key in grantor.departed for all agents that this one knew before its restart.
const unknown AgentID = 0

// lose notes the agents that left the view. heard tells when this agent last got a call from an
// agent.
func (g *grantor) lose(was View, heard func(AgentID) time.Duration, clock time.Duration) {
	switch {
	case was == nil && g.view.Missing():
		g.departed[unknown] = departure{clock, clock}
	case !g.view.Missing():
		delete(g.departed, unknown)
	}
	if was != nil {
		for _, a := range was.Agents() {
			if _, known := g.departed[a]; !known && !g.view.Has(a) {
				silent := max(0, min(g.view.Silent(a), clock-heard(a)))
				g.departed[a] = departure{heard: clock - silent, at: clock}
			}
		}
	}
	maps.DeleteFunc(g.departed, func(a AgentID, d departure) bool {
		return a != unknown && g.view.Has(a) || clock >= d.at+g.cfg.grace()
	})
}

// lostFor returns how long lost agents may still send requests. If negative, they have stopped that
// long ago.
//
// A lost agent stops Term after its last contact with any agent. Agents of this view gave it contact
// only before they last heard from it, and each of them tells its part. An agent that left the view
// around the same time may have given it contact until Settle after it left.
func (g *grantor) lostFor(clock time.Duration) time.Duration {
	var first, second time.Duration // the last two departures
	for _, d := range g.departed {
		if d.at >= first {
			first, second = d.at, first
		} else {
			second = max(second, d.at)
		}
	}
	stopped := clock - maxDuration
	for a, d := range g.departed {
		if a != unknown && g.view.Over(a) {
			continue
		}
		contact, other := d.heard, first
		if d.at == first {
			other = second
		}
		if a == unknown {
			contact = d.at + 2*g.cfg.Settle
		} else if other > 0 {
			contact = max(contact, other+g.cfg.Settle)
		}
		stopped = max(stopped, min(contact+longer(g.cfg.Term+2*g.cfg.Every), d.at+g.cfg.grace()))
	}
	return stopped - clock
}

// survey begins a survey if one is wanted. When all answers are in, it ends it and returns true.
func (p *Peer) survey() (over bool) {
	g := p.grantor
	s := &g.survey
	if !s.wanted {
		return false
	}
	if !s.began {
		s.began, s.last, s.sent = true, make(map[AgentID]time.Duration), make(map[AgentID]time.Duration)
		for _, a := range g.view.Agents() {
			if a != g.self {
				s.last[a] = p.clock - surveyEvery
			}
		}
	}
	s.till = max(s.till, p.clock+g.lostFor(p.clock))
	if p.clock < s.till || len(s.open()) > 0 || !p.holder.clear(g.self, p.clock) {
		return false
	}
	for i := range g.changes {
		if c := &g.changes[i]; c.known == 0 {
			c.known = p.clock
		}
	}
	for a := range g.gone {
		g.gone[a] = p.clock
	}
	s.wanted = false
	g.reap(p.clock)
	g.pass(p.clock)
	return true
}

// open returns the agents without an answer that counts.
func (s *survey) open() (as []AgentID) {
	if !s.wanted {
		return nil
	}
	for a := range s.last {
		if sent, ok := s.sent[a]; !ok || sent < s.till {
			as = append(as, a)
		}
	}
	return as
}

// asks reports whether the grantor must ask an agent now. The first question to each is asked at
// once: the answers tell when the lost agents stop.
func (g *grantor) asks(a AgentID, clock time.Duration) bool {
	s := &g.survey
	last, asked := s.last[a]
	if !asked || !s.wanted || clock-last < surveyEvery {
		return false
	}
	sent, answered := s.sent[a]
	return !answered || sent < s.till && clock >= s.till
}

// question puts the survey's question into a call.
func (g *grantor) question(a AgentID, b *Batch, clock time.Duration) {
	if g.asks(a, clock) {
		b.Survey = true
		g.survey.last[a] = clock
	}
}

// surveyed takes the answer to a call that was sent at a time. round is the survey's round then.
func (g *grantor) surveyed(b, ans *Batch, sent time.Duration, round int, clock time.Duration) {
	s := &g.survey
	if !b.Survey || !ans.Survey || round != s.round || ans.View != g.view.Digest() || b.View != ans.View {
		return
	}
	s.sent[b.To] = sent
	if ans.Lost >= 0 {
		s.till = max(s.till, clock+longer(ans.Lost))
	} else {
		s.till = max(s.till, clock-shorter(-ans.Lost))
	}
}

// clear reports whether this agent has only leases of the grantor's points that the grantor has
// granted or confirmed, and no request at these points without a lease.
func (h *holder) clear(grantor AgentID, clock time.Duration) bool {
	for _, l := range h.holdings {
		if l.grantor != grantor {
			continue
		}
		if l.state == orphaned && (l.using || clock < l.end) || l.using && (l.state != held || clock >= l.end) {
			return false
		}
	}
	return true
}
