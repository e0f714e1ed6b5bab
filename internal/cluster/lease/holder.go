package lease

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// A holder is the side of a Peer that has leases. Times are on the Peer's clock.
type holder struct {
	cfg      *Config
	self     AgentID
	view     View
	holdings map[uint64]*holding
	queues   map[AgentID]*grantorQueue
	called   map[uint64]struct{} // held, and other agents wait
	using    map[uint64]struct{}
	news     []uint64 // granted or refused, for the caller
	// released are points that were given back, for the caller.
	released []uint64
	idle     time.Duration // how long a recalled point may stay unused

	busyTill time.Duration // until then a point with a lease has its next use

	stalled bool // see Peer.stalled
}

type lotState uint8

const (
	without  lotState = iota
	asked             // in a call whose answer is awaited
	inLine            // the grantor has the ask
	held              //
	orphaned          // held, but the view has another grantor now
)

// A holding is a point that this agent has or wants.
type holding struct {
	point   uint64
	grantor AgentID
	serial  uint64
	back    uint64        // the serial of a lease to return; 0: none
	backEnd time.Duration // when that lease ends by itself
	stamp   uint64        // of the first ask since it last had no lease
	askedAt time.Duration // time of the last ask
	since   time.Duration // when it was granted
	begun   time.Duration // when the last visit began
	end     time.Duration // end of the lease; if orphaned, of the time to confirm it
	free    time.Duration // when the delay ends
	turn    time.Duration // end of our turn; 0: no agent waits
	quiet   time.Duration
	seen    time.Duration // when a host last wanted it
	state   lotState
	urgent  bool          // a host waits for it
	early   uint64        // a serial that was recalled before its grant arrived
	unheard bool          // the ask may not have arrived, and must be repeated
	called  bool          // it is or was recalled: returning it is worth a call
	stalled bool          // likewise, for a stalled agent
	urged   bool          // the last ask said that we are stalled
	ready   time.Duration // when a host could first use it, since the grant or the last use; 0: none could yet
	fresh   bool          // not used since it was granted
	using   bool
	queued  queue
	count   int           // requests begun since it was granted
	due     time.Duration // when a host will use it again; 0: unknown
	tell    bool          // the grantor must hear of the notes
	notes   notes
	cold    time.Duration // until then agents may have used it whose notes are lost; 0: none
}

// A queue names the list of its grantorQueue that a holding is in. The holding may also remain in other
// lists, which skip it.
type queue uint8

const (
	inNone queue = iota
	inWants
	inUrgent
)

// A grantorQueue queues the messages that wait for one grantor.
type grantorQueue struct {
	urgent []*holding
	wants  []*holding
	gives  []*holding
	called bool // an agent waits for one of gives or strays
	// stalled reports that such an agent is stalled.
	stalled bool
	tell    bool   // the grantor must hear of the notes of one of wants
	strays  []Give // leases that the holder never knew it had
}

func newHolder(cfg *Config, self AgentID) *holder {
	return &holder{
		cfg: cfg, self: self, idle: idleAfter,
		holdings: make(map[uint64]*holding), queues: make(map[AgentID]*grantorQueue),
		called: make(map[uint64]struct{}), using: make(map[uint64]struct{}),
	}
}

func (h *holder) queueFor(a AgentID) *grantorQueue {
	d := h.queues[a]
	if d == nil {
		d = &grantorQueue{}
		h.queues[a] = d
	}
	return d
}

// holding returns the entry of a point, and makes it if necessary. nil means that there is no room.
func (h *holder) holding(point uint64) *holding {
	l := h.holdings[point]
	if l == nil && len(h.holdings) < h.cfg.Points {
		l = &holding{point: point}
		h.holdings[point] = l
	}
	return l
}

