package lease

import (
	"slices"
	"time"
)

// An agent that goes in good order leaves nothing for others to wait for:
//
//	Retire -> grants nothing more -> a Transfer to each agent that will grant its points
//	Quit   -> that, and Gives of all that it holds
//	Told   -> the view may go on without it
//	Stay   -> or it grants again after all

// A Transfer tells the next grantor of points the state of these points. The sender retires and
// grants nothing any more.
type Transfer struct {
	// View is the digest of the sender's last view as grantor.
	View uint64
	// Total is the number of points in this Batch and others. No agent has the lease of any
	// other point, and the delay of those points is over.
	Total  int
	Points []PointState
}

// A PointState is the state of a point at its grantor.
type PointState struct {
	Point  uint64
	Holder Agent         // 0: none
	Quiet  time.Duration // the longest delay of all asks
	Rest   time.Duration // the rest of the delay
}

// A pendingTransfer is what one agent is yet to be told.
type pendingTransfer struct {
	total int
	left  []uint64 // points
}

// A receivedTransfer is what an agent has told so far.
type receivedTransfer struct {
	heard  time.Duration
	total  int
	points map[uint64]pointLease
}

type pointLease struct {
	holder      Agent
	free, quiet time.Duration
}

// prepareTransfers makes out what others are to be told. Who does not know yet what was
// granted before it says nothing.
func (g *grantor) prepareTransfers(clock time.Duration) {
	if g.view == nil {
		return
	}
	for _, c := range g.changes {
		if clock < c.at+g.cfg.grace() {
			return
		}
	}
	g.pending = make(map[Agent]*pendingTransfer)
	for _, a := range g.view.Grantors() {
		if a != g.self {
			g.pending[a] = &pendingTransfer{}
		}
	}
	for point, r := range g.points {
		g.expire(point, r, clock)
		if g.view.Owner(point) != g.self || r.holder == 0 && r.free <= clock {
			continue
		}
		if l := g.pending[g.view.Heir(point)]; l != nil {
			l.left = append(l.left, point)
		}
	}
	for _, l := range g.pending {
		slices.Sort(l.left)
		l.total = len(l.left)
	}
}

// transfer puts into b what its receiver is yet to be told, or a part of it.
func (g *grantor) transfer(a Agent, b *Batch, clock time.Duration) {
	l := g.pending[a]
	if l == nil {
		return
	}
	b.Transfer = &Transfer{View: g.view.Digest(), Total: l.total}
	for _, point := range l.left[:min(len(l.left), maxItems)] {
		q := PointState{Point: point}
		if r := g.points[point]; r != nil {
			q.Holder, q.Quiet, q.Rest = r.holder, r.quiet, max(r.free-clock, 0)
		}
		b.Transfer.Points = append(b.Transfer.Points, q)
	}
}

// transferred says that its receiver has heard b.
func (g *grantor) transferred(a Agent, b *Batch) {
	if l := g.pending[a]; l != nil && b.Transfer != nil {
		if l.left = l.left[len(b.Transfer.Points):]; len(l.left) == 0 {
			delete(g.pending, a)
		}
	}
}

// receiveTransfer takes in what an agent that goes has told. It is of use only if the next
// view is the first one without it, and comes within Term: until then the agent
// does not grant again, if it stays after all.
func (g *grantor) receiveTransfer(from Agent, w *Transfer, clock time.Duration) {
	if g.view == nil || w.View != g.view.Digest() || w.Total > 2*g.cfg.Points {
		delete(g.transfers, from)
		return
	}
	t := g.transfers[from]
	if t == nil || t.total != w.Total {
		t = &receivedTransfer{heard: clock, total: w.Total, points: make(map[uint64]pointLease)}
		g.transfers[from] = t
	}
	for _, q := range w.Points {
		t.points[q.Point] = pointLease{q.Holder, clock + longer(q.Rest), min(q.Quiet, g.cfg.Hold)}
	}
	if len(t.points) > t.total {
		delete(g.transfers, from)
	}
}

