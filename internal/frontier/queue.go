package frontier

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

const (
	// blockBytes is the size at which a block in RAM is closed.
	blockBytes = 8 << 10
	// spillBlockBytes is the size up to which neighbouring blocks are joined when they are written to disk, so that
	// fewer references stay in RAM.
	spillBlockBytes = 64 << 10

	// The bytes that memory accounting counts for each struct. For a host: itself with its first queue and block, its
	// name, and its places in the dictionary and a heap.
	hostOverhead   = 112 + 24 + 40 + 16
	aloneOverhead  = 12 // per table
	extraOverhead  = 80
	groupOverhead  = 80 + 40
	bucketOverhead = 96 + 62
	blockOverhead  = 64 // per block after a queue's first
	queueOverhead  = 64 // per queue after a host's first
	restOverhead   = 96
)

// overhead returns the memory of hosts, groups and buckets, without the links.
func (hs *hosts) overhead() int64 {
	return int64(hs.dict.len())*hostOverhead + int64(hs.extras.n)*extraOverhead +
		hs.shares.overhead()
}

// An entry is a link outside the queues: in process, or in a front queue.
type entry struct {
	number  uint64
	attempt int32
	level   uint8
	enc     []byte // encoding of the link.Link
}

func (e *entry) ram() int64 { return int64(cap(e.enc)) + 48 }

// A queue holds the links of one level of one host, in FIFO order. It consists of blocks. Each block is in RAM, on
// disk, or both. Nearly all queues have one block, only in RAM; such a queue needs no rest.
//
//	entry: uvarint request number
//	       uvarint length of the link
//	       bytes   the link (link.Link.AppendTo)
type queue struct {
	n     uint32 // entries
	level uint8  // class and level, see rank
	turn  uint8  // of a host's own queue: the class whose turn it is at the host
	head  block
	tail  *queueTail // nil: one block, never written, and no queue of a lower level
}

// A queueTail holds what few queues have.
type queueTail struct {
	place  place       // of the head
	blocks []tailBlock // the blocks after the head
	ram    int64       // bytes in RAM of these
	last   uint64      // number of the last entry
	next   *queue      // of the next lower level

	listPrev, listNext *queue // neighbours in the spill list
	class              int8   // of its spill list; 0: in none
}

// A block holds consecutive entries.
type block struct {
	first uint64 // number of the first entry left
	buf   []byte // nil: only on disk
	r     int32  // offset of the first entry left
	n     int32  // number of entries left
}

// A tailBlock is a block after the first one of its queue.
type tailBlock struct {
	block
	place place
}

// A place is the position of a block on disk. The zero place means that it is not on disk.
type place struct {
	seg  *segment
	off  int64
	size int32 // including the header
}

func (p place) onDisk() bool { return p.seg != nil }

// next returns the queue of the next lower level, or nil.
func (q *queue) next() *queue {
	if q.tail == nil {
		return nil
	}
	return q.tail.next
}

// blocks returns the number of blocks. Block 0 is the head.
func (q *queue) blocks() int {
	if q.tail == nil {
		return 1
	}
	return 1 + len(q.tail.blocks)
}

func (q *queue) block(i int) *block {
	if i == 0 {
		return &q.head
	}
	return &q.tail.blocks[i-1].block
}

func (q *queue) place(i int) place {
	switch {
	case i > 0:
		return q.tail.blocks[i-1].place
	case q.tail == nil:
		return place{}
	}
	return q.tail.place
}

// last returns the number of q's last entry. q must have entries.
func (q *queue) last() (number uint64) {
	if q.tail != nil {
		return q.tail.last
	}
	number = q.head.first
	for i, left := int(q.head.r), q.head.n; left > 0; left-- {
		n, _, end, err := q.head.at(i)
		if err != nil {
			break // take will return this error
		}
		number, i = n, end
	}
	return number
}

func (qs *queues) setNext(q, next *queue) {
	qs.need(q).next = next
	qs.trim(q)
}

// need returns the tail of q and makes one if it is missing.
func (qs *queues) need(q *queue) *queueTail {
	if q.tail == nil {
		r := &queueTail{}
		if q.n > 0 {
			r.last = q.last()
		}
		q.tail = r
		qs.fixed += restOverhead
		qs.enlist(q)
	}
	return q.tail
}

// trim removes q's rest if it is empty.
func (qs *queues) trim(q *queue) {
	if r := q.tail; r != nil && !r.place.onDisk() && len(r.blocks) == 0 && r.next == nil {
		qs.delist(q)
		qs.fixed -= restOverhead + int64(cap(r.blocks))*blockOverhead
		q.tail = nil
	}
}

