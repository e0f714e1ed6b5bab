package testweb

import (
	"bufio"
	"hash/maphash"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/publicsuffix"
)

// The tracker's memory is bounded by these, whatever comes.
const (
	maxViolations = 200   // of each kind, kept with their words; all are counted
	maxRepeats    = 10000 // URLs that were answered twice, kept by name
	maxWindow     = 4096  // requests of a group that wait for an earlier one to end
)

// A request is one HTTP request, from begin to end.
type request struct {
	host     *hostState
	addr     *addrState
	path     string // request target, as sent
	method   string
	begin    int64
	retry    int64 // Retry-After of the response, 0 none
	bytes    int64 // of the body
	status   int
	conn     int64
	seq      int64
	secure   bool
	complete bool // the site has written all of it
	aborted  bool // the client went before that
	remote   netip.AddrPort
}

func (r *request) url() string {
	if r.secure {
		return "https://" + r.host.name + r.path
	}
	return "http://" + r.host.name + r.path
}

// A span is a request as one group sees it.
type span struct {
	req        *request
	begin, end int64 // end 0: under way
	overlaps   int   // earlier requests that were under way when it began
	judged     bool
}

// A group is the requests that politeness holds apart: those of one host, one
// address or one registered domain.
//
// Ends are reported late, and out of order. So a request is judged only when
// all that began before it have ended: it then stands first in the window.
type group struct {
	kind, name string

	mu        sync.Mutex // guards what follows
	promised  int64      // least gap, 0 none
	window    []span     // in order of begin; the first is judged
	lastEnd   int64      // latest end of those that left the window
	last      *request   // whose end that is
	notBefore int64      // what the last Retry-After asks for
	minGap    int64      // -1: no two requests yet
	maxActive int
	requests  int64
}

// A hostState is what the tracker knows of a host.
type hostState struct {
	name   string
	site   *site // nil for a host that is not served, or the Origin's
	made   bool  // the Origin's
	number int64 // there
	group  group // its own
	domain *group

	mu       sync.Mutex // guards what follows
	urls     map[uint64]urlCount
	names    map[uint64]string // of the first Config.KeepURLs
	counts   HostReport        // the plain counters of it
	conns    map[*conn]struct{}
	robotsAt int64 // end of the first answer to /robots.txt, 0 none
}

// A urlCount counts the requests for a URL and the complete answers.
type urlCount struct{ requests, answers uint32 }

type tracker struct {
	base     time.Time
	agent    string
	seed     maphash.Seed
	urlLimit int64
	keepURLs int64
	promise  Promise
	origin   Origin

	mu      sync.RWMutex // guards the tables, not what they point to
	hosts   map[string]*hostState
	addrs   map[netip.Addr]*addrState
	domains map[string]*group

	seq, nURLs, kept, uncounted, broken atomic.Int64

	vmu        sync.Mutex // guards what follows
	violations []Violation
	vcount     map[string]int64
	repeats    map[string]int64
	nrepeats   int64

	lmu  sync.Mutex // guards what follows
	ring []Entry
	nlog int64
	out  *bufio.Writer
	line []byte
}

// An addrState is what the tracker knows of a loopback address.
type addrState struct {
	group group

	mu       sync.Mutex // guards what follows
	conns    map[*conn]struct{}
	maxConns int
	opened   int64
}

func newTracker(cfg Config) *tracker {
	t := &tracker{agent: cfg.Promise.Agent, seed: maphash.MakeSeed(), urlLimit: int64(cfg.URLs), keepURLs: int64(cfg.KeepURLs), origin: cfg.Origin}
	if t.urlLimit == 0 {
		t.urlLimit = 4e6
	}
	if t.keepURLs == 0 {
		t.keepURLs = 200_000
	}
	n := cfg.LogEntries
	if n <= 0 {
		n = 65536
	}
	t.ring = make([]Entry, n)
	if cfg.Log != nil {
		t.out = bufio.NewWriterSize(cfg.Log, 256<<10)
	}
	t.base = time.Now()
	t.reset(cfg.Promise)
	return t
}