// adopt takes over, in the view that has just begun, the points of agents that
// have told all of them, and returns these agents. What was known of the points
// here is from before those agents granted them.
func (g *grantor) adopt(was View, clock time.Duration) map[Agent]struct{} {
	transfers := g.transfers
	g.transfers = make(map[Agent]*receivedTransfer)
	if was == nil || len(transfers) == 0 {
		return nil
	}
	left := make(map[Agent]struct{})
	grants := g.view.Grantors()
	room := 2*g.cfg.Points - len(g.points)
	for a, t := range transfers {
		room -= len(t.points)
		if len(t.points) == t.total && room >= 0 && clock < t.heard+shorter(g.cfg.Term) && !slices.Contains(grants, a) {
			left[a] = struct{}{}
		}
	}
	for point, r := range g.points {
		if _, ok := left[was.Owner(point)]; ok && r.holder != 0 && was.Heir(point) == g.self {
			g.release(point, r, 0)
		}
	}
	for a := range left {
		for point, e := range transfers[a].points {
			if was.Owner(point) != a || was.Heir(point) != g.self || !g.mine(point) {
				continue
			}
			r := g.points[point]
			if r == nil {
				r = &record{}
				g.points[point] = r
			}
			r.quiet, r.free = max(r.quiet, e.quiet), max(r.free, e.free)
			if e.holder != 0 {
				// It is to confirm that, as it would have to without a transfer, and
				// gets a serial of ours then: until it does, 0.
				r.holder, r.serial = e.holder, 0
				r.since, r.until = clock-1, clock+g.cfg.grace()
				r.told, r.called = true, false
				delete(g.due, point)
			}
		}
	}
	return left
}

// quit gives back what is held and not in use, and asks for nothing more.
func (h *holder) quit() {
	h.quitting = true
	for _, l := range h.sortedLots() {
		l.urgent, l.queued = false, inNone
		if l.state == held && !l.using {
			h.handBack(l)
		}
	}
}

// giveOwn gives back what we have granted ourselves and do not use: nobody could
// confirm it in time, if we go before our heirs follow the view.
func (h *holder) giveOwn() {
	for _, l := range h.sortedLots() {
		if l.state == held && !l.using && l.grantor == h.self {
			h.handBack(l)
		}
	}
}

// owes says whether there is something to give back to an agent that is there.
func (h *holder) owes() bool {
	for _, l := range h.lots {
		if l.back != 0 && l.grantor != h.self && h.view.Has(l.grantor) {
			return true
		}
	}
	return false
}

// Retire starts an orderly end of this agent. From now on it grants nothing, and sends Transfers
// to the next grantors. It keeps its own leases until Quit.
func (p *Peer) Retire(now time.Time) {
	p.tick(now)
	if p.grantor.retired {
		return
	}
	p.grantor.retired = true
	p.holder.giveOwn()
	if p.grip() {
		p.own()
		p.grantor.prepareTransfers(p.clock)
	}
}

// Stay cancels Retire. Other agents may already grant this agent's points, so the Peer starts
// without knowledge of them.
func (p *Peer) Stay(now time.Time) {
	p.tick(now)
	if p.grantor.retired && !p.holder.quitting {
		p.grantor.retired, p.grantor.pending = false, nil
		p.grantor.doubt(p.clock)
	}
}

// Quit tells the Peer that this agent begins no more requests. The Peer retires and returns all
// its leases, those in use when their requests have ended.
func (p *Peer) Quit(now time.Time) {
	p.tick(now)
	retired := p.grantor.retired
	p.grantor.retired = true // what is given back goes to nobody
	p.holder.quit()
	if p.grip() {
		if p.own(); !retired {
			p.grantor.prepareTransfers(p.clock)
		}
	}
}

// Told reports, after Retire or Quit, that the Peer has nothing more to send: the agent may leave
// the view.
func (p *Peer) Told(now time.Time) bool {
	p.tick(now)
	if !p.grip() {
		return true
	}
	for _, s := range p.sessions {
		if s.out != nil && (s.out.Transfer != nil || len(s.out.Gives) > 0) {
			return false
		}
	}
	return len(p.grantor.pending) == 0 && !(p.holder.quitting && p.holder.owes())
}

// parting says whether there is something to say to a before we go.
func (p *Peer) parting(a Agent) bool {
	if p.grantor.pending[a] != nil {
		return true
	}
	d := p.holder.queues[a]
	return p.holder.quitting && d != nil && len(d.gives)+len(d.strays) > 0
}
