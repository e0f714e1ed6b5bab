package frontier

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/orbweaver/orbweaver/weburl"
)

const (
	// blockBytes is the size at which a block in RAM is closed.
	blockBytes = 8 << 10
	// spillBlockBytes is the size up to which neighbouring blocks become one
	// when they are written to disk: fewer references stay in RAM.
	spillBlockBytes = 64 << 10

	// What is counted for what Go allocates, in bytes. A host: itself with its
	// first queue and block, its name, its places in the dictionary and a heap.
	hostOverhead    = 128 + 24 + 22 + 16
	historyOverhead = 160
	groupOverhead   = 96 + 8 + 40
	bucketOverhead  = 128 + 80
	blockOverhead   = 64 // behind a queue's first
	placeOverhead   = 24
	queueOverhead   = 96 // behind a host's first
	restOverhead    = 24
)

// overhead is what hosts take, and what they share, beside their links.
func (f *Frontier) overhead() int64 {
	return int64(f.hosts.len())*hostOverhead + int64(f.asked)*historyOverhead +
		int64(len(f.groups))*groupOverhead + int64(len(f.buckets))*bucketOverhead
}

// An entry is a link outside the queues: in process or put in front of them.
type entry struct {
	number  uint64
	attempt int32
	level   uint8
	enc     []byte // weburl.Link's encoding
}

func (e *entry) ram() int64 { return int64(cap(e.enc)) + 48 }

// A queue holds the links of one level of one host, in FIFO order. It is a list
// of blocks; each is in RAM, on disk, or on disk with a copy in RAM.
//
//	entry: uvarint request number minus that of the entry before it in the queue,
//	       modulo 2^64: with Config.Gather it may be the lower one
//	       uvarint length of the link
//	       bytes   the link (weburl.Link.AppendTo)
type queue struct {
	n     uint32 // entries
	level uint8
	class int8 // of the spill list that it is in; 0: none

	head block
	last uint64 // number of the last entry
	rest *rest  // nil: no more blocks, no more queues

	listPrev, listNext *queue // spill list
}

// A rest is what few queues have.
type rest struct {
	tail *block // the last one; nil: the head
	ram  int64  // bytes in RAM of the blocks behind the head
	next *queue // of the next lower level
}

type block struct {
	first uint64 // number of the first entry left
	buf   []byte // nil: only on disk
	r     int32  // entries before it are consumed
	n     int32  // entries left
	next  *block
	place *place // nil: only in RAM
}

// A place is where a block is on disk.
type place struct {
	seg  *segment
	off  int64
	size int32 // header included
}

// next is the queue of the next lower level.
func (q *queue) next() *queue {
	if q.rest == nil {
		return nil
	}
	return q.rest.next
}

func (q *queue) tail() *block {
	if q.rest == nil || q.rest.tail == nil {
		return &q.head
	}
	return q.rest.tail
}

// ram is the number of bytes of its blocks in RAM.
func (q *queue) ram() int64 {
	n := int64(cap(q.head.buf))
	if q.rest != nil {
		n += q.rest.ram
	}
	return n
}

func (f *Frontier) setNext(q, next *queue) {
	f.need(q).next = next
	f.trim(q)
}

func (f *Frontier) setTail(q *queue, b *block) {
	if b == &q.head {
		b = nil
	}
	f.need(q).tail = b
	f.trim(q)
}

func (f *Frontier) need(q *queue) *rest {
	if q.rest == nil {
		q.rest = &rest{}
		f.fixed += restOverhead
	}
	return q.rest
}

func (f *Frontier) trim(q *queue) {
	if q.rest != nil && *q.rest == (rest{}) {
		q.rest = nil
		f.fixed -= restOverhead
	}
}

// add appends a link to q.
func (f *Frontier) add(q *queue, number uint64, enc []byte) {
	var head [2 * binary.MaxVarintLen64]byte
	k := binary.PutUvarint(head[:], number-q.last)
	k += binary.PutUvarint(head[k:], uint64(len(enc)))
	need := k + len(enc)

	b := q.tail()
	switch {
	case q.n == 0:
		b.first = number
	case b.place != nil || len(b.buf)-int(b.r)+need > blockBytes:
		next := &block{first: number}
		b.next = next
		f.setTail(q, next)
		f.fixed += blockOverhead
		b = next
	}
	if b.r > 0 && len(b.buf)+need > cap(b.buf) {
		b.buf = b.buf[:copy(b.buf, b.buf[b.r:])]
		b.r = 0
	}
	was := cap(b.buf)
	if len(b.buf)+need > was {
		// Twice as much, up to a block: those of long queues move seldom.
		b.buf = slices.Grow(b.buf, max(need, min(was, blockBytes-len(b.buf))))
	}
	b.buf = append(append(b.buf, head[:k]...), enc...)
	f.grow(q, b, int64(cap(b.buf)-was))
	b.n++
	q.n++
	q.last = number
	f.enlist(q)
}

