package lease

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// ErrNotForUs reports a Batch for another agent or another start of this one, or one that is not
// a valid call or answer.
var ErrNotForUs = errors.New("lease batch is not for us")

// A Peer is the holder and the grantor of one agent. The caller cuts off the requests that Lost
// names. It passes each Batch of Calls to Serve of the receiver, and the answer to Answered. One
// goroutine owns a Peer.
type Peer struct {
	cfg     Config
	self    AgentID
	epoch   time.Time
	clock   time.Duration // since epoch; never goes back
	view    View
	holder  *holder
	grantor *grantor

	contact time.Duration // time of the last contact
	lapsed  bool          // the last contact became too old, and no other has come since
	probed  time.Duration // when it last made a call only for the contact

	sessions map[AgentID]*session
	paid     float64       // number of calls
	paidAt   time.Duration // when the trickle last paid
	barred   time.Duration // the first Ready without success since the last Begin; 0: none
	spared   time.Duration // barred before the last Begin, until a request has ended; 0: none
	swept    time.Duration
	roomAt   time.Duration // when the holder was last swept
	began    time.Duration // when the last page began
	every    time.Duration // mean time between pages
	urged    time.Duration // when urge last ran
	wake     time.Duration // when Hurry must be called again; 0: never
	soon     bool          // Hurry may have something to do now
}

// A session has the state of the calls between two agents. Only one call is on its way at a time,
// and stamps grow. The receiver ignores a call that is not newer than the last one. So no call is
// repeated or reordered.
type session struct {
	stamp  uint64        // of our last call
	heard  uint64        // of its last call
	served time.Duration // when that came; 0: never
	out    *Batch        // on its way
	sentAt time.Duration
	round  int // of the grantor's survey when the call was made
}

// New returns the Peer of agent self. The Peer permits no request before Look.
func New(self AgentID, cfg Config, now time.Time) *Peer {
	p := &Peer{self: self, cfg: cfg.withDefaults(), epoch: now, paid: prepaidCalls,
		sessions: make(map[AgentID]*session)}
	p.clock = 1
	p.holder = newHolder(&p.cfg, self)
	p.grantor = newGrantor(&p.cfg, self)
	return p
}

// advance is tick for calls and answers: no two of them have the same time.
func (p *Peer) advance(now time.Time) {
	p.clock++
	p.tick(now)
}

func (p *Peer) tick(now time.Time) {
	p.clock = max(p.clock, now.Sub(p.epoch)+1)
	if p.view != nil && p.view.Len() == 1 {
		p.met(p.clock)
	}
	if !p.grip() && !p.lapsed && p.view != nil {
		p.lapsed = true
		for _, s := range p.sessions {
			if s.out != nil {
				p.fail(s)
			}
		}
		p.holder.lapse(p.clock)
	}
}

// grip reports whether the last contact is recent enough.
func (p *Peer) grip() bool { return p.view != nil && p.clock-p.contact < shorter(p.cfg.Term) }

// Grip reports whether requests may begin: the last contact with the cluster is recent enough.
func (p *Peer) Grip(now time.Time) bool {
	p.tick(now)
	return p.grip()
}

// Look sets a new view. Only the first Look counts as a contact.
func (p *Peer) Look(v View, now time.Time) {
	first := p.view == nil
	p.tick(now)
	if p.view = v; first {
		p.contact = p.clock
	}
	p.holder.look(v, p.clock)
	p.grantor.look(v, p.served, p.clock)
	for a, s := range p.sessions {
		if !v.Has(a) && s.out != nil {
			p.fail(s)
		}
	}
}

// served returns when an agent last called this one; 0: never.
func (p *Peer) served(a AgentID) time.Duration {
	if s := p.sessions[a]; s != nil {
		return s.served
	}
	return 0
}

// Contact records an answer, to a question sent at sent, from an agent with the same view as the
// last Look: so other agents still see this agent. The failure detector gives the caller such
// answers all the time. Without one for Config.Term, this agent begins no requests. The answers to
// calls of the Peer count as well.
func (p *Peer) Contact(sent, now time.Time) {
	p.tick(now)
	p.met(min(sent.Sub(p.epoch)+1, p.clock))
}

