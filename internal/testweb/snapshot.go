package testweb

import (
	"cmp"
	"slices"
	"time"
)

// The bounds of lists in a report.
const (
	maxListed   = 1000 // hosts, addresses and sites each
	maxMissed   = 1000 // URLs
	maxNotFound = 20   // URLs
)

// Report returns what the server has seen so far. Unfinished requests count as if they ended now.
func (w *Web) Report() *Report {
	r := w.track.report(w)
	r.DNSQueries = w.dnsQueries.Load()
	return r
}

// A Count has the most important sums of a Report. It costs nearly nothing, so that a crawl can be watched with it.
type Count struct {
	At         time.Time `json:"at"`
	Requests   int64     `json:"requests"`
	Active     int64     `json:"active"`
	Pages      int64     `json:"pages"`
	Bytes      int64     `json:"bytes"`
	Sent       int64     `json:"sent"` // bytes written to all connections so far, with headers; before TLS
	Violations int64     `json:"violations"`
}

// Count returns the sums so far; the fields but Sent mean the same as in Report.
func (w *Web) Count() Count {
	t := w.track
	k := Count{At: time.Now(), Requests: t.ended.Load(), Pages: t.pages.Load(), Bytes: t.bytes.Load(),
		Sent: t.sent.Load()}
	k.Active = max(0, t.begun.Load()-k.Requests)
	for i := range t.vcount {
		k.Violations += t.vcount[i].Load()
	}
	return k
}

