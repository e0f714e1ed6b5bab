package crawl

import (
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// known remembers URLs that have been taken in lately, for the workers: most
// links lead to pages that the crawl has just met (Broder, Najork and Wiener,
// WWW 2003: a cache of 50,000 URLs takes 80 % of the checks), and such a link
// need not be judged, encoded and carried to seen. It may forget; it never
// says yes to what seen has not got. The dispatcher writes, all may ask.
type known struct{ slots [1 << knownBits]knownSlot }

const knownBits = 18 // 4 MiB

// A knownSlot is a key, whose halves are read and written one by one: they are
// bound to each other, so that halves of two keys are not taken for a third.
type knownSlot struct{ bound, path atomic.Uint64 }

// bind ties a key's host part to its path part.
func bind(k weburl.Key) uint64 { return k.Host ^ (k.Path+1)*0x9e3779b97f4a7c15 }

func (n *known) slot(k weburl.Key) *knownSlot {
	return &n.slots[(k.Path^k.Host*0xff51afd7ed558ccd)>>(64-knownBits)]
}

// has says that k was added, and is not forgotten yet.
func (n *known) has(k weburl.Key) bool {
	s := n.slot(k)
	return s.path.Load() == k.Path && s.bound.Load() == bind(k)
}

// forget empties the set: seen has not got all of it.
func (n *known) forget() {
	for i := range n.slots {
		n.slots[i].bound.Store(0)
		n.slots[i].path.Store(0)
	}
}

// add notes that seen has k.
func (n *known) add(k weburl.Key) {
	s := n.slot(k)
	if s.path.Load() == k.Path && s.bound.Load() == bind(k) {
		return // the line stays shared
	}
	s.path.Store(k.Path)
	s.bound.Store(bind(k))
}
