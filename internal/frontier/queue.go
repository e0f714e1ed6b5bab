package frontier

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const (
	// blockBytes is the size at which a block in RAM is closed.
	blockBytes = 8 << 10
	// spillBlockBytes is the size up to which neighbouring blocks become one
	// when they are written to disk: fewer references stay in RAM.
	spillBlockBytes = 64 << 10

	// What is counted for what Go allocates, in bytes. A host: itself with its
	// first queue and block, its name, its places in the dictionary and a heap.
	hostOverhead   = 112 + 24 + 22 + 16
	aloneOverhead  = 12 // in each table
	rareOverhead   = 80
	groupOverhead  = 64 + 40
	bucketOverhead = 96 + 62
	blockOverhead  = 64 // behind a queue's first
	queueOverhead  = 64 // behind a host's first
	restOverhead   = 96
)

// overhead is what hosts take, and what they share, beside their links.
func (f *Frontier) overhead() int64 {
	return int64(f.hosts.len())*hostOverhead + int64(f.rares)*rareOverhead +
		int64(f.aloneAt.n+f.aloneIn.n)*aloneOverhead +
		int64(len(f.groups))*groupOverhead + int64(len(f.addrs)+len(f.sites))*bucketOverhead
}

// An entry is a link outside the queues: in process or put in front of them.
type entry struct {
	number  uint64
	attempt int32
	level   uint8
	enc     []byte // weburl.Link's encoding
}

func (e *entry) ram() int64 { return int64(cap(e.enc)) + 48 }

// A queue holds the links of one level of one host, in FIFO order: blocks, of
// which each is in RAM, on disk, or on disk with a copy in RAM. What is only in
// RAM and in one block, as nearly all queues are, needs no more than this.
//
//	entry: uvarint request number
//	       uvarint length of the link
//	       bytes   the link (weburl.Link.AppendTo)
type queue struct {
	n     uint32 // entries
	level uint8
	head  block
	rest  *rest // nil: one block, never written, and no queue of a lower level
}

// A rest is what few queues have.
type rest struct {
	place  place    // of the head
	blocks []behind // behind the head
	ram    int64    // bytes in RAM of these
	last   uint64   // number of the last entry
	next   *queue   // of the next lower level

	listPrev, listNext *queue // spill list
	class              int8   // of the spill list that it is in; 0: none
}

// A block is neighbouring entries.
type block struct {
	first uint64 // number of the first entry left
	buf   []byte // nil: only on disk
	r     int32  // entries before it are consumed
	n     int32  // entries left
}

// behind is a block that is not its queue's first.
type behind struct {
	block
	place place
}

// A place is where a block is on disk; the zero place: nowhere.
type place struct {
	seg  *segment
	off  int64
	size int32 // header included
}

func (p place) onDisk() bool { return p.seg != nil }

// next is the queue of the next lower level.
func (q *queue) next() *queue {
	if q.rest == nil {
		return nil
	}
	return q.rest.next
}

// blocks is how many q has; block 0 is the head.
func (q *queue) blocks() int {
	if q.rest == nil {
		return 1
	}
	return 1 + len(q.rest.blocks)
}

func (q *queue) block(i int) *block {
	if i == 0 {
		return &q.head
	}
	return &q.rest.blocks[i-1].block
}

func (q *queue) place(i int) place {
	switch {
	case i > 0:
		return q.rest.blocks[i-1].place
	case q.rest == nil:
		return place{}
	}
	return q.rest.place
}

// tail is the last block.
func (q *queue) tail() *block { return q.block(q.blocks() - 1) }

// ram is the number of bytes of its blocks in RAM.
func (q *queue) ram() int64 {
	n := int64(cap(q.head.buf))
	if q.rest != nil {
		n += q.rest.ram
	}
	return n
}