// now is the time since the tracker's birth in nanoseconds, never 0.
func (t *tracker) now() int64 { return int64(time.Since(t.base)) + 1 }

func (t *tracker) reset(p Promise) {
	t.mu.Lock()
	t.promise = p
	t.hosts, t.domains = map[string]*hostState{}, map[string]*group{}
	old := t.addrs
	t.addrs = map[netip.Addr]*addrState{}
	for a, s := range old { // open connections stay open
		n := t.addr(a)
		s.mu.Lock()
		for c := range s.conns {
			n.conns[c] = struct{}{}
		}
		s.mu.Unlock()
		n.maxConns = len(n.conns)
	}
	t.mu.Unlock()
	t.nURLs.Store(0)
	t.kept.Store(0)
	t.uncounted.Store(0)
	t.broken.Store(0)
	t.vmu.Lock()
	t.violations, t.vcount, t.repeats, t.nrepeats = nil, map[string]int64{}, map[string]int64{}, 0
	t.vmu.Unlock()
	t.lmu.Lock()
	clear(t.ring)
	t.nlog = 0
	t.lmu.Unlock()
}

// addr is called with mu held for writing.
func (t *tracker) addr(a netip.Addr) *addrState {
	s := t.addrs[a]
	if s == nil {
		s = &addrState{conns: map[*conn]struct{}{}}
		s.group = group{kind: "address", name: a.String(), promised: int64(t.promise.AddrDelay), minGap: -1}
		t.addrs[a] = s
	}
	return s
}

func (t *tracker) address(a netip.Addr) *addrState {
	t.mu.RLock()
	s := t.addrs[a]
	t.mu.RUnlock()
	if s == nil {
		t.mu.Lock()
		s = t.addr(a)
		t.mu.Unlock()
	}
	return s
}

// hostOf is the state of a host; st is nil for one that is not served.
func (t *tracker) hostOf(name string, st *site) *hostState {
	t.mu.RLock()
	h := t.hosts[name]
	t.mu.RUnlock()
	if h != nil {
		return h
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if h = t.hosts[name]; h != nil {
		return h
	}
	h = &hostState{name: name, site: st, urls: map[uint64]urlCount{}, names: map[uint64]string{}, conns: map[*conn]struct{}{}}
	h.group = group{kind: "host", name: name, promised: int64(t.promise.HostDelay), minGap: -1}
	domain, err := publicsuffix.EffectiveTLDPlusOne(name)
	if err != nil {
		domain = name
	}
	if h.domain = t.domains[domain]; h.domain == nil {
		h.domain = &group{kind: "site", name: domain, promised: int64(t.promise.SiteDelay), minGap: -1}
		t.domains[domain] = h.domain
	}
	t.hosts[name] = h
	return h
}

// opened and closed count the connections of an address.
func (t *tracker) opened(c *conn) {
	s := t.address(c.local)
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.opened++
	n := len(s.conns)
	if n > s.maxConns {
		n = alive(s.conns)
		s.maxConns = max(s.maxConns, n)
	}
	s.mu.Unlock()
}

func (t *tracker) closed(c *conn) {
	s := t.address(c.local)
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	c.mu.Lock()
	h := c.host
	c.host = nil
	c.mu.Unlock()
	if h != nil {
		h.mu.Lock()
		delete(h.conns, c)
		h.mu.Unlock()
	}
}

// alive counts the connections that the client has not closed. The kernel is
// asked: the goroutine of a connection learns of its end some time later.
func alive(m map[*conn]struct{}) int {
	n := 0
	for c := range m {
		if !c.isGone() {
			n++
		}
	}
	return n
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
		old.mu.Lock()
		delete(old.conns, c)
		old.mu.Unlock()
	}
	h.mu.Lock()
	h.conns[c] = struct{}{}
	h.counts.Connections++
	over := 0
	if n := len(h.conns); n > h.counts.MaxConnections || n > 1 {
		over = alive(h.conns)
		h.counts.MaxConnections = max(h.counts.MaxConnections, over, 1)
	}
	h.mu.Unlock()
	if over > 1 {
		t.violate("connections", func(v *Violation) {
			v.By, v.Host, v.Detail, v.At = "host", h.name, strconv.Itoa(over)+" connections at once", t.time(t.now())
		})
	}
}

