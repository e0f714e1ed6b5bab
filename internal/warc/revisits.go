package warc

import (
	"encoding/binary"
	"hash/maphash"
	"strings"
	"sync"
	"time"
)

// An Original identifies the earlier response to which a revisit record refers.
type Original struct {
	URL  string
	Date time.Time // in milliseconds, as in its WARC-Date
	ID   [16]byte  // WARC-Record-ID of its record; zero if unknown
	// Stored is the digest of its payload as stored, if it is stored with chunk sizes: then it is not that of its body.
	// Zero otherwise.
	Stored [20]byte
}

// Place returns the URL for an encoding, and behind a zero byte Stored, unless that is zero.
func (o *Original) Place() string {
	if o.Stored == [20]byte{} {
		return o.URL
	}
	return o.URL + "\x00" + string(o.Stored[:])
}

// SetPlace sets what Place has returned.
func (o *Original) SetPlace(s string) {
	url, stored, _ := strings.Cut(s, "\x00")
	o.URL, o.Stored = url, [20]byte{}
	copy(o.Stored[:], stored)
}

// revisits remembers the archived payloads in a bounded amount of memory. It holds two generations of packed entries.
// If the young generation is full, it replaces the old one. A look-up moves an entry from the old generation to the
// young one. So the least recently seen payloads are forgotten first, and the garbage collector sees few pointers.
//
//	entry: digest of the body 20, record id 16, Unix milliseconds 8, length of the place 2, Original.Place
//
// With a URL of 45 bytes an entry takes 91 bytes, and 11 to 21 bytes of hash table. So 32 MiB hold about 300,000
// payloads, of which the last 150,000 are certain to be found.
type revisits struct {
	mu    sync.Mutex // guards the generations; held for one look-up or insertion
	limit int        // bytes of one generation, hash table and entries; 0: remember nothing
	young generation
	old   generation
}

// A generation is a hash table with open addressing. Its entries are in pieces that are never moved, so that it grows
// without a copy.
type generation struct {
	// A slot has the upper half of the hash and, in the lower half, the entry's place plus one; 0: free. The number of
	// slots is a power of two.
	slots  []uint64
	count  int      // of entries
	pieces [][]byte // each has the size `piece`, or holds one larger entry
	piece  int      // bytes of a piece
	bytes  int      // total capacity of pieces
}

const (
	revisitHead = 20 + 16 + 8 + 2
	maxRevisit  = 4 << 10 // bytes; a longer URL is not remembered
	pieceBits   = 18      // low bits of a place: the offset in its piece
	minSlots    = 1 << 4  // of a generation with entries
	pieceSize   = 1 << pieceBits
)

func newRevisits(bytes int64) *revisits {
	r := &revisits{}
	if bytes > 0 {
		r.limit = int(min(bytes/2, 1<<31))
		r.young.piece = r.pieceSize()
	}
	return r
}

// pieceSize returns the size of a piece: small if the limit is small, so that little memory stays unused.
func (r *revisits) pieceSize() int { return min(pieceSize, r.limit/16+1) }

// at returns the entry at a place.
func (g *generation) at(place uint32) []byte {
	e := g.pieces[place>>pieceBits][place&(pieceSize-1):]
	return e[:revisitHead+int(binary.LittleEndian.Uint16(e[revisitHead-2:]))]
}

// slotSeed is random, so that a site cannot prepare pages whose digests fall into the same slots.
var slotSeed = maphash.MakeSeed()

// slot returns the slot of digest d, whose hash is h, and its entry. If d is not there, e is nil and i is the slot that
// it would get.
func (g *generation) slot(d *[20]byte, h uint64) (i int, e []byte) {
	if len(g.slots) == 0 {
		return 0, nil
	}
	mask := len(g.slots) - 1
	for i = int(h) & mask; g.slots[i] != 0; i = (i + 1) & mask {
		if s := g.slots[i]; s>>32 == h>>32 {
			if e = g.at(uint32(s) - 1); [20]byte(e) == *d {
				return i, e
			}
		}
	}
	return i, nil
}

func (g *generation) find(d *[20]byte, h uint64) []byte {
	_, e := g.slot(d, h)
	return e
}

func slotHash(d *[20]byte) uint64 { return maphash.Bytes(slotSeed, d[:]) }

// size returns the bytes that g would occupy with another entry of n bytes.
func (g *generation) size(n int) int {
	slots, bytes := len(g.slots), g.bytes
	if g.crowded() {
		slots = max(2*slots, minSlots)
	}
	if !g.fits(n) {
		bytes += max(g.piece, n)
	}
	return 8*slots + bytes
}

func (g *generation) crowded() bool { return 4*(g.count+1) > 3*len(g.slots) }

func (g *generation) fits(n int) bool {
	if len(g.pieces) == 0 {
		return false
	}
	last := g.pieces[len(g.pieces)-1]
	return len(last)+n <= cap(last)
}

// add makes room for an entry of n bytes under digest d, which must not be there yet, and returns it.
func (g *generation) add(d *[20]byte, h uint64, n int) []byte {
	if g.crowded() {
		old := g.slots
		g.slots = make([]uint64, max(2*len(old), minSlots))
		for _, s := range old {
			if s != 0 {
				d := (*[20]byte)(g.at(uint32(s) - 1))
				i, _ := g.slot(d, slotHash(d))
				g.slots[i] = s
			}
		}
	}
	if !g.fits(n) {
		size := max(g.piece, n)
		g.pieces = append(g.pieces, make([]byte, 0, size))
		g.bytes += size
	}
	k := len(g.pieces) - 1
	from := len(g.pieces[k])
	g.pieces[k] = g.pieces[k][:from+n]
	i, _ := g.slot(d, h)
	g.slots[i] = h&^(1<<32-1) | uint64(k<<pieceBits|from+1)
	g.count++
	return g.pieces[k][from:]
}

// find returns the record that holds the body of digest d.
func (r *revisits) find(d *[20]byte) (o Original, ok bool) {
	if r.limit == 0 {
		return o, false
	}
	h := slotHash(d)
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.young.find(d, h)
	if e == nil {
		if e = r.old.find(d, h); e == nil {
			return o, false
		}
		copy(r.room(d, h, len(e)), e)
	}
	copy(o.ID[:], e[20:36])
	o.Date = time.UnixMilli(int64(binary.LittleEndian.Uint64(e[36:])))
	o.SetPlace(string(e[revisitHead:]))
	return o, true
}

// add remembers that the record o holds the body of digest d. If another record is known already, that one stays the
// original. A URL over 4 KiB is not remembered.
func (r *revisits) add(d *[20]byte, o Original) {
	if r.limit == 0 || len(o.URL) > maxRevisit {
		return
	}
	h := slotHash(d)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.young.find(d, h) != nil || r.old.find(d, h) != nil {
		return
	}
	place := o.Place()
	e := r.room(d, h, revisitHead+len(place))
	copy(e, d[:])
	copy(e[20:], o.ID[:])
	binary.LittleEndian.PutUint64(e[36:], uint64(o.Date.UnixMilli()))
	binary.LittleEndian.PutUint16(e[44:], uint16(len(place)))
	copy(e[revisitHead:], place)
}

// room makes room for an entry in the young generation. The caller holds mu.
func (r *revisits) room(d *[20]byte, h uint64, n int) []byte {
	if r.young.size(n) > r.limit && r.young.count > 0 {
		r.old = r.young
		r.young = generation{piece: r.pieceSize()}
	}
	return r.young.add(d, h, n)
}
