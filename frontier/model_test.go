package frontier

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/disk"
	"github.com/orbweaver/orbweaver/weburl"
)

// The model does by search what the frontier does with its heaps.
type model struct {
	t       *rapid.T
	f       *Frontier
	mem     disk.FS
	sites   int // among the hosts
	addrs   int
	frame   int // bytes
	cfg     Config
	now     time.Time
	hosts   map[string]*modelHost
	buckets map[string]*modelBucket
	number  uint64
	serial  int
	retries int
	gone    map[string]bool // URLs finished
	inPool  map[string]levelCount

	withdrawn []modelLink // not shown yet; of a host and level in its order

	hushedHosts time.Time

	lease *fakeLease // nil: none

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
	held    []string // buckets
	at      time.Time
	addr    netip.Addr
	until   time.Time
	fresh   time.Time
	slow    int
	slowEnd time.Time
	blocked bool
	turns   int
	good    int
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

// head is the host's first link. What stands before its queues counts with
// their level, but of links in the pools nobody knows whose they are.
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

// key is the host's place among all, as if there were no pools; but a link in
// a pool does not find its host warm.
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
		h = &modelHost{name: name, queues: map[uint8][]modelLink{}, at: m.hushEnd()}
		m.hosts[name] = h
	}
	return h
}

// hushEnd is the least time of hosts that are met after a Hush.
func (m *model) hushEnd() time.Time {
	if m.hushedHosts.IsZero() {
		return time.Time{}
	}
	return m.hushedHosts.Add(m.cfg.HostDelay)
}

// shared names what h shares with others.
func (m *model) shared(h *modelHost) (keys []string) {
	if !h.addr.IsValid() {
		return nil // until it is looked up nothing holds it back
	}
	if m.cfg.IPDelay > 0 {
		keys = append(keys, "ip "+h.addr.String())
	}
	if m.cfg.SiteDelay > 0 {
		keys = append(keys, "site "+weburl.Site(h.name))
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

// delay is the quiet time of a bucket.
func (m *model) delay(k string) time.Duration {
	if k[:4] == "site" {
		return m.cfg.SiteDelay
	}
	return m.cfg.IPDelay
}

func (m *model) touched() {
	name := m.name()
	m.advance()
	d := time.Duration(rapid.IntRange(0, 5000).Draw(m.t, "delay")) * time.Millisecond
	m.f.tick(m.now)
	m.sync() // it may forget the host, and so its address, before it is touched
	m.hushedAt = m.now
	for k, b := range m.buckets {
		if at := m.now.Add(m.delay(k)); at.After(b.freeAt) {
			b.freeAt = at
		}
	}
	h := m.host(name)
	least := max(m.cfg.HostDelay, d)
	if fh := m.f.hosts.of(name); fh != nil {
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
		least := m.cfg.HostDelay
		if fh := m.f.hosts.of(name); fh != nil {
			least = max(least, fh.delay)
		}
		if at := m.now.Add(least); at.After(h.at) {
			h.at = at
		}
	}
	m.f.Hush(m.now)
}

// due is the earliest time at which h could be given out if nothing else
// happened; ok is false if that alone would never let it.
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

// sync lets the model forget what the frontier has forgotten, if it may.
func (m *model) sync() {
	for name, h := range m.hosts {
		if m.f.hosts.of(name) != nil {
			continue
		}
		m.forgive(h)
		pooled := m.pooled(h)
		if h.n() != pooled || h.cur != nil || h.blocked || h.at.After(m.now) && h.at.After(m.hushEnd()) || h.slow > 0 {
			m.t.Fatalf("%s: forgotten with %d links, %d in the pools, not before %v, slow %d", name, h.n(), pooled, h.at, h.slow)
		}
		if pooled == 0 {
			delete(m.hosts, name)
		} else {
			m.hosts[name] = &modelHost{name: name, queues: h.queues, at: m.hushEnd()}
		}
	}
	for name, h := range m.hosts {
		if fh := m.f.hosts.of(name); fh != nil && fh.empty() && !fh.busy() {
			h.turns = 0 // its connection waits for none of its links
		}
	}
}

// pooled is how many links of h are in no queue yet.
func (m *model) pooled(h *modelHost) int {
	of, err := m.f.countPooled()
	m.must(err)
	n := 0
	for _, k := range of[h.name] {
		n += int(k)
	}
	return n
}

const modelHosts = 9

func (m *model) name() string {
	i := rapid.IntRange(0, modelHosts-1).Draw(m.t, "host")
	return fmt.Sprintf("h%d.s%d.example", i, i%m.sites)
}

func (m *model) link(name string, level uint8) weburl.Link {
	m.serial++
	return link(&testing.T{}, fmt.Sprintf("http://%s/%d", name, m.serial), level)
}

func (m *model) push() {
	var ls []weburl.Link
	var numbers []uint64
	given := rapid.IntRange(0, 3).Draw(m.t, "given") == 0
	for range rapid.IntRange(1, 12).Draw(m.t, "links") {
		name := m.name()
		level := uint8(max(0, rapid.IntRange(-6, 2).Draw(m.t, "level")))
		l := m.link(name, level)
		ls = append(ls, l)
		if given {
			m.number += uint64(rapid.IntRange(0, 2).Draw(m.t, "number")) // the last one once more
		} else {
			m.number++
		}
		numbers = append(numbers, m.number)
		h := m.host(name)
		h.queues[level] = append(h.queues[level], modelLink{number: m.number, level: level, url: l.URL.String()})
	}
	if given {
		m.must(m.f.PushAt(ls, numbers))
	} else {
		m.must(m.f.Push(ls))
	}
	if m.f.ram > m.cfg.MemoryBytes { // the budget may have shrunk while it spilled
		m.t.Fatalf("%d bytes of queues in RAM after a push, with a memory of %d", m.f.ram, m.cfg.MemoryBytes)
	}
}

func (m *model) pushFront() {
	name := m.name()
	level := uint8(max(0, rapid.IntRange(-3, 1).Draw(m.t, "level")))
	l := m.link(name, level)
	h := m.host(name)
	h.front = append(h.front, modelLink{level: level, url: l.URL.String()})
	m.must(m.f.PushFront(l))
}

func (m *model) must(err error) {
	if err != nil {
		m.t.Fatalf("%v", err)
	}
}

func (m *model) advance() {
	m.now = m.now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(m.t, "ms")) * time.Millisecond)
}

