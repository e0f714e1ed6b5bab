package lease

import "time"

// A Note is what the next holder of a point must know of one host there, or of the robots.txt of one origin. Notes
// travel with the lease of the point. The holder makes them (Peer.Keep) and the next holder reads them (Peer.Kept).
type Note struct {
	Key   uint64        // of the host or the origin; the package only compares it
	Rest  time.Duration // no request may begin before
	Delay time.Duration // the host's own delay
	Slow  uint8         // pauses that are not yet forgiven
	Pause time.Duration // the end of the last pause; negative: it ended that long ago
	Print uint64        // of what the robots.txt says; 0: none
}

// maxNotes bounds the notes of a point.
const maxNotes = 16

// noteLife is how long a grantor keeps notes of a point that nobody holds, after the last of their times.
const noteLife = time.Hour

// A note is a Note with times of the Peer's clock.
type note struct {
	Note
	free, paused time.Duration
	came         bool // it came with the lease, and the caller has not read it yet
}

// noteAt converts a Note that was made at clock.
func noteAt(n Note, clock time.Duration) note {
	v := note{Note: n, free: clock + max(n.Rest, 0), paused: clock + n.Pause}
	if n.Slow == 0 && n.Pause <= 0 {
		v.paused = 0
	}
	return v
}

// at returns n's Note as of clock.
func (n *note) at(clock time.Duration) Note {
	v := n.Note
	v.Rest, v.Pause = max(n.free-clock, 0), 0
	if n.paused != 0 {
		v.Pause = n.paused - clock
	}
	return v
}

// matters reports whether n has more to say than a delay that is over soon: it is worth a message.
func (n *note) matters(clock time.Duration) bool {
	return n.Slow > 0 || n.Print != 0 || n.Delay > 0 || n.paused > clock
}

// notes are the notes of a point, the oldest first.
type notes []note

func (ns notes) find(key uint64) *note {
	for i := range ns {
		if ns[i].Key == key {
			return &ns[i]
		}
	}
	return nil
}

// put adds v in place of the note with its key. If there are too many notes, it drops one: first one whose times are
// over, then the one that is free first. free is the time until which the point must rest in its place.
func (ns *notes) put(v note, clock time.Duration) (free time.Duration) {
	if n := ns.find(v.Key); n != nil {
		*n = v
		return 0
	}
	if *ns = append(*ns, v); len(*ns) <= maxNotes {
		return 0
	}
	least := 0
	for i := range *ns {
		if rank := (*ns)[i].rank(clock); rank < (*ns)[least].rank(clock) {
			least = i
		}
	}
	free = (*ns)[least].free
	*ns = append((*ns)[:least], (*ns)[least+1:]...)
	return free
}

// rank orders the notes by how much would be lost without them.
func (n *note) rank(clock time.Duration) time.Duration {
	r := max(n.free-clock, 0)
	if n.Slow > 0 {
		r += time.Second
	}
	if n.Print != 0 {
		r += time.Second
	}
	return r
}

// asNotes returns the Notes to send at clock. Those without anything to say are left out.
func (ns notes) asNotes(clock time.Duration) (out []Note) {
	for i := range ns {
		if n := &ns[i]; n.free > clock || n.matters(clock) {
			out = append(out, n.at(clock))
		}
	}
	return out
}

// received converts Notes from another agent. Its waits are made longer, because clocks differ in speed.
func received(in []Note, clock time.Duration) (ns notes, free time.Duration) {
	for _, n := range in {
		n.Rest = longer(n.Rest)
		if n.Pause > 0 {
			n.Pause = longer(n.Pause)
		}
		v := noteAt(n, clock)
		v.came = true
		free = max(free, ns.put(v, clock))
	}
	return ns, free
}

// end returns when the last of the notes is no longer needed: when a host may be asked again, or noteLife after a
// pause.
// A note of a robots.txt is needed for noteLife from clock on.
func (ns notes) end(clock time.Duration) (end time.Duration) {
	for i := range ns {
		n := &ns[i]
		end = max(end, n.free)
		if n.Slow > 0 || n.paused > clock {
			end = max(end, n.paused+noteLife)
		}
	}
	return end
}