// look begins a view. A held lease whose grantor has changed must be confirmed by the new grantor.
func (h *holder) look(v View, clock time.Duration) {
	h.view = v
	before := h.queues
	h.queues = make(map[AgentID]*grantorQueue)
	for a, d := range before {
		if len(d.strays) > 0 && v.Has(a) {
			h.queueFor(a).strays = d.strays
		}
	}
	for _, l := range h.sortedHoldings() {
		was := l.queued
		l.queued = inNone
		owner := v.Owner(l.point)
		if owner != l.grantor && l.grantor != 0 {
			switch l.state {
			case held:
				l.state = orphaned
				l.end = min(l.end, clock+shorter(h.cfg.Term))
				l.turn = 0
				delete(h.called, l.point)
			case asked, inLine:
				l.state = without
			}
			l.back = 0 // that grantor no longer takes it
			l.grantor = owner
		}
		if l.back != 0 {
			h.putGive(l)
		}
		switch {
		case l.state == orphaned, l.state == without && l.urgent, l.state == inLine && was == inUrgent:
			h.putUrgent(l) // in the last case the grantor may not have heard of it
		case l.state == inLine: // a grantor whose view lacked this agent may have forgotten the ask
			l.askedAt = min(l.askedAt, clock+lineSoon-lineAgain)
		case was == inWants:
			h.putWant(l)
		}
	}
}

func (h *holder) sortedHoldings() []*holding {
	ls := slices.Collect(maps.Values(h.holdings))
	slices.SortFunc(ls, func(a, b *holding) int {
		return cmp.Or(cmp.Compare(a.seen, b.seen), cmp.Compare(a.point, b.point))
	})
	return ls
}

func (h *holder) putUrgent(l *holding) {
	if l.queued != inUrgent {
		l.queued = inUrgent
		d := h.queueFor(h.owner(l))
		d.urgent = append(d.urgent, l)
	}
}

func (h *holder) putWant(l *holding) {
	if l.queued == inNone {
		l.queued = inWants
		d := h.queueFor(h.owner(l))
		d.wants = append(d.wants, l)
	}
}

func (h *holder) putGive(l *holding) {
	d := h.queueFor(l.grantor)
	d.gives = append(d.gives, l)
	d.called = d.called || l.called
	d.stalled = d.stalled || l.stalled
}

// owner returns the grantor of l. It is looked up in the view when it is first needed.
func (h *holder) owner(l *holding) AgentID {
	if l.grantor == 0 {
		l.grantor = h.view.Owner(l.point)
	}
	return l.grantor
}

// lapse ends all leases, because other agents may have been granted the points.
func (h *holder) lapse(clock time.Duration) {
	for _, l := range h.sortedHoldings() {
		if l.state == held || l.state == orphaned {
			l.end = clock
		}
		// A new ask has a new stamp: a grant for the old one may be another agent's by now.
		l.drop()
		l.back, l.turn, l.askedAt = 0, 0, 0
		l.notes, l.tell = nil, false
		if l.urgent {
			h.putUrgent(l)
		}
	}
	clear(h.called)
	for _, d := range h.queues {
		d.gives = nil
	}
}

func (h *holder) want(point uint64, quiet, clock time.Duration) {
	l := h.holding(point)
	if l == nil {
		return
	}
	l.seen, l.quiet = clock, max(l.quiet, quiet)
	if l.state == without {
		h.putWant(l)
	}
}

// ready reports whether a request may begin at a point. If not, at is the time to ask again. Zero
// means that it is unknown; news will have the point. ready asks for the lease if necessary.
func (h *holder) ready(point uint64, quiet, clock time.Duration) (ok bool, at time.Duration) {
	l := h.holding(point)
	if l == nil {
		return false, clock + askAgain
	}
	l.seen, l.quiet = clock, max(l.quiet, quiet)
	if h.may(l, clock) {
		if l.free <= clock && l.ready == 0 {
			l.ready = clock
		}
		return l.free <= clock, l.free
	}
	l.urgent = true
	switch l.state {
	case without:
		if l.askedAt == 0 || clock >= l.askedAt+askAgain {
			h.putUrgent(l)
			return false, 0
		}
		return false, l.askedAt + askAgain
	case inLine:
		if l.queued == inWants || clock >= l.askedAt+lineAgain {
			h.putUrgent(l)
		}
	case held:
		if clock >= l.end {
			l.drop()
			h.putUrgent(l)
		}
	}
	return false, 0
}

