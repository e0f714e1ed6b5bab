package frontier

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// The model does by plain search what the frontier does with its heaps.
type model struct {
	t       *rapid.T
	f       *Frontier
	mem     disk.FS
	sites   int // number of sites among the hosts
	addrs   int
	pace    time.Duration // of the sites in paced
	paced   map[string]bool
	frame   int // frameBytes of the frontier
	cfg     Config
	now     time.Time
	hosts   map[string]*modelHost
	buckets map[string]*modelBucket
	number  uint64
	serial  int
	retries int
	gone    map[string]bool // URLs that are done
	inPool  map[string]levelCount

	withdrawn []modelLink // withdrawn links in the order of each host and level

	hushedHosts time.Time

	lease *fakeLease // nil if there are no leases

	hushedAt time.Time
}

type modelLink struct {
	number  uint64
	level   uint8
	attempt int
	url     string
}

type modelHost struct {
	name    string
	front   []modelLink
	queues  map[uint8][]modelLink
	cur     *modelLink
	held    []string // keys of buckets
	at      time.Time
	addr    netip.Addr
	until   time.Time
	fresh   time.Time
	slow    int
	slowEnd time.Time
	blocked bool
	turns   int
}

type modelBucket struct {
	holder string
	freeAt time.Time
}

func (h *modelHost) n() (n int) {
	n = len(h.front)
	for _, q := range h.queues {
		n += len(q)
	}
	return n
}

func (h *modelHost) top() uint8 {
	var best uint8
	for l, q := range h.queues {
		if len(q) > 0 {
			best = max(best, l)
		}
	}
	return best
}

// head returns the host's first link. A link in front of the queues gets their level; links in the pools do not count
// for it.
func (m *model) head(h *modelHost) modelLink {
	if len(h.front) > 0 {
		head := h.front[0]
		for l, q := range h.queues {
			if len(q) > int(m.inPool[h.name][l]) {
				head.level = max(head.level, l)
			}
		}
		return head
	}
	return h.queues[h.top()][0]
}

// key returns the host's position in the order, as if there were no pools. Only warm depends on them: a link from a
// pool does not find its host warm.
func (m *model) key(h *modelHost) key {
	l := m.head(h)
	pooled := len(h.front) == 0 && len(h.queues[l.level]) == int(m.inPool[h.name][l.level])
	return key{l.level, h.turns > 0 && !pooled, l.number}
}

func (m *model) pop(h *modelHost) modelLink {
	if len(h.front) > 0 {
		l := h.front[0]
		h.front = h.front[1:]
		return l
	}
	l := h.queues[h.top()][0]
	h.queues[h.top()] = h.queues[h.top()][1:]
	return l
}

func (m *model) host(name string) *modelHost {
	h := m.hosts[name]
	if h == nil {
		h = &modelHost{name: name, queues: map[uint8][]modelLink{}, at: m.hushEnd(name)}
		m.hosts[name] = h
	}
	return h
}

// hushEnd returns the earliest time of hosts that are met after a Hush.
func (m *model) hushEnd(host string) time.Time {
	if m.hushedHosts.IsZero() {
		return time.Time{}
	}
	return m.hushedHosts.Add(max(m.cfg.HostDelay, m.hostDelay(host)))
}

// hostDelay returns the configured delay of a host.
func (m *model) hostDelay(host string) time.Duration {
	if m.cfg.Delays != nil {
		if d, ok := m.cfg.Delays.Of(host); ok {
			return d
		}
	}
	return m.cfg.HostDelay
}

// shared returns the keys of what h shares with others.
func (m *model) shared(h *modelHost) (keys []string) {
	if !h.addr.IsValid() {
		return nil // before the look-up nothing holds it back
	}
	if m.cfg.IPDelay > 0 {
		keys = append(keys, "ip "+h.addr.String())
	}
	if site := weburl.Site(h.name); m.cfg.SiteDelay > 0 || m.paced[site] {
		keys = append(keys, "site "+site)
	}
	return keys
}

func (m *model) bucket(k string) *modelBucket {
	b := m.buckets[k]
	if b == nil {
		b = &modelBucket{}
		m.buckets[k] = b
		if !m.hushedAt.IsZero() {
			b.freeAt = m.hushedAt.Add(m.delay(k))
		}
	}
	return b
}

// delay returns the quiet time of a bucket.
func (m *model) delay(k string) time.Duration {
	if site, ok := strings.CutPrefix(k, "site "); ok && m.paced[site] {
		return max(m.cfg.SiteDelay, m.pace)
	} else if ok {
		return m.cfg.SiteDelay
	}
	return m.cfg.IPDelay
}

