package frontier

import (
	"net/netip"
	"time"
)

// maxSlow is the number of pauses after which doubling has no effect.
const maxSlow = 40

type state uint8

const (
	exhausted state = iota
	ready
	waiting
	slowed
	resolving
	inProcess
	blocked
)

func (s state) String() string {
	return [...]string{"exhausted", "ready", "waiting", "slowed", "resolving", "in process", "blocked"}[s]
}

// A host is an entry of Polybot's host dictionary. It is in one heap or none:
// ready in its group's, waiting and slowed in Frontier.waiting, exhausted in
// Frontier.resting, else nowhere. There are far more hosts that wait for their
// first request than others, so what these have not got is in the history.
type host struct {
	*history
	name string
	q    *queue // of the highest level
	n    int64  // links, without cur
	key  key
	at   int64 // not before
	due  int64 // its place in waiting or resting

	in    *heap[*host]
	group *group // when ready: where
	pos   int32

	turns   int16 // requests in a row
	state   state
	retired bool // blocked as soon as it is not in process
}

// A history is what a host has that was asked or looked up before.
type history struct {
	front     *frontQueue
	cur       *entry // in process
	home      *group // what its address and site share; nil: address unknown
	addr      netip.Addr
	addrUntil int64 // the look-up expires
	addrFresh int64 // for the next request it holds until then in any case
	slowUntil int64 // end of the last pause
	began     int64 // in process or resolving since
	delay     time.Duration
	pooled    int64 // while it is retired: its links in the pools
	slow      uint8
	good      uint8 // answers in a row since the last pause
}

// blank is the history of all hosts that have none. It is only read.
var blank history

// own is the host's history, to be written.
func (h *host) own() *history {
	if h.history == &blank {
		h.history = &history{}
	}
	return h.history
}

// busy says whether the caller has h.
func (h *host) busy() bool { return h.state == inProcess || h.state == resolving }

func newHostTimes() heap[*host] {
	return heap[*host]{
		less: func(a, b *host) bool { return a.due < b.due },
		pos:  func(h *host) *int32 { return &h.pos },
	}
}

// count keeps the number of hosts in each state.
func (f *Frontier) count(s state, d int) {
	switch s {
	case exhausted:
		f.stats.Exhausted += d
	case ready:
		f.stats.Ready += d // parked ones are taken off in Stats
	case waiting:
		f.stats.Waiting += d
	case slowed:
		f.stats.Slowed += d
	case resolving:
		f.stats.Resolving += d
	case inProcess:
		f.stats.InProcess += d
	case blocked:
		f.stats.Blocked += d
	}
}

func (f *Frontier) become(h *host, s state) {
	f.count(h.state, -1)
	h.state = s
	f.count(s, +1)
}

// leave takes h out of the heap that it is in.
func (f *Frontier) leave(h *host) {
	if h.in == nil {
		return
	}
	h.in.remove(h)
	h.in = nil
	if g := h.group; g != nil {
		h.group = nil
		if g.parkedAt != nil {
			f.stats.Parked--
		}
		f.regroup(g)
	}
}

// place puts h, which is in no heap and not in process, where it belongs.
func (f *Frontier) place(h *host) {
	if h.n == 0 {
		h.turns = 0 // its links in the pools, if any, do not find it warm
	}
	switch {
	case h.retired:
		f.become(h, blocked)
	case h.n == 0:
		f.forgive(h)
		if h.at <= f.clock && h.slow == 0 {
			f.forget(h)
			return
		}
		f.become(h, exhausted)
		h.due = h.at
		if h.at <= f.clock {
			// Nothing but a slow-down is left: look again when it is forgiven.
			h.due = max(h.slowUntil+int64(f.cfg.ForgiveAfter), f.clock+1)
		}
		h.in = &f.resting
		h.in.push(h)
	case h.at > f.clock:
		if h.slowUntil > f.clock {
			f.become(h, slowed)
		} else {
			f.become(h, waiting)
		}
		h.due = h.at
		h.in = &f.waiting
		h.in.push(h)
	default:
		f.become(h, ready)
		h.head()
		g := h.home
		if g == nil {
			g = f.open_
		}
		h.group, h.in = g, &g.hosts
		h.in.push(h)
		if g.parkedAt != nil {
			f.stats.Parked++
		}
		f.regroup(g)
	}
}