// last is the number of q's last entry. q has some.
func (q *queue) last() (number uint64) {
	if q.rest != nil {
		return q.rest.last
	}
	number = q.head.first
	for i, left := int(q.head.r), q.head.n; left > 0; left-- {
		n, _, end, err := q.head.at(i)
		if err != nil {
			break // take says so
		}
		number, i = n, end
	}
	return number
}

func (f *Frontier) setNext(q, next *queue) {
	f.need(q).next = next
	f.trim(q)
}

// need makes q a rest, if it has none.
func (f *Frontier) need(q *queue) *rest {
	if q.rest == nil {
		r := &rest{}
		if q.n > 0 {
			r.last = q.last()
		}
		q.rest = r
		f.fixed += restOverhead
		f.enlist(q)
	}
	return q.rest
}

// trim takes q's rest away if there is nothing in it.
func (f *Frontier) trim(q *queue) {
	if r := q.rest; r != nil && !r.place.onDisk() && len(r.blocks) == 0 && r.next == nil {
		f.delist(q)
		f.fixed -= restOverhead + int64(cap(r.blocks))*blockOverhead
		q.rest = nil
	}
}

// add appends a link to q.
func (f *Frontier) add(q *queue, number uint64, enc []byte) {
	var head [2 * binary.MaxVarintLen64]byte
	k := binary.PutUvarint(head[:], number)
	k += binary.PutUvarint(head[k:], uint64(len(enc)))
	need := k + len(enc)

	i := q.blocks() - 1
	b := q.block(i)
	switch {
	case q.n == 0:
		b.first = number
	case q.place(i).onDisk() || len(b.buf)-int(b.r)+need > blockBytes:
		b = f.extend(q, number)
		i++
	}
	if b.r > 0 && len(b.buf)+need > cap(b.buf) {
		b.buf = b.buf[:copy(b.buf, b.buf[b.r:])]
		b.r = 0
	}
	if was := cap(b.buf); len(b.buf)+need > was {
		f.widen(b, need)
		f.grow(q, i, int64(cap(b.buf)-was))
	}
	b.buf = append(append(b.buf, head[:k]...), enc...)
	b.n++
	q.n++
	if q.rest != nil {
		q.rest.last = number
		f.enlist(q)
	}
}

// extend is a new block at the end of q. It has all its room from the beginning,
// for the queue has filled one already, unless so many have tails that these
// would go to disk when they are nearly empty.
func (f *Frontier) extend(q *queue, number uint64) *block {
	r := f.need(q)
	was := cap(r.blocks)
	b := behind{block: block{first: number}}
	if int64(f.tails) < f.budget()/2/blockBytes {
		b.buf = f.room(blockBytes)
	}
	r.blocks = append(r.blocks, b)
	f.fixed += int64(cap(r.blocks)-was) * blockOverhead
	f.grow(q, len(r.blocks), int64(cap(b.buf)))
	return &r.blocks[len(r.blocks)-1].block
}

// widen makes room for n more bytes in b: twice as much as it had, up to a
// block. The first link gets what it needs.
func (f *Frontier) widen(b *block, n int) {
	n += len(b.buf)
	if cap(b.buf) == 0 || n > blockBytes {
		b.buf = slices.Grow(b.buf, n-len(b.buf))
		return
	}
	old := b.buf
	b.buf = append(f.room(max(n, min(2*cap(old), blockBytes))), old...)
	f.free(old)
}

const (
	// Rooms are powers of two, so that they serve again; blockBytes is the largest.
	roomMin     = 6 // 64 bytes
	roomClasses = 8
	// roomsKept is how many bytes of each size are kept: what a spill frees.
	roomsKept = spillBytes
)

// room is memory for n bytes, at most a block's.
func (f *Frontier) room(n int) []byte {
	c := max(bits.Len(uint(n-1)), roomMin) - roomMin
	if k := len(f.blanks[c]); k > 0 {
		b := f.blanks[c][k-1]
		f.blanks[c] = f.blanks[c][:k-1]
		return b
	}
	return make([]byte, 0, 1<<(c+roomMin))
}

