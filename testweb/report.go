package testweb

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// Seconds is a duration in nanoseconds that JSON shows in seconds.
type Seconds int64

// MarshalJSON writes seconds with six decimals.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Seconds(), 'f', 6, 64), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Seconds) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(b), 64)
	*s = Seconds(f * float64(time.Second))
	return err
}

// A Report is the truth about a crawl, from the server's side.
type Report struct {
	Began time.Time `json:"began"`
	At    time.Time `json:"at"`
	// Requests have ended; Active are under way; Pages are complete answers
	// with a 2xx status, robots.txt not among them.
	Requests int64 `json:"requests"`
	Active   int64 `json:"active"`
	Pages    int64 `json:"pages"`
	Bytes    int64 `json:"bytes"`
	// URLs are different ones; Uncounted are the requests beyond Config.URLs.
	URLs      int64         `json:"urls"`
	Uncounted int64         `json:"uncounted"`
	Status    map[int]int64 `json:"status"`
	// Repeated counts the complete answers below 500, 429 excepted, beyond the
	// first of each URL, robots.txt not among them. Twice has the URLs, at
	// most 10,000, with the number of answers.
	Repeated int64            `json:"repeated"`
	Twice    map[string]int64 `json:"twice"`
	// ViolationCount counts all by kind; Violations has the first 200 of each kind.
	ViolationCount map[string]int64       `json:"violation_count"`
	Violations     []Violation            `json:"violations"`
	Hosts          map[string]HostReport  `json:"hosts"`
	Addrs          map[string]GroupReport `json:"addresses"`
	Sites          map[string]GroupReport `json:"sites"`
	DNSQueries     int64                  `json:"dns_queries"`
}

// A GroupReport is about the requests of an address or a registered domain.
type GroupReport struct {
	Requests int64 `json:"requests"`
	// MaxConcurrent is the most requests under way at one time, and
	// MaxConnections the most connections (of an address and a host only).
	MaxConcurrent  int   `json:"max_concurrent"`
	MaxConnections int   `json:"max_connections,omitempty"`
	Connections    int64 `json:"connections,omitempty"`
	// MinGap is the shortest time from the end of a response to the beginning
	// of the next request, 0 when they overlapped; -1 ns: there were no two.
	MinGap   Seconds `json:"min_gap"`
	Promised Seconds `json:"promised"`
}

// A HostReport is about the requests to a host.
type HostReport struct {
	GroupReport
	Addr  string `json:"address"`
	Pages int64  `json:"pages"`
	URLs  int64  `json:"urls"`
	Bytes int64  `json:"bytes"`
	// Aborted: the client went in the middle. Broken: the site stopped.
	Aborted int64         `json:"aborted"`
	Broken  int64         `json:"broken"`
	Robots  int64         `json:"robots"`
	Status  map[int]int64 `json:"status"`
	// BeforeRobots are the requests before robots.txt was answered.
	BeforeRobots int64 `json:"before_robots"`
}

// A Violation is a broken promise. Kind is one of
//
//	gap          sooner than promised after the end of the last response
//	concurrent   two requests to a host at once
//	connections  two connections to a host at once
//	retry-after  before the time that a 429 or 503 named
//	robots       what robots.txt forbids
type Violation struct {
	Kind string `json:"kind"`
	// By is what the two requests share: host, address or site; Host is its name.
	By   string    `json:"by,omitempty"`
	Host string    `json:"host"`
	URL  string    `json:"url,omitempty"`
	At   time.Time `json:"at"`
	// After is the request before it.
	After      string    `json:"after,omitempty"`
	AfterBegan time.Time `json:"after_began,omitzero"`
	AfterEnded time.Time `json:"after_ended,omitzero"`
	Gap        Seconds   `json:"gap,omitempty"`
	Promised   Seconds   `json:"promised,omitempty"`
	Detail     string    `json:"detail,omitempty"`
}