func (p *Peer) met(sent time.Duration) {
	if p.contact = max(p.contact, sent); p.lapsed && p.grip() {
		p.lapsed = false
		p.grantor.doubt(p.clock)
	}
}

// Want tells the Peer that a host at point will be due soon. quiet is the delay of the point.
func (p *Peer) Want(point uint64, quiet time.Duration, now time.Time) {
	p.tick(now)
	if p.view != nil {
		p.holder.want(point, quiet, p.clock)
	}
}

// Ready reports whether a request of a due host may begin at point now. If not, at is the time to
// ask again; the zero time means that Freed will name the point.
func (p *Peer) Ready(point uint64, quiet time.Duration, now time.Time) (ok bool, at time.Time) {
	p.tick(now)
	if !p.grip() {
		return false, now.Add(p.cfg.Every)
	}
	ok, d := p.holder.ready(point, quiet, p.clock)
	if !ok {
		if d > p.clock {
			at = p.epoch.Add(d - 1)
		}
		if p.barred == 0 && d == 0 {
			p.barred, p.soon = p.clock, true
		}
	}
	return ok, at
}

// Begin begins a request that uses all of points, if it may (see Ready).
func (p *Peer) Begin(now time.Time, points ...uint64) bool {
	p.tick(now)
	if !p.grip() {
		return false
	}
	for _, point := range points {
		if l := p.holder.holdings[point]; l == nil || !p.holder.may(l, p.clock) || l.free > p.clock {
			return false
		}
	}
	for _, point := range points {
		p.holder.begin(point, p.clock)
	}
	p.paid = min(p.paid+p.cfg.PerPage, savings)
	if p.barred != 0 {
		p.spared, p.barred = p.barred, 0
	}
	p.every += (min(p.clock-p.began, 10*time.Minute) - p.every) / 8
	p.began = p.clock
	p.holder.idle = max(idleAfter, 2*p.every)
	return true
}

// Used ends what Begin began at a point. end is the end of the response, and quiet the delay from
// then on. requested is false if no request was made, for example because the visit must wait for
// a robots.txt of another host.
func (p *Peer) Used(point uint64, end time.Time, quiet time.Duration, requested bool, now time.Time) {
	p.tick(now)
	p.progress(point, requested)
	if l := p.holder.holdings[point]; l != nil && l.stalled {
		p.soon = true
	}
	p.holder.used(point, min(end.Sub(p.epoch)+1, p.clock)+quiet, quiet, p.clock)
}

// progress corrects what Begin noted: only a visit with a request counts as progress. Otherwise an
// agent whose visits all end without a request would never be stalled.
func (p *Peer) progress(point uint64, requested bool) {
	switch l := p.holder.holdings[point]; {
	case !requested && p.spared != 0:
		p.barred = p.spared
	case requested && l != nil:
		if p.spared = 0; p.barred < l.begun {
			p.barred = 0
		}
	}
}

// Leave tells the Peer that no host here needs point any more.
func (p *Peer) Leave(point uint64, now time.Time) {
	p.tick(now)
	p.holder.leave(point, p.clock)
}

// Freed returns the points for which the result of Ready may have changed.
func (p *Peer) Freed() []uint64 {
	news := p.holder.news
	p.holder.news = nil
	return news
}

// Released returns the points whose leases were given back. The caller must close the connections that it keeps for
// them before it sends a call or an answer that the Peer has made.
func (p *Peer) Released() []uint64 {
	points := p.holder.released
	p.holder.released = nil
	return points
}

// Lost returns the points in use whose lease has ended. The caller must cut off their requests
// now. This happens if the agent has lost contact with the cluster, or with a grantor after a
// change of the view.
func (p *Peer) Lost(now time.Time) []uint64 {
	p.tick(now)
	return p.holder.lost(p.clock, p.grip())
}