func (t *tracker) time(ns int64) time.Time { return t.base.Add(time.Duration(ns)) }

// begin enters a request whose header has been read; r.begin is set.
func (t *tracker) begin(c *conn, r *request) {
	h := r.host
	r.seq = t.seq.Add(1)
	t.attach(c, h)
	h.group.enter(t, r)
	r.addr = t.address(c.local)
	r.addr.group.enter(t, r)
	h.domain.enter(t, r)
	if h.site == nil && !h.made {
		return
	}
	path := r.path
	if path == "/robots.txt" {
		return
	}
	if h.site != nil {
		if rule, ok := h.site.robots.forbids(path); ok {
			t.denied(r, rule)
		}
	}
	h.mu.Lock()
	if h.robotsAt == 0 || r.begin < h.robotsAt {
		h.counts.BeforeRobots++
	}
	h.mu.Unlock()
}

// denied notes a request that robots.txt forbids by rule.
func (t *tracker) denied(r *request, rule string) {
	t.violate("robots", func(v *Violation) {
		v.By, v.Host, v.URL, v.At, v.Detail = "host", r.host.name, r.url(), t.time(r.begin), rule
	})
}

// originHost is the state of a host of the Origin.
func (t *tracker) originHost(c *conn, number int64) *hostState {
	h := t.hostOf(t.origin.Host(number).Name, nil)
	h.mu.Lock()
	h.made, h.number = true, number
	h.mu.Unlock()
	return h
}

// askedBefore is how often the URL was answered before, with no page.
func (t *tracker) askedBefore(r *request) int {
	h := r.host
	h.mu.Lock()
	defer h.mu.Unlock()
	return int(min(h.urls[t.key(r)].requests, 3))
}

func (t *tracker) key(r *request) uint64 {
	key := maphash.String(t.seed, r.path)
	if r.secure {
		key ^= 1
	}
	return key
}

// replied notes what the Origin's answer is.
func (t *tracker) replied(r *request, rep *Reply) {
	r.status, r.retry = rep.Status, int64(rep.RetryAfter)
	if rep.Denied {
		t.denied(r, rep.Rule)
	}
}

// promiseCrawlDelay raises the promise for a host whose robots.txt is known from now on.
func (h *hostState) promiseCrawlDelay(p Promise) {
	if !p.CrawlDelay || h.site == nil || h.site.robots == nil {
		return
	}
	h.group.mu.Lock()
	h.group.promised = max(h.group.promised, int64(h.site.robots.delay))
	h.group.mu.Unlock()
}

// end takes a request out again.
func (t *tracker) end(r *request, end int64) {
	h := r.host
	end = max(end, r.begin)
	notBefore := int64(0)
	if r.retry > 0 && !r.aborted {
		notBefore = end + r.retry
	}
	if r.path == "/robots.txt" && r.complete {
		h.promiseCrawlDelay(t.promised())
	}
	h.group.leave(t, r, end, notBefore)
	r.addr.group.leave(t, r, end, 0)
	h.domain.leave(t, r, end, 0)
	t.count(r, end)
	t.record(r, end)
}