// String is the violation in one line.
func (v Violation) String() string {
	const clock = "15:04:05.000000"
	s := fmt.Sprintf("%s %s %s %s at %s", v.Kind, v.By, v.Host, v.URL, v.At.Format(clock))
	if v.After != "" {
		s += fmt.Sprintf(", after %s (began %s, ended %s)", v.After, v.AfterBegan.Format(clock), v.AfterEnded.Format(clock))
	}
	if v.Promised != 0 {
		s += fmt.Sprintf(": %v of %v", time.Duration(v.Gap), time.Duration(v.Promised))
	}
	if v.Detail != "" {
		s += ": " + v.Detail
	}
	return s
}

// Report is the truth so far. Requests under way count as lasting until now.
func (w *Web) Report() *Report {
	r := w.track.report()
	r.DNSQueries = w.dnsQueries.Load()
	return r
}

// Reset forgets everything that was measured; p is the promise from now on.
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
	w.track.reset(p)
}

// Fetched is every URL that was asked for, with the number of complete
// answers below 500 other than 429; at most Config.KeepURLs of them.
func (w *Web) Fetched() map[string]int {
	t := w.track
	m := map[string]int{}
	for _, h := range t.allHosts() {
		h.mu.Lock()
		for k, name := range h.names {
			m[name] = int(h.urls[k].answers)
		}
		h.mu.Unlock()
	}
	return m
}

func (t *tracker) allHosts() []*hostState {
	t.mu.RLock()
	defer t.mu.RUnlock()
	hosts := make([]*hostState, 0, len(t.hosts))
	for _, h := range t.hosts {
		hosts = append(hosts, h)
	}
	return hosts
}

func (t *tracker) report() *Report {
	r := &Report{Began: t.base, At: time.Now(), Status: map[int]int64{}, Twice: map[string]int64{}, ViolationCount: map[string]int64{},
		Hosts: map[string]HostReport{}, Addrs: map[string]GroupReport{}, Sites: map[string]GroupReport{}, Uncounted: t.uncounted.Load()}
	now := t.now()
	// What the requests under way would violate if they ended now.
	pending := &tracker{base: t.base, vcount: map[string]int64{}}
	hosts := t.allHosts()
	t.mu.RLock()
	addrs := make(map[netip.Addr]*addrState, len(t.addrs))
	for a, s := range t.addrs {
		addrs[a] = s
	}
	domains := make([]*group, 0, len(t.domains))
	for _, g := range t.domains {
		domains = append(domains, g)
	}
	t.mu.RUnlock()
	for _, h := range hosts {
		g, active := h.group.snapshot(pending, now)
		h.mu.Lock()
		k := h.counts
		st := make(map[int]int64, len(k.Status))
		for code, n := range k.Status {
			st[code] = n
			r.Status[code] += n
		}
		h.mu.Unlock()
		k.Status = st
		g.Requests, g.Connections, g.MaxConnections = k.Requests, k.Connections, k.MaxConnections
		k.GroupReport = g
		if h.site != nil {
			k.Addr = h.site.addr.String()
		}
		r.Requests += k.Requests
		r.Active += active
		r.Pages += k.Pages
		r.Bytes += k.Bytes
		r.URLs += k.URLs
		r.Hosts[h.name] = k
	}
	for a, s := range addrs {
		g, _ := s.group.snapshot(pending, now)
		s.mu.Lock()
		g.MaxConnections, g.Connections = s.maxConns, s.opened
		s.mu.Unlock()
		r.Addrs[a.String()] = g
	}
	for _, d := range domains {
		g, _ := d.snapshot(pending, now)
		r.Sites[d.name] = g
	}
	t.vmu.Lock()
	r.Violations = append([]Violation{}, t.violations...)
	for k, n := range t.vcount {
		r.ViolationCount[k] = n
	}
	for u, n := range t.repeats {
		r.Twice[u] = n
	}
	r.Repeated = t.nrepeats
	t.vmu.Unlock()
	for k, n := range pending.vcount {
		r.ViolationCount[k] += n
	}
	r.Violations = append(r.Violations, pending.violations...)
	slices.SortStableFunc(r.Violations, func(a, b Violation) int { return a.At.Compare(b.At) })
	return r
}

