package visit

import (
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// known is a cache of recently accepted URLs, for the workers. Most links lead to pages that
// the crawl has just found (Broder, Najork and Wiener, WWW 2003: a cache of 50,000 URLs
// answers 80 % of the checks). A worker does not judge and encode such a link. known may
// forget URLs, but never reports a URL that the seen-set lacks. The dispatcher writes; reading
// is safe for concurrent use.
type known struct {
	slots      [1 << knownBits]knownSlot
	generation atomic.Uint64 // grows with each call of forget; part of a slot's bound
}

const knownBits = 18 // 4 MiB

// A knownSlot is a key. Its halves are read and written one by one. bound combines both, so
// that halves of two different keys are not taken for a third key.
type knownSlot struct{ bound, path atomic.Uint64 }

// bind combines the host part and the path part of a key with the generation.
func (n *known) bind(k link.Key) uint64 {
	return (k.Host ^ (k.Path+1)*0x9e3779b97f4a7c15) + n.generation.Load()*0xd1b54a32d192ed03
}

func (n *known) slot(k link.Key) *knownSlot {
	return &n.slots[(k.Path^k.Host*0xff51afd7ed558ccd)>>(64-knownBits)]
}

// has reports whether k was added and is not forgotten.
func (n *known) has(k link.Key) bool {
	s := n.slot(k)
	return s.path.Load() == k.Path && s.bound.Load() == n.bind(k)
}

// forget empties the set, because the seen-set may lack some of its keys.
func (n *known) forget() { n.generation.Add(1) }

// add adds k, which the seen-set has.
func (n *known) add(k link.Key) {
	s := n.slot(k)
	if s.path.Load() == k.Path && s.bound.Load() == n.bind(k) {
		return // the line stays shared
	}
	s.path.Store(k.Path)
	s.bound.Store(n.bind(k))
}