// add appends a link to q.
func (qs *queues) add(q *queue, number uint64, enc []byte) {
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
		b = qs.extend(q, number)
		i++
	}
	if b.r > 0 && len(b.buf)+need > cap(b.buf) {
		b.buf = b.buf[:copy(b.buf, b.buf[b.r:])]
		b.r = 0
	}
	if was := cap(b.buf); len(b.buf)+need > was {
		qs.growBuf(b, need)
		qs.grow(q, i, int64(cap(b.buf)-was))
	}
	b.buf = append(append(b.buf, head[:k]...), enc...)
	b.n++
	q.n++
	if q.tail != nil {
		q.tail.last = number
		qs.enlist(q)
	}
}

// extend appends a new block to q. The block gets its full size at once, because the queue has filled one already. If
// so many queues have tails that these would be spilled while nearly empty, it starts small instead.
func (qs *queues) extend(q *queue, number uint64) *block {
	r := qs.need(q)
	was := cap(r.blocks)
	b := tailBlock{block: block{first: number}}
	if int64(qs.tails) < qs.budget()/2/blockBytes {
		b.buf = qs.allocBuf(blockBytes)
	}
	r.blocks = append(r.blocks, b)
	qs.fixed += int64(cap(r.blocks)-was) * blockOverhead
	qs.grow(q, len(r.blocks), int64(cap(b.buf)))
	return &r.blocks[len(r.blocks)-1].block
}

// growBuf makes room for n more bytes in b. It doubles the size, up to blockBytes. The first link gets exactly what it
// needs.
func (qs *queues) growBuf(b *block, n int) {
	n += len(b.buf)
	if cap(b.buf) == 0 || n > blockBytes {
		b.buf = slices.Grow(b.buf, n-len(b.buf))
		return
	}
	old := b.buf
	b.buf = append(qs.allocBuf(max(n, min(2*cap(old), blockBytes))), old...)
	qs.freeBuf(old)
}

const (
	// Block memory has sizes of powers of two, so that it can be reused. blockBytes is the largest.
	bufMinBits = 6 // 64 bytes
	bufClasses = 8
	// spareBufBytes is the number of bytes of each size that are kept for reuse: what a spill frees.
	spareBufBytes = spillBytes
)

// allocBuf returns memory for n bytes, at most blockBytes.
func (qs *queues) allocBuf(n int) []byte {
	c := max(bits.Len(uint(n-1)), bufMinBits) - bufMinBits
	if k := len(qs.spares[c]); k > 0 {
		b := qs.spares[c][k-1]
		qs.spares[c] = qs.spares[c][:k-1]
		return b
	}
	return make([]byte, 0, 1<<(c+bufMinBits))
}

// freeBuf keeps the memory of a block for reuse.
func (qs *queues) freeBuf(buf []byte) {
	n := cap(buf)
	c := bits.Len(uint(n)) - 1 - bufMinBits
	if c >= 0 && c < bufClasses && n&(n-1) == 0 && len(qs.spares[c])*n < spareBufBytes {
		qs.spares[c] = append(qs.spares[c], buf[:0])
	}
}