func (m *model) next() {
	// The time and the pools first: they change which hosts it remembers.
	m.f.tick(m.now)
	m.sync()
	for more := true; more; more = m.f.reading() {
		_, err := m.f.best()
		m.must(err)
	}
	m.sync()
	var err error
	m.inPool, err = m.f.countPooled()
	m.must(err)
	want := m.best()
	got, wake, ok := m.f.Next(m.now)
	m.must(m.f.Err())
	if !ok {
		if want != nil {
			m.t.Fatalf("Next gives nothing; want %v of %s", m.head(want), want.name)
		}
		m.checkWake(wake)
		if !wake.IsZero() && rapid.Bool().Draw(m.t, "wait") {
			m.now = wake
		}
		return
	}
	if want == nil {
		m.t.Fatalf("Next gives %s; want nothing", got.Link.URL)
	}
	h := want
	if other := m.hosts[got.Host]; other != nil && other != h {
		// Prerequisites are equal among each other, and links with the same number.
		if at, ok := m.due(other); ok && !at.After(m.now) && m.key(other) == m.key(h) {
			h = other
		}
	}
	l := m.pop(h)
	if got.Host != h.name || got.Link.URL.String() != l.url || got.Number != l.number || got.Attempt != l.attempt {
		m.t.Logf("%+v\nwant %s\n got %s", m.inPool, m.f.Explain(h.name, m.now), m.f.Explain(got.Host, m.now))
		m.t.Logf("%+v", m.hosts[got.Host])
		m.t.Fatalf("Next gives %s (number %d, attempt %d), want %+v of %s", got.Link.URL, got.Number, got.Attempt, l, h.name)
	}
	if m.gone[l.url] {
		m.t.Fatalf("%s given out after it was finished", l.url)
	}
	l.level = got.Link.Level
	h.cur = &l
	valid := h.addr.IsValid() && (h.until.After(m.now) || h.fresh.After(m.now))
	if got.Addr.IsValid() != valid {
		m.t.Fatalf("%s: address %v at %v; good until %v, %v", h.name, got.Addr, m.now, h.until, h.fresh)
	}
	if !valid {
		return
	}
	h.fresh = time.Time{}
	if got.Addr != h.addr {
		m.t.Fatalf("%s: address %v, want %v", h.name, got.Addr, h.addr)
	}
	h.held = m.shared(h)
	for _, k := range h.held {
		if m.lease != nil {
			if by, ok := m.lease.using[m.point(k)]; !ok || by != "" {
				m.t.Fatalf("%s given out, %s is begun: %v, by %q", got.Host, k, ok, by)
			}
			m.lease.using[m.point(k)] = got.Host
		}
		m.bucket(k).holder = h.name
	}
}