// stalled reports whether leases have held back everything that this agent wants to begin. Then no
// page pays for calls. So all three agents involved (this one, the grantor and the holder) make at
// once the calls that end the stall: the asks, the recalls, the gives and the grants.
// An agent that will soon use one of its leases is not stalled. If all agents crawl the same hosts, leases always hold
// back some of them.
func (p *Peer) stalled() bool {
	return p.barred != 0 && p.clock-max(p.barred, p.holder.busyTill) > stallAfter
}

func (p *Peer) session(a AgentID) *session {
	s := p.sessions[a]
	if s == nil {
		s = &session{sentAt: -p.cfg.Every}
		p.sessions[a] = s
	}
	return s
}

// Calls returns the calls to make now. Call it every Config.Every.
func (p *Peer) Calls(now time.Time) []*Batch { return p.callsNow(now, false) }

// Hurry returns the Calls that cannot wait, because a stalled agent or an unconfirmed
// lease waits for them. Call it after each Serve and Answered, when Soon reports so, and at the time
// of Wake.
func (p *Peer) Hurry(now time.Time) []*Batch { return p.callsNow(now, true) }

// Soon reports, once, that Ready or Used has left something to do for Hurry.
func (p *Peer) Soon() (soon bool) {
	soon, p.soon = p.soon, false
	return soon
}

// Wake returns how long after now, the time of the last Calls or Hurry, Hurry must be called again.
// Zero means that the next Calls is soon enough.
func (p *Peer) Wake() time.Duration {
	if p.wake == 0 {
		return 0
	}
	return max(p.wake-p.clock, time.Millisecond)
}

func (p *Peer) callsNow(now time.Time, hurry bool) (calls []*Batch) {
	p.advance(now)
	if p.view == nil {
		return nil
	}
	if d := p.clock - p.paidAt; d >= trickle {
		p.paid = min(p.paid+float64(d)/float64(trickle), savings)
		p.paidAt = p.clock
	}
	p.grantor.reap(p.clock)
	p.holder.stalled = p.stalled()
	if p.holder.stalled && p.clock-p.urged >= stallEvery {
		p.urged = p.clock
		p.holder.urge()
	}
	if p.holder.full() && p.clock-p.roomAt >= roomEvery {
		p.roomAt = p.clock
		p.holder.sweep(p.clock)
	}
	if p.clock-p.swept >= sweepEvery {
		p.swept, p.roomAt = p.clock, p.clock
		p.holder.sweep(p.clock)
		p.grantor.sweep(p.clock)
		maps.DeleteFunc(p.sessions, func(a AgentID, s *session) bool {
			return !p.view.Has(a) && s.out == nil && p.clock-s.sentAt > p.cfg.Hold
		})
	}
	for _, s := range p.sessions {
		if s.out != nil && p.clock-s.sentAt >= p.cfg.Timeout {
			p.fail(s)
		}
	}
	p.wake = p.holder.turns(p.clock)
	if p.barred != 0 && !p.holder.stalled {
		p.wake = earlier(p.wake, max(p.barred, p.holder.busyTill)+stallAfter+1)
	}
	if calls = p.probe(); !p.grip() {
		return calls
	}
	p.grantor.pass(p.clock)
	if p.own(); p.survey() {
		p.own()
	}
	for _, a := range p.partners() {
		s := p.session(a)
		if s.out != nil || !p.view.Has(a) {
			continue
		}
		needed, free := p.pressing(a)
		if at := s.sentAt + p.holder.spacing(); p.cfg.Batch > 0 && p.clock < at && !p.unpaid(a) {
			if free {
				p.wake = earlier(p.wake, at)
			}
			continue
		}
		if at := s.sentAt + p.cfg.Every/5; free && p.clock < at {
			p.wake = earlier(p.wake, at)
			continue
		}
		if !free && (hurry || !needed || p.paid < 1 || p.clock-s.sentAt < p.cfg.Every) {
			continue
		}
		b := p.batch(a)
		p.holder.fill(a, b, p.clock)
		p.grantor.notice(a, b, p.clock)
		p.grantor.question(a, b, p.clock)
		if b.empty() {
			continue
		}
		p.paid = max(p.paid-1, 0)
		calls = append(calls, p.send(s, b))
	}
	return calls
}

