package frontier

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// check compares the counts of f with what a walk through all structures finds.
func (f *Frontier) check() error {
	var want Stats
	var slots [MaxClasses]int // ready hosts by class
	want.Hosts = f.hosts.dict.len()
	var fixed, queued, blockedLinks int64
	extras, visits := 0, 0
	sums := sums{live: map[*segment]int{}}
	if !reflect.DeepEqual(noExtra, extra{}) {
		return fmt.Errorf("noExtra was written: %+v", noExtra)
	}
	for h := range f.hosts.dict.all() {
		name := h.name
		var n int64
		if h.front != nil {
			for _, e := range h.front.items[h.front.head:] {
				fixed += e.ram()
				n++
			}
			if h.front.len() == 0 {
				return fmt.Errorf("%s: has an empty front queue", name)
			}
		}
		if h.busy() {
			visits++
			v := &f.hosts.visits.all[visitOf(h)]
			if fixed += v.link.ram(); v.h != h || v.name != name {
				return fmt.Errorf("%s: %v, but its visit is of %s", name, h.state, v.name)
			}
		}
		if q := &h.q; q.n == 0 && (q.tail != nil || q.head.buf != nil) {
			return fmt.Errorf("%s: the empty queue is not zero: %+v", name, h.q)
		}
		for q := h.first(); q != nil; q = q.next() {
			if next := q.next(); next != nil && next.level >= q.level {
				return fmt.Errorf("%s: the queue of level %d is before that of level %d", name, q.level, next.level)
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
			return fmt.Errorf("%s: %d links found, links() is %d", name, n, h.links())
		}
		if f.hosts.dict.of(name) != h {
			return fmt.Errorf("%s: the dictionary does not find it", name)
		}
		if h.extra != &noExtra {
			if extras++; *h.extra == noExtra {
				return fmt.Errorf("%s: has an empty extra", name)
			}
		}
		if h.look != 0 && h.state != exhausted {
			return fmt.Errorf("%s: %v, but look is %d", name, h.state, h.look)
		}
		in := f.hosts.heapOf(h)
		queued += n
		switch h.state {
		case exhausted:
			want.Empty++
			if n != 0 || f.hosts.due(h) <= f.time.now {
				return fmt.Errorf("%s: exhausted with %d links, or its time is over", name, n)
			}
		case ready:
			if n == 0 || h.at > f.time.now {
				return fmt.Errorf("%s: ready with %d links, not before %d, the time is %d", name, n, h.at, f.time.now)
			}
			if f.hosts.shares.quietAt(h) > f.time.now {
				return fmt.Errorf("%s: ready, but alone and quiet until %d, the time is %d", name,
					f.hosts.shares.quietAt(h),
					f.time.now)
			}
			if f.hosts.shares.groupOf(h).parkedAt != nil {
				want.RestingShared++
			} else {
				want.Ready++
			}
			in = &f.hosts.shares.groupOf(h).hosts
			slots[h.q.turn]++
			if k, ok := in.has(h); !ok || !f.hosts.classes.on && k != h.key().order() {
				return fmt.Errorf("%s: at the wrong position in its group", name)
			}
		case parked:
			want.RestingShared++
			if n == 0 || h.at > f.time.now || f.hosts.shares.quietAt(h) <= f.time.now {
				return fmt.Errorf("%s: parked with %d links, not before %d, quiet until %d, the time is %d",
					name, n, h.at, f.hosts.shares.quietAt(h), f.time.now)
			}
		case waiting, slowed:
			if h.state == waiting {
				want.Resting++
			} else {
				want.Paused++
			}
			if n == 0 || f.hosts.due(h) != h.at {
				return fmt.Errorf("%s: waiting with %d links until %d, due says %d", name, n, h.at, f.hosts.due(h))
			}
		case resolving:
			want.Resolving++
		case inProcess:
			want.Fetching++
		case blocked:
			want.Blocked++
			blockedLinks += n
			if !h.retired {
				return fmt.Errorf("%s: in state blocked, but not blocked by the operator", name)
			}
		}
		if (in == nil && h.state != ready) != (h.pos < 0) {
			return fmt.Errorf("%s: %v, but pos is %d", name, h.state, h.pos)
		}
		if in != nil {
			if k, ok := in.has(h); !ok || h.state != ready && k != uint64(f.hosts.due(h)) {
				return fmt.Errorf("%s: not at its position in the heap", name)
			}
		}
	}
	want.Resting += want.RestingShared
	if f.hosts.classes.on && slots != f.hosts.classes.ready {
		return fmt.Errorf("%v hosts have slots, the counts are %v", slots, f.hosts.classes.ready)
	}
	pools, err := f.checkPools()
	if err != nil {
		return err
	}
	for h := range f.hosts.dict.all() {
		for q := h.first(); q != nil; q = q.next() {
			if first, ok := pools.first[q.level]; ok && first < q.last() {
				return fmt.Errorf("%s: number %d is in a queue, but %d is in the pool of level %d",
					h.name, q.last(), first, q.level)
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
		return fmt.Errorf("%d withdrawn links found, the count is %d", n, w.n)
	}
	queued += n
	want.Withdrawn = n
	for i, s := range f.aside.sides {
		fixed += queueOverhead
		if err := sums.queue("aside", s.q); err != nil {
			return err
		}
		if s.at != i || s.Len() == 0 {
			return fmt.Errorf("side %d has %d links and is at %d", i, s.Len(), s.at)
		}
		queued += s.Len()
	}
	if f.aside.review > f.aside.Len() {
		return fmt.Errorf("%d links are to be reviewed, of %d", f.aside.review, f.aside.Len())
	}
	want.Aside = f.aside.Len()
	fixed += sums.fixed
	fixed += pools.ram
	want.Pooled, want.PoolBytes, want.PoolFiles = pools.n, pools.bytes, pools.files
	want.Queued, want.BlockedLinks = queued+pools.n, blockedLinks
	want.RAMBytes = sums.ram + fixed + f.hosts.overhead()
	if extras != f.hosts.extras.n || visits != len(f.hosts.visits.all)-len(f.hosts.visits.unused) {
		return fmt.Errorf("%d hosts with an extra, %d with a visit; the counts are %d, %d",
			extras, visits, f.hosts.extras.n, len(f.hosts.visits.all)-len(f.hosts.visits.unused))
	}
	want.SpilledBytes, want.SpillFiles = sums.spilled, f.queues.segments
	want.LeasesAwaited, want.LeaseWaits = len(f.hosts.shares.awaiting), f.hosts.shares.leaseWaits
	for point, b := range f.hosts.shares.awaiting {
		if b.key.point() != point || b.holder != nil || b.freeAt <= f.time.now || b.in != &f.hosts.shares.freeing &&
			b.in != &f.hosts.shares.fading {
			return fmt.Errorf("%s: awaits a lease, free at %d, the time is %d, without a timer", b.key, b.freeAt,
				f.time.now)
		}
	}
	if sums.tails != f.queues.tails {
		return fmt.Errorf("%d queues in the spill lists of tails, the count is %d", sums.tails, f.queues.tails)
	}
	if got := f.Stats(); got != want {
		return fmt.Errorf("wrong stats\n got %+v\nwant %+v", got, want)
	}
	for s, n := range sums.live {
		if s.live != n {
			return fmt.Errorf("%s: %d live blocks found, the count is %d", s.name, n, s.live)
		}
	}
	if want := len(sums.live); f.queues.segments < want {
		return fmt.Errorf("%d spill files, but blocks in %d", f.queues.segments, want)
	}
	if err := f.checkShares(); err != nil {
		return err
	}
	return f.checkBuckets()
}

// sums adds up the sizes of queues.
type sums struct {
	ram, fixed, spilled int64
	live                map[*segment]int
	tails               int // queues in the spill lists of tails
}

// queue checks q and adds its size, without the struct itself.
func (s *sums) queue(name string, q *queue) error {
	if q.tail != nil {
		s.fixed += restOverhead + int64(cap(q.tail.blocks))*blockOverhead
		if q.blocks() == 1 && q.next() == nil && !q.place(0).onDisk() {
			return fmt.Errorf("%s: has an empty rest", name)
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
			return fmt.Errorf("%s: a block is neither in RAM nor on disk", name)
		}
		if b.n <= 0 {
			return fmt.Errorf("%s: a block with %d links", name, b.n)
		}
	}
	if qram != q.ram() || qn != int64(q.n) || q.n == 0 {
		return fmt.Errorf("%s: %d bytes, %d links found in a queue; the counts are %d, %d", name, qram, qn, q.ram(),
			q.n)
	}
	if r := q.tail; r != nil && (r.class == 0) != (qram == 0 || !q.tailInRAM() && q.head.buf == nil) {
		return fmt.Errorf("%s: %d bytes in RAM, but in spill list %d", name, qram, r.class)
	}
	if r := q.tail; r != nil && r.class >= tailClass {
		s.tails++
	}
	s.ram += qram
	return nil
}

// checkShares checks which hosts are alone at their address and site, and which are in groups.
func (f *Frontier) checkShares() error {
	s := &f.hosts.shares
	at, in := map[netip.Addr]int{}, map[string]int{} // number of hosts
	refs := map[share]int32{}
	for h := range f.hosts.dict.all() {
		if h.share == 0 {
			continue
		}
		addr, site := f.hosts.shares.keys(h, h.addr())
		at[addr.addr]++
		in[site.site]++
		if !h.share.alone() {
			refs[h.share]++
		}
	}
	found := 0
	for h := range f.hosts.dict.all() {
		addr, site := f.hosts.shares.keys(h, h.addr())
		g := f.hosts.shares.groupOf(h)
		switch {
		case h.share == 0:
		case h.share == free:
			if addr.addr.IsValid() || site.site != "" {
				return fmt.Errorf("%s: in the group without buckets, but at %v in %v", h.name, addr, site)
			}
		case !h.share.alone():
			right := func(b, known *bucket, k bucketKey) bool { return b == nil || b.key == k && known == b }
			if (g.addr != nil) != addr.addr.IsValid() || !right(g.addr, f.hosts.shares.addrs[addr.addr], addr) {
				return fmt.Errorf("%s: not in the group of %v", h.name, addr)
			}
			if (g.site != nil) != (site.site != "") || !right(g.site, f.hosts.shares.sites[site.site], site) {
				return fmt.Errorf("%s: not in the group of %v", h.name, site)
			}
			if g.refs != refs[h.share] {
				return fmt.Errorf("%s: %d hosts found in its group, the count is %d", h.name, refs[h.share], g.refs)
			}
		default:
			if addr.addr.IsValid() {
				found++
				if s.aloneAt.of(addr) != h || at[addr.addr] != 1 || s.addrs[addr.addr] != nil {
					return fmt.Errorf("%s: not alone at %v", h.name, addr)
				}
			}
			if site.site != "" {
				found++
				if s.aloneIn.of(site) != h || in[site.site] != 1 || s.sites[site.site] != nil {
					return fmt.Errorf("%s: not alone in %v", h.name, site)
				}
			}
		}
	}
	if n := f.hosts.shares.aloneAt.n + f.hosts.shares.aloneIn.n; n != found {
		return fmt.Errorf("%d entries for hosts that are alone, the tables have %d", found, n)
	}
	for n := range f.hosts.shares.groupsByNumber {
		if k := grouped | share(n); n > 0 && (f.hosts.shares.groupsByNumber[n] == nil) == (refs[k] > 0) {
			return fmt.Errorf("group %d exists: %t, with %d hosts", n, f.hosts.shares.groupsByNumber[n] != nil, refs[k])
		}
	}
	return nil
}

func (f *Frontier) checkBuckets() error {
	groups := []*group{f.hosts.shares.unbound}
	for k, n := range f.hosts.shares.groups {
		g := f.hosts.shares.groupsByNumber[n&^grouped]
		if groups = append(groups, g); g.addr != k.addr || g.site != k.site {
			return fmt.Errorf("a group is under the wrong key")
		}
		if g.refs <= 0 {
			return fmt.Errorf("a group that no host needs")
		}
	}
	for _, g := range groups {
		switch {
		case g.hosts.len() == 0:
			if g.in != nil {
				return fmt.Errorf("a group without hosts is in a heap")
			}
			continue
		case g.in == nil || !g.in.holds(g):
			return fmt.Errorf("a group with hosts is in no heap")
		case g.key != g.hosts.first():
			return fmt.Errorf("the key of a group is not that of its best host")
		}
	}
	buckets := slices.Collect(maps.Values(f.hosts.shares.addrs))
	for _, b := range slices.AppendSeq(buckets, maps.Values(f.hosts.shares.sites)) {
		if b.parked != nil && b.parked.len() == 0 {
			return fmt.Errorf("%s: has an empty heap", b.key)
		}
		if b.holder != nil && (b.holder.state != inProcess || b.in != nil) {
			return fmt.Errorf("%s: held by %s, which is %v", b.key, b.holder.name, b.holder.state)
		}
		if b.refs == 0 && b.free(f.time.now) {
			return fmt.Errorf("%s: not forgotten, though nothing needs it", b.key)
		}
		if b.holder == nil && b.freeAt > f.time.now {
			if want := &f.hosts.shares.freeing; b.parked != nil && b.in != want {
				return fmt.Errorf("%s: holds groups back without a timer", b.key)
			}
			if b.in == nil {
				return fmt.Errorf("%s: is quiet without a timer", b.key)
			}
		}
		if !b.free(f.time.now) || b.parked == nil {
			continue
		}
		// If a bucket is free, the best of its groups must be ready.
		ok := false
		for _, g := range groups {
			ok = ok || (g.addr == b || g.site == b) && g.in == &f.hosts.shares.ready && b.parked.top().key >= g.key
		}
		if !ok {
			return fmt.Errorf("%s: is free, but holds back %d groups", b.key, b.parked.len())
		}
	}
	return nil
}

type poolsFound struct {
	n, ram, bytes int64
	files         int
	first         map[uint8]uint64 // the first number in each level
}

// checkPools reads all pools and compares what it finds with their counts.
func (f *Frontier) checkPools() (poolsFound, error) {
	found := poolsFound{first: map[uint8]uint64{}}
	level := 256
	for _, p := range f.pools.list {
		if int(p.level) >= level {
			return found, fmt.Errorf("the pool of level %d is after that of level %d", p.level, level)
		}
		level = int(p.level)
		var frames []frame
		for i, s := range p.files {
			if s.read >= s.size || i > 0 && s.read > 0 {
				return found, fmt.Errorf("%s: %d of %d bytes are consumed", s.name, s.read, s.size)
			}
			found.files++
			found.bytes += s.size - s.read
			for off := s.read; off < s.size; {
				var w frameWindow
				c, size, err := f.pools.readFrame(s, off, &w)
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
					return found, fmt.Errorf("level %d, frame %d: damaged at byte %d", p.level, i, at)
				}
				if number, at = num, end; number < last {
					return found, fmt.Errorf("level %d: number %d comes after %d", p.level, number, last)
				}
				last = number
				l, k, err := link.Decode(enc)
				if err != nil || k != len(enc) || f.cfg.rank(&l) != p.level {
					return found, fmt.Errorf("level %d: link %v, %v", p.level, l, err)
				}
				n++
				found.n++
				if _, ok := found.first[p.level]; !ok {
					found.first[p.level] = number
				}
			}
			if links != c.n {
				return found, fmt.Errorf("level %d, frame %d: %d links found, the count is %d", p.level, i, links, c.n)
			}
		}
		if n != p.n || n == 0 {
			return found, fmt.Errorf("level %d: %d links found, the count is %d", p.level, n, p.n)
		}
		end := p.at
		for _, m := range p.marks {
			if m.end < end || m.end <= p.at || m.end > p.at+p.n || p.withdrawn[m.name] < m.end {
				return found, fmt.Errorf("level %d: mark %+v after %d, in a pool at %d with %d links",
					p.level, m, end, p.at, p.n)
			}
			end = m.end
		}
		for name, end := range p.withdrawn {
			if !slices.Contains(p.marks, mark{name, end}) {
				return found, fmt.Errorf("level %d: the mark of %s is missing", p.level, name)
			}
		}
	}
	return found, nil
}

// A standing is a link in a Frontier, with its position.
type standing struct {
	link      link.Link
	number    uint64
	pool      bool
	withdrawn bool
}

// walk returns all links that are queued or in process. Those of a queue are in its order.
func (f *Frontier) walk() (all []standing, err error) {
	add := func(enc []byte, s standing) error {
		if s.link, _, err = link.Decode(enc); err != nil {
			return err
		}
		all = append(all, s)
		return nil
	}
	walkQueue := func(q *queue, withdrawn bool) error {
		for i := range q.blocks() {
			c := *q.block(i)
			if c.buf == nil {
				if c.buf, err = f.queues.read(q.place(i)); err != nil {
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
	for h := range f.hosts.dict.all() {
		if e := f.hosts.visits.link(h); e != nil {
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
	for _, p := range f.pools.list {
		place := p.at
		walkFrame := func(c *frame) error {
			number := c.first
			for at := 0; at < len(c.entries); place++ {
				enc, num, end, ok := c.at(at, number)
				if !ok {
					return ErrSpill
				}
				number, at = num, end
				name, _ := link.PeekHost(enc)
				if err := add(enc, standing{number: number, pool: true,
					withdrawn: place < p.withdrawn[name]}); err != nil {
					return err
				}
			}
			return nil
		}
		for _, s := range p.files {
			for off := s.read; off < s.size; {
				var w frameWindow
				c, size, err := f.pools.readFrame(s, off, &w)
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
	for _, s := range f.aside.sides {
		if err := walkQueue(s.q, false); err != nil {
			return nil, err
		}
	}
	return all, walkFront(&f.withdrawn.front, true)
}

// A levelCount is the number of links of a host in the pool of each level.
type levelCount map[uint8]int64

// countPooled returns the number of links of each host in the pools, without withdrawn ones.
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

// each calls fn for all links that are queued or in process, in the order of their numbers.
func (f *Frontier) each(fn func(link.Link) error) error {
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