// may reports whether l is held, not in use, and our turn is not over.
func (h *holder) may(l *holding, clock time.Duration) bool {
	return l.state == held && clock < l.end && !l.using && (l.turn == 0 || clock < l.turn && !h.spent(l))
}

func (h *holder) begin(point uint64, clock time.Duration) {
	l := h.holdings[point]
	l.begun = clock
	l.using, l.urgent, l.fresh, l.ready, l.due = true, false, false, 0, 0
	l.count++
	h.using[point] = struct{}{}
}

func (h *holder) used(point uint64, free, quiet, clock time.Duration) {
	l := h.holdings[point]
	if l == nil || !l.using {
		return
	}
	l.using = false
	delete(h.using, point)
	l.free, l.seen, l.quiet = max(l.free, free), clock, max(l.quiet, quiet)
	if l.state == orphaned && clock >= l.end {
		l.drop()
	}
	h.yield(l, clock)
}

// leave notes that no host here wants the point.
func (h *holder) leave(point uint64, clock time.Duration) {
	if l := h.holdings[point]; l != nil && !l.using {
		if l.urgent = false; l.queued == inWants {
			l.queued = inNone
		}
		if l.state == held && (l.turn != 0 || l.notes.end(clock) <= clock) {
			h.handBack(l) // otherwise the notes are safest here
		}
	}
}

func (h *holder) handBack(l *holding) {
	h.released = append(h.released, l.point)
	l.state, l.turn = without, 0
	l.back, l.backEnd = l.serial, l.end
	l.askedAt = 0
	delete(h.called, l.point)
	h.putGive(l)
	if l.urgent {
		h.putUrgent(l)
	}
}

// lost returns the points in use whose lease has ended.
func (h *holder) lost(clock time.Duration, grip bool) (points []uint64) {
	for point := range h.using {
		l := h.holdings[point]
		if !grip || l.state != held && l.state != orphaned || clock >= l.end {
			points = append(points, point)
		}
	}
	slices.Sort(points)
	return points
}

// fill puts into b everything that waits for a grantor, urgent asks before others.
func (h *holder) fill(a AgentID, b *Batch, clock time.Duration) {
	d := h.queues[a]
	if d == nil {
		return
	}
	for _, v := range d.strays {
		// A later ask may have brought the same lease again. Then it is kept.
		if l := h.holdings[v.Point]; l == nil || l.state != held || l.serial != v.Serial {
			b.Gives = append(b.Gives, v)
		}
	}
	d.strays = nil
	n := 0
	for _, l := range d.gives {
		if n++; len(b.Gives) >= h.cfg.Entries {
			n--
			break
		}
		if l.back != 0 {
			b.Gives = append(b.Gives, h.asGive(l, clock))
		}
	}
	d.tell = false
	if d.gives = slices.Delete(d.gives, 0, n); len(d.gives) == 0 {
		d.called, d.stalled = false, false
	}
	d.urgent = h.fillAsks(b, d.urgent, inUrgent, clock)
	d.wants = h.fillAsks(b, d.wants, inWants, clock)
}

func (h *holder) asGive(l *holding, clock time.Duration) Give {
	return Give{l.point, l.back, max(l.free-clock, 0), l.notesOf(l.back, clock)}
}

// notesOf returns the notes for the return of the lease with a serial. A lease that never arrived has no notes here:
// the grantor has them.
func (l *holding) notesOf(serial uint64, clock time.Duration) []Note {
	if l.serial != serial {
		return nil
	}
	return l.notes.asNotes(clock)
}

