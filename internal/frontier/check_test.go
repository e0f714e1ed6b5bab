package frontier

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// check compares what f says of itself with what a walk finds.
func (f *Frontier) check() error {
	var want Stats
	want.Hosts = f.hosts.len()
	var fixed, queued, blockedLinks int64
	rares, visits := 0, 0
	sums := sums{live: map[*segment]int{}}
	if !reflect.DeepEqual(blank, rare{}) {
		return fmt.Errorf("the rare of those who have none is %+v", blank)
	}
	for h := range f.hosts.all() {
		name := h.name
		var n int64
		if h.front != nil {
			for _, e := range h.front.items[h.front.head:] {
				fixed += e.ram()
				n++
			}
			if h.front.len() == 0 {
				return fmt.Errorf("%s: an empty front", name)
			}
		}
		if h.busy() {
			visits++
			v := &f.visits[visitOf(h)]
			if fixed += v.link.ram(); v.h != h || v.name != name {
				return fmt.Errorf("%s: %v, its visit is one of %s", name, h.state, v.name)
			}
		}
		if q := &h.q; q.n == 0 && (q.rest != nil || q.head.buf != nil) {
			return fmt.Errorf("%s: an empty queue that is %+v", name, h.q)
		}
		for q := h.first(); q != nil; q = q.next() {
			if next := q.next(); next != nil && next.level >= q.level {
				return fmt.Errorf("%s: level %d before %d", name, q.level, next.level)
			}
			if q != &h.q {
				fixed += queueOverhead
			}
			if err := sums.queue(name, q); err != nil {
				return err
			}
			n += int64(q.n)
		}
		if n != h.links() || (n == 0) != h.empty() {
			return fmt.Errorf("%s: %d links, says %d", name, n, h.links())
		}
		if f.hosts.of(name) != h {
			return fmt.Errorf("%s: not found", name)
		}
		if h.rare != &blank {
			if rares++; *h.rare == blank {
				return fmt.Errorf("%s: an empty rare", name)
			}
		}
		if h.look != 0 && h.state != exhausted {
			return fmt.Errorf("%s: %v, looks at %d", name, h.state, h.look)
		}
		in := f.heapOf(h)
		queued += n
		switch h.state {
		case exhausted:
			want.Exhausted++
			if n != 0 || f.due(h) <= f.clock {
				return fmt.Errorf("%s: exhausted with %d links, or over", name, n)
			}
		case ready:
			if n == 0 || h.at > f.clock {
				return fmt.Errorf("%s: ready with %d links, at %d of %d", name, n, h.at, f.clock)
			}
			if f.quietAt(h) > f.clock {
				return fmt.Errorf("%s: ready, but alone and quiet until %d of %d", name, f.quietAt(h), f.clock)
			}
			if f.groupOf(h).parkedAt != nil {
				want.Parked++
			} else {
				want.Ready++
			}
			c := &f.groupOf(h).hosts
			k, ok := h.key().order(), c.one == h
			if in = c.many; in != nil {
				k, ok = in.has(h)
			}
			if !ok || k != h.key().order() || (c.one != nil) == (in != nil) {
				return fmt.Errorf("%s: in the wrong place of its group", name)
			}
		case parked:
			want.Parked++
			if n == 0 || h.at > f.clock || f.quietAt(h) <= f.clock {
				return fmt.Errorf("%s: parked with %d links, at %d, quiet until %d of %d", name, n, h.at, f.quietAt(h), f.clock)
			}
		case waiting, slowed:
			if h.state == waiting {
				want.Waiting++
			} else {
				want.Slowed++
			}
			if n == 0 || f.due(h) != h.at {
				return fmt.Errorf("%s: waiting with %d links", name, n)
			}
		case resolving:
			want.Resolving++
		case inProcess:
			want.InProcess++
		case blocked:
			want.Blocked++
			blockedLinks += n
			if !h.retired {
				return fmt.Errorf("%s: blocked, but in a heap", name)
			}
		}
		if (in == nil && h.state != ready) != (h.pos < 0) {
			return fmt.Errorf("%s: not where it says", name)
		}
		if in != nil {
			if k, ok := in.has(h); !ok || h.state != ready && k != uint64(f.due(h)) {
				return fmt.Errorf("%s: not where it says", name)
			}
		}
	}
	pools, err := f.checkPools()
	if err != nil {
		return err
	}
	for h := range f.hosts.all() {
		for q := h.first(); q != nil; q = q.next() {
			if first, ok := pools.first[q.level]; ok && first < q.last() {
				return fmt.Errorf("%s: number %d in a queue, but %d in the pool of level %d", h.name, q.last(), first, q.level)
			}
		}
	}
	w := &f.withdrawn
	n := int64(w.front.len())
	for _, e := range w.front.items[w.front.head:] {
		fixed += e.ram()
	}
	for _, q := range w.qs {
		fixed += queueOverhead
		if err := sums.queue("withdrawn", q); err != nil {
			return err
		}
		n += int64(q.n)
	}
	if n != w.n {
		return fmt.Errorf("%d withdrawn, says %d", n, w.n)
	}
	queued += n
	want.Withdrawn = n
	fixed += sums.fixed
	fixed += pools.ram
	want.Pooled, want.PoolBytes, want.PoolFiles = pools.n, pools.bytes, pools.files
	want.Queued, want.BlockedLinks = queued+pools.n, blockedLinks
	want.RAMBytes = sums.ram + fixed + f.overhead()
	if rares != f.rares || visits != len(f.visits)-len(f.freeVisits) {
		return fmt.Errorf("%d hosts with a rare, %d with a visit, says %d, %d", rares, visits, f.rares, len(f.visits)-len(f.freeVisits))
	}
	want.SpilledBytes, want.SpillFiles = sums.spilled, f.files
	want.LeasesAwaited, want.LeaseWaits = len(f.barred), f.stats.LeaseWaits
	for point, b := range f.barred {
		if b.key.point() != point || b.holder != nil || b.freeAt <= f.clock || b.in != &f.freeing && b.in != &f.fading {
			return fmt.Errorf("%s: awaited, free at %d of %d, without a timer", b.key, b.freeAt, f.clock)
		}
	}
	if got := f.Stats(); got != want {
		return fmt.Errorf("stats\n got %+v\nwant %+v", got, want)
	}
	for s, n := range sums.live {
		if s.live != n {
			return fmt.Errorf("%s: %d blocks live, says %d", s.name, n, s.live)
		}
	}
	if want := len(sums.live); f.files < want {
		return fmt.Errorf("%d spill files, %d hold blocks", f.files, want)
	}
	if err := f.checkShares(); err != nil {
		return err
	}
	return f.checkBuckets()
}