// snapshot reports on the group as if the requests under way ended now; what
// that would violate goes to pending.
func (g *group) snapshot(pending *tracker, now int64) (r GroupReport, active int64) {
	g.mu.Lock()
	c := group{kind: g.kind, name: g.name, promised: g.promised, window: slices.Clone(g.window), lastEnd: g.lastEnd,
		last: g.last, notBefore: g.notBefore, minGap: g.minGap, maxActive: g.maxActive, requests: g.requests}
	g.mu.Unlock()
	for i := range c.window {
		if c.window[i].end == 0 {
			c.window[i].end = max(now, c.window[i].begin)
			active++
		}
	}
	c.settle(pending)
	return GroupReport{Requests: c.requests, MaxConcurrent: c.maxActive, MinGap: Seconds(c.minGap), Promised: Seconds(c.promised)}, active
}

// An Entry is one finished request.
type Entry struct {
	Began, Ended time.Time
	URL          string
	Method       string
	Status       int
	Bytes        int64 // of the body as sent
	Conn         int64 // connections are numbered from 1
	Remote       netip.AddrPort
	Aborted      bool // the client went in the middle
	Broken       bool // the site stopped in the middle
}

// AppendTSV appends the entry's line: began and ended in seconds since 1970
// with microseconds, connection, method, status, bytes, end (ok, aborted or
// broken), URL.
func (e Entry) AppendTSV(b []byte) []byte {
	sec := func(t time.Time) {
		us := t.UnixMicro()
		b = strconv.AppendInt(b, us/1e6, 10)
		b = append(b, '.')
		f := strconv.Itoa(int(us%1e6) + 1e6)
		b = append(append(b, f[1:]...), '\t')
	}
	sec(e.Began)
	sec(e.Ended)
	b = append(strconv.AppendInt(b, e.Conn, 10), '\t')
	b = append(append(b, e.Method...), '\t')
	b = append(strconv.AppendInt(b, int64(e.Status), 10), '\t')
	b = append(strconv.AppendInt(b, e.Bytes, 10), '\t')
	switch {
	case e.Aborted:
		b = append(b, "aborted\t"...)
	case e.Broken:
		b = append(b, "broken\t"...)
	default:
		b = append(b, "ok\t"...)
	}
	return append(append(b, e.URL...), '\n')
}

// record keeps the request in the ring and writes its line.
func (t *tracker) record(r *request, end int64) {
	e := Entry{Began: t.time(r.begin), Ended: t.time(end), URL: r.url(), Method: r.method, Status: r.status, Bytes: r.bytes,
		Conn: r.conn, Remote: r.remote, Aborted: r.aborted, Broken: !r.complete && !r.aborted}
	t.lmu.Lock()
	t.ring[t.nlog%int64(len(t.ring))] = e
	t.nlog++
	if t.out != nil {
		t.line = e.AppendTSV(t.line[:0])
		t.out.Write(t.line) // an error stays in the writer and shows at flush
	}
	t.lmu.Unlock()
}

func (t *tracker) flush() {
	t.lmu.Lock()
	if t.out != nil {
		t.out.Flush()
	}
	t.lmu.Unlock()
}

// Log is the newest finished requests, at most Config.LogEntries, in order of
// their beginning.
func (w *Web) Log() []Entry {
	t := w.track
	t.lmu.Lock()
	n := min(t.nlog, int64(len(t.ring)))
	es := slices.Clone(t.ring[:n])
	t.lmu.Unlock()
	slices.SortStableFunc(es, func(a, b Entry) int { return a.Began.Compare(b.Began) })
	return es
}