// rekey moves a host whose first link has changed.
func (f *Frontier) rekey(h *host) {
	h.head()
	if h.group != nil {
		h.in.fix(h)
		f.regroup(h.group)
	}
}

// begin gives h, the best of g, to the caller.
func (f *Frontier) begin(h *host, g *group, e entry) {
	h.in.remove(h)
	h.in, h.group = nil, nil
	h.own().cur, h.own().began = &e, f.clock
	f.fixed += e.ram()
	if f.cfg.NoAddresses || h.home != nil && (h.addrUntil > f.clock || h.addrFresh > f.clock) {
		f.become(h, inProcess)
		h.addrFresh = 0
		for _, b := range [...]*bucket{h.home.addr, h.home.site} {
			if b != nil {
				b.holder, b.last = h, h.name
			}
		}
	} else {
		f.become(h, resolving)
	}
	f.regroup(g)
}

// end takes h back from the caller, with the link that comes next.
func (f *Frontier) end(h *host, back *entry) {
	if back == h.cur && back != nil {
		f.fixed -= back.ram() // putFront counts it again
	}
	h.own().cur = nil
	if back != nil {
		f.putFront(h, *back, true)
	}
	if h.retired {
		f.stats.BlockedLinks += h.n + h.pooled
	}
	f.place(h)
}

// forget removes a host of which nothing is to be remembered.
func (f *Frontier) forget(h *host) {
	f.count(h.state, -1)
	f.leaveHome(h)
	delete(f.hosts, h.name)
}

// slowDownOrWait applies the pause that d asks for.
func (f *Frontier) slowDownOrWait(h *host, d Done) {
	if d.SlowDown {
		f.slowDown(h, d.RetryAfter)
		return
	}
	h.own().slowUntil = max(h.slowUntil, f.clock+int64(min(d.RetryAfter, f.cfg.SlowMax)))
	h.at = max(h.at, h.slowUntil)
}

// slowDown lets h pause: SlowBase, doubled for each pause that is not yet
// forgiven, within a tenth, but at least least.
func (f *Frontier) slowDown(h *host, least time.Duration) {
	f.forgive(h)
	if h.slow < maxSlow {
		h.own().slow++
	}
	pause := f.cfg.SlowMax
	if n := h.slow - 1; f.cfg.SlowBase <= f.cfg.SlowMax>>n {
		pause = f.cfg.SlowBase << n
	}
	pause += time.Duration((f.rand.Float64()*0.2 - 0.1) * float64(pause))
	pause = min(max(pause, least), f.cfg.SlowMax)
	h.own().slowUntil = max(h.slowUntil, f.clock+int64(pause))
	h.at = max(h.at, h.slowUntil)
}

// forgiveGood is how many good answers in a row halve the pause that threatens
// a host: one that fails now and then would else stand still in the end.
const forgiveGood = 16

// answered notes how a request to h has ended.
func (f *Frontier) answered(h *host, d Done) {
	switch {
	case d.NoRequest || h.slow == 0:
	case d.SlowDown || d.RetryAfter > 0:
		h.own().good = 0
	default:
		if h.own().good++; h.good == forgiveGood {
			h.own().good = 0
			h.own().slow--
		}
	}
}

// forgive halves the pause that threatens h for each ForgiveAfter that has
// passed since the end of the last one.
func (f *Frontier) forgive(h *host) {
	if h.slow == 0 {
		return
	}
	if f.cfg.ForgiveAfter == 0 && f.clock >= h.slowUntil {
		h.slow = 0
	}
	for h.slow > 0 && f.clock-h.slowUntil >= int64(f.cfg.ForgiveAfter) {
		h.slow--
		h.slowUntil += int64(f.cfg.ForgiveAfter)
	}
}