// batch returns an empty call to an agent.
func (p *Peer) batch(a AgentID) *Batch {
	return &Batch{From: p.self, To: a, View: p.view.Digest(), Stamp: p.session(a).next(p.clock)}
}

func (p *Peer) send(s *session, b *Batch) *Batch {
	s.out, s.sentAt, s.round = b, p.clock, p.grantor.survey.round
	return b
}

// probe makes an empty call if the pings of the failure detector have given no contact for some
// time: packets may be lost, but the answer to a call gives contact, too.
func (p *Peer) probe() []*Batch {
	if p.clock-p.contact < p.cfg.Term/3 || p.clock-p.probed < probeEvery {
		return nil
	}
	var to AgentID // the agent called longest ago: any agent may be unreachable
	for _, a := range p.view.Agents() {
		if s := p.session(a); a != p.self && s.out == nil && (to == 0 || s.sentAt < p.session(to).sentAt) {
			to = a
		}
	}
	if to == 0 {
		return nil
	}
	p.probed = p.clock
	return []*Batch{p.send(p.session(to), p.batch(to))}
}

func (s *session) next(clock time.Duration) uint64 {
	s.stamp = max(s.stamp+1, uint64(clock))
	return s.stamp
}

// partners returns the agents for which there may be a message. The agent called longest ago comes
// first. Otherwise the calls that few pages pay for would always go to the same agents.
func (p *Peer) partners() (as []AgentID) {
	as = slices.AppendSeq(slices.Collect(maps.Keys(p.holder.queues)), maps.Keys(p.grantor.news))
	as = append(as, p.grantor.survey.open()...)
	slices.Sort(as)
	as = slices.Compact(as)
	slices.SortStableFunc(as, func(a, b AgentID) int { return cmp.Compare(p.session(a).sentAt, p.session(b).sentAt) })
	return slices.DeleteFunc(as, func(a AgentID) bool { return a == p.self })
}

// pressing reports whether a call to a is worth its cost, and whether it must be made at any cost.
func (p *Peer) pressing(a AgentID) (needed, free bool) {
	if d := p.holder.queues[a]; d != nil {
		needed = len(d.gives)+len(d.strays) >= p.cfg.Entries || len(d.wants) >= aheadAt && p.paid > prepaidCalls/4
		for _, l := range d.urgent {
			if l.queued == inUrgent {
				needed = true
				if l.state == orphaned || p.stalled() && (l.state != inLine || l.unheard || !l.urged) {
					return true, true
				}
			}
		}
		needed, free = needed || d.called || d.tell, d.stalled
	}
	news, stalled := p.grantor.hasNews(a)
	return needed || news, free || stalled || p.grantor.asks(a, p.clock)
}

// unpaid reports whether a call to a must be made although no page pays for it.
func (p *Peer) unpaid(a AgentID) bool {
	if d := p.holder.queues[a]; d != nil {
		for _, l := range d.urgent {
			if l.queued == inUrgent && l.state == orphaned {
				return true
			}
		}
	}
	return p.grantor.asks(a, p.clock)
}

// own passes the messages between this agent's own holder and grantor.
func (p *Peer) own() {
	for range 4 { // a returned point is asked for again, and granted
		said := false
		for _, fill := range []func(b *Batch){
			func(b *Batch) { p.grantor.notice(p.self, b, p.clock) },
			func(b *Batch) { p.holder.fill(p.self, b, p.clock) },
		} {
			b := p.batch(p.self)
			if fill(b); b.empty() {
				continue
			}
			said = true
			p.take(b, p.hear(b), p.clock+1, 0)
			p.grantor.pass(p.clock)
		}
		if !said {
			return
		}
	}
}

