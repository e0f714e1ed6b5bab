package frontier

import "fmt"

// check compares what f says of itself with what a walk finds.
func (f *Frontier) check() error {
	var want Stats
	want.Hosts = len(f.hosts)
	var ram, fixed, spilled, queued, blockedLinks int64
	live := map[*segment]int{}
	if blank != (history{}) {
		return fmt.Errorf("the history of those who have none is %+v", blank)
	}
	for name, h := range f.hosts {
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
		if h.cur != nil {
			fixed += h.cur.ram()
		}
		if (h.cur != nil) != h.busy() {
			return fmt.Errorf("%s: %v, in process %v", name, h.state, h.cur != nil)
		}
		for q := h.q; q != nil; q = q.next {
			if q.next != nil && q.next.level >= q.level {
				return fmt.Errorf("%s: level %d before %d", name, q.level, q.next.level)
			}
			var qram, qn int64
			for b := q.head; b != nil; b = b.next {
				fixed += blockOverhead
				qram += int64(cap(b.buf))
				qn += int64(b.n)
				if b.seg != nil {
					live[b.seg]++
					spilled += int64(b.size)
				} else if b.buf == nil {
					return fmt.Errorf("%s: a block is nowhere", name)
				}
				if b.next == nil && b != q.tail {
					return fmt.Errorf("%s: tail is not the last block", name)
				}
				if b.n <= 0 {
					return fmt.Errorf("%s: a block with %d links", name, b.n)
				}
			}
			if qram != q.ram || qn != q.n || q.n == 0 {
				return fmt.Errorf("%s: queue has %d bytes, %d links; says %d, %d", name, qram, qn, q.ram, q.n)
			}
			if (q.class < 0) != (q.ram == 0 || !q.tailInRAM() && q.head.buf == nil) {
				return fmt.Errorf("%s: %d bytes in RAM, spill class %d", name, q.ram, q.class)
			}
			ram += qram
			n += qn
		}
		if n != h.n {
			return fmt.Errorf("%s: %d links, says %d", name, n, h.n)
		}
		queued += n
		parked := false
		switch h.state {
		case exhausted:
			want.Exhausted++
			if h.in != &f.resting || h.n != 0 {
				return fmt.Errorf("%s: exhausted with %d links, or not resting", name, h.n)
			}
		case ready:
			if h.group == nil || h.in != &h.group.hosts || h.n == 0 || h.at > f.clock {
				return fmt.Errorf("%s: ready with %d links, at %d of %d", name, h.n, h.at, f.clock)
			}
			if parked = h.group.parkedAt != nil; parked {
				want.Parked++
			} else {
				want.Ready++
			}
			was := h.key
			if h.head(); was != h.key {
				return fmt.Errorf("%s: key %v is old", name, was)
			}
		case waiting, slowed:
			if h.state == waiting {
				want.Waiting++
			} else {
				want.Slowed++
			}
			if h.in != &f.waiting || h.n == 0 || h.due != h.at {
				return fmt.Errorf("%s: waiting with %d links", name, h.n)
			}
		case resolving:
			want.Resolving++
		case inProcess:
			want.InProcess++
		case blocked:
			want.Blocked++
			blockedLinks += n
			if h.in != nil || !h.retired {
				return fmt.Errorf("%s: blocked, but in a heap", name)
			}
		}
		if h.in != nil && h.in.items[h.pos] != h {
			return fmt.Errorf("%s: not where it says", name)
		}
	}
	want.Queued, want.BlockedLinks = queued, blockedLinks
	want.RAMBytes = ram + fixed + int64(len(f.hosts))*hostOverhead
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
		case g.in == nil || g.in.items[g.pos] != g:
			return fmt.Errorf("a group with hosts in no heap")
		case g.key != g.hosts.top().key:
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
			ok = ok || (g.addr == b || g.site == b) && g.in == &f.ready && !groupLess(b.parked.top(), g)
		}
		if !ok {
			return fmt.Errorf("%s: free, but holds back %d groups", b.key, b.parked.len())
		}
	}
	return nil
}