// count updates the counters and the count of the URL.
func (t *tracker) count(r *request, end int64) {
	h := r.host
	answered := r.complete && !r.aborted && r.status > 0 && r.status < 500 && r.status != 429
	key := t.key(r)
	h.mu.Lock()
	k := &h.counts
	k.Requests++
	k.Bytes += r.bytes
	if r.aborted {
		k.Aborted++
	}
	switch {
	case !r.complete && !r.aborted:
		k.Broken++
	case r.path == "/robots.txt":
		k.Robots++
		if h.robotsAt == 0 {
			h.robotsAt = end
		}
	case r.complete && r.status/100 == 2:
		k.Pages++
	}
	if k.Status == nil {
		k.Status = map[int]int64{}
	}
	k.Status[r.status]++
	u, known := h.urls[key]
	counted := known || t.nURLs.Add(1) <= t.urlLimit
	if counted {
		u.requests++
		if answered {
			u.answers++
		}
		h.urls[key] = u
	}
	if !known && counted {
		k.URLs++
		if t.kept.Add(1) <= t.keepURLs {
			h.names[key] = r.url()
		}
	}
	h.mu.Unlock()
	if !counted {
		t.nURLs.Add(-1)
		t.uncounted.Add(1)
		return
	}
	if answered && u.answers > 1 && r.path != "/robots.txt" {
		t.vmu.Lock()
		t.nrepeats++
		if name := r.url(); t.repeats[name] > 0 || len(t.repeats) < maxRepeats {
			t.repeats[name] = int64(u.answers)
		}
		t.vmu.Unlock()
	}
}

// violate counts a violation; describe is called for those that are kept.
func (t *tracker) violate(kind string, describe func(*Violation)) {
	t.vmu.Lock()
	t.vcount[kind]++
	keep := t.vcount[kind] <= maxViolations
	t.vmu.Unlock()
	if !keep {
		return
	}
	v := Violation{Kind: kind}
	describe(&v)
	t.vmu.Lock()
	t.violations = append(t.violations, v)
	t.vmu.Unlock()
}

// enter puts a request into the window, in order of begin.
func (g *group) enter(t *tracker, r *request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests++
	if len(g.window) >= maxWindow {
		g.window[0].end = r.begin
		g.settle(t)
	}
	i := len(g.window)
	for i > 0 && g.window[i-1].begin > r.begin {
		i--
	}
	s := span{req: r, begin: r.begin}
	g.window = slices.Insert(g.window, i, s)
	g.settle(t)
}

func (g *group) leave(t *tracker, r *request, end, notBefore int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.notBefore = max(g.notBefore, notBefore)
	for i := range g.window {
		if g.window[i].req == r {
			g.window[i].end = end
			break
		}
	}
	g.settle(t)
}

// settle judges the first of the window and lets go of it once it has ended.
// Called with mu held.
func (g *group) settle(t *tracker) {
	for len(g.window) > 0 {
		s := &g.window[0]
		if !s.judged {
			s.judged = true
			g.judge(t, s)
		}
		if s.end == 0 {
			return
		}
		for i := range g.window[1:] {
			later := &g.window[1+i]
			if later.begin >= s.end {
				break
			}
			if later.overlaps++; later.overlaps == 1 && g.kind == "host" {
				g.violate(t, "concurrent", s.req, later.req, s.end, 0)
			}
		}
		if s.end > g.lastEnd {
			g.lastEnd, g.last = s.end, s.req
		}
		g.maxActive = max(g.maxActive, s.overlaps+1)
		g.window = slices.Delete(g.window, 0, 1)
	}
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
	if gap < g.promised {
		g.violate(t, "gap", g.last, s.req, g.lastEnd, g.promised)
	}
	if s.begin < g.notBefore {
		g.violate(t, "retry-after", g.last, s.req, g.lastEnd, g.notBefore-g.lastEnd)
	}
}

// violate notes that b came too early after a, which ended at end.
func (g *group) violate(t *tracker, kind string, a, b *request, end, promised int64) {
	t.violate(kind, func(v *Violation) {
		*v = Violation{Kind: kind, By: g.kind, Host: g.name, URL: b.url(), At: t.time(b.begin), After: a.url(),
			AfterBegan: t.time(a.begin), AfterEnded: t.time(end), Gap: Seconds(max(0, b.begin-end)), Promised: Seconds(promised)}
	})
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

func (t *tracker) promised() Promise {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.promise
}