// sums are what queues come to.
type sums struct {
	ram, fixed, spilled int64
	live                map[*segment]int
}

// queue checks q, and adds what it takes, itself apart.
func (s *sums) queue(name string, q *queue) error {
	if q.rest != nil {
		s.fixed += restOverhead + int64(cap(q.rest.blocks))*blockOverhead
		if q.blocks() == 1 && q.next() == nil && !q.place(0).onDisk() {
			return fmt.Errorf("%s: a rest of nothing", name)
		}
	}
	var qram, qn int64
	for i := range q.blocks() {
		b := q.block(i)
		qram += int64(cap(b.buf))
		qn += int64(b.n)
		if p := q.place(i); p.onDisk() {
			s.live[p.seg]++
			s.spilled += int64(p.size)
		} else if b.buf == nil {
			return fmt.Errorf("%s: a block is nowhere", name)
		}
		if b.n <= 0 {
			return fmt.Errorf("%s: a block with %d links", name, b.n)
		}
	}
	if qram != q.ram() || qn != int64(q.n) || q.n == 0 {
		return fmt.Errorf("%s: queue has %d bytes, %d links; says %d, %d", name, qram, qn, q.ram(), q.n)
	}
	if r := q.rest; r != nil && (r.class == 0) != (qram == 0 || !q.tailInRAM() && q.head.buf == nil) {
		return fmt.Errorf("%s: %d bytes in RAM, spill class %d", name, qram, r.class)
	}
	s.ram += qram
	return nil
}

// checkShares looks at who has an address and a site to itself, and who has not.
func (f *Frontier) checkShares() error {
	at, in := map[netip.Addr]int{}, map[string]int{} // hosts
	refs := map[share]int32{}
	for h := range f.hosts.all() {
		if h.share == 0 {
			continue
		}
		addr, site := f.keys(h, h.addr())
		at[addr.addr]++
		in[site.site]++
		if !h.share.alone() {
			refs[h.share]++
		}
	}
	found := 0
	for h := range f.hosts.all() {
		addr, site := f.keys(h, h.addr())
		g := f.groupOf(h)
		switch {
		case h.share == 0:
		case h.share == free:
			if addr.addr.IsValid() || site.site != "" {
				return fmt.Errorf("%s: nothing holds it back, but it is at %v in %v", h.name, addr, site)
			}
		case !h.share.alone():
			if (g.addr != nil) != addr.addr.IsValid() || g.addr != nil && (g.addr.key != addr || f.addrs[addr.addr] != g.addr) {
				return fmt.Errorf("%s: not in the group of %v", h.name, addr)
			}
			if (g.site != nil) != (site.site != "") || g.site != nil && (g.site.key != site || f.sites[site.site] != g.site) {
				return fmt.Errorf("%s: not in the group of %v", h.name, site)
			}
			if g.refs != refs[h.share] {
				return fmt.Errorf("%s: %d hosts in its group, says %d", h.name, refs[h.share], g.refs)
			}
		default:
			if addr.addr.IsValid() {
				found++
				if f.aloneAt.of(addr) != h || at[addr.addr] != 1 || f.addrs[addr.addr] != nil {
					return fmt.Errorf("%s: not alone at %v", h.name, addr)
				}
			}
			if site.site != "" {
				found++
				if f.aloneIn.of(site) != h || in[site.site] != 1 || f.sites[site.site] != nil {
					return fmt.Errorf("%s: not alone in %v", h.name, site)
				}
			}
		}
	}
	if n := f.aloneAt.n + f.aloneIn.n; n != found {
		return fmt.Errorf("%d places of hosts that are alone, says %d", found, n)
	}
	for n := range f.homes {
		if k := grouped | share(n); n > 0 && (f.homes[n] == nil) == (refs[k] > 0) {
			return fmt.Errorf("group %d: %d hosts", n, refs[k])
		}
	}
	return nil
}