func (m *model) checkWake(wake time.Time) {
	var first time.Time
	later := false
	for _, h := range m.hosts {
		if h.cur == nil && !h.blocked && h.n() > 0 {
			// It may wake only to be held back by something else.
			later = later || h.at.After(m.now)
			for _, k := range m.shared(h) {
				later = later || m.lease != nil || m.bucket(k).freeAt.After(m.now)
			}
		}
		at, ok := m.due(h)
		if ok && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	switch {
	case !first.IsZero() && (wake.IsZero() || wake.After(first)):
		m.t.Fatalf("wake %v, but a host is due at %v", wake, first)
	case !wake.IsZero() && !wake.After(m.now):
		m.t.Fatalf("wake %v is not after now, %v", wake, m.now)
	case first.IsZero() && !wake.IsZero() && !later:
		m.t.Fatalf("wake %v, but nothing waits for a time", wake)
	}
}

// inProcess draws one of the hosts that the caller has.
func (m *model) inProcess(resolved bool) *modelHost {
	var names []string
	for _, h := range m.hosts {
		if h.cur != nil && (m.f.hosts.of(h.name).state == inProcess) == resolved {
			names = append(names, h.name)
		}
	}
	if len(names) == 0 {
		m.t.Skip("none")
	}
	slices.Sort(names)
	return m.hosts[rapid.SampledFrom(names).Draw(m.t, "host")]
}

// whole is t in whole seconds since the first time of all, as look-ups expire.
func (m *model) whole(t time.Time) time.Time {
	return m.f.epoch.Add(t.Sub(m.f.epoch).Truncate(time.Second))
}

func (m *model) resolved() {
	h := m.inProcess(false)
	m.advance()
	addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(rapid.IntRange(0, m.addrs-1).Draw(m.t, "addr"))})
	expires := m.now.Add(time.Duration(rapid.IntRange(0, 20).Draw(m.t, "ttl")) * time.Second)
	h.addr, h.until, h.fresh = addr, m.whole(expires), m.whole(m.now.Add(freshAddress))
	h.front = append([]modelLink{*h.cur}, h.front...)
	h.cur = nil
	m.f.Resolved(h.name, addr, expires, m.now)
}

func (m *model) done() {
	h := m.inProcess(rapid.IntRange(0, 4).Draw(m.t, "unresolved") > 0)
	m.advance()
	d := Done{
		NoRequest: m.f.hosts.of(h.name).state == resolving || rapid.IntRange(0, 5).Draw(m.t, "no request") == 0,
		Delay:     time.Duration(max(0, rapid.IntRange(-6000, 5000).Draw(m.t, "delay"))) * time.Millisecond,
		SlowDown:  rapid.IntRange(0, 6).Draw(m.t, "slow") == 0,
	}
	if rapid.IntRange(0, 6).Draw(m.t, "retry-after") == 0 {
		d.RetryAfter = 3 * time.Second
	}
	if rapid.IntRange(0, 6).Draw(m.t, "not before") == 0 {
		d.NotBefore = m.now.Add(2500 * time.Millisecond)
	}
	least := h.at
	later := func(t time.Time) {
		if t.After(least) {
			least = t
		}
	}
	if !d.NoRequest {
		later(m.now.Add(max(m.cfg.HostDelay, d.Delay)))
	}
	if !d.NotBefore.IsZero() {
		later(d.NotBefore)
	}
	if d.RetryAfter > 0 {
		later(m.now.Add(d.RetryAfter))
	}
	switch {
	case d.NoRequest || h.slow == 0:
	case d.SlowDown || d.RetryAfter > 0:
		h.good = 0
	default:
		if h.good++; h.good == forgiveGood {
			h.good = 0
			h.slow--
		}
	}
	if d.SlowDown {
		m.forgive(h)
		h.slow++
		later(m.now.Add(m.cfg.SlowBase << (h.slow - 1) * 9 / 10))
	}
	cur := *h.cur
	if rapid.IntRange(0, 3).Draw(m.t, "again") == 0 {
		l := link(&testing.T{}, cur.url, cur.level)
		d.Again, d.Attempt = &l, cur.attempt+1
		cur.attempt++
		m.retries++
		h.front = append([]modelLink{cur}, h.front...)
	} else {
		m.gone[cur.url] = true
	}
	h.cur = nil
	for _, k := range h.held {
		b := m.bucket(k)
		b.holder = ""
		ended := m.f.epoch.Add((m.now.Sub(m.f.epoch) + time.Millisecond - 1).Truncate(time.Millisecond))
		if at := ended.Add(m.delay(k)); !d.NoRequest && at.After(b.freeAt) {
			b.freeAt = at
		}
	}
	h.held = nil
	m.must(m.f.Done(h.name, d, m.now))
	h.at = least
	if fh := m.f.hosts.of(h.name); fh != nil {
		// The jitter is the frontier's to choose, within its bounds.
		at := m.f.epoch.Add(time.Duration(fh.at))
		most := least
		if d.SlowDown {
			most = m.now.Add(max(m.cfg.SlowBase<<(h.slow-1)*11/10, least.Sub(m.now)))
		}
		if fh.at > 0 && (at.Before(least) || at.After(most)) {
			m.t.Fatalf("%s: not before %v, want between %v and %v", h.name, at, least, most)
		}
		if fh.at > 0 {
			h.at = at
		}
		h.slowEnd = m.f.epoch.Add(time.Duration(fh.slowUntil))
		h.slow = int(fh.slow)
	}
	if h.turns++; h.turns >= m.cfg.Burst || h.at.After(m.now) || !h.addr.IsValid() || len(m.shared(h)) > 0 {
		h.turns = 0
	}
}

