package frontier

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const modelHosts = 9

func (m *model) name() string {
	i := rapid.IntRange(0, modelHosts-1).Draw(m.t, "host")
	return fmt.Sprintf("h%d.s%d.example", i, i%m.sites)
}

func (m *model) link(name string, level uint8) link.Link {
	m.serial++
	return linkOf(&testing.T{}, fmt.Sprintf("http://%s/%d", name, m.serial), level)
}

func (m *model) push() {
	var ls []link.Link
	var numbers []uint64
	given := rapid.IntRange(0, 3).Draw(m.t, "given") == 0
	for range rapid.IntRange(1, 12).Draw(m.t, "links") {
		name := m.name()
		level := uint8(max(0, rapid.IntRange(-6, 2).Draw(m.t, "level")))
		l := m.link(name, level)
		ls = append(ls, l)
		if given {
			m.number += uint64(rapid.IntRange(0, 2).Draw(m.t, "number")) // 0: the last number again
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
	if m.f.queues.ram > m.cfg.MemoryBytes { // compare with the memory: the budget may have shrunk while it spilled
		m.t.Fatalf("%d bytes of queues in RAM after a push, want at most %d", m.f.queues.ram, m.cfg.MemoryBytes)
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
	// Advance the time and read the pools first: both change which hosts the frontier remembers.
	m.f.tick(m.now)
	m.sync()
	for more := true; more; more = m.f.poolToRead() != nil {
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
			m.t.Fatalf("Next gives nothing, want %v of %s", m.head(want), want.name)
		}
		m.checkWake(wake)
		if !wake.IsZero() && rapid.Bool().Draw(m.t, "wait") {
			m.now = wake
		}
		return
	}
	if want == nil {
		m.t.Fatalf("Next gives %s, want nothing", got.Link.URL)
	}
	h := want
	if other := m.hosts[got.Host]; other != nil && other != h {
		// Prerequisites are equal, and so are links with the same number.
		if at, ok := m.due(other); ok && !at.After(m.now) && m.key(other) == m.key(h) {
			h = other
		}
	}
	l := m.pop(h)
	if got.Host != h.name || got.Link.URL.String() != l.url || got.Number != l.number || got.Attempt != l.attempt {
		m.t.Logf("%+v\nwant %s\n got %s", m.inPool, m.f.Explain(h.name, m.now), m.f.Explain(got.Host, m.now))
		m.t.Logf("%+v", m.hosts[got.Host])
		m.t.Fatalf("Next gives %s (number %d, attempt %d), want %+v of %s",
			got.Link.URL, got.Number, got.Attempt, l, h.name)
	}
	if m.gone[l.url] {
		m.t.Fatalf("%s was given out after it was done", l.url)
	}
	l.level = got.Link.Level
	h.cur = &l
	valid := h.addr.IsValid() && (h.until.After(m.now) || h.fresh.After(m.now))
	if got.Addr.IsValid() != valid {
		m.t.Fatalf("%s: address %v at %v; it is valid until %v, %v", h.name, got.Addr, m.now, h.until, h.fresh)
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
				m.t.Fatalf("%s was given out; its point %s was begun: %v, by %q", got.Host, k, ok, by)
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
			// Something else may hold it back when it wakes.
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
		m.t.Fatalf("wake is %v, but a host is due at %v", wake, first)
	case !wake.IsZero() && !wake.After(m.now):
		m.t.Fatalf("wake is %v, which is not after now, %v", wake, m.now)
	case first.IsZero() && !wake.IsZero() && !later:
		m.t.Fatalf("wake is %v, but nothing waits for a time", wake)
	}
}

// inProcess draws one of the hosts that were given out.
func (m *model) inProcess(resolved bool) *modelHost {
	var names []string
	for _, h := range m.hosts {
		if h.cur != nil && (m.f.hosts.dict.of(h.name).state == inProcess) == resolved {
			names = append(names, h.name)
		}
	}
	if len(names) == 0 {
		m.t.Skip("no host was given out")
	}
	slices.Sort(names)
	return m.hosts[rapid.SampledFrom(names).Draw(m.t, "host")]
}

// whole rounds t down to whole seconds of the frontier's clock, as the expiry of look-ups.
func (m *model) whole(t time.Time) time.Time {
	return m.f.time.epoch.Add(t.Sub(m.f.time.epoch).Truncate(time.Second))
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
		NoRequest: m.f.hosts.dict.of(h.name).state == resolving || rapid.IntRange(0, 5).Draw(m.t, "no request") == 0,
		Delay:     time.Duration(max(0, rapid.IntRange(-6000, 5000).Draw(m.t, "delay"))) * time.Millisecond,
		SlowDown:  rapid.IntRange(0, 6).Draw(m.t, "slow") == 0,
		Failed:    rapid.IntRange(0, 3).Draw(m.t, "failed") == 0,
	}
	ago := time.Duration(rapid.IntRange(0, 2000).Draw(m.t, "sent")) * time.Millisecond
	if ago > 0 {
		d.Sent = m.now.Add(-ago)
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
		later(m.now.Add(max(m.hostDelay(h.name), d.Delay)))
	}
	if !d.NotBefore.IsZero() {
		later(d.NotBefore)
	}
	if d.RetryAfter > 0 {
		later(m.now.Add(d.RetryAfter))
	}
	refused := d.SlowDown || d.Failed || d.RetryAfter > 0
	if !d.NoRequest && !refused && h.slow > 0 {
		h.slow--
	}
	if d.SlowDown {
		m.forgive(h)
		h.slow++
		first := m.cfg.SlowBase
		if d.RetryAfter > 0 && d.RetryAfter < first {
			first = d.RetryAfter
		}
		later(m.now.Add(first << (h.slow - 1) * 9 / 10))
	}
	cur := *h.cur
	if rapid.IntRange(0, 3).Draw(m.t, "again") == 0 {
		l := linkOf(&testing.T{}, cur.url, cur.level)
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
		ended := m.f.time.epoch.Add((m.now.Sub(m.f.time.epoch) + time.Millisecond - 1).Truncate(time.Millisecond))
		rest := m.delay(k)
		if site, ok := strings.CutPrefix(k, "site "); ok && m.paced[site] { // the pace counts from when it was sent
			rest = max(m.cfg.SiteDelay, m.pace-ago)
		}
		if at := ended.Add(rest); !d.NoRequest && at.After(b.freeAt) {
			b.freeAt = at
		}
	}
	h.held = nil
	m.must(m.f.Done(h.name, d, m.now))
	h.at = least
	if fh := m.f.hosts.dict.of(h.name); fh != nil {
		// The frontier chooses the jitter; check its bounds.
		at := m.f.time.epoch.Add(time.Duration(fh.at))
		most := least
		if d.SlowDown {
			most = m.now.Add(max(m.cfg.SlowBase<<(h.slow-1)*11/10, least.Sub(m.now)))
		}
		if fh.at > 0 && (at.Before(least) || at.After(most)) {
			m.t.Fatalf("%s: not before %v, want a time between %v and %v", h.name, at, least, most)
		}
		if fh.at > 0 {
			h.at = at
		}
		h.slowEnd = m.f.time.epoch.Add(time.Duration(fh.slowUntil))
		h.slow = int(fh.slow)
	}
	if h.turns++; h.turns >= m.cfg.Burst || h.at.After(m.now) || !h.addr.IsValid() || len(m.shared(h)) > 0 {
		h.turns = 0
	}
}

// repace gives a site a pace. It keeps it.
func (m *model) repace() {
	site := weburl.Site(m.name())
	m.advance()
	m.f.tick(m.now)
	m.sync()
	if !m.paced[site] {
		m.paced[site] = true
		if b := m.buckets["site "+site]; b != nil && !m.hushedAt.IsZero() {
			if at := m.hushedAt.Add(m.delay("site " + site)); at.After(b.freeAt) {
				b.freeAt = at
			}
		}
	}
	m.f.Repace([]string{site}, m.now)
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

// withdraw withdraws the links of a host, or hands the host over.
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
			m.t.Fatalf("HandOver of %s, which is in process: %v, want ErrInProcess", name, err)
		}
		m.f.Withdraw(name)
		return
	}
	m.must(err)
	if fh := m.f.hosts.dict.of(name); fh != nil {
		m.t.Fatalf("%s is in the dictionary after HandOver", name)
	}
	*h = modelHost{name: name, queues: h.queues, at: m.hushEnd(name)}
}

