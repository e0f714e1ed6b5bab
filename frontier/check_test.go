package frontier

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/orbweaver/orbweaver/weburl"
)

// check compares what f says of itself with what a walk finds.
func (f *Frontier) check() error {
	var want Stats
	want.Hosts = f.hosts.len()
	var ram, fixed, spilled, queued, blockedLinks int64
	rares, visits := 0, 0
	live := map[*segment]int{}
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
			if q.rest != nil {
				fixed += restOverhead + int64(cap(q.rest.blocks))*blockOverhead
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
					live[p.seg]++
					spilled += int64(p.size)
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
			ram += qram
			n += qn
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
		parked := false
		switch h.state {
		case exhausted:
			want.Exhausted++
			if n != 0 || h.due() <= f.clock {
				return fmt.Errorf("%s: exhausted with %d links, or over", name, n)
			}
		case ready:
			if n == 0 || h.at > f.clock {
				return fmt.Errorf("%s: ready with %d links, at %d of %d", name, n, h.at, f.clock)
			}
			if parked = f.groupOf(h).parkedAt != nil; parked {
				want.Parked++
			} else {
				want.Ready++
			}
			if k, ok := in.has(h); !ok || k != h.key().order() {
				return fmt.Errorf("%s: in the wrong place of its group", name)
			}
		case waiting, slowed:
			if h.state == waiting {
				want.Waiting++
			} else {
				want.Slowed++
			}
			if n == 0 || h.due() != h.at {
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
		if (in == nil) != (h.pos < 0) {
			return fmt.Errorf("%s: not where it says", name)
		}
		if in != nil {
			if _, ok := in.has(h); !ok {
				return fmt.Errorf("%s: not where it says", name)
			}
		}
	}
	pools, err := f.checkPools()
	if err != nil {
		return err
	}
	retired := 0
	for h := range f.hosts.all() {
		name := h.name
		if h.retired {
			retired++
			if h.pooled != pools.of[name] {
				return fmt.Errorf("%s: retired with %d links in the pools, says %d", name, pools.of[name], h.pooled)
			}
		} else if h.pooled != 0 {
			return fmt.Errorf("%s: not retired, says %d links in the pools", name, h.pooled)
		}
		if h.state == blocked {
			blockedLinks += h.pooled
		}
		for q := h.first(); q != nil; q = q.next() {
			if first, ok := pools.first[q.level]; ok && first < q.last() {
				return fmt.Errorf("%s: number %d in a queue, but %d in the pool of level %d", name, q.last(), first, q.level)
			}
		}
	}
	if retired != f.retired {
		return fmt.Errorf("%d hosts retired, says %d", retired, f.retired)
	}
	fixed += pools.ram
	want.Pooled, want.PoolBytes, want.PoolFiles = pools.n, pools.bytes, pools.files
	want.Queued, want.BlockedLinks = queued+pools.n, blockedLinks
	want.RAMBytes = ram + fixed + f.overhead()
	if rares != f.rares || visits != len(f.visits)-len(f.freeVisits) {
		return fmt.Errorf("%d hosts with a rare, %d with a visit, says %d, %d", rares, visits, f.rares, len(f.visits)-len(f.freeVisits))
	}
	want.SpilledBytes, want.SpillFiles = spilled, f.files
	if got := f.Stats(); got != want {
		return fmt.Errorf("stats\n got %+v\nwant %+v", got, want)
	}
	for s, n := range live {
		if s.live != n {
			return fmt.Errorf("%s: %d blocks live, says %d", s.name, n, s.live)
		}
	}
	if want := len(live); f.files < want {
		return fmt.Errorf("%d spill files, %d hold blocks", f.files, want)
	}
	return f.checkBuckets()
}

func (f *Frontier) checkBuckets() error {
	groups := []*group{f.open_}
	for _, g := range f.groups {
		groups = append(groups, g)
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
	for _, b := range f.buckets {
		if b.holder != nil && (b.holder.state != inProcess || b.in != nil) {
			return fmt.Errorf("%s: held by %s, %v", b.key, b.holder.name, b.holder.state)
		}
		if b.refs == 0 && b.free(f.clock) {
			return fmt.Errorf("%s: not forgotten", b.key)
		}
		if b.holder == nil && b.freeAt > f.clock {
			if want := &f.freeing; b.parked.len() > 0 && b.in != want {
				return fmt.Errorf("%s: holds groups back without a timer", b.key)
			}
			if b.in == nil {
				return fmt.Errorf("%s: quiet without a timer", b.key)
			}
		}
		if !b.free(f.clock) || b.parked.len() == 0 {
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
	of            map[string]int64 // links of each host
	first         map[uint8]uint64 // number in each level
}

// checkPools reads all pools and compares what it finds with what they say.
func (f *Frontier) checkPools() (poolsFound, error) {
	found := poolsFound{of: map[string]int64{}, first: map[uint8]uint64{}}
	removed := map[string]levelCount{}
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
				var buf []byte
				c, size, err := f.readFrame(s, off, &buf)
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
				name := l.URL.Host()
				if at := removed[name]; at[p.level] < f.removed[name][p.level] {
					if at == nil {
						at = levelCount{}
						removed[name] = at
					}
					at[p.level]++
					continue
				}
				found.n++
				found.of[name]++
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
	}
	for name, c := range f.removed {
		if !maps.Equal(c, removed[name]) || len(c) == 0 {
			return found, fmt.Errorf("%s: %v links removed, says %v", name, removed[name], c)
		}
	}
	return found, nil
}

// each shows all pending links, those in process included, in the order of
// their numbers.
func (f *Frontier) each(fn func(weburl.Link) error) error {
	show := func(e *entry, _ bool) error {
		l, _, err := weburl.DecodeLink(e.enc)
		if err != nil {
			return err
		}
		return fn(l)
	}
	var hs []*host
	var busy []*entry
	for h := range f.hosts.all() {
		if e := f.cur(h); e != nil {
			busy = append(busy, e)
		}
		if !h.empty() {
			hs = append(hs, h)
		}
	}
	slices.SortFunc(busy, func(a, b *entry) int { return cmp.Compare(a.number, b.number) })
	if err := f.merge(hs, nil, func(e *entry, front bool) error {
		for ; len(busy) > 0 && busy[0].number <= e.number; busy = busy[1:] {
			if err := show(busy[0], true); err != nil {
				return err
			}
		}
		return show(e, front)
	}); err != nil {
		return err
	}
	for _, e := range busy {
		if err := show(e, true); err != nil {
			return err
		}
	}
	return nil
}