func (m *model) block() {
	name := m.name()
	h := m.host(name)
	if h.blocked {
		m.f.Unblock(name)
	} else {
		m.f.Block(name)
	}
	h.blocked = !h.blocked
}

// withdraw takes the links of a host, or hands the host over.
func (m *model) withdraw() {
	name := m.name()
	h := m.host(name)
	m.withdrawn = append(m.withdrawn, h.front...)
	for _, q := range h.queues {
		m.withdrawn = append(m.withdrawn, q...)
	}
	h.front, h.queues = nil, map[uint8][]modelLink{}
	if rapid.IntRange(0, 1).Draw(m.t, "hand over") == 0 {
		m.f.Withdraw(name)
		return
	}
	_, err := m.f.HandOver(name)
	if h.cur != nil {
		if !errors.Is(err, ErrInProcess) {
			m.t.Fatalf("%s is in process, HandOver says %v", name, err)
		}
		m.f.Withdraw(name)
		return
	}
	m.must(err)
	if fh := m.f.hosts.of(name); fh != nil {
		m.t.Fatalf("%s is known after HandOver", name)
	}
	*h = modelHost{name: name, queues: h.queues, at: m.hushEnd()}
}

// showWithdrawn takes some of what was withdrawn.
func (m *model) showWithdrawn() {
	most := rapid.IntRange(0, 9).Draw(m.t, "most")
	shown := 0
	done, err := m.f.Withdrawn(most, func(w Waiting) error {
		shown++
		// The first one of its host and level comes first.
		i := slices.IndexFunc(m.withdrawn, func(l modelLink) bool { return l.url == w.Link.URL.String() })
		if i < 0 {
			return fmt.Errorf("%s was not withdrawn", w.Link.URL)
		}
		l := m.withdrawn[i]
		if l.number != w.Number || l.attempt != w.Attempt || l.level != w.Link.Level {
			return fmt.Errorf("%+v shown, want %+v", w, l)
		}
		for _, o := range m.withdrawn[:i] {
			if !w.Front && o.level == l.level && hostOf(o.url) == hostOf(l.url) && o.attempt == 0 && o.number > 0 && o.number < l.number {
				return fmt.Errorf("%s shown before %s", l.url, o.url)
			}
		}
		m.withdrawn = slices.Delete(m.withdrawn, i, i+1)
		return nil
	})
	m.must(err)
	if shown > most || done != (m.f.Stats().Withdrawn == 0) || !done && shown < most {
		m.t.Fatalf("%d shown of at most %d, %d withdrawn, done is %v", shown, most, m.f.Stats().Withdrawn, done)
	}
}

func hostOf(url string) string { return strings.Split(url, "/")[2] }

// pending is what Each must show.
func (m *model) pending() (ls []modelLink) {
	for _, h := range m.hosts {
		if h.cur != nil {
			ls = append(ls, *h.cur)
		}
		ls = append(ls, h.front...)
		for _, q := range h.queues {
			ls = append(ls, q...)
		}
	}
	ls = append(ls, m.withdrawn...)
	slices.SortFunc(ls, func(a, b modelLink) int { return int(a.number) - int(b.number) })
	return ls
}