func (h *holder) fillAsks(b *Batch, ls []*holding, in queue, clock time.Duration) []*holding {
	for i, l := range ls {
		if len(b.Asks) >= h.cfg.Entries || len(b.Gives) >= maxItems {
			return ls[i:]
		}
		if l.queued != in {
			continue
		}
		l.queued, l.unheard = inNone, false
		if l.state == orphaned && clock >= l.end {
			l.drop()
		}
		if l.state == asked || l.state == without && in == inUrgent && !l.urgent {
			continue
		}
		if l.back != 0 && !slices.ContainsFunc(b.Gives, func(g Give) bool { return g.Point == l.point }) {
			b.Gives = append(b.Gives, h.asGive(l, clock))
		}
		a := Ask{
			Point: l.point, Quiet: l.quiet, Rest: max(l.free-clock, 0),
			Urgent: l.urgent, Holding: l.state == orphaned, Stalled: l.urgent && h.stalled,
		}
		l.urged = a.Stalled
		if l.state == held {
			a.Serial = l.serial
		}
		if l.state == held && l.tell || l.state == orphaned {
			a.Notes = l.notes.asNotes(clock)
			l.tell = false
		}
		b.Asks = append(b.Asks, a)
		l.askedAt = clock
		if l.state != held {
			// With this ask the grantor learns that we do not have the lease. A grant for an
			// earlier ask that is still on its way may then belong to another agent.
			l.stamp = b.Stamp
		}
		if l.state == without || l.state == inLine {
			l.state = asked
		}
	}
	return nil
}

// grant takes a lease. If the holder cannot use it, it returns it.
func (h *holder) grant(from AgentID, v Grant, clock time.Duration) (back Give, refuse bool) {
	if h.view.Owner(v.Point) != from {
		// Another grantor may have confirmed this lease since. The old grantor does not know that
		// yet, and would grant a returned point to another agent.
		return Give{}, false
	}
	l := h.holdings[v.Point]
	if l == nil {
		return Give{v.Point, v.Serial, 0, v.Notes}, true
	}
	current := l.grantor == from
	end := min(time.Duration(min(v.Stamp, uint64(clock))), clock) + shorter(v.Held+v.Term)
	switch {
	case current && l.state == held && l.serial == v.Serial:
		l.end = max(l.end, end)
	case current && l.state != without && l.state != held && v.Stamp >= l.stamp && l.back != v.Serial && clock < end:
		if l.state != orphaned { // a claim keeps its notes
			ns, free := received(v.Notes, clock)
			l.notes, l.free = ns, max(l.free, free)
			l.count, l.due, l.tell, l.cold = 0, 0, false, 0
			if v.Cold {
				l.cold = max(clock-v.Since, 1)
			}
		}
		l.state, l.serial, l.since, l.end, l.turn = held, v.Serial, clock, end, 0
		l.free = max(l.free, clock+longer(v.Rest))
		l.called, l.stalled, l.fresh, l.ready = false, false, true, 0
		h.news = append(h.news, l.point)
	case current && l.state == orphaned:
		// We claim this lease from the new grantor, so it must not be returned.
		return Give{}, false
	default:
		if l.back == v.Serial && l.urgent && (l.state == asked || l.state == inLine) {
			l.state = without // this lease was granted, and is already being returned
			h.putUrgent(l)
		}
		return Give{v.Point, v.Serial, max(l.free-clock, 0), v.Notes}, l.state != held || l.serial != v.Serial
	}
	if v.Shared || l.early == v.Serial {
		h.share(l, v.Stalled)
	}
	return Give{}, false
}

// recall notes that other agents wait for a point that from grants. It may return the point at
// once.
func (h *holder) recall(from AgentID, v Recall, clock time.Duration) (back Give, give bool) {
	l := h.holdings[v.Point]
	switch {
	case l == nil:
		return Give{v.Point, v.Serial, 0, nil}, true
	case l.grantor == from && l.state == held && l.serial == v.Serial:
		if h.share(l, v.Stalled); !h.yield(l, clock) {
			return Give{}, false
		}
	case l.state == orphaned:
		l.early = v.Serial // the recall may come before the answer to the claim
		return Give{}, false
	case l.state == asked || l.state == inLine:
		// Its grant may be on its way, and can no longer be used.
		l.back, l.backEnd = v.Serial, clock+h.cfg.Hold
	}
	return Give{v.Point, v.Serial, max(l.free-clock, 0), l.notesOf(v.Serial, clock)}, true
}