// expect notes when a host here will use a point again; 0: none will.
func (h *holder) expect(point uint64, due, clock time.Duration) {
	l := h.holdings[point]
	if l == nil {
		return
	}
	if l.due = min(due, clock+dueMost); due > 0 {
		h.busyTill = max(h.busyTill, min(l.due, clock+busyMost))
	}
}

// coldMost is how long an agent that is lost with its notes matters: no host has a longer delay (robots.MaxCrawlDelay,
// unless the operator sets one).
const coldMost = 10 * time.Minute

// isCold reports whether agents whose notes are lost may have used r not long ago.
func (r *record) isCold(clock time.Duration) bool { return r.cold > 0 && clock-r.cold < coldMost }

// keep notes the state of a host. If others must know of it even if this agent is lost, the holder tells the grantor
// with one of the next calls.
func (h *holder) keep(point uint64, v note, clock time.Duration) {
	l := h.holdings[point]
	if l == nil {
		return
	}
	before := note{}
	if n := l.notes.find(v.Key); n != nil {
		before = *n
	}
	l.free = max(l.free, l.notes.put(v, clock))
	l.quiet = max(l.quiet, v.Delay)
	if l.state != held && l.state != orphaned {
		l.rest() // the lease ended before the visit
	}
	news := v.Slow > before.Slow || v.paused > max(before.paused, clock) || v.Print != before.Print ||
		v.Delay > before.Delay
	if news && (l.state == held || l.state == orphaned) && h.view.Len() > 1 {
		l.tell = true
		h.putWant(l)
		h.queueFor(h.owner(l)).tell = true
	}
}

// retell notes that the grantor may not have received the notes of an ask.
func (h *holder) retell(l *holding, a *Ask) {
	if len(a.Notes) > 0 && l.state == held {
		l.tell = true
		h.queueFor(l.grantor).tell = true
	}
}

// drop ends a lease that is not returned.
func (l *holding) drop() {
	l.state = without
	l.rest()
}

// rest makes the point rest as long as one of its hosts does. The grantor may still take this agent for the holder, and
// does not know the delays since the last notes that it got. It lets the next holder have the point after this rest.
func (l *holding) rest() {
	for i := range l.notes {
		l.free = max(l.free, l.notes[i].free)
	}
}

// kept returns the note with a key, if it came with the lease and was not read yet. If the notes of earlier holders may
// be lost, ago is how long ago the last of them may have used the point; otherwise it is negative.
func (h *holder) kept(point, key uint64, clock time.Duration) (v Note, ago time.Duration, ok bool) {
	l := h.holdings[point]
	if l == nil {
		return Note{}, -1, false
	}
	n := l.notes.find(key)
	if n != nil && !n.came {
		return Note{}, -1, false
	}
	ago = -1
	if l.cold > 0 && clock-l.cold < coldMost {
		ago = max(clock-l.cold, 0)
	}
	if n == nil {
		return Note{}, ago, ago >= 0
	}
	n.came = n.Print != 0 || ago >= 0 // a robots.txt holds until it is read again
	return n.at(clock), ago, true
}

// Keep notes the state of a host at a point that this agent has begun to use, for the next holder. Call it before Used.
func (p *Peer) Keep(point uint64, n Note, now time.Time) {
	p.tick(now)
	p.holder.keep(point, noteAt(n, p.clock), p.clock)
}

// Expect tells when a host here will have its next request at a point that is in use. Call it before Used. Until then
// the holder keeps a recalled point: no other agent could use it earlier.
func (p *Peer) Expect(point uint64, due, now time.Time) {
	p.tick(now)
	p.holder.expect(point, max(due.Sub(p.epoch)+1, 1), p.clock)
}

// Kept returns what an earlier holder of a point has noted of a host or an origin. It returns each Note
// of a host once for each time that this agent gets the lease, and that of an origin until Keep replaces it. If ago is
// not negative, an agent that is lost with its notes may have made a request that long ago.
func (p *Peer) Kept(point, key uint64, now time.Time) (n Note, ago time.Duration, ok bool) {
	p.tick(now)
	return p.holder.kept(point, key, p.clock)
}

// grantorSlots is the number of agents that grant the points if all agents crawl the same hosts. An agent that wants
// points has calls to few others then, and each call carries more.
const grantorSlots = 2

// FewGrantors returns the point by which View.Owner places a point if all agents crawl the same hosts (Config.Batch).
func FewGrantors(point uint64) uint64 { return point % grantorSlots }