// showWithdrawn takes some of the withdrawn links.
func (m *model) showWithdrawn() {
	most := rapid.IntRange(0, 9).Draw(m.t, "most")
	shown := 0
	done, err := m.f.Withdrawn(most, func(w Waiting) error {
		shown++
		// The links of a host and level must be in order.
		i := slices.IndexFunc(m.withdrawn, func(l modelLink) bool { return l.url == w.Link.URL.String() })
		if i < 0 {
			return fmt.Errorf("%s was not withdrawn", w.Link.URL)
		}
		l := m.withdrawn[i]
		if l.number != w.Number || l.attempt != w.Attempt || l.level != w.Link.Level {
			return fmt.Errorf("Withdrawn gives %+v, want %+v", w, l)
		}
		for _, o := range m.withdrawn[:i] {
			same := o.level == l.level && hostOf(o.url) == hostOf(l.url) && o.attempt == 0
			if !w.Front && same && o.number > 0 && o.number < l.number {
				return fmt.Errorf("Withdrawn gives %s before %s", l.url, o.url)
			}
		}
		m.withdrawn = slices.Delete(m.withdrawn, i, i+1)
		return nil
	})
	m.must(err)
	if shown > most || done != (m.f.Stats().Withdrawn == 0) || !done && shown < most {
		m.t.Fatalf("Withdrawn gives %d of at most %d, %d are left, done is %v", shown, most, m.f.Stats().Withdrawn,
			done)
	}
}

