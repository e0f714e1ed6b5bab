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

// These constants bound the tracker's memory.
const (
	maxViolations = 200     // of each kind that are listed; all are counted
	maxRepeats    = 10000   // URLs that were answered twice and are listed
	maxTarget     = 1 << 16 // bytes of a request target that are kept; no crawler requests longer URLs
	maxMethod     = 32      // bytes of a method that are kept
)

// A request is one HTTP request, from its begin to its end.
type request struct {
	*requestInfo
	spans    [groupKinds]span
	target   string // as sent, in origin form; valid until the request ends
	asked    string // what the client asked for, if that is no URL of the host; empty: it is
	method   string
	retry    int64 // Retry-After of the response in nanoseconds; 0: none
	bytes    int64 // of the response's body
	page     int64 // number of the Origin's page; -1: not a page
	dated    int64 // when the answer was made; 0 if the pages do not change
	status   int
	trap     int // depth in a trap
	conn     int64
	file     bool // a browser asks for a file of a page
	coded    bool // the response has a content coding
	codable  bool // it has one if the client accepts it
	complete bool // the site has written the whole response
	aborted  bool // the client closed before that
	unserved bool // no host of the Web answers it, so no promise applies
	remote   netip.AddrPort
}

func newRequest(c *conn, h *hostState, target, method string) *request {
	kept := keptTarget(target)
	// Method and target may share memory, the request's first line. Clone them, so that it can be freed.
	switch {
	case method == http.MethodGet:
		method = http.MethodGet
	case len(method) > maxMethod:
		method, kept = method[:maxMethod]+"...", strings.Clone(kept)
	default:
		method = strings.Clone(method)
	}
	return &request{
		requestInfo: &requestInfo{host: h, path: kept, secure: c.secure}, target: target, method: method, page: -1,
		conn: c.id, remote: c.remote,
	}
}

// keptTarget returns the part of a target that is kept. Of one that is too long it is the beginning, the length and a
// hash, which distinguishes it from others with the same beginning.
func keptTarget(target string) string {
	if len(target) <= maxTarget {
		return target
	}
	sum := fnv.New64a()
	io.WriteString(sum, target)
	return fmt.Sprintf("%s...[%d-bytes-%016x]", target[:maxTarget], len(target), sum.Sum64())
}

// reads reports whether the request is a GET. HEAD and other methods do not fetch the URL.
func (r *request) reads() bool { return r.method == http.MethodGet }

// A tracker records every request. Facts about one host are stored with that host, and totals are atomic counters, so
// that requests to different hosts do not wait for the same lock.
type tracker struct {
	base      time.Time
	seed      maphash.Seed
	origin    Origin
	hostLimit int64
	urlLimit  int64
	keepURLs  int64

	tab atomic.Pointer[tables]

	nURLs, kept, uncounted, untracked, repeated atomic.Int64

	begun, ended, pages, bytes, coded, codable atomic.Int64 // totals as in Report; Active is begun-ended
	sent                                       atomic.Int64 // as in Count

	missing urlCounts // answers with status 404

	vcount [violationKinds]atomic.Int64
	gaps   [groupKinds]gapCounts
	traps  trapCounts
	views  viewCounts

	vmu        sync.Mutex // guards violations and repeats
	violations []Violation
	repeats    map[string]int64

	fresh *freshTracker // nil if the pages do not change

	log requestLog
}

func newTracker(cfg Config) *tracker {
	t := &tracker{
		seed: maphash.MakeSeed(), origin: cfg.Origin, hostLimit: int64(cfg.MaxHosts), urlLimit: int64(cfg.URLs),
		keepURLs: int64(cfg.KeepURLs),
	}
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
		t.fresh = newFreshTracker(cfg.Changes, t.base, int(t.urlLimit))
	}
	t.repeats = map[string]int64{}
	return t
}

// now returns the time since t.base in nanoseconds. It is never 0.
func (t *tracker) now() int64 { return int64(time.Since(t.base)) + 1 }

func (t *tracker) time(ns int64) time.Time { return t.base.Add(time.Duration(ns)) }

func (t *tracker) promised() Promise { return t.tab.Load().promise }

// judges reports whether violations and gaps are counted.
func (t *tracker) judges() bool { return !t.tab.Load().promise.None }

// reset forgets everything but the open connections.
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
	for _, n := range []*atomic.Int64{
		&t.nURLs, &t.kept, &t.uncounted, &t.untracked, &t.repeated, &t.begun, &t.ended, &t.pages, &t.bytes,
		&t.sent, &t.coded, &t.codable,
	} {
		n.Store(0)
	}
	for i := range t.gaps {
		t.gaps[i].reset()
	}
	t.traps.reset()
	t.views.reset()
	t.missing.reset()
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

// connected and closed count the connections of an address. closed also ends the connection to its host.
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

// eachAddr calls f for the state of c's address, with its shard locked. If a reset is going on, it waits for its end.
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

