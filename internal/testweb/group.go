package testweb

import (
	"net/netip"
	"sync"
)

// A groupKind tells what the requests of a group have in common.
type groupKind uint8

const (
	byHost groupKind = iota
	byAddr
	bySite
	groupKinds
)

func (k groupKind) String() string { return [...]string{"host", "address", "site"}[k] }

// A requestInfo is the part of a request that is kept after its end, to describe violations.
type requestInfo struct {
	host   *hostState
	addr   *addrState
	path   string // request target, as sent; see keptTarget for long ones
	begin  int64
	port   uint16 // of the URL; 0: the scheme's own
	secure bool
}

// A span is a request as one group sees it. It is part of the request.
type span struct {
	req        *requestInfo
	next, prev *span // a ring; prev of the first span is the last one
	begin, end int64 // end 0: the request has not ended
	overlaps   int32 // earlier requests that had not ended when it began
	client     netip.Addr
	file       bool // a browser asks for a file of a page
	busy       bool // the host answered 429 or 503
	judged     bool
	in         bool // the span is in the window
}

// A group holds the requests between which a crawler must leave a delay: those of one host, one address or one
// registered domain. It is small, because there are millions.
//
// Ends of requests are reported late and out of order. Therefore a request is judged only when all requests that began
// before it have ended. It is then the first of the window.
type group struct {
	mu         sync.Mutex   // guards the fields below
	first      *span        // the window, in order of begin
	last       *requestInfo // of the requests that have left the window, the one that ended last
	lastEnd    int64        // when it ended
	run        *run         // of the last request; nil: no views are promised
	promised   int64        // minimum gap in nanoseconds; 0: none
	minGap     int64        // smallest gap so far; -1: there were no two requests
	requests   uint32
	violations uint32
	maxActive  uint16
	waiting    uint16 // number of spans in the window
	kind       groupKind
}

// maxWindow is the maximum number of requests in a window. Beyond it the first one counts as ended.
const maxWindow = 4096

// name returns the name that the report uses for the group of a request.
func (g *group) name(t *tracker, of *requestInfo) string {
	switch g.kind {
	case byAddr:
		return addrName(of.addr.addr)
	case bySite:
		return of.host.domain.name(t)
	}
	return of.host.name(t)
}

// enter adds a request to the window, in order of begin.
func (g *group) enter(t *tracker, b *requestInfo, s *span) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests++
	if !t.judges() {
		return
	}
	if g.waiting >= maxWindow {
		g.first.end = b.begin
		g.advance(t)
	}
	s.req, s.begin, s.in = b, b.begin, true
	g.insert(s)
	g.advance(t)
}

func (g *group) insert(s *span) {
	g.waiting++
	if g.first == nil {
		s.next, s.prev = s, s
		g.first = s
		return
	}
	before := g.first.prev
	for before.begin > s.begin && before != g.first {
		before = before.prev
	}
	if before.begin > s.begin { // s comes first
		before = g.first.prev
		g.first = s
	}
	s.prev, s.next = before, before.next
	before.next.prev = s
	before.next = s
}

// leave records the end of a request. If the host was busy (429 or 503), notBefore is the earliest time of the next
// request to it by Retry-After, which is the end if there was none; else 0.
func (g *group) leave(t *tracker, s *span, end, notBefore int64) {
	if s.req == nil { // it did not enter, because nothing is judged
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if notBefore > 0 {
		h := s.req.host
		h.notBefore = max(h.notBefore, notBefore)
		s.busy = true
	}
	if s.in && s.end == 0 {
		s.end = end
	}
	g.advance(t)
}

// advance judges the first request of the window, and removes it if it has ended, and so on. The caller holds mu.
func (g *group) advance(t *tracker) {
	for g.first != nil {
		s := g.first
		if !s.judged {
			s.judged = true
			g.judge(t, s)
		}
		if s.end == 0 {
			return
		}
		for later := s.next; later != s && later.begin < s.end; later = later.next {
			if later.overlaps++; later.overlaps == 1 && g.kind == byHost {
				g.violate(t, concurrent, s.req, later.req, s.end, 0)
			}
		}
		if s.end > g.lastEnd {
			g.lastEnd, g.last = s.end, s.req
		}
		if s.busy && g.run != nil {
			g.run.busy = true
		}
		g.maxActive = max(g.maxActive, uint16(min(s.overlaps+1, 1<<16-1)))
		g.drop(s)
	}
}

// drop removes the first span.
func (g *group) drop(s *span) {
	g.waiting--
	s.prev.next, s.next.prev = s.next, s.prev
	if g.first = s.next; s.next == s {
		g.first = nil
	}
	s.next, s.prev, s.in = nil, nil, false
}

// judge compares a request with those that began before it, all of which have ended.
func (g *group) judge(t *tracker, s *span) {
	if g.last == nil {
		g.begins(s)
		return
	}
	gap := max(s.begin-g.lastEnd, 0)
	if g.minGap < 0 || gap < g.minGap {
		g.minGap = gap
	}
	delay, kind := g.due(t, s)
	t.gaps[g.kind].note(gap, delay)
	if gap < delay {
		g.violate(t, kind, g.last, s.req, g.lastEnd, delay)
	}
	if g.kind != byHost {
		return
	}
	if at := s.req.host.notBefore; s.begin < at {
		g.violate(t, beforeRetry, g.last, s.req, g.lastEnd, at-g.lastEnd)
	}
}

// violate records that b came too early after a, which ended at end.
func (g *group) violate(t *tracker, kind violationKind, a, b *requestInfo, end, promised int64) {
	g.violations++
	t.violate(kind, func(v *Violation) {
		*v = Violation{
			Kind: v.Kind, By: g.kind.String(), Host: g.name(t, b), URL: b.url(t), At: t.time(b.begin), After: a.url(t),
			AfterBegan: t.time(a.begin), AfterEnded: t.time(end), Gap: Seconds(max(0, b.begin-end)),
			Promised: Seconds(promised),
		}
	})
}

// snapshot reports on the group as if all its requests had ended now. It records the violations of the unfinished ones
// in pending.
func (g *group) snapshot(pending *tracker, now int64) GroupReport {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := group{
		kind: g.kind, run: g.run.copy(), promised: g.promised, lastEnd: g.lastEnd, last: g.last, minGap: g.minGap,
		maxActive: g.maxActive, requests: g.requests, violations: g.violations,
	}
	if s := g.first; s != nil {
		for range g.waiting {
			k := *s
			if k.end == 0 {
				k.end = max(now, k.begin)
			}
			c.insert(&k)
			s = s.next
		}
	}
	c.advance(pending)
	return GroupReport{
		Requests: int64(c.requests), MaxConcurrent: int(c.maxActive), MinGap: Seconds(c.minGap),
		Promised: Seconds(c.promised), Violations: int64(c.violations),
	}
}