// WaitIdle waits until no request is unfinished, for at most max, and reports whether none is. A client may have read a
// response before the Web has counted it. So call WaitIdle after the last request of a crawl, before Report or Fetched.
func (w *Web) WaitIdle(max time.Duration) bool {
	for end := time.Now().Add(max); w.Count().Active > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// Reset forgets everything that was measured. From now on the tracker checks the promise p.
func (w *Web) Reset(p Promise) {
	if p.Agent == "" {
		p.Agent = w.cfg.Promise.Agent
	}
	for _, st := range w.sites {
		for i := range st.rules {
			st.rules[i].n.Store(0)
		}
	}
	w.dnsQueries.Store(0)
	w.tlsFull.Store(0)
	w.tlsResumed.Store(0)
	w.track.reset(p)
}

// Fetched maps every requested URL to its number of complete responses to a GET with a status below 500 other than 429.
// It has at most Config.KeepURLs URLs. Of the Origin's hosts it has only pages, and only with a Config.Truth, which
// knows their URLs; for them 2 means two or more.
func (w *Web) Fetched() map[string]int {
	t := w.track
	m := map[string]int{}
	pages := map[int64]mark{} // of a host
	for h := range t.tab.Load().allHosts() {
		h.group.mu.Lock()
		if h.named() {
			for k, name := range h.extra.names {
				m[name] = int(h.extra.known[k].answers)
			}
		} else if w.cfg.Truth != nil && h.number >= 0 {
			h.eachMark(func(page int64, k mark) {
				if int64(len(m)+len(pages)) < t.keepURLs {
					pages[page] = k
				}
			})
		}
		h.group.mu.Unlock()
		for page, k := range pages {
			m[w.cfg.Truth.URL(h.number, page)] = int(k - asked)
		}
		clear(pages)
	}
	return m
}

// allHosts iterates over the hosts. Each may change meanwhile.
func (tab *tables) allHosts() func(yield func(*hostState) bool) {
	return func(yield func(*hostState) bool) {
		var hosts []*hostState
		for i := range tab.shards {
			s := &tab.shards[i]
			hosts = hosts[:0]
			s.mu.Lock()
			for _, h := range s.named {
				hosts = append(hosts, h)
			}
			for _, h := range s.made {
				hosts = append(hosts, h)
			}
			if s.overflow != nil {
				hosts = append(hosts, s.overflow)
			}
			s.mu.Unlock()
			for _, h := range hosts {
				if !yield(h) {
					return
				}
			}
		}
	}
}

// worst keeps the maxListed worst groups of many.
type worst[T any] struct {
	list []ranked[T]
	n    int64
	most map[int]int64 // number of groups by MaxConcurrent
}

type ranked[T any] struct {
	group GroupReport
	of    T
}

func (w *worst[T]) add(g GroupReport, of T) {
	w.n++
	if w.most == nil {
		w.most = map[int]int64{}
	}
	if g.MaxConcurrent > 0 {
		w.most[g.MaxConcurrent]++
	}
	if w.list = append(w.list, ranked[T]{g, of}); len(w.list) >= 4*maxListed {
		w.cut()
	}
}

// cut keeps the worst groups, sorted, and returns the number of all others.
func (w *worst[T]) cut() int64 {
	slices.SortStableFunc(w.list, func(a, b ranked[T]) int {
		return cmp.Or(cmp.Compare(b.group.Violations, a.group.Violations),
			cmp.Compare(b.group.MaxConcurrent, a.group.MaxConcurrent),
			cmp.Compare(b.group.Requests, a.group.Requests))
	})
	w.list = w.list[:min(len(w.list), maxListed)]
	return w.n - int64(len(w.list))
}

func (t *tracker) report(w *Web) *Report {
	tab := t.tab.Load()
	r := &Report{
		Active: w.Count().Active, // before the counts: none unfinished means that all are counted
		Began:  tab.began, At: time.Now(), Status: map[int]int64{}, Twice: map[string]int64{},
		ViolationCount: map[string]int64{}, Hosts: map[string]HostReport{}, Addrs: map[string]GroupReport{},
		Sites: map[string]GroupReport{}, LeftOut: map[string]int64{}, AtOnce: map[string]map[int]int64{},
		Gaps: map[string]GapReport{}, Uncounted: t.uncounted.Load(), Untracked: t.untracked.Load(),
		Repeated: t.repeated.Load(), Traps: t.traps.report(), Unjudged: !t.judges(),
		Compressed: t.coded.Load(), Compressible: t.codable.Load(), NotFound: t.missing.most(maxNotFound),
		TLS: TLSReport{Full: w.tlsFull.Load(), Resumed: w.tlsResumed.Load()},
	}
	var origin OriginReport
	now := t.now()
	// pending collects the violations of unfinished requests as if they ended now.
	pending := &tracker{base: t.base, origin: t.origin}
	var hosts worst[*hostState]
	for h := range tab.allHosts() {
		g := h.group.snapshot(pending, now)
		h.group.mu.Lock()
		g.Requests = int64(h.ended)
		r.Requests += int64(h.ended)
		r.Pages += int64(h.pages)
		r.Bytes += h.bytes
		r.URLs += int64(h.urls)
		h.eachStatus(func(code int, n int64) { r.Status[code] += n })
		origin.Fetched += int64(h.fetched)
		if h.extra != nil {
			origin.Twice += int64(h.extra.twice)
			r.BeforeRobots += int64(h.extra.early)
		}
		if h.number >= 0 {
			origin.Touched++
		}
		h.group.mu.Unlock()
		if h.number != overflowNumber {
			hosts.add(g, h)
		}
	}
	var addrs worst[*addrState]
	var sites worst[*domainState]
	for i := range tab.shards {
		s := &tab.shards[i]
		s.mu.Lock()
		for _, a := range s.addrs {
			g := a.group.snapshot(pending, now)
			g.MaxConnections, g.Connections = int(a.maxConns), int64(a.opened)
			addrs.add(g, a)
		}
		domains := make([]*domainState, 0, len(s.domains))
		for _, d := range s.domains {
			domains = append(domains, d)
		}
		s.mu.Unlock()
		for _, d := range domains {
			g := d.group.snapshot(pending, now)
			sites.add(g, d)
		}
	}
	for kind, left := range map[groupKind]int64{byHost: hosts.cut(), byAddr: addrs.cut(), bySite: sites.cut()} {
		if left > 0 {
			r.LeftOut[kind.String()] = left
		}
	}
	r.AtOnce["host"], r.AtOnce["address"], r.AtOnce["site"] = hosts.most, addrs.most, sites.most
	for _, h := range hosts.list {
		r.Hosts[h.of.name(t)] = h.of.report(t, h.group)
	}
	for _, a := range addrs.list {
		r.Addrs[addrName(a.of.addr)] = a.group
	}
	for _, d := range sites.list {
		r.Sites[d.of.name(t)] = d.group
	}
	t.reportViolations(r, pending)
	r.Views = t.reportViews(pending)
	if t.fresh != nil {
		r.Fresh = t.fresh.report(now)
	}
	r.Apps = w.reportApps()
	if t.origin != nil {
		origin.Hosts = t.origin.Hosts()
		tab.compare(&origin, w.cfg.Truth)
		r.Origin = &origin
	}
	return r
}

// report returns the report of a host. g is the report of its group.
func (h *hostState) report(t *tracker, g GroupReport) HostReport {
	h.group.mu.Lock()
	defer h.group.mu.Unlock()
	g.Connections, g.MaxConnections = int64(h.opened), int(h.maxConns)
	k := HostReport{
		GroupReport: g, Pages: int64(h.pages), URLs: int64(h.urls), Bytes: h.bytes, Robots: int64(h.robots),
		Status: map[int]int64{},
	}
	if m := h.extra; m != nil {
		k.Aborted, k.Broken, k.BeforeRobots = int64(m.aborted), int64(m.broken), int64(m.early)
	}
	h.eachStatus(func(code int, n int64) { k.Status[code] += n })
	switch {
	case h.number >= 0:
		k.Addr = t.origin.Host(h.number).Addr.String()
	case h.site() != nil:
		k.Addr = h.site().addr.String()
	}
	return k
}

// reportViolations adds the violations and gaps of t and pending to the report.
func (t *tracker) reportViolations(r *Report, pending *tracker) {
	t.vmu.Lock()
	r.Violations = append([]Violation{}, t.violations...)
	for u, n := range t.repeats {
		r.Twice[u] = n
	}
	t.vmu.Unlock()
	for kind := range violationKinds {
		if n := t.vcount[kind].Load() + pending.vcount[kind].Load(); n > 0 {
			r.ViolationCount[kind.String()] = n
		}
	}
	r.Violations = append(r.Violations, pending.violations...)
	slices.SortStableFunc(r.Violations, func(a, b Violation) int { return a.At.Compare(b.At) })
	for kind := range groupKinds {
		r.Gaps[kind.String()] = reportGaps(&t.gaps[kind], &pending.gaps[kind])
	}
}

// compare compares the fetched pages with the reachable ones.
func (tab *tables) compare(r *OriginReport, truth Truth) {
	if truth == nil {
		return
	}
	r.Reachable = truth.Reachable()
	var h *hostState
	last, met := int64(-1), int64(0)
	truth.Each(func(host, page int64) {
		if host != last {
			last = host
			s := tab.shardOf(uint64(host))
			s.mu.Lock()
			h = s.made[host]
			s.mu.Unlock()
		}
		if h != nil {
			h.group.mu.Lock()
			got := h.mark(page)
			h.group.mu.Unlock()
			if got >= answered {
				met++
				return
			}
		}
		if r.Missed++; len(r.MissedURLs) < maxMissed {
			r.MissedURLs = append(r.MissedURLs, truth.URL(host, page))
		}
	})
	r.Beyond = max(0, r.Fetched-met)
}