func (m *model) each() {
	want := m.pending()
	at := map[string]uint64{}
	for _, l := range want {
		at[l.url] = l.number
	}
	var last uint64
	n := 0
	m.must(m.f.each(func(l weburl.Link) error {
		num, ok := at[l.URL.String()]
		if !ok {
			return fmt.Errorf("%s shown twice, or not pending", l.URL)
		}
		delete(at, l.URL.String())
		// A prerequisite may stand before a retry, or behind it: of these
		// only the host's own order counts.
		if num > 0 {
			if num < last && len(m.host(l.URL.Host()).front) == 0 {
				return fmt.Errorf("%s: number %d after %d", l.URL, num, last)
			}
			last = max(last, num)
		}
		n++
		return nil
	}))
	if n != len(want) {
		m.t.Fatalf("Each showed %d links, want %d", n, len(want))
	}
}

// explain compares what is said of a host with what holds it back.
func (m *model) explain() {
	name := m.name()
	m.f.tick(m.now)
	m.sync()
	e := m.f.Explain(name, m.now)
	h := m.hosts[name]
	if m.f.hosts.of(name) == nil {
		if e.State != "unknown" {
			m.t.Fatalf("not in the dictionary, but %s", e)
		}
		return
	}
	n := h.n() - m.pooled(h)
	held, alone, quiet := false, m.f.hosts.of(name).share.alone(), time.Time{}
	for _, k := range m.shared(h) {
		b := m.bucket(k)
		if held = held || b.holder != ""; b.freeAt.After(quiet) {
			quiet = b.freeAt
		}
	}
	var ok bool
	switch e.State {
	case "in process", "resolving":
		ok = h.cur != nil && (e.State == "resolving") == (m.f.hosts.of(name).state == resolving)
	case "blocked":
		ok = h.blocked && h.cur == nil
	case "exhausted":
		ok = n == 0 && h.cur == nil
	case "waiting", "slowed":
		ok = n > 0 && h.cur == nil && h.at.After(m.now) && e.Due.Equal(h.at)
	case "parked":
		ok = n > 0 && h.cur == nil && !h.at.After(m.now) && len(m.shared(h)) > 0
		if m.lease != nil {
			// What it waits for is seen when it is next asked for.
		} else if !held && quiet.After(m.now) {
			ok = ok && e.Due.Equal(quiet)
		} else {
			ok = ok && !alone // another one has it, or comes first
		}
	case "ready":
		ok = n > 0 && h.cur == nil && !h.at.After(m.now) && !(alone && quiet.After(m.now))
	}
	if !ok || e.Queued != int64(n) {
		m.t.Fatalf("%+v: %d links, held %v, alone %v, quiet until %v; %s", h, n, held, alone, quiet, e)
	}
}

// restart goes on with what the journal keeps: the links and what EachHost shows.
func (m *model) restart() {
	m.withdrawn = nil
	var states []HostState
	m.must(m.f.EachHost(func(s HostState) error { states = append(states, s); return nil }))
	links := m.pending()
	for name, h := range m.hosts { // in each host's order
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
		m.must(m.f.PushAt([]weburl.Link{link(&testing.T{}, l.url, l.level)}, []uint64{l.number}))
	}
	m.number = m.f.number
}

// start opens a frontier.
func (m *model) start() {
	cfg := m.cfg
	if cfg.HostDelay == 0 {
		cfg.HostDelay = -1
	}
	var err error
	if m.lease != nil {
		m.lease.using = map[uint64]string{}
		cfg.Lease = m.lease
	}
	m.f, err = Open(m.mem, "frontier", cfg)
	m.must(err)
	m.f.barredLeast = 1 << 30
	// Links small enough for several frames, and no bound, so that the best
	// link of all is always found.
	m.f.frameBytes, m.f.readAtOnce = m.frame, 1<<20
}

func TestModel(t *testing.T) { testModel(t, false) }

// The same where other agents have hosts at the addresses and sites, so that
// these come and go.
func TestModelLease(t *testing.T) { testModel(t, true) }

func testModel(t *testing.T, leased bool) {
	rapid.Check(t, func(t *rapid.T) {
		ms := func(name string, most int) time.Duration {
			return time.Duration(max(0, rapid.IntRange(-most, most).Draw(t, name))) * time.Millisecond
		}
		m := &model{
			t: t, now: start, mem: disk.NewMem(), gone: map[string]bool{},
			// From all shared to nearly all alone.
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