func hostOf(url string) string { return strings.Split(url, "/")[2] }

// pending returns the links that each must give.
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
	m.must(m.f.each(func(l link.Link) error {
		num, ok := at[l.URL.String()]
		if !ok {
			return fmt.Errorf("each gives %s twice, or it is not pending", l.URL)
		}
		delete(at, l.URL.String())
		// A prerequisite may come before or after a retry: between them only the order of the host counts.
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
		m.t.Fatalf("each gives %d links, want %d", n, len(want))
	}
}

// explain compares Explain with what holds a host back in the model.
func (m *model) explain() {
	name := m.name()
	m.f.tick(m.now)
	m.sync()
	e := m.f.Explain(name, m.now)
	h := m.hosts[name]
	if m.f.hosts.dict.of(name) == nil {
		if e.State != "unknown" {
			m.t.Fatalf("a host that is not in the dictionary is explained as %s", e)
		}
		return
	}
	n := h.n() - m.pooled(h)
	held, alone, quiet := false, m.f.hosts.dict.of(name).share.alone(), time.Time{}
	for _, k := range m.shared(h) {
		b := m.bucket(k)
		if held = held || b.holder != ""; b.freeAt.After(quiet) {
			quiet = b.freeAt
		}
	}
	var ok bool
	switch e.State {
	case "fetching", "resolving":
		ok = h.cur != nil && (e.State == "resolving") == (m.f.hosts.dict.of(name).state == resolving)
	case "blocked":
		ok = h.blocked && h.cur == nil
	case "empty":
		ok = n == 0 && h.cur == nil
	case "resting", "paused":
		ok = n > 0 && h.cur == nil && (h.at.After(m.now) || e.State == "resting" && len(m.shared(h)) > 0)
		if h.at.After(m.now) {
			ok = ok && e.Due.Equal(h.at)
		} else if m.lease != nil {
			// The host sees what it waits for when the lease is asked for again.
		} else if !held && quiet.After(m.now) {
			ok = ok && e.Due.Equal(quiet)
		} else {
			ok = ok && !alone // another host has its address or site, or comes first
		}
	case "ready":
		ok = n > 0 && h.cur == nil && !h.at.After(m.now) && !(alone && quiet.After(m.now))
	}
	if !ok || e.Queued != int64(n) {
		m.t.Fatalf("%+v: %d links, held %v, alone %v, quiet until %v; explained as %s", h, n, held, alone, quiet, e)
	}
}