// answered processes a grantor's answer to b.
func (h *holder) answered(b, ans *Batch, clock time.Duration) {
	for _, v := range b.Gives {
		if l := h.holdings[v.Point]; l != nil && l.back == v.Serial && l.grantor == b.To {
			l.back = 0
		}
	}
	for _, v := range ans.Grants {
		if back, refuse := h.grant(b.To, v, clock); refuse {
			d := h.queueFor(b.To)
			d.strays = append(d.strays, back)
			d.called, d.stalled = d.called || v.Shared, d.stalled || v.Stalled
		}
	}
	for _, point := range ans.Refused {
		switch l := h.holdings[point]; {
		case l == nil || l.grantor != b.To:
		case l.state == orphaned && ans.View != b.View:
			h.putUrgent(l) // the grantor, or this agent, does not have the other's view yet
		case l.state == asked, l.state == orphaned:
			l.state = without
			h.news = append(h.news, l.point)
		}
	}
	for _, a := range b.Asks {
		if l := h.holdings[a.Point]; l != nil && l.state == asked && l.grantor == b.To {
			if l.state = without; a.Urgent {
				l.state = inLine
			}
		}
	}
}

// failed queues the content of b again, because the grantor may not have received it.
func (h *holder) failed(b *Batch) {
	for _, v := range b.Gives {
		if l := h.holdings[v.Point]; l != nil && l.back == v.Serial && l.grantor == b.To {
			h.putGive(l)
		} else if l == nil {
			d := h.queueFor(b.To)
			d.strays = append(d.strays, v)
		}
	}
	for _, a := range b.Asks {
		l := h.holdings[a.Point]
		if l == nil || l.grantor != b.To {
			continue
		}
		if h.retell(l, &a); l.queued != inNone {
			continue
		}
		switch l.state {
		case asked:
			// Its stamp stays, because the lease may have been granted.
			l.unheard = true
			if l.state = inLine; a.Urgent {
				h.putUrgent(l)
			} else {
				h.putWant(l)
			}
		case orphaned:
			h.putUrgent(l)
		case held:
			h.putWant(l)
		}
	}
}

// urge repeats the asks that hosts wait for, now as a stalled agent.
func (h *holder) urge() {
	for _, l := range h.sortedHoldings() {
		if l.urgent && l.state == inLine && !l.urged {
			h.putUrgent(l)
		}
	}
}

// full reports whether there is little room for more points.
func (h *holder) full() bool { return len(h.holdings) > h.cfg.Points*7/8 }

// sweep asks for more time on leases that are still wanted, and forgets points that no host has
// wanted for long. If there is little room, it also returns the leases that were wanted longest
// ago.
func (h *holder) sweep(clock time.Duration) {
	over := 0
	if h.full() {
		over = len(h.holdings) - h.cfg.Points*3/4
	}
	for _, l := range h.sortedHoldings() {
		if l.back != 0 && clock >= l.backEnd {
			l.back = 0
		}
		if (l.state == held || l.state == orphaned) && clock >= l.end && !l.using {
			l.drop()
			l.turn = 0
			delete(h.called, l.point)
		}
		switch {
		case l.using || l.queued != inNone || l.state == asked:
		case l.state == held && over > 0:
			h.handBack(l)
			over--
		case l.state == held && l.turn == 0 && l.end-clock < h.cfg.Hold/4 &&
			(l.seen > l.since || l.notes.end(clock) > clock):
			h.putWant(l)
		case (l.state == without || l.state == inLine && clock-l.seen > h.cfg.Hold) && l.back == 0 &&
			l.free <= clock && (over > 0 || clock-l.seen > h.cfg.Term):
			delete(h.holdings, l.point)
			over--
		}
	}
}