// free gives the memory of a block back, to be used again.
func (f *Frontier) free(buf []byte) {
	n := cap(buf)
	c := bits.Len(uint(n)) - 1 - roomMin
	if c >= 0 && c < roomClasses && n&(n-1) == 0 && len(f.blanks[c])*n < roomsKept {
		f.blanks[c] = append(f.blanks[c], buf[:0])
	}
}

// take removes q's first entry. Nothing else uses the bytes of the link.
func (f *Frontier) take(q *queue) (entry, error) {
	b := &q.head
	if err := f.load(q); err != nil {
		return entry{}, err
	}
	number, enc, end, err := b.at(int(b.r))
	if err != nil {
		return entry{}, q.place(0).damaged(int(b.r))
	}
	e := entry{level: q.level, number: number}
	alone := b.n == 1 && cap(b.buf) <= 2*len(enc)
	if alone {
		e.enc = enc // the bytes go with the last link; most hosts have one
	} else {
		e.enc = append([]byte(nil), enc...)
	}
	b.r = int32(end)
	b.n--
	q.n--
	if b.n > 0 {
		b.first, _ = uvarint(b.buf[b.r:])
		return e, nil
	}
	f.grow(q, 0, -int64(cap(b.buf)))
	if !alone {
		f.free(b.buf)
	}
	old := q.place(0)
	f.behead(q)
	if old.onDisk() {
		return e, f.release(old)
	}
	return e, nil
}

// behead makes the second block of q, if it has one, the first. The first one's
// bytes in RAM are no longer counted.
func (f *Frontier) behead(q *queue) {
	q.head = block{}
	r := q.rest
	if r == nil {
		return
	}
	r.place = place{}
	if len(r.blocks) > 0 {
		second := &r.blocks[0]
		q.head, r.place = second.block, second.place
		r.ram -= int64(cap(q.head.buf)) // it is no longer behind the head
		*second = behind{}
		r.blocks = r.blocks[1:]
		f.fixed -= blockOverhead
	}
	f.enlist(q)
	f.trim(q)
}

// at reads the entry at offset i of b's bytes; end is where the next begins.
func (b *block) at(i int) (number uint64, enc []byte, end int, err error) {
	number, w := uvarint(b.buf[i:])
	if w <= 0 {
		return 0, nil, 0, ErrSpill
	}
	n, v := uvarint(b.buf[i+w:])
	if v <= 0 || n > uint64(len(b.buf)-i-w-v) {
		return 0, nil, 0, ErrSpill
	}
	i += w + v
	return number, b.buf[i : i+int(n)], i + int(n), nil
}

// grow counts n more bytes in RAM of q's block i.
func (f *Frontier) grow(q *queue, i int, n int64) {
	f.ram += n
	if i > 0 {
		q.rest.ram += n
	}
}

// tailClass is the first spill list of queues with a tail in RAM.
const tailClass = 32

// enlist puts q into the spill list of its size, so that the longest tail is
// found without a search. Tails come before heads: the head of a queue is what
// the next request needs. Queues without a rest are in no list.
func (f *Frontier) enlist(q *queue) {
	r := q.rest
	if r == nil {
		return
	}
	var class int8
	headRAM := int64(cap(q.head.buf))
	switch {
	case r.ram > 0 && q.tailInRAM():
		class = int8(min(tailClass+bits.Len64(uint64(r.ram)), len(f.lists)-1))
	case headRAM > 0:
		class = int8(min(bits.Len64(uint64(headRAM)), tailClass-1))
	}
	if class == r.class {
		return
	}
	f.delist(q)
	if class > 0 {
		r.class = class
		if class >= tailClass {
			f.tails++
		}
		r.listNext = f.lists[class]
		if r.listNext != nil {
			r.listNext.rest.listPrev = q
		}
		f.lists[class] = q
	}
}

// tailInRAM says whether q has bytes in RAM beyond its first block.
func (q *queue) tailInRAM() bool {
	return q.rest != nil && len(q.rest.blocks) > 0 && q.rest.blocks[len(q.rest.blocks)-1].buf != nil
}

