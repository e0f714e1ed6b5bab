package testweb

import (
	"fmt"
	"hash/fnv"
	"hash/maphash"
	"io"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The tracker's memory is bounded by these, whatever comes.
const (
	maxViolations = 200     // of each kind, kept with their words; all are counted
	maxRepeats    = 10000   // URLs that were answered twice, kept by name
	maxTarget     = 1 << 16 // bytes of a request target that are kept; longer URLs no crawler asks for
	maxMethod     = 32      // bytes of a method
)

// A request is one HTTP request, from begin to end.
type request struct {
	*brief
	spans    [groupKinds]span
	target   string // as sent, in origin form; not kept beyond the end
	method   string
	retry    int64 // Retry-After of the response, 0 none
	bytes    int64 // of the body
	page     int64 // the Origin's, -1 none
	dated    int64 // when the answer was made; 0: the pages do not change
	status   int
	trap     int // depth
	conn     int64
	complete bool // the site has written all of it
	aborted  bool // the client went before that
	remote   netip.AddrPort
}

func newRequest(c *conn, h *hostState, target, method string) *request {
	kept := keptTarget(target)
	// Method and target may lie in one piece of memory, the request's first line.
	switch {
	case method == http.MethodGet:
		method = http.MethodGet
	case len(method) > maxMethod:
		method, kept = method[:maxMethod]+"...", strings.Clone(kept)
	default:
		method = strings.Clone(method)
	}
	return &request{brief: &brief{host: h, path: kept, secure: c.secure}, target: target, method: method, page: -1, conn: c.id, remote: c.remote}
}

// keptTarget is what is kept of a target: of one that is too long the beginning,
// the length and a hash, so that it is told apart from its like.
func keptTarget(target string) string {
	if len(target) <= maxTarget {
		return target
	}
	sum := fnv.New64a()
	io.WriteString(sum, target)
	return fmt.Sprintf("%s...[%d-bytes-%016x]", target[:maxTarget], len(target), sum.Sum64())
}

// reads says whether the request is for what the URL stands for: HEAD and other
// methods do not fetch it.
func (r *request) reads() bool { return r.method == http.MethodGet }

// A tracker notes every request. What is about one host lies with that host;
// what is about all is counted by atomics, so that requests to different hosts
// meet at no lock.
type tracker struct {
	base      time.Time
	seed      maphash.Seed
	origin    Origin
	hostLimit int64
	urlLimit  int64
	keepURLs  int64

	tab atomic.Pointer[tables]

	nURLs, kept, uncounted, untracked, repeated atomic.Int64

	begun, ended, pages, bytes atomic.Int64 // requests, and what they came to

	vcount [violationKinds]atomic.Int64
	gaps   [groupKinds]gapCounts
	traps  trapCounts

	vmu        sync.Mutex // guards what follows
	violations []Violation
	repeats    map[string]int64

	fresh *freshAccount // nil: the pages do not change

	log requestLog
}

func newTracker(cfg Config) *tracker {
	t := &tracker{seed: maphash.MakeSeed(), origin: cfg.Origin, hostLimit: int64(cfg.MaxHosts), urlLimit: int64(cfg.URLs), keepURLs: int64(cfg.KeepURLs)}
	if t.hostLimit == 0 {
		t.hostLimit = 2e6
	}
	if t.urlLimit == 0 {
		t.urlLimit = 4e6
	}
	if t.keepURLs == 0 {
		t.keepURLs = 200_000
	}
	t.log.open(cfg)
	t.base = time.Now()
	t.tab.Store(newTables(cfg.Promise, t.base, t.hostLimit))
	if cfg.Changes != nil {
		t.fresh = newFreshAccount(cfg.Changes, t.base, int(t.urlLimit))
	}
	t.repeats = map[string]int64{}
	return t
}

// now is the time since the tracker's birth in nanoseconds, never 0.
func (t *tracker) now() int64 { return int64(time.Since(t.base)) + 1 }

func (t *tracker) time(ns int64) time.Time { return t.base.Add(time.Duration(ns)) }

func (t *tracker) promised() Promise { return t.tab.Load().promise }

// reset forgets everything; open connections stay open.
func (t *tracker) reset(p Promise) {
	old, tab := t.tab.Load(), newTables(p, time.Now(), t.hostLimit)
	for i := range old.shards {
		s := &old.shards[i]
		s.mu.Lock()
		for a, st := range s.addrs {
			if n := st.conns.len(); n > 0 {
				k := tab.newAddr(a)
				k.conns.one, k.maxConns = st.conns.one, int32(n)
				for c := range st.conns.more {
					k.conns.add(c)
				}
				tab.shards[i].addrs[a] = k
			}
		}
	}
	t.tab.Store(tab)
	for i := range old.shards {
		old.shards[i].mu.Unlock()
	}
	for _, n := range []*atomic.Int64{&t.nURLs, &t.kept, &t.uncounted, &t.untracked, &t.repeated, &t.begun, &t.ended, &t.pages, &t.bytes} {
		n.Store(0)
	}
	for i := range t.gaps {
		t.gaps[i].reset()
	}
	t.traps.reset()
	if t.fresh != nil {
		t.fresh.reset(t.now())
	}
	t.vmu.Lock()
	for i := range t.vcount {
		t.vcount[i].Store(0)
	}
	t.violations, t.repeats = nil, map[string]int64{}
	t.vmu.Unlock()
	t.log.reset()
}

// connected and closed count the connections of an address.
func (t *tracker) connected(c *conn) {
	t.eachAddr(c, func(st *addrState) {
		st.conns.add(c)
		st.opened++
		switch n := int32(st.conns.len()); {
		case n == 1:
			st.maxConns = max(st.maxConns, 1)
		case n > st.maxConns:
			st.maxConns = max(st.maxConns, int32(st.conns.alive()))
		}
	})
}

func (t *tracker) closed(c *conn) {
	t.eachAddr(c, func(st *addrState) { st.conns.del(c) })
	c.mu.Lock()
	h := c.host
	c.host = nil
	c.mu.Unlock()
	if h != nil {
		h.group.mu.Lock()
		h.conns.del(c)
		h.group.mu.Unlock()
	}
}

// eachAddr calls f for c's address with the shard locked; the reset that comes
// between is outwaited.
func (t *tracker) eachAddr(c *conn, f func(*addrState)) {
	a := c.local.As4()
	for {
		tab := t.tab.Load()
		s := tab.addrShard(a)
		s.mu.Lock()
		if tab == t.tab.Load() {
			if st := s.addr(tab, a); st != nil {
				f(st)
			}
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// attach makes c a connection of h, with its first request to that host.
func (t *tracker) attach(c *conn, h *hostState) {
	c.mu.Lock()
	old := c.host
	c.host = h
	c.mu.Unlock()
	if old == h {
		return
	}
	if old != nil {
		old.group.mu.Lock()
		old.conns.del(c)
		old.group.mu.Unlock()
	}
	h.group.mu.Lock()
	h.conns.add(c)
	h.opened++
	over := 1
	if h.conns.len() > 1 {
		if over = h.conns.alive(); over > 1 {
			h.group.violations++
		}
	}
	h.maxConns = max(h.maxConns, uint16(min(over, 1<<16-1)), 1)
	h.group.mu.Unlock()
	if over > 1 {
		t.violate(connections, func(v *Violation) {
			v.By, v.Host, v.Detail, v.At = "host", h.name(t), strconv.Itoa(over)+" connections at once", t.time(t.now())
		})
	}
}

// begin enters a request whose header has been read; r.begin is set.
func (t *tracker) begin(c *conn, r *request) {
	h := r.host
	t.begun.Add(1)
	if h.number == restNumber {
		return
	}
	t.attach(c, h)
	r.addr = t.addrOf(c, t.tab.Load())
	h.group.enter(t, r.brief, &r.spans[byHost])
	if r.addr != nil {
		r.addr.group.enter(t, r.brief, &r.spans[byAddr])
	}
	h.domain.group.enter(t, r.brief, &r.spans[bySite])
	if r.path == "/robots.txt" {
		return
	}
	if h.named() {
		st := h.site()
		if st == nil {
			return
		}
		if rule, ok := st.robots.Forbids(r.target); ok {
			t.denied(r, rule)
		}
	}
	h.group.mu.Lock()
	if h.robotsAt == 0 || r.begin < h.robotsAt {
		h.more().early++
	}
	h.group.mu.Unlock()
}

// denied notes a request that robots.txt forbids by rule.
func (t *tracker) denied(r *request, rule string) {
	h := r.host
	if h.number != restNumber {
		h.group.mu.Lock()
		h.group.violations++
		h.group.mu.Unlock()
	}
	t.violate(robots, func(v *Violation) {
		v.By, v.Host, v.URL, v.At, v.Detail = "host", h.name(t), r.url(t), t.time(r.begin), rule
	})
}

// askedBefore is how often the URL was asked for before, and was no page.
func (t *tracker) askedBefore(r *request) int {
	h := r.host
	h.group.mu.Lock()
	defer h.group.mu.Unlock()
	if h.extra == nil || h.extra.others.n == 0 {
		return 0
	}
	n, _ := h.extra.others.get(t.key(r))
	return n
}

func (t *tracker) key(r *request) uint64 {
	key := maphash.String(t.seed, r.target)
	if r.secure {
		key ^= 1 << 63
	}
	return key
}

// dated sets the time of an answer that is made now, where that matters.
func (t *tracker) dated(r *request, q *Query) {
	if t.fresh != nil {
		r.dated = t.now()
		q.At = t.time(r.dated)
	}
}

// replied notes what the Origin's answer is.
func (t *tracker) replied(r *request, rep *Reply) {
	r.status, r.retry, r.page, r.trap = rep.Status, int64(rep.RetryAfter), rep.Page, rep.Trap
	if rep.Denied {
		t.denied(r, rep.Rule)
	}
	if rep.Trap > 0 {
		t.traps.note(t, r)
	}
}

// promiseCrawlDelay raises the promise for a host whose robots.txt is known from now on.
func (t *tracker) promiseCrawlDelay(h *hostState) {
	if !t.promised().CrawlDelay {
		return
	}
	var delay time.Duration
	switch {
	case h.number >= 0:
		delay = t.origin.Host(h.number).CrawlDelay
	case h.site() != nil:
		delay = h.site().robots.CrawlDelay()
	}
	h.group.mu.Lock()
	h.group.promised = max(h.group.promised, int64(delay))
	h.group.mu.Unlock()
}

// end takes a request out again.
func (t *tracker) end(r *request, end int64) {
	h := r.host
	end = max(end, r.begin)
	if h.number != restNumber {
		notBefore := int64(0)
		if r.retry > 0 && !r.aborted {
			notBefore = end + r.retry
		}
		if r.path == "/robots.txt" && r.complete && r.reads() {
			t.promiseCrawlDelay(h)
		}
		h.group.leave(t, &r.spans[byHost], end, notBefore)
		if r.addr != nil {
			r.addr.group.leave(t, &r.spans[byAddr], end, 0)
		}
		h.domain.group.leave(t, &r.spans[bySite], end, 0)
	}
	t.log.add(t, r, end) // first: a request that is counted is in the log
	t.count(r, end)
}

// count updates the counters and the count of the URL.
func (t *tracker) count(r *request, end int64) {
	h := r.host
	ok := r.complete && !r.aborted && r.status > 0 && r.status < 500 && r.status != 429 && r.reads()
	t.ended.Add(1)
	t.bytes.Add(r.bytes)
	h.group.mu.Lock()
	h.ended++
	h.bytes += r.bytes
	if r.aborted {
		h.more().aborted++
	}
	switch {
	case !r.complete && !r.aborted:
		h.more().broken++
	case !r.reads():
	case r.path == "/robots.txt":
		h.robots += min(1, math.MaxUint16-h.robots)
		if h.robotsAt == 0 {
			h.robotsAt = end
		}
	case r.complete && r.status/100 == 2:
		h.pages++
		t.pages.Add(1)
	}
	h.countStatus(r.status)
	var again int // answers before this one
	switch {
	case h.number == restNumber:
		t.untracked.Add(1)
	case h.named():
		again = t.countURL(h, r, ok)
	case r.page >= 0:
		again = t.countPage(h, r.page, ok)
	default:
		again = t.countOther(h, r, ok)
	}
	h.group.mu.Unlock()
	if r.dated > 0 && r.page >= 0 && h.number >= 0 && ok {
		t.fresh.note(pageID{h.number, r.page}, r.status, r.dated)
	}
	if again > 0 && r.path != "/robots.txt" {
		t.repeat(r, again+1)
	}
}

// countURL counts a URL of a host with a name of its own. It and its like are
// called with the host's lock held, and return how often the URL was answered
// before, if it was answered now.
func (t *tracker) countURL(h *hostState, r *request, ok bool) (again int) {
	key := t.key(r)
	u, known := h.extra.known[key]
	if !known && !t.takeURL() {
		return 0
	}
	u.requests++
	if ok {
		again = int(u.answers)
		u.answers++
	}
	h.extra.known[key] = u
	if !known {
		h.urls++
		if t.kept.Add(1) <= t.keepURLs {
			h.extra.names[key] = r.url(t)
		}
	}
	return again
}

// takeURL says whether one more URL may be counted.
func (t *tracker) takeURL() bool {
	if t.nURLs.Add(1) <= t.urlLimit {
		return true
	}
	t.nURLs.Add(-1)
	t.uncounted.Add(1)
	return false
}

func (t *tracker) countPage(h *hostState, page int64, ok bool) (again int) {
	was := h.mark(page)
	to := max(was, asked)
	if was == unasked {
		h.urls++
	}
	switch {
	case !ok:
	case was < answered:
		h.fetched++
		to = answered
	default:
		if was == answered {
			h.more().twice++
		}
		to = answeredAgain
		again = int(was-answered) + 1
	}
	if to != was {
		pages := page + 1
		if h.row == nil {
			pages = t.origin.Host(h.number).Pages
		}
		h.setMark(page, pages, to)
	}
	return again
}

func (t *tracker) countOther(h *hostState, r *request, ok bool) (again int) {
	if r.path == "/robots.txt" && ok && (h.extra == nil || h.extra.others.n == 0) {
		if h.robots == 1 { // as with nearly all hosts: no set is needed for that
			h.urls++
		}
		return 0
	}
	key := t.key(r)
	if n, _ := h.more().others.get(key); n == 0 {
		if !t.takeURL() {
			return 0
		}
		h.urls++
	}
	_, again = h.more().others.add(key, ok)
	if !ok {
		return 0
	}
	return again
}

// repeat notes that a URL was answered n times. Those of the Origin are named
// with their second answer only.
func (t *tracker) repeat(r *request, n int) {
	t.repeated.Add(1)
	if !r.host.named() && n > 2 {
		return
	}
	t.vmu.Lock()
	defer t.vmu.Unlock()
	if len(t.repeats) >= maxRepeats && !r.host.named() {
		return
	}
	if name := r.url(t); t.repeats[name] > 0 || len(t.repeats) < maxRepeats {
		t.repeats[name] = int64(n)
	}
}

// violate counts a violation; describe is called for those that are kept.
func (t *tracker) violate(kind violationKind, describe func(*Violation)) {
	if t.vcount[kind].Add(1) > maxViolations {
		return
	}
	v := Violation{Kind: kind.String()}
	describe(&v)
	t.vmu.Lock()
	t.violations = append(t.violations, v)
	t.vmu.Unlock()
}

// retryAfter reads a Retry-After header, in nanoseconds.
func retryAfter(s string, now time.Time) int64 {
	s = strings.TrimSpace(s)
	if n, err := strconv.Atoi(s); err == nil && n > 0 && n < 1e9 {
		return int64(n) * int64(time.Second)
	}
	if at, err := time.Parse(time.RFC1123, s); err == nil {
		return max(0, int64(at.Sub(now)))
	}
	return 0
}