func (m *model) touched() {
	name := m.name()
	m.advance()
	d := time.Duration(rapid.IntRange(0, 5000).Draw(m.t, "delay")) * time.Millisecond
	m.f.tick(m.now)
	m.sync() // the frontier may forget the host, and so its address, before Touched
	m.hushedAt = m.now
	for k, b := range m.buckets {
		if at := m.now.Add(m.delay(k)); at.After(b.freeAt) {
			b.freeAt = at
		}
	}
	h := m.host(name)
	least := max(m.hostDelay(name), d)
	if fh := m.f.hosts.dict.of(name); fh != nil {
		least = max(least, fh.delay)
	}
	if at := m.now.Add(least); at.After(h.at) {
		h.at = at
	}
	m.f.Touched(name, d, m.now)
}

func (m *model) hush() {
	m.advance()
	m.f.tick(m.now)
	m.sync()
	m.hushedAt, m.hushedHosts = m.now, m.now
	for k, b := range m.buckets {
		if at := m.now.Add(m.delay(k)); at.After(b.freeAt) {
			b.freeAt = at
		}
	}
	for name, h := range m.hosts {
		least := max(m.cfg.HostDelay, m.hostDelay(name))
		if fh := m.f.hosts.dict.of(name); fh != nil {
			least = max(least, fh.delay)
		}
		if at := m.now.Add(least); at.After(h.at) {
			h.at = at
		}
	}
	m.f.Hush(m.now)
}

// due returns the earliest time at which h could be given out if nothing else happened. ok is false if it never would
// be.
func (m *model) due(h *modelHost) (at time.Time, ok bool) {
	if h.cur != nil || h.blocked || h.n() == 0 {
		return at, false
	}
	at = h.at
	for _, k := range m.shared(h) {
		b := m.bucket(k)
		if b.holder != "" {
			return at, false
		}
		if b.freeAt.After(at) {
			at = b.freeAt
		}
		if m.lease == nil {
			continue
		}
		p := m.point(k)
		if !m.lease.held[p] {
			return at, false
		}
		if free := m.lease.free[p]; free.After(at) {
			at = free
		}
	}
	return at, true
}

func (m *model) best() *modelHost {
	var best *modelHost
	for _, h := range m.hosts {
		if at, ok := m.due(h); !ok || at.After(m.now) {
			continue
		}
		if best == nil {
			best = h
			continue
		}
		if m.key(h).ahead(m.key(best)) {
			best = h
		}
	}
	return best
}

func (m *model) forgive(h *modelHost) {
	for h.slow > 0 && m.now.Sub(h.slowEnd) >= m.cfg.ForgiveAfter {
		h.slow--
		h.slowEnd = h.slowEnd.Add(m.cfg.ForgiveAfter)
	}
}

// sync makes the model forget what the frontier has forgotten, if it may forget that.
func (m *model) sync() {
	for name, h := range m.hosts {
		if m.f.hosts.dict.of(name) != nil {
			continue
		}
		m.forgive(h)
		pooled := m.pooled(h)
		rests := h.at.After(m.now) && h.at.After(m.hushEnd(name))
		if h.n() != pooled || h.cur != nil || h.blocked || rests || h.slow > 0 {
			m.t.Fatalf("%s: forgotten with %d links, %d of them in the pools, not before %v, slow %d",
				name, h.n(), pooled, h.at, h.slow)
		}
		if pooled == 0 {
			delete(m.hosts, name)
		} else {
			m.hosts[name] = &modelHost{name: name, queues: h.queues, at: m.hushEnd(name)}
		}
	}
	for name, h := range m.hosts {
		if fh := m.f.hosts.dict.of(name); fh != nil && fh.empty() && !fh.busy() {
			h.turns = 0 // no link waits for its connection
		}
	}
}

// pooled returns the number of h's links that are in no queue yet.
func (m *model) pooled(h *modelHost) int {
	of, err := m.f.countPooled()
	m.must(err)
	n := 0
	for _, k := range of[h.name] {
		n += int(k)
	}
	return n
}

// restart continues with what the journal keeps: the links, and the states from EachHost.
func (m *model) restart() {
	m.withdrawn = nil
	var states []HostState
	m.must(m.f.EachHost(m.now, func(s HostState) error { states = append(states, s); return nil }))
	links := m.pending()
	for name, h := range m.hosts { // in the order of each host
		var of []modelLink
		if h.cur != nil {
			of = append(of, *h.cur)
		}
		of = append(of, h.front...)
		for _, l := range slices.Sorted(maps.Keys(h.queues)) {
			of = append(of, h.queues[l]...)
		}
		links = append(slices.DeleteFunc(links, func(l modelLink) bool { return hostOf(l.url) == name }), of...)
	}
	slices.SortStableFunc(links, func(a, b modelLink) int { return cmp.Compare(a.number, b.number) })
	m.must(m.f.Close())
	m.start()
	m.hosts, m.buckets = map[string]*modelHost{}, map[string]*modelBucket{}
	m.hushedHosts, m.hushedAt = time.Time{}, time.Time{}
	for _, s := range states {
		h := m.host(s.Host)
		h.at, h.slow, h.slowEnd, h.blocked = s.NotBefore, int(s.Slow), s.SlowUntil, s.Blocked
		m.f.Restore(s)
	}
	m.f.tick(m.now)
	m.sync()
	m.hush()
	for _, l := range links {
		h := m.host(hostOf(l.url))
		l.attempt = 0
		h.queues[l.level] = append(h.queues[l.level], l)
		m.must(m.f.PushAt([]link.Link{linkOf(&testing.T{}, l.url, l.level)}, []uint64{l.number}))
	}
	m.number = m.f.number
}

