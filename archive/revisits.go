package archive

import (
	"encoding/binary"
	"sync"
	"time"
)

// An Original is an earlier response that a revisit record refers to.
type Original struct {
	URL  string
	Date time.Time // to the millisecond, as in its WARC-Date
	ID   [16]byte  // of its record; zero where it is not known
}

// revisits remembers the payloads archived so far, within a bound on memory.
// Entries lie packed in two generations: when the young one is full it becomes
// the old one, and what is asked for again moves back to the young. So the
// least recently seen go first, and the garbage collector sees no pointers.
//
//	entry: digest 20, record id 16, Unix milliseconds 8, length of URL 2, URL
type revisits struct {
	mu    sync.Mutex // guards all below; held for one look-up
	limit int        // bytes of one generation, index and entries; 0: remember nothing
	young generation
	old   generation
}

type generation struct {
	at  map[uint64]uint32 // front of the digest -> place in mem
	mem []byte
}

const (
	revisitHead = 20 + 16 + 8 + 2
	mapCost     = 24 // bytes a map entry takes, roughly
	maxRevisit  = 4 << 10
)

func newRevisits(bytes int64) *revisits {
	r := &revisits{}
	if bytes > 0 {
		r.limit = int(min(bytes/2, 1<<31))
		r.young.at = make(map[uint64]uint32)
	}
	return r
}

func (g *generation) find(d *[20]byte) []byte {
	at, ok := g.at[binary.LittleEndian.Uint64(d[:])]
	if !ok {
		return nil
	}
	e := g.mem[at:]
	if [20]byte(e[:20]) != *d {
		return nil
	}
	n := int(binary.LittleEndian.Uint16(e[revisitHead-2:]))
	return e[:revisitHead+n]
}

// find says which record had the payload of digest d.
func (r *revisits) find(d *[20]byte) (o Original, ok bool) {
	if r.limit == 0 {
		return o, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.young.find(d)
	if e == nil {
		if e = r.old.find(d); e == nil {
			return o, false
		}
		r.insert(e)
	}
	copy(o.ID[:], e[20:36])
	o.Date = time.UnixMilli(int64(binary.LittleEndian.Uint64(e[36:])))
	o.URL = string(e[revisitHead:])
	return o, true
}

// add remembers that the payload of digest d is in the record o. The first
// record of a payload stays the original. URLs over 4 KiB are not remembered.
func (r *revisits) add(d *[20]byte, o Original) {
	if r.limit == 0 || len(o.URL) > maxRevisit {
		return
	}
	var e [revisitHead + maxRevisit]byte
	copy(e[:], d[:])
	copy(e[20:], o.ID[:])
	binary.LittleEndian.PutUint64(e[36:], uint64(o.Date.UnixMilli()))
	binary.LittleEndian.PutUint16(e[44:], uint16(len(o.URL)))
	n := copy(e[revisitHead:], o.URL)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.young.find(d) == nil && r.old.find(d) == nil {
		r.insert(e[:revisitHead+n])
	}
}

// insert puts a packed entry into the young generation; mu is held.
func (r *revisits) insert(e []byte) {
	if len(r.young.mem)+len(e)+(len(r.young.at)+1)*mapCost > r.limit && len(r.young.mem) > 0 {
		r.old = r.young
		r.young = generation{at: make(map[uint64]uint32, len(r.old.at)/2)}
	}
	r.young.at[binary.LittleEndian.Uint64(e)] = uint32(len(r.young.mem))
	r.young.mem = append(r.young.mem, e...)
}