// take removes q's first entry. Nothing else uses the bytes of the link.
func (f *Frontier) take(q *queue) (entry, error) {
	b := &q.head
	if err := f.load(q, b); err != nil {
		return entry{}, err
	}
	enc, end, err := b.at(int(b.r))
	if err != nil {
		return entry{}, err
	}
	e := entry{level: q.level, number: b.first}
	if b.n == 1 && cap(b.buf) <= 2*len(enc) {
		e.enc = enc // the bytes go with the last link; most hosts have one
	} else {
		e.enc = append([]byte(nil), enc...)
	}
	b.r = int32(end)
	b.n--
	q.n--
	if b.n > 0 {
		d, _ := uvarint(b.buf[b.r:])
		b.first += d
		f.enlist(q)
		return e, nil
	}
	f.grow(q, b, -int64(cap(b.buf)))
	old := *b
	if next := b.next; next == nil {
		*b = block{}
	} else {
		q.rest.ram -= int64(cap(next.buf)) // it is no longer behind the head
		*b = *next
		f.fixed -= blockOverhead
		if q.rest.tail == next {
			f.setTail(q, b)
		}
	}
	f.enlist(q)
	if old.place != nil {
		return e, f.release(&old)
	}
	return e, nil
}

// at reads the entry at offset i of b's bytes; end is where the next begins.
func (b *block) at(i int) (enc []byte, end int, err error) {
	_, w := uvarint(b.buf[i:])
	if w <= 0 {
		return nil, 0, b.damaged(i)
	}
	n, v := uvarint(b.buf[i+w:])
	if v <= 0 || n > uint64(len(b.buf)-i-w-v) {
		return nil, 0, b.damaged(i)
	}
	i += w + v
	return b.buf[i : i+int(n)], i + int(n), nil
}

// grow counts n more bytes in RAM of b, a block of q.
func (f *Frontier) grow(q *queue, b *block, n int64) {
	f.ram += n
	if b != &q.head {
		q.rest.ram += n
	}
}

// tailClass is the first spill list of queues with a tail in RAM.
const tailClass = 32

// enlist puts q into the spill list of its size, so that the longest tail is
// found without a search. Tails come before heads: the head of a queue is what
// the next request needs.
func (f *Frontier) enlist(q *queue) {
	var class int8
	headRAM := int64(cap(q.head.buf))
	switch tail := q.ram() - headRAM; {
	case q.tailInRAM() && tail > 0:
		class = int8(min(tailClass+bits.Len64(uint64(tail)), len(f.lists)-1))
	case headRAM > 0:
		class = int8(min(bits.Len64(uint64(headRAM)), tailClass-1))
	}
	if class == q.class {
		return
	}
	f.delist(q)
	if class > 0 {
		q.class = class
		q.listNext = f.lists[class]
		if q.listNext != nil {
			q.listNext.listPrev = q
		}
		f.lists[class] = q
	}
}

// tailInRAM says whether q has bytes in RAM beyond its first block.
func (q *queue) tailInRAM() bool {
	return q.rest != nil && q.rest.tail != nil && q.rest.tail.buf != nil
}

func (f *Frontier) delist(q *queue) {
	if q.class == 0 {
		return
	}
	if q.listPrev != nil {
		q.listPrev.listNext = q.listNext
	} else {
		f.lists[q.class] = q.listNext
	}
	if q.listNext != nil {
		q.listNext.listPrev = q.listPrev
	}
	q.listPrev, q.listNext, q.class = nil, nil, 0
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
		q.level, q.last = level, number
	case q.level < level:
		lower := &queue{}
		f.move(lower, q)
		f.fixed += queueOverhead
		q.level, q.last = level, number
		f.setNext(q, lower)
	default:
		for next := q.next(); next != nil && next.level >= level; next = q.next() {
			q = next
		}
		if q.level > level {
			lower := &queue{level: level, last: number}
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
		f.delist(q)
		next := q.next()
		if q.rest != nil {
			f.fixed -= restOverhead
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
