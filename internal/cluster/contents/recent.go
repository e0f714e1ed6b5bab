package contents

import "sync"

// A Recent is a cache of the contents seen lately, with their first pages. It forgets the least
// recently used ones. Safe for concurrent use.
type Recent struct {
	most int // entries of a generation
	// mu guards the fields below.
	mu         sync.Mutex
	young, old map[Digest]Original
}

// NewRecent returns a Recent of at most entries contents.
func NewRecent(entries int) *Recent {
	return &Recent{most: max(1, entries/2), young: map[Digest]Original{}}
}

// First returns the first page with a content, if it is known.
func (r *Recent) First(d Digest) (Original, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.young[d]
	if ok {
		return p, true
	}
	if p, ok = r.old[d]; ok {
		r.put(d, p)
	}
	return p, ok
}

// Add stores p as the first page with a content, unless there is one already.
func (r *Recent) Add(d Digest, p Original) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.young[d]; ok {
		return
	}
	if before, ok := r.old[d]; ok {
		p = before
	}
	r.put(d, p)
}

// put adds to the young generation. The caller holds mu.
func (r *Recent) put(d Digest, p Original) {
	if len(r.young) >= r.most {
		r.young, r.old = make(map[Digest]Original, r.most), r.young
	}
	r.young[d] = p
}