// take removes q's first entry. The caller owns the bytes of the link.
func (qs *queues) take(q *queue) (entry, error) {
	b := &q.head
	if err := qs.load(q); err != nil {
		return entry{}, err
	}
	number, enc, end, err := b.at(int(b.r))
	if err != nil {
		return entry{}, q.place(0).damaged(int(b.r))
	}
	e := entry{level: q.level, number: number}
	alone := b.n == 1 && cap(b.buf) <= 2*len(enc)
	if alone {
		e.enc = enc // the last link may keep the memory of the block; most hosts have one link
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
	qs.grow(q, 0, -int64(cap(b.buf)))
	if !alone {
		qs.freeBuf(b.buf)
	}
	old := q.place(0)
	qs.dropHead(q)
	if old.onDisk() {
		return e, qs.release(old)
	}
	return e, nil
}

// dropHead removes the first block of q; the second one, if any, becomes the first. The bytes of the removed block must
// already be subtracted.
func (qs *queues) dropHead(q *queue) {
	q.head = block{}
	r := q.tail
	if r == nil {
		return
	}
	r.place = place{}
	if len(r.blocks) > 0 {
		second := &r.blocks[0]
		q.head, r.place = second.block, second.place
		r.ram -= int64(cap(q.head.buf)) // r.ram does not count the head
		*second = tailBlock{}
		r.blocks = r.blocks[1:]
		qs.fixed -= blockOverhead
	}
	qs.enlist(q)
	qs.trim(q)
}

// at decodes the entry at offset i of b. end is the offset of the next one.
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

// grow counts n more bytes in RAM for block i of q.
func (qs *queues) grow(q *queue, i int, n int64) {
	qs.ram += n
	if i > 0 {
		q.tail.ram += n
	}
}

// tailClass is the first spill list of queues with a tail in RAM.
const tailClass = 32

// enlist puts q into the spill list of its size, so that the longest tail is found without a search. Tails are spilled
// before heads, because the next request needs the head of a queue. Queues without a rest are in no list.
func (qs *queues) enlist(q *queue) {
	r := q.tail
	if r == nil {
		return
	}
	var class int8
	headRAM := int64(cap(q.head.buf))
	switch {
	case r.ram > 0 && q.tailInRAM():
		class = int8(min(tailClass+bits.Len64(uint64(r.ram)), len(qs.lists)-1))
	case headRAM > 0:
		class = int8(min(bits.Len64(uint64(headRAM)), tailClass-1))
	}
	if class == r.class {
		return
	}
	qs.delist(q)
	if class > 0 {
		r.class = class
		if class >= tailClass {
			qs.tails++
		}
		r.listNext = qs.lists[class]
		if r.listNext != nil {
			r.listNext.tail.listPrev = q
		}
		qs.lists[class] = q
	}
}

// tailInRAM reports whether the last block of q is in RAM and is not the head.
func (q *queue) tailInRAM() bool {
	return q.tail != nil && len(q.tail.blocks) > 0 && q.tail.blocks[len(q.tail.blocks)-1].buf != nil
}

func (qs *queues) delist(q *queue) {
	r := q.tail
	if r == nil || r.class == 0 {
		return
	}
	if r.listPrev != nil {
		r.listPrev.tail.listNext = r.listNext
	} else {
		qs.lists[r.class] = r.listNext
	}
	if r.listNext != nil {
		r.listNext.tail.listPrev = r.listPrev
	}
	if r.class >= tailClass {
		qs.tails--
	}
	r.listPrev, r.listNext, r.class = nil, nil, 0
}

// frontSpare is the number of empty front queues that are kept for reuse, and the number of links for which they may
// have memory. Every look-up needs one for a moment.
const frontSpare = 4

// A frontQueue holds links that come before a host's queues: retries, then prerequisites.
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

// enqueue appends a link to the queue of its level. The host itself has the queue of the highest level.
func (hs *hosts) enqueue(h *host, level uint8, number uint64, enc []byte) {
	q := &h.q
	switch {
	case q.n == 0:
		q.level = level
	case q.level < level:
		lower := &queue{}
		hs.queues.move(lower, q)
		hs.queues.fixed += queueOverhead
		q.level, q.turn = level, lower.turn
		hs.queues.setNext(q, lower)
	default:
		for next := q.next(); next != nil && next.level >= level; next = q.next() {
			q = next
		}
		if q.level > level {
			lower := &queue{level: level}
			hs.queues.fixed += queueOverhead
			if next := q.next(); next != nil {
				hs.queues.setNext(lower, next)
			}
			hs.queues.setNext(q, lower)
			q = lower
		}
	}
	hs.queues.add(q, number, enc)
	hs.queued++
}

// move moves the content of from to to, and empties from.
func (qs *queues) move(to, from *queue) {
	qs.delist(from)
	*to = *from
	*from = queue{}
	qs.enlist(to)
}

// dequeue removes h's first link.
func (hs *hosts) dequeue(h *host) (entry, error) {
	if h.front.len() > 0 {
		e := h.front.take()
		hs.queues.fixed -= e.ram()
		if h.front.len() == 0 {
			if cap(h.front.items) <= frontSpare && len(hs.fronts) < frontSpare {
				h.front.items, h.front.head = h.front.items[:0], 0
				hs.fronts = append(hs.fronts, h.front)
			}
			h.front = nil
			hs.extras.trim(h)
		}
		hs.queued--
		return e, nil
	}
	q := hs.lead(h)
	e, err := hs.queues.take(q)
	if e.enc != nil {
		hs.queued--
	}
	if q.n == 0 {
		hs.dropQueue(h, q)
	}
	return e, err
}

// dropQueue removes a queue of h that is empty.
func (hs *hosts) dropQueue(h *host, q *queue) {
	next := q.next()
	if q.tail != nil {
		hs.queues.setNext(q, nil)
	}
	if q != &h.q {
		before := &h.q
		for before.next() != q {
			before = before.next()
		}
		hs.queues.setNext(before, next)
		hs.queues.fixed -= queueOverhead
		return
	}
	turn := q.turn
	if *q = (queue{}); next != nil {
		hs.queues.move(q, next)
		hs.queues.fixed -= queueOverhead
	}
	q.turn = turn
}

// putFront puts a link into h's front queue: before all others if first is true, otherwise after them.
func (hs *hosts) putFront(h *host, e entry, first bool) {
	if h.front == nil {
		own := hs.extras.need(h)
		if k := len(hs.fronts); k > 0 {
			own.front, hs.fronts = hs.fronts[k-1], hs.fronts[:k-1]
		} else {
			own.front = &frontQueue{}
		}
	}
	if first {
		h.front.prepend(e)
	} else {
		h.front.append(e)
	}
	hs.queues.fixed += e.ram()
	hs.queued++
}

func decode(e entry) (link.Link, error) {
	l, _, err := link.Peek(e.enc) // the link shares the memory of e.enc, which is not written again
	return l, err
}