func (f *Frontier) delist(q *queue) {
	r := q.rest
	if r == nil || r.class == 0 {
		return
	}
	if r.listPrev != nil {
		r.listPrev.rest.listNext = r.listNext
	} else {
		f.lists[r.class] = r.listNext
	}
	if r.listNext != nil {
		r.listNext.rest.listPrev = r.listPrev
	}
	if r.class >= tailClass {
		f.tails--
	}
	r.listPrev, r.listNext, r.class = nil, nil, 0
}

// frontSpare is how many empty front queues are kept for other hosts, and how
// many links they may have room for: every look-up needs one for a moment.
const frontSpare = 4

// frontQueue holds what comes before a host's queues: retries, then prerequisites.
type frontQueue struct {
	items []entry
	head  int
}

func (q *frontQueue) len() int {
	if q == nil {
		return 0
	}
	return len(q.items) - q.head
}

func (q *frontQueue) append(e entry) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, e)
}

func (q *frontQueue) prepend(e entry) {
	if q.head == 0 {
		q.items = append(q.items, entry{})
		copy(q.items[1:], q.items)
		q.items[0] = e
		return
	}
	q.head--
	q.items[q.head] = e
}

func (q *frontQueue) take() entry {
	e := q.items[q.head]
	q.items[q.head] = entry{}
	q.head++
	return e
}

// enqueue appends a link to its level of h's queues. The host itself has the
// highest one.
func (f *Frontier) enqueue(h *host, level uint8, number uint64, enc []byte) {
	q := &h.q
	switch {
	case q.n == 0:
		q.level = level
	case q.level < level:
		lower := &queue{}
		f.move(lower, q)
		f.fixed += queueOverhead
		q.level = level
		f.setNext(q, lower)
	default:
		for next := q.next(); next != nil && next.level >= level; next = q.next() {
			q = next
		}
		if q.level > level {
			lower := &queue{level: level}
			f.fixed += queueOverhead
			if next := q.next(); next != nil {
				f.setNext(lower, next)
			}
			f.setNext(q, lower)
			q = lower
		}
	}
	f.add(q, number, enc)
	f.queued++
}

// move makes to what from is, and from empty.
func (f *Frontier) move(to, from *queue) {
	f.delist(from)
	*to = *from
	*from = queue{}
	f.enlist(to)
}

// dequeue removes h's first link.
func (f *Frontier) dequeue(h *host) (entry, error) {
	if h.front.len() > 0 {
		e := h.front.take()
		f.fixed -= e.ram()
		if h.front.len() == 0 {
			if cap(h.front.items) <= frontSpare && len(f.fronts) < frontSpare {
				h.front.items, h.front.head = h.front.items[:0], 0
				f.fronts = append(f.fronts, h.front)
			}
			h.front = nil
			f.disown(h)
		}
		f.queued--
		return e, nil
	}
	q := &h.q
	e, err := f.take(q)
	if e.enc != nil {
		f.queued--
	}
	if q.n == 0 {
		next := q.next()
		if q.rest != nil {
			f.setNext(q, nil)
		}
		if *q = (queue{}); next != nil {
			f.move(q, next)
			f.fixed -= queueOverhead
		}
	}
	return e, err
}

// putFront puts a link before h's queues: before all else, or behind what is
// there already.
func (f *Frontier) putFront(h *host, e entry, first bool) {
	if h.front == nil {
		own := f.own(h)
		if k := len(f.fronts); k > 0 {
			own.front, f.fronts = f.fronts[k-1], f.fronts[:k-1]
		} else {
			own.front = &frontQueue{}
		}
	}
	if first {
		h.front.prepend(e)
	} else {
		h.front.append(e)
	}
	f.fixed += e.ram()
	f.queued++
}

func decode(e entry) (weburl.Link, error) {
	l, _, err := weburl.PeekLink(e.enc) // which nobody writes to again
	return l, err
}