// start opens a frontier with the model's configuration.
func (m *model) start() {
	cfg := m.cfg
	if cfg.HostDelay == 0 {
		cfg.HostDelay = -1
	}
	cfg.Pace = paceOf(func(string) time.Duration { return m.pace })
	cfg.Paced = slices.Sorted(maps.Keys(m.paced))
	var err error
	if m.lease != nil {
		m.lease.using = map[uint64]string{}
		cfg.Lease = m.lease
	}
	m.f, err = Open(m.mem, "frontier", cfg)
	m.must(err)
	m.f.hosts.shares.awaitedLeast = 1 << 30
	// Frames are small, so that there are several. Next may read any number of them, so that it always finds the best
	// link of all.
	m.f.pools.frameBytes, m.f.readAtOnce = m.frame, 1<<20
}

func TestModel(t *testing.T) { testModel(t, false) }

// TestModelLease is TestModel with other agents that have hosts at the addresses and sites, so that leases come and go.
func TestModelLease(t *testing.T) { testModel(t, true) }

func testModel(t *testing.T, leased bool) {
	rapid.Check(t, func(t *rapid.T) {
		ms := func(name string, most int) time.Duration {
			return time.Duration(max(0, rapid.IntRange(-most, most).Draw(t, name))) * time.Millisecond
		}
		m := &model{
			t: t, now: start, mem: testdisk.NewMem(), gone: map[string]bool{},
			// From all hosts sharing their addresses and sites to nearly all being alone.
			sites: rapid.SampledFrom([]int{3, 3, 5, modelHosts}).Draw(t, "sites"),
			addrs: rapid.SampledFrom([]int{4, 4, 10, 50}).Draw(t, "addrs"),
			hosts: map[string]*modelHost{}, buckets: map[string]*modelBucket{},
			cfg: Config{
				HostDelay: ms("host delay", 3000), IPDelay: ms("ip delay", 1500), SiteDelay: ms("site delay", 1500),
				SlowBase: 4 * time.Second, ForgiveAfter: 20 * time.Second, SlowMax: 1000 * time.Hour,
				MemoryBytes:  int64(rapid.SampledFrom([]int{1, 4000, 1 << 20}).Draw(t, "memory")),
				Active:       rapid.SampledFrom([]int{-1, 1, 1, 2, 3, 5}).Draw(t, "active"),
				SegmentBytes: 500, Burst: rapid.IntRange(1, 4).Draw(t, "burst"),
			},
		}
		if special := ms("delay of some hosts", 5000); rapid.Bool().Draw(t, "some hosts have another delay") {
			m.cfg.Delays = delayOf(func(host string) (time.Duration, bool) {
				return special, len(host) > 1 && host[1]%2 == 0
			})
		}
		m.pace, m.paced = max(ms("pace", 4000), time.Millisecond), map[string]bool{}
		m.frame = rapid.SampledFrom([]int{1, 100, 300}).Draw(t, "frame")
		if leased {
			m.lease = newFakeLease(m)
		}
		m.start()
		m.f.tick(m.now)
		step := func(fn func()) func(*rapid.T) {
			return func(t *rapid.T) { m.t = t; fn() }
		}
		t.Repeat(map[string]func(*rapid.T){
			"push":      step(m.push),
			"pushFront": step(m.pushFront),
			"next":      step(m.next),
			"next2":     step(m.next),
			"next3":     step(m.next),
			"resolved":  step(m.resolved),
			"resolved2": step(m.resolved),
			"done":      step(m.done),
			"done2":     step(m.done),
			"block":     step(func() { m.block() }),
			"withdraw": step(func() {
				if rapid.IntRange(0, 9).Draw(m.t, "withdraw") == 0 {
					m.withdraw()
				}
			}),
			"withdrawn": step(m.showWithdrawn),
			"touched": step(func() {
				if rapid.IntRange(0, 9).Draw(m.t, "touch") == 0 {
					m.touched()
				}
			}),
			"hush": step(func() {
				if rapid.IntRange(0, 9).Draw(m.t, "hush") == 0 {
					m.hush()
				}
			}),
			"repace": step(func() {
				if rapid.IntRange(0, 9).Draw(m.t, "repace") == 0 {
					m.repace()
				}
			}),
			"lease":   step(m.leases),
			"lease2":  step(m.leases),
			"each":    step(m.each),
			"explain": step(m.explain),
			"restart": step(func() {
				if rapid.IntRange(0, 9).Draw(m.t, "restart") == 0 {
					m.restart()
				}
			}),
			"": func(t *rapid.T) {
				m.t = t
				m.sync()
				if err := m.f.check(); err != nil {
					t.Fatalf("%v", err)
				}
			},
		})
	})
}