// hear processes the call b and returns the answer.
func (p *Peer) hear(b *Batch) *Batch {
	ans := &Batch{From: p.self, To: b.From, View: p.view.Digest(), Stamp: b.Stamp, Answer: true}
	for _, v := range b.Gives {
		p.grantor.give(b.From, v, p.clock)
	}
	// Agents that wait get the returned points before the caller asks again.
	p.grantor.pass(p.clock)
	for _, a := range b.Asks {
		v, granted, refused := p.grantor.ask(b.From, a, b.Stamp, p.clock)
		switch {
		case granted:
			ans.Grants = append(ans.Grants, v)
		case refused:
			ans.Refused = append(ans.Refused, a.Point)
		}
	}
	for _, v := range b.Grants {
		if back, refuse := p.holder.grant(b.From, v, p.clock); refuse {
			ans.Gives = append(ans.Gives, back)
		}
	}
	for _, v := range b.Recalls {
		if p.view.Owner(v.Point) != b.From {
			ans.Refused = append(ans.Refused, v.Point)
			continue
		}
		if back, give := p.holder.recall(b.From, v, p.clock); give {
			ans.Gives = append(ans.Gives, back)
		}
	}
	if b.Survey && b.View == ans.View && p.holder.clear(b.From, p.clock) {
		ans.Survey, ans.Lost = true, p.grantor.lostFor(p.clock)
	}
	return ans
}

// take processes the answer to the call b. A lease that the answer returns counts only if that
// agent has not asked since b was sent. If it has asked, it has the lease again.
func (p *Peer) take(b, ans *Batch, sent time.Duration, round int) {
	p.holder.answered(b, ans, p.clock)
	p.grantor.noticed(b.To, b, ans, p.clock)
	p.grantor.surveyed(b, ans, sent, round, p.clock)
	for _, v := range ans.Gives {
		if r := p.grantor.points[v.Point]; r != nil && r.heard < sent {
			p.grantor.give(b.To, v, p.clock)
		}
	}
}

// Serve answers a call. The caller must have verified b.From. The error is ErrNotForUs.
func (p *Peer) Serve(b *Batch, now time.Time) (*Batch, error) {
	p.advance(now)
	if b.To != p.self || b.From == p.self || b.From == 0 || b.Answer || len(b.Refused) > 0 || p.view == nil {
		return nil, fmt.Errorf("call of %x: %w", uint64(b.From), ErrNotForUs)
	}
	if !p.grip() && !b.empty() || !p.view.Has(b.From) {
		return nil, fmt.Errorf("call of %x, while it or we are not in the view: %w", uint64(b.From), ErrNotForUs)
	}
	s := p.session(b.From)
	if b.Stamp <= s.heard {
		return nil, fmt.Errorf("call %d of %x after %d: %w", b.Stamp, uint64(b.From), s.heard, ErrNotForUs)
	}
	s.heard, s.served = b.Stamp, p.clock
	return p.hear(b), nil
}

// Answered processes the answer to a call. It ignores an answer that no call waits for.
func (p *Peer) Answered(ans *Batch, now time.Time) error {
	p.tick(now)
	if ans.To != p.self || !ans.Answer || len(ans.Asks)+len(ans.Recalls) > 0 {
		return fmt.Errorf("answer of %x: %w", uint64(ans.From), ErrNotForUs)
	}
	s := p.sessions[ans.From]
	if s == nil || s.out == nil || s.out.Stamp != ans.Stamp || p.view == nil {
		return nil
	}
	b := s.out
	s.out = nil
	if ans.View == p.view.Digest() {
		p.met(s.sentAt)
	}
	if p.clock-s.sentAt >= p.cfg.Timeout || !p.grip() {
		p.holder.failed(b)
		return nil
	}
	p.take(b, ans, s.sentAt, s.round)
	return nil
}

// Failed tells the Peer that a call will have no answer.
func (p *Peer) Failed(b *Batch, now time.Time) {
	p.tick(now)
	if s := p.sessions[b.To]; s != nil && s.out == b {
		p.fail(s)
	}
}

func (p *Peer) fail(s *session) {
	b := s.out
	s.out = nil
	p.holder.failed(b)
}