// attach records that c now is a connection to h, after a request to that host.
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
		over = h.conns.alive()
	}
	h.maxConns = max(h.maxConns, uint16(min(over, 1<<16-1)), 1)
	bad := over > 1 && t.judges()
	if bad {
		h.group.violations++
	}
	h.group.mu.Unlock()
	if bad {
		t.violate(connections, func(v *Violation) {
			v.By, v.Host, v.Detail, v.At = "host", h.name(t), strconv.Itoa(over)+" connections at once", t.time(t.now())
		})
	}
}

// begin records a request whose header has been read. r.begin is set.
func (t *tracker) begin(c *conn, r *request) {
	h := r.host
	t.begun.Add(1)
	if h.number == overflowNumber || r.unserved {
		return
	}
	t.attach(c, h)
	r.addr = t.addrOf(c, t.tab.Load())
	for i := range r.spans {
		r.spans[i].client, r.spans[i].file = r.remote.Addr(), r.file
	}
	h.group.enter(t, r.requestInfo, &r.spans[byHost])
	if r.addr != nil {
		r.addr.group.enter(t, r.requestInfo, &r.spans[byAddr])
	}
	h.domain.group.enter(t, r.requestInfo, &r.spans[bySite])
	if r.path == "/robots.txt" {
		return
	}
	if st := h.site(); st != nil {
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

// denied records a request that the given rule of robots.txt forbids.
func (t *tracker) denied(r *request, rule string) {
	if !t.judges() {
		return
	}
	h := r.host
	if h.number != overflowNumber {
		h.group.mu.Lock()
		h.group.violations++
		h.group.mu.Unlock()
	}
	t.violate(robots, func(v *Violation) {
		v.By, v.Host, v.URL, v.At, v.Detail = "host", h.name(t), r.url(t), t.time(r.begin), rule
	})
}

// askedBefore returns how many requests for the URL have ended before, at most 3. URLs of pages are not counted.
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
	if r.asked != "" {
		return maphash.String(t.seed, r.asked)
	}
	key := maphash.String(t.seed, r.target) ^ uint64(r.port)<<16
	if r.secure {
		key ^= 1 << 63
	}
	return key
}

// dated sets the time of an answer that is about to be made, if the pages change.
func (t *tracker) dated(r *request, q *Query) {
	if t.fresh != nil {
		r.dated = t.now()
		q.At = t.time(r.dated)
	}
}

// replied records the Origin's Reply.
func (t *tracker) replied(r *request, rep *Reply) {
	r.status, r.retry, r.page, r.trap = rep.Status, int64(rep.RetryAfter), rep.Page, rep.Trap
	r.coded, r.codable = rep.Coded, rep.Codable
	if rep.Denied {
		t.denied(r, rep.Rule)
	}
	if rep.Trap > 0 {
		t.traps.note(t, r)
	}
}

// promiseCrawlDelay raises the promised delay of a host whose robots.txt has been answered.
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
	if h.group.run != nil && delay > 0 {
		h.group.run.none = true
	}
	h.group.mu.Unlock()
}

// end records the end of a request at time end.
func (t *tracker) end(r *request, end int64) {
	h := r.host
	end = max(end, r.begin)
	if h.number != overflowNumber && !r.unserved {
		notBefore := int64(0)
		if (r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable) && !r.aborted {
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
	t.log.add(t, r, end) // before count, so that every counted request is in the log
	t.count(r, end)
}

// count updates the totals, and the counts of the host and the URL. It ends the request last, so that a Web without
// unfinished requests has counted all of them.
func (t *tracker) count(r *request, end int64) {
	defer t.ended.Add(1)
	h := r.host
	ok := r.complete && !r.aborted && r.status > 0 && r.status < 500 && r.status != 429 && r.reads()
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
		if r.coded {
			t.coded.Add(1)
		}
		if r.codable {
			t.codable.Add(1)
		}
	}
	h.countStatus(r.status)
	var again int // earlier fetches of the URL, if this one is a fetch
	switch {
	case h.number == overflowNumber:
		t.untracked.Add(1)
	case r.method == http.MethodConnect: // it names no URL
	case h.named():
		again = t.countURL(h, r, ok)
	case r.page >= 0:
		again = t.countPage(h, r.page, ok)
	default:
		again = t.countOther(h, r, ok)
	}
	h.group.mu.Unlock()
	if r.status == http.StatusNotFound {
		t.missing.add(r.url(t))
	}
	if r.dated > 0 && r.page >= 0 && h.number >= 0 && ok {
		t.fresh.note(pageID{h.number, r.page}, r.status, r.dated)
	}
	if again > 0 && r.path != "/robots.txt" {
		t.repeat(r, again+1)
	}
}

// countURL counts a request for a URL of a host that is not the Origin's. ok means that the request fetched the URL;
// then it returns the number of earlier fetches. countPage and countOther do the same for URLs of the Origin. The
// caller holds the lock of the host's group.
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

// takeURL reports whether one more URL may be counted individually.
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
		if h.robots == 1 { // true of nearly all hosts, which then need no set
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

// repeat records that a URL was answered n times. A URL of the Origin is listed at its second answer only.
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

// violate counts a violation. If it will be listed, violate calls describe to fill it in.
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

// retryAfter parses a Retry-After header and returns the delay in nanoseconds; 0 if it is invalid.
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
