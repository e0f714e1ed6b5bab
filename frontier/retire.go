package frontier

import (
	"strings"
)

// Block retires a host: it is not asked again, its links stay. What is in
// process ends as usual. Its links in the pools are counted, which reads all of
// the pools once; if they cannot be read, Err says so.
func (f *Frontier) Block(host string) { f.retire([]string{host}) }

func (f *Frontier) retire(names []string) {
	of := make(map[string]levelCount, len(names))
	for _, name := range names {
		if !f.host(name).retired {
			of[name] = levelCount{}
		}
	}
	if len(of) == 0 {
		return
	}
	if err := f.countPooled(of); err != nil && f.err == nil {
		f.err = err
	}
	for name, c := range of {
		h := f.hosts.of(name)
		f.markRetired(h, c.total())
		if !h.busy() {
			f.leave(h)
			f.place(h)
		}
	}
}

// markRetired retires h, of which pooled links are in the pools.
func (f *Frontier) markRetired(h *host, pooled int64) {
	h.retired = true
	f.retired++
	if pooled > 0 {
		f.own(h).pooled = pooled
	}
	if !h.busy() {
		f.stats.BlockedLinks += h.links() + pooled
	}
}

// Unblock takes a Block back.
func (f *Frontier) Unblock(host string) {
	h := f.hosts.of(host)
	if h == nil || !h.retired {
		return
	}
	h.retired = false
	f.retired--
	pooled := h.pooled
	if pooled > 0 {
		h.pooled = 0
		f.disown(h)
	}
	if h.state == blocked {
		f.stats.BlockedLinks -= h.links() + pooled
		f.place(h)
	}
}

// Drop is DropAll for one host.
func (f *Frontier) Drop(host string, fn func(Waiting) error) (int64, error) {
	return f.DropAll([]string{host}, fn)
}

// DropAll forgets the queued links of hosts, those in process apart, and
// returns how many they were. Each is shown to fn before, if fn is not nil, in
// the order of the request numbers; after an error of fn nothing is dropped. It
// reads all of the pools, once however many the hosts are.
func (f *Frontier) DropAll(hosts []string, fn func(Waiting) error) (int64, error) {
	if f.err != nil {
		return 0, f.err
	}
	hs, of := f.named(hosts)
	var err error
	if fn == nil {
		err = f.countPooled(of)
	} else {
		err = f.mergeWaiting(hs, of, fn)
	}
	if err != nil {
		return 0, err
	}
	return f.remove(hs, of)
}

// named finds those of hosts that have queues, and makes room to count the
// links that each has in the pools.
func (f *Frontier) named(hosts []string) (hs []*host, of map[string]levelCount) {
	of = make(map[string]levelCount, len(hosts))
	for _, name := range hosts {
		if _, ok := of[name]; ok {
			continue
		}
		of[name] = levelCount{}
		if h := f.hosts.of(name); h != nil && !h.empty() {
			hs = append(hs, h)
		}
	}
	return hs, of
}

// remove forgets what stands in the queues of hs, and what the hosts of have in
// the pools: as many as is said there.
func (f *Frontier) remove(hs []*host, of map[string]levelCount) (total int64, first error) {
	for _, h := range hs {
		n, err := f.empty(h)
		if total += n; err != nil && first == nil {
			first = err
		}
	}
	for name, c := range of {
		n := c.total()
		if n == 0 {
			continue
		}
		total += n
		f.pooled -= n
		if r := f.removed[name]; r == nil {
			f.removed[strings.Clone(name)] = c
		} else {
			for level, n := range c {
				r[level] += n
			}
		}
		if h := f.hosts.of(name); h != nil && h.retired {
			f.blockPooled(h, -n)
		}
	}
	return total, first
}

// empty forgets what stands in h's queues.
func (f *Frontier) empty(h *host) (n int64, first error) {
	n = h.links()
	busy := h.busy()
	if !busy {
		f.leave(h)
	}
	for h.front.len() > 0 {
		f.fixed -= h.front.items[h.front.head].ram()
		h.front.take()
	}
	if h.front != nil {
		h.front = nil
		f.disown(h)
	}
	for q := h.first(); q != nil; q = q.next() {
		if err := f.discard(q); err != nil && first == nil {
			first = err
		}
		if q != &h.q {
			f.fixed -= queueOverhead
		}
	}
	h.q = queue{}
	f.queued -= n
	if h.state == blocked {
		f.stats.BlockedLinks -= n
	}
	if !busy {
		f.place(h)
	}
	return n, first
}