func (f *Frontier) checkBuckets() error {
	groups := []*group{f.open_}
	for k, n := range f.groups {
		g := f.homes[n&^grouped]
		if groups = append(groups, g); g.addr != k.addr || g.site != k.site {
			return fmt.Errorf("a group is not where it is looked for")
		}
		if g.refs <= 0 {
			return fmt.Errorf("a group that nobody is at home in")
		}
	}
	for _, g := range groups {
		switch {
		case g.hosts.len() == 0:
			if g.in != nil {
				return fmt.Errorf("a group without hosts in a heap")
			}
			continue
		case g.in == nil || !g.in.holds(g):
			return fmt.Errorf("a group with hosts in no heap")
		case g.key != g.hosts.top().key().order():
			return fmt.Errorf("a group's key is not that of its best host")
		}
	}
	buckets := slices.Collect(maps.Values(f.addrs))
	for _, b := range slices.AppendSeq(buckets, maps.Values(f.sites)) {
		if b.parked != nil && b.parked.len() == 0 {
			return fmt.Errorf("%s: an empty heap", b.key)
		}
		if b.holder != nil && (b.holder.state != inProcess || b.in != nil) {
			return fmt.Errorf("%s: held by %s, %v", b.key, b.holder.name, b.holder.state)
		}
		if b.refs == 0 && b.free(f.clock) {
			return fmt.Errorf("%s: not forgotten", b.key)
		}
		if b.holder == nil && b.freeAt > f.clock {
			if want := &f.freeing; b.parked != nil && b.in != want {
				return fmt.Errorf("%s: holds groups back without a timer", b.key)
			}
			if b.in == nil {
				return fmt.Errorf("%s: quiet without a timer", b.key)
			}
		}
		if !b.free(f.clock) || b.parked == nil {
			continue
		}
		// A free bucket lets the best of its groups be ready.
		ok := false
		for _, g := range groups {
			ok = ok || (g.addr == b || g.site == b) && g.in == &f.ready && b.parked.top().key >= g.key
		}
		if !ok {
			return fmt.Errorf("%s: free, but holds back %d groups", b.key, b.parked.len())
		}
	}
	return nil
}

type poolsFound struct {
	n, ram, bytes int64
	files         int
	first         map[uint8]uint64 // number in each level
}

// checkPools reads all pools and compares what it finds with what they say.
func (f *Frontier) checkPools() (poolsFound, error) {
	found := poolsFound{first: map[uint8]uint64{}}
	level := 256
	for _, p := range f.pools {
		if int(p.level) >= level {
			return found, fmt.Errorf("pool of level %d behind that of %d", p.level, level)
		}
		level = int(p.level)
		var frames []frame
		for i, s := range p.files {
			if s.read >= s.size || i > 0 && s.read > 0 {
				return found, fmt.Errorf("%s: read %d of %d", s.name, s.read, s.size)
			}
			found.files++
			found.bytes += s.size - s.read
			for off := s.read; off < s.size; {
				var w frameWindow
				c, size, err := f.readFrame(s, off, &w)
				if err != nil {
					return found, err
				}
				off += size
				frames = append(frames, *c)
			}
		}
		for _, c := range p.frames {
			found.ram += int64(cap(c.entries))
			frames = append(frames, *c)
		}
		var n int64
		var last uint64
		for i, c := range frames {
			number := c.first
			var links int32
			for at := 0; at < len(c.entries); links++ {
				enc, num, end, ok := c.at(at, number)
				if !ok {
					return found, fmt.Errorf("level %d, frame %d: damaged at %d", p.level, i, at)
				}
				if number, at = num, end; number < last {
					return found, fmt.Errorf("level %d: number %d behind %d", p.level, number, last)
				}
				last = number
				l, k, err := weburl.DecodeLink(enc)
				if err != nil || k != len(enc) || l.Level != p.level {
					return found, fmt.Errorf("level %d: %v, %v", p.level, l, err)
				}
				n++
				found.n++
				if _, ok := found.first[p.level]; !ok {
					found.first[p.level] = number
				}
			}
			if links != c.n {
				return found, fmt.Errorf("level %d, frame %d: %d links, says %d", p.level, i, links, c.n)
			}
		}
		if n != p.n || n == 0 {
			return found, fmt.Errorf("level %d: %d links, says %d", p.level, n, p.n)
		}
		end := p.at
		for _, m := range p.marks {
			if m.end < end || m.end <= p.at || m.end > p.at+p.n || p.withdrawn[m.name] < m.end {
				return found, fmt.Errorf("level %d: mark %+v behind %d, at %d with %d links", p.level, m, end, p.at, p.n)
			}
			end = m.end
		}
		for name, end := range p.withdrawn {
			if !slices.Contains(p.marks, mark{name, end}) {
				return found, fmt.Errorf("level %d: no mark of %s", p.level, name)
			}
		}
	}
	return found, nil
}

