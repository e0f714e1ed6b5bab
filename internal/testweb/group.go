package testweb

import "sync"

// A groupKind says what the requests of a group share.
type groupKind uint8

const (
	byHost groupKind = iota
	byAddr
	bySite
	groupKinds
)

func (k groupKind) String() string { return [...]string{"host", "address", "site"}[k] }

// A brief is what is remembered of a request after its end, for the words of a
// violation.
type brief struct {
	host   *hostState
	addr   *addrState
	path   string // request target, as sent; the beginning of a long one (keptTarget)
	begin  int64
	secure bool
}

// A span is a request as one group sees it. It lies in the request.
type span struct {
	req        *brief
	next, prev *span // in a ring; the first one's prev is the last
	begin, end int64 // end 0: under way
	overlaps   int32 // earlier requests that were under way when it began
	judged     bool
	in         bool // in the window
}

// A group is the requests that politeness holds apart: those of one host, one
// address or one registered domain. It is small: there are millions.
//
// Ends are reported late, and out of order. So a request is judged only when
// all that began before it have ended: it then stands first in the window.
type group struct {
	mu         sync.Mutex // guards what follows
	first      *span      // the window, in order of begin; the first is judged
	last       *brief     // of those that left the window the one that ended last
	lastEnd    int64      // when that was
	promised   int64      // least gap, 0 none
	minGap     int64      // -1: no two requests yet
	requests   uint32
	violations uint32
	maxActive  uint16
	waiting    uint16 // spans in the window
	kind       groupKind
}

// maxWindow bounds the requests of a group that wait for an earlier one to end.
const maxWindow = 4096

// name is what the report calls the group of a request.
func (g *group) name(t *tracker, of *brief) string {
	switch g.kind {
	case byAddr:
		return addrName(of.addr.addr)
	case bySite:
		return of.host.domain.name(t)
	}
	return of.host.name(t)
}

// enter puts a request into the window, in order of begin.
func (g *group) enter(t *tracker, b *brief, s *span) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests++
	if g.waiting >= maxWindow {
		g.first.end = b.begin
		g.settle(t)
	}
	s.req, s.begin, s.in = b, b.begin, true
	g.insert(s)
	g.settle(t)
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
	if before.begin > s.begin { // it comes first
		before = g.first.prev
		g.first = s
	}
	s.prev, s.next = before, before.next
	before.next.prev = s
	before.next = s
}

// leave notes the end of a request. After a Retry-After the host wants no
// request until notBefore.
func (g *group) leave(t *tracker, s *span, end, notBefore int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if notBefore > 0 {
		h := s.req.host
		h.notBefore = max(h.notBefore, notBefore)
	}
	if s.in && s.end == 0 {
		s.end = end
	}
	g.settle(t)
}

// settle judges the first of the window and lets go of it once it has ended.
// Called with mu held.
func (g *group) settle(t *tracker) {
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
		g.maxActive = max(g.maxActive, uint16(min(s.overlaps+1, 1<<16-1)))
		g.drop(s)
	}
}

// drop takes the first span out.
func (g *group) drop(s *span) {
	g.waiting--
	s.prev.next, s.next.prev = s.next, s.prev
	if g.first = s.next; s.next == s {
		g.first = nil
	}
	s.next, s.prev, s.in = nil, nil, false
}

// judge holds a request against all that began before it, which have ended.
func (g *group) judge(t *tracker, s *span) {
	if g.last == nil {
		return
	}
	gap := max(s.begin-g.lastEnd, 0)
	if g.minGap < 0 || gap < g.minGap {
		g.minGap = gap
	}
	t.gaps[g.kind].note(gap, g.promised)
	if gap < g.promised {
		g.violate(t, tooSoon, g.last, s.req, g.lastEnd, g.promised)
	}
	if g.kind != byHost {
		return
	}
	if at := s.req.host.notBefore; s.begin < at {
		g.violate(t, beforeRetry, g.last, s.req, g.lastEnd, at-g.lastEnd)
	}
}

// violate notes that b came too early after a, which ended at end.
func (g *group) violate(t *tracker, kind violationKind, a, b *brief, end, promised int64) {
	g.violations++
	t.violate(kind, func(v *Violation) {
		*v = Violation{Kind: v.Kind, By: g.kind.String(), Host: g.name(t, b), URL: b.url(t), At: t.time(b.begin), After: a.url(t),
			AfterBegan: t.time(a.begin), AfterEnded: t.time(end), Gap: Seconds(max(0, b.begin-end)), Promised: Seconds(promised)}
	})
}

// snapshot reports on the group as if the requests under way ended now; what
// that would violate goes to pending.
func (g *group) snapshot(pending *tracker, now int64) (r GroupReport, active int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := group{kind: g.kind, promised: g.promised, lastEnd: g.lastEnd, last: g.last, minGap: g.minGap, maxActive: g.maxActive, requests: g.requests, violations: g.violations}
	if s := g.first; s != nil {
		for range g.waiting {
			k := *s
			if k.end == 0 {
				k.end = max(now, k.begin)
				active++
			}
			c.insert(&k)
			s = s.next
		}
	}
	c.settle(pending)
	return GroupReport{Requests: int64(c.requests), MaxConcurrent: int(c.maxActive), MinGap: Seconds(c.minGap), Promised: Seconds(c.promised),
		Violations: int64(c.violations)}, active
}
