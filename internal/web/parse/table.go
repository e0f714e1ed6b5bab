package parse

import (
	"bytes"
	"math/bits"
	"math/rand/v2"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// table is an open-addressing set of a page's links by URL and hop. It holds only indices; the page
// holds the keys and URLs.
type table struct {
	slots []slot
	n     int
}

type slot struct {
	hash  uint32
	index int32 // plus one; 0 means empty
}

// leastSlots is the initial size of a table, a power of two. It is enough for an ordinary page.
const leastSlots = 256

// maxCrowd is how many links with one key are compared. Two URLs share a key only if an attacker
// constructs them (see link.Key).
const maxCrowd = 8

// secret makes positions in the table unpredictable for the authors of pages. It mixes all bits of
// a key, so only URLs with one key can be made to collide.
var secret = [2]uint64{rand.Uint64(), rand.Uint64() | 1}

// The results of find.
const (
	isNew   = iota // find has stored the link
	isKnown        // the link was there
	isCrowd        // too many other links have its key
)

func mix(key link.Key, hop byte) uint32 {
	hi, lo := bits.Mul64(key.Path^secret[0]^uint64(hop)<<32, secret[1])
	return uint32((hi ^ lo) >> 16)
}

// reset empties t. A table that has grown returns to its first size, so that clearing it for small
// pages stays cheap.
func (t *table) reset() {
	if len(t.slots) > leastSlots {
		t.slots = t.slots[:leastSlots]
	}
	clear(t.slots)
	t.n = 0
}

// find returns the index of the link in p that has this hop and the same URL as the last one in p's
// urls, whose key is key. If there is none, find stores index.
func (t *table) find(key link.Key, hop byte, index int, p *Page) (at, result int) {
	if 2*t.n >= len(t.slots) {
		t.resize(max(leastSlots, 2*len(t.slots)), p.Links)
	}
	h := mix(key, hop)
	mask := uint32(len(t.slots) - 1)
	crowd := 0
	for i := h & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.index == 0 {
			*s = slot{h, int32(index) + 1}
			t.n++
			return index, isNew
		}
		if s.hash != h {
			continue
		}
		j := int(s.index) - 1
		if l := &p.Links[j]; l.Key != key || l.Hop != hop {
			continue
		}
		if bytes.Equal(p.work.urls.Text(j), p.work.urls.Text(index)) {
			return j, isKnown
		}
		if crowd++; crowd == maxCrowd {
			return 0, isCrowd
		}
	}
}

// fill makes t hold exactly links.
func (t *table) fill(links []Link) { t.resize(max(leastSlots, len(t.slots)), links) }

func (t *table) resize(size int, links []Link) {
	if size <= cap(t.slots) {
		t.slots = t.slots[:size]
		clear(t.slots)
	} else {
		t.slots = make([]slot, size)
	}
	t.n = len(links)
	mask := uint32(size - 1)
	for j := range links {
		h := mix(links[j].Key, links[j].Hop)
		i := h & mask
		for t.slots[i].index != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = slot{h, int32(j) + 1}
	}
}
