package frontier

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A Glimpse is what a display shows of a host. Unlike an Explanation it takes constant time.
type Glimpse struct {
	Host   string
	State  string        // as in an Explanation; "resting" also without a lease
	Links  int64         // queued and in process, without those in the pools
	URL    string        // the URL in process, or the next one; "" if it is on disk
	Since  time.Time     // since when the URL is in process or its host is looked up; otherwise zero
	Due    time.Time     // when the next request may begin; zero: now, or not predictable
	Behind string        // the address or site that holds the host back, if it does; free at Due
	Holder string        // the host whose request is open at Behind; then Due is not predictable
	Share  bool          // its share of the requests holds the host back until Due
	Leased bool          // the lease of Behind is missing; Since tells since when
	Delay  time.Duration // the least time between two requests to the host
}

// lookMax bounds the hosts that a look reads.
const lookMax = 512

// Look returns glimpses of up to n hosts: those with the most links, and in a quarter of the places hosts that pause or
// take long. It reads a bounded number of hosts: those of names, those in process and those that come next. A caller
// that passes the names of the last look gets, with time, the hosts with the most links of all.
func (f *Frontier) Look(names []string, n int, now time.Time) []Glimpse {
	f.tick(now)
	var all []*host
	seen := make(map[*host]bool)
	add := func(h *host) {
		if h != nil && !seen[h] && len(all) < lookMax && (h.busy() || !h.empty()) {
			seen[h] = true
			all = append(all, h)
		}
	}
	for _, name := range names {
		add(f.hosts.dict.of(name))
	}
	for i := range f.hosts.visits.all[:min(len(f.hosts.visits.all), lookMax/2)] {
		add(f.hosts.visits.all[i].h)
	}
	f.hosts.waiting.least(n, add)
	f.hosts.shares.ready.least(n, func(g *group) { g.hosts.least(n, add) })
	f.hosts.shares.freeing.least(n, func(b *bucket) { b.parked.top().hosts.least(1, add) })

	links := make(map[*host]int64, len(all))
	for _, h := range all {
		links[h] = h.links()
		if h.busy() {
			links[h]++
		}
	}
	slices.SortFunc(all, func(a, b *host) int {
		return cmp.Or(cmp.Compare(links[b], links[a]), strings.Compare(a.name, b.name))
	})
	rows := all[:min(n, len(all))]
	troubled := slices.DeleteFunc(slices.Clone(all[len(rows):]), func(h *host) bool { return !f.hosts.troubled(h) })
	if k := min(len(troubled), n/4); k > 0 {
		rows = append(rows[:len(rows)-k:len(rows)-k], troubled[:k]...)
	}
	glimpses := make([]Glimpse, 0, len(rows))
	for _, h := range rows {
		g := f.hosts.glimpse(h)
		g.Links, g.Delay = links[h], max(f.HostDelay(h.name), h.delay)
		glimpses = append(glimpses, g)
	}
	return glimpses
}

// longVisit is the time after which a look counts a visit as one that takes long.
const longVisit = 10 * time.Second

func (hs *hosts) troubled(h *host) bool {
	return h.state == slowed || h.busy() && hs.time.now-hs.visits.began(h) > int64(longVisit)
}

func (hs *hosts) glimpse(h *host) Glimpse {
	g := Glimpse{Host: h.name, State: h.state.String()}
	if c := hs.visits.link(h); c != nil {
		g.URL, g.Since = c.url(), hs.time.timeAt(hs.visits.began(h))
		return g
	}
	switch q := hs.lead(h); {
	case h.front.len() > 0:
		g.URL = h.front.items[h.front.head].url()
	case q.n > 0 && q.head.buf != nil:
		if _, enc, _, err := q.head.at(int(q.head.r)); err == nil {
			g.URL = (&entry{enc: enc}).url()
		}
	}
	switch h.state {
	case waiting, slowed:
		g.Due, g.Share = hs.time.timeAt(h.at), hs.byShare(h)
	case parked:
		addr, site := hs.shares.keys(h, h.addr())
		addrAt, siteAt := hs.shares.freeAt(h, true)
		g.Due, g.Behind = hs.time.timeAt(addrAt), addr.short()
		if siteAt > addrAt {
			g.Due, g.Behind = hs.time.timeAt(siteAt), site.short()
		}
	case ready:
		if b := hs.shares.groupOf(h).parkedAt; b != nil {
			g.State, g.Behind = parked.String(), b.key.short()
			switch {
			case b.holder != nil:
				g.Holder = b.holder.name
			case hs.shares.awaited(b):
				g.Leased, g.Since = true, hs.time.timeAt(hs.shares.asked[b.key.point()])
			default:
				g.Due = hs.time.timeAt(b.freeAt)
			}
		}
	}
	return g
}

// Oldest returns a glimpse of the host whose visit began first or, if lookUps is set, whose look-up began first. ok is
// false if there is none.
func (f *Frontier) Oldest(lookUps bool) (g Glimpse, ok bool) {
	var first *visit
	for i := range f.hosts.visits.all {
		v := &f.hosts.visits.all[i]
		if v.h != nil && (v.h.state == resolving) == lookUps && (first == nil || v.began < first.began) {
			first = v
		}
	}
	if first == nil {
		return g, false
	}
	return f.hosts.glimpse(first.h), true
}

// Coming returns a glimpse of the host whose time comes next, if no host is ready. ok is false if no host waits for a
// time.
func (f *Frontier) Coming(now time.Time) (g Glimpse, ok bool) {
	f.tick(now)
	var h *host
	var at int64
	if f.hosts.waiting.len() > 0 {
		h, at = f.hosts.waiting.top(), int64(f.hosts.waiting.first())
	}
	if f.hosts.shares.freeing.len() > 0 {
		if b := f.hosts.shares.freeing.top(); h == nil || b.freeAt < at {
			h = b.parked.top().hosts.top()
		}
	}
	if h == nil {
		return g, false
	}
	return f.hosts.glimpse(h), true
}

// url returns the URL of e, or "" if e is damaged.
func (e *entry) url() string {
	l, err := decode(*e)
	if err != nil {
		return ""
	}
	return strings.Clone(l.URL.String())
}

// short returns the name of an address or a site.
func (k bucketKey) short() string {
	if k.addr.IsValid() {
		return k.addr.String()
	}
	return k.site
}

// least calls see for the n members with the lowest keys, in their order. It reads only these and their neighbours.
func (h *heap[T]) least(n int, see func(T)) {
	if len(h.tree) == 0 {
		return
	}
	next := []int{0} // members whose parents were seen, the lowest key last
	for ; n > 0 && len(next) > 0; n-- {
		i := next[len(next)-1]
		next = next[:len(next)-1]
		see(h.tree[i].x)
		for c := heapWidth*i + 1; c <= heapWidth*i+heapWidth && c < len(h.tree); c++ {
			at, _ := slices.BinarySearchFunc(next, h.tree[c].key, func(j int, key uint64) int {
				return cmp.Compare(key, h.tree[j].key)
			})
			next = slices.Insert(next, at, c)
		}
	}
}
