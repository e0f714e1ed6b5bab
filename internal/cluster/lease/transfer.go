package lease

import (
	"slices"
	"time"
)

// An agent that leaves in an orderly way does not make the others wait:
//
//	Retire -> the agent grants nothing more, and sends a Transfer to each next grantor
//	Quit   -> it also returns all leases that it holds
//	Told   -> it may leave the view
//	Stay   -> it stays after all, and grants again

// A Transfer tells the next grantor the state of points. The sender has retired: it grants nothing
// any more.
type Transfer struct {
	// View is the digest of the sender's view.
	View uint64
	// Total is the number of points in all Transfers from this sender to this receiver. Every other
	// point has no holder, and its delay has ended.
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

// A pendingTransfer has the points that this agent must still send to one grantor.
type pendingTransfer struct {
	total int
	left  []uint64 // points
}

// A receivedTransfer is what a retiring agent has sent so far.
type receivedTransfer struct {
	heard  time.Duration
	total  int
	points map[uint64]pointLease
}

type pointLease struct {
	holder      Agent
	free, quiet time.Duration
}

// prepareTransfers collects the points to send to each next grantor. It sends nothing if this agent
// became a grantor so recently that it may not know all earlier leases.
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

// transfer puts the pending points for a into b, or as many of them as fit.
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

// transferred notes that a has received b.
func (g *grantor) transferred(a Agent, b *Batch) {
	if l := g.pending[a]; l != nil && b.Transfer != nil {
		if l.left = l.left[len(b.Transfer.Points):]; len(l.left) == 0 {
			delete(g.pending, a)
		}
	}
}

// receiveTransfer stores what a retiring agent has sent. adopt uses it only if the next view is
// without that agent and begins within Term. Until then that agent does not grant again, even if it
// cancels its retirement.
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

// adopt takes over the points of the agents that have left in the new view and had transferred all
// their points. It returns these agents. Older knowledge of the points is discarded, because these
// agents have granted them since.
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
				// The holder must confirm the lease, as it would without a transfer. It then gets a
				// serial of this grantor. Until then the serial is 0.
				r.holder, r.serial = e.holder, 0
				r.since, r.until = clock-1, clock+g.cfg.grace()
				r.told, r.called = true, false
				delete(g.due, point)
			}
		}
	}
	return left
}

// quit returns all leases that are not in use, and drops all asks.
func (h *holder) quit() {
	h.quitting = true
	for _, l := range h.sortedLots() {
		l.urgent, l.queued = false, inNone
		if l.state == held && !l.using {
			h.handBack(l)
		}
	}
}

// giveOwn returns the unused leases that this agent has granted to itself. The next grantors could
// not confirm them in time if this agent leaves before they have the new view.
func (h *holder) giveOwn() {
	for _, l := range h.sortedLots() {
		if l.state == held && !l.using && l.grantor == h.self {
			h.handBack(l)
		}
	}
}

// mustGive reports whether this agent must still return a lease to an agent in the view.
func (h *holder) mustGive() bool {
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

// Quit tells the Peer that this agent begins no more requests. The Peer retires and returns all its
// leases. It returns a lease in use when the request has ended.
func (p *Peer) Quit(now time.Time) {
	p.tick(now)
	retired := p.grantor.retired
	p.grantor.retired = true // so that a returned point is not granted again
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
	return len(p.grantor.pending) == 0 && !(p.holder.quitting && p.holder.mustGive())
}

// parting reports whether this agent must still send something to a before it leaves.
func (p *Peer) parting(a Agent) bool {
	if p.grantor.pending[a] != nil {
		return true
	}
	d := p.holder.queues[a]
	return p.holder.quitting && d != nil && len(d.gives)+len(d.strays) > 0
}
