package lab

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// known marks the discovered pages.
type known []bool

// add marks pages, and calls fn with the new ones.
func (k known) add(pages []uint32, fn func(p uint32)) {
	for _, p := range pages {
		if !k[p] {
			k[p] = true
			fn(p)
		}
	}
}

// breadthFirst fetches pages in the order of their discovery.
func (w *linkWeb) breadthFirst(seeds []uint32) []uint32 {
	k := make(known, w.g.Nodes())
	var queue []uint32
	push := func(p uint32) { queue = append(queue, p) }
	k.add(seeds, push)
	for i := 0; i < len(queue); i++ {
		k.add(w.g.Out(queue[i]), push)
	}
	return queue
}

// random fetches a random one of the discovered pages next.
func (w *linkWeb) random(seeds []uint32, r *rand.Rand) (fetched []uint32) {
	k := make(known, w.g.Nodes())
	var pool []uint32
	push := func(p uint32) { pool = append(pool, p) }
	k.add(seeds, push)
	for len(pool) > 0 {
		i, last := r.IntN(len(pool)), len(pool)-1
		p := pool[i]
		pool[i] = pool[last]
		pool = pool[:last]
		fetched = append(fetched, p)
		k.add(w.g.Out(p), push)
	}
	return fetched
}

// bestFirst fetches the discovered page with the highest indegree next. No real crawler knows
// the indegree.
func (w *linkWeb) bestFirst(seeds []uint32) (fetched []uint32) {
	k := make(known, w.g.Nodes())
	var queue []uint32 // the best page is the last one
	push := func(p uint32) {
		i, _ := slices.BinarySearchFunc(queue, p, func(q, p uint32) int { return w.better(p, q) })
		queue = slices.Insert(queue, i, p)
	}
	k.add(seeds, push)
	for len(queue) > 0 {
		last := len(queue) - 1
		p := queue[last]
		queue = queue[:last]
		fetched = append(fetched, p)
		k.add(w.g.Out(p), push)
	}
	return fetched
}

// ideal returns all reachable pages by indegree, the highest first.
func (w *linkWeb) ideal(seeds []uint32) []uint32 {
	pages := w.breadthFirst(seeds)
	w.byIndegree(pages)
	return pages
}

// byIndegree sorts pages by indegree, the highest first, and then by number.
func (w *linkWeb) byIndegree(pages []uint32) { slices.SortFunc(pages, w.better) }

// better compares pages by indegree, the highest first, and then by number.
func (w *linkWeb) better(a, b uint32) int {
	return cmp.Or(cmp.Compare(w.indegree[b], w.indegree[a]), cmp.Compare(a, b))
}

// perHost is the order of UbiCrawler, a crawler (paper, section 3). A thread visits one host at
// a time, breadth-first, until it has fetched all known pages of the host. Then it takes, of the
// hosts that no thread visits, the one discovered first. Links to another host go to the agent
// that owns the host. All threads fetch at the same pace: one page each in a round. The links of
// a page are known from the next round on.
func (w *linkWeb) perHost(d *division, seeds []uint32, agents, threads int,
	of func(host string) int) (fetched []uint32) {
	type agent struct {
		hosts   []int32 // waiting for a thread
		threads []int32 // the host of each thread, or none
	}
	const none = -1
	as := make([]agent, agents)
	for i := range as {
		as[i].threads = slices.Repeat([]int32{none}, threads)
	}
	owner := make([]*agent, d.hosts())
	for h, name := range d.names {
		owner[h] = &as[of(name)]
	}
	waiting := make([][]uint32, d.hosts()) // known pages to fetch, by host
	taken := make([]bool, d.hosts())       // whether a thread has the host, or the host waits for one
	k := make(known, w.g.Nodes())
	push := func(p uint32) {
		h := d.host[p]
		waiting[h] = append(waiting[h], p)
		if !taken[h] {
			taken[h] = true
			owner[h].hosts = append(owner[h].hosts, h)
		}
	}
	k.add(seeds, push)
	for {
		from := len(fetched)
		for t := range threads {
			for i := range as {
				a := &as[i]
				if a.threads[t] == none && len(a.hosts) > 0 {
					a.threads[t], a.hosts = a.hosts[0], a.hosts[1:]
				}
				if h := a.threads[t]; h != none {
					fetched = append(fetched, waiting[h][0])
					waiting[h] = waiting[h][1:]
				}
			}
		}
		if len(fetched) == from {
			return fetched
		}
		for _, p := range fetched[from:] {
			k.add(w.g.Out(p), push)
		}
		for i := range as {
			for t, h := range as[i].threads {
				if h != none && len(waiting[h]) == 0 {
					as[i].threads[t], taken[h] = none, false
				}
			}
		}
	}
}