// A standing is a link somewhere in a Frontier.
type standing struct {
	link      weburl.Link
	number    uint64
	pool      bool
	withdrawn bool
}

// walk finds all links that are queued or in process; in each queue they come in
// its order.
func (f *Frontier) walk() (all []standing, err error) {
	add := func(enc []byte, s standing) error {
		if s.link, _, err = weburl.DecodeLink(enc); err != nil {
			return err
		}
		all = append(all, s)
		return nil
	}
	walkQueue := func(q *queue, withdrawn bool) error {
		for i := range q.blocks() {
			c := *q.block(i)
			if c.buf == nil {
				if c.buf, err = f.read(q.place(i)); err != nil {
					return err
				}
			}
			at := int(c.r)
			for range c.n {
				number, enc, end, err := c.at(at)
				if err != nil {
					return err
				}
				if err := add(enc, standing{number: number, withdrawn: withdrawn}); err != nil {
					return err
				}
				at = end
			}
		}
		return nil
	}
	walkFront := func(q *frontQueue, withdrawn bool) error {
		for _, e := range q.items[q.head:] {
			if err := add(e.enc, standing{number: e.number, withdrawn: withdrawn}); err != nil {
				return err
			}
		}
		return nil
	}
	for h := range f.hosts.all() {
		if e := f.cur(h); e != nil {
			if err := add(e.enc, standing{number: e.number}); err != nil {
				return nil, err
			}
		}
		if h.front != nil {
			if err := walkFront(h.front, false); err != nil {
				return nil, err
			}
		}
		for q := h.first(); q != nil; q = q.next() {
			if err := walkQueue(q, false); err != nil {
				return nil, err
			}
		}
	}
	for _, p := range f.pools {
		place := p.at
		walkFrame := func(c *frame) error {
			number := c.first
			for at := 0; at < len(c.entries); place++ {
				enc, num, end, ok := c.at(at, number)
				if !ok {
					return ErrSpill
				}
				number, at = num, end
				name, _ := weburl.PeekHost(enc)
				if err := add(enc, standing{number: number, pool: true, withdrawn: place < p.withdrawn[name]}); err != nil {
					return err
				}
			}
			return nil
		}
		for _, s := range p.files {
			for off := s.read; off < s.size; {
				var w frameWindow
				c, size, err := f.readFrame(s, off, &w)
				if err != nil {
					return nil, err
				}
				off += size
				if err := walkFrame(c); err != nil {
					return nil, err
				}
			}
		}
		for _, c := range p.frames {
			if err := walkFrame(c); err != nil {
				return nil, err
			}
		}
	}
	for _, q := range f.withdrawn.qs {
		if err := walkQueue(q, true); err != nil {
			return nil, err
		}
	}
	return all, walkFront(&f.withdrawn.front, true)
}

// A levelCount is how many links of a host the pool of each level has.
type levelCount map[uint8]int64

// countPooled counts the links of each host in the pools, without withdrawn ones.
func (f *Frontier) countPooled() (map[string]levelCount, error) {
	all, err := f.walk()
	of := map[string]levelCount{}
	for _, s := range all {
		if !s.pool || s.withdrawn {
			continue
		}
		name := s.link.URL.Host()
		if of[name] == nil {
			of[name] = levelCount{}
		}
		of[name][s.link.Level]++
	}
	return of, err
}

// each shows all pending links, those in process included, in the order of
// their numbers.
func (f *Frontier) each(fn func(weburl.Link) error) error {
	all, err := f.walk()
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b standing) int { return cmp.Compare(a.number, b.number) })
	for _, s := range all {
		if err := fn(s.link); err != nil {
			return err
		}
	}
	return nil
}
