package frontier

import (
	"encoding/binary"
	"math/bits"

	"github.com/orbweaver/orbweaver/weburl"
)

const (
	// blockBytes is the size at which a block in RAM is closed.
	blockBytes = 8 << 10
	// spillBlockBytes is the size up to which neighbouring blocks become one
	// when they are written to disk: fewer references stay in RAM.
	spillBlockBytes = 64 << 10

	blockOverhead = 160 // a block and its queue, which mostly has no other, in bytes
	hostOverhead  = 190 // a host, its name, its place in the dictionary and its heap
)

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
//	entry: uvarint request number minus that of the entry before it in the queue
//	       uvarint length of the link
//	       bytes   the link (weburl.Link.AppendTo)
type queue struct {
	level      uint8
	class      int8   // of the spill list that it is in; -1: none
	next       *queue // of the next lower level
	head, tail *block
	n          int64
	last       uint64 // number of the last entry
	ram        int64  // bytes of its blocks in RAM

	listPrev, listNext *queue // spill list
}

type block struct {
	next  *block
	buf   []byte // nil: only on disk
	r     int    // entries before it are consumed
	n     int32  // entries left
	size  int32  // on disk, header included
	first uint64 // number of the first entry left
	seg   *segment
	off   int64
}

// add appends a link to q.
func (f *Frontier) add(q *queue, number uint64, enc []byte) {
	var head [2 * binary.MaxVarintLen64]byte
	k := binary.PutUvarint(head[:], number-q.last)
	k += binary.PutUvarint(head[k:], uint64(len(enc)))
	need := k + len(enc)

	b := q.tail
	if b == nil || b.seg != nil || len(b.buf) > 0 && len(b.buf)-b.r+need > blockBytes {
		b = &block{first: number}
		if q.tail == nil {
			q.head = b
		} else {
			q.tail.next = b
		}
		q.tail = b
		f.fixed += blockOverhead
	}
	if b.r > 0 && len(b.buf)+need > cap(b.buf) {
		b.buf = b.buf[:copy(b.buf, b.buf[b.r:])]
		b.r = 0
	}
	was := cap(b.buf)
	b.buf = append(append(b.buf, head[:k]...), enc...)
	f.grow(q, int64(cap(b.buf)-was))
	b.n++
	q.n++
	q.last = number
	f.enlist(q)
}

// take removes q's first entry. The bytes of the link are a copy.
func (f *Frontier) take(q *queue) (entry, error) {
	b := q.head
	if err := f.load(q, b); err != nil {
		return entry{}, err
	}
	enc, end, err := b.at(b.r)
	if err != nil {
		return entry{}, err
	}
	e := entry{level: q.level, number: b.first, enc: append([]byte(nil), enc...)}
	b.r = end
	b.n--
	q.n--
	if b.n > 0 {
		d, _ := binary.Uvarint(b.buf[b.r:])
		b.first += d
		f.enlist(q)
		return e, nil
	}
	f.grow(q, -int64(cap(b.buf)))
	f.fixed -= blockOverhead
	if q.head = b.next; q.head == nil {
		q.tail = nil
	}
	f.enlist(q)
	if b.seg != nil {
		return e, f.release(b)
	}
	return e, nil
}

// at reads the entry at offset i of b's bytes; end is where the next begins.
func (b *block) at(i int) (enc []byte, end int, err error) {
	_, w := binary.Uvarint(b.buf[i:])
	if w <= 0 {
		return nil, 0, b.damaged(i)
	}
	n, v := binary.Uvarint(b.buf[i+w:])
	if v <= 0 || n > uint64(len(b.buf)-i-w-v) {
		return nil, 0, b.damaged(i)
	}
	i += w + v
	return b.buf[i : i+int(n)], i + int(n), nil
}

func (f *Frontier) grow(q *queue, n int64) {
	q.ram += n
	f.ram += n
}

// enlist puts q into the spill list of its size, so that the longest tail is
// found without a search. Tails come before heads: the head of a queue is what
// the next request needs.
func (f *Frontier) enlist(q *queue) {
	class := int8(-1)
	var headRAM int64
	if q.head != nil {
		headRAM = int64(cap(q.head.buf))
	}
	switch tail := q.ram - headRAM; {
	case q.tailInRAM() && tail > 0:
		class = int8(min(32+bits.Len64(uint64(tail)), len(f.lists)-1))
	case headRAM > 0:
		class = int8(min(bits.Len64(uint64(headRAM)), 31))
	}
	if class == q.class {
		return
	}
	f.delist(q)
	if class >= 0 {
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
	return q.head != q.tail && q.tail != nil && q.tail.buf != nil
}

func (f *Frontier) delist(q *queue) {
	if q.class < 0 {
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
	q.listPrev, q.listNext, q.class = nil, nil, -1
}

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

// enqueue appends a link to its level of h's queues.
func (f *Frontier) enqueue(h *host, level uint8, number uint64, enc []byte) {
	p := &h.q
	for *p != nil && (*p).level > level {
		p = &(*p).next
	}
	if *p == nil || (*p).level != level {
		*p = &queue{level: level, next: *p, class: -1, last: number}
	}
	f.add(*p, number, enc)
	h.n++
	f.queued++
}

// dequeue removes h's first link.
func (f *Frontier) dequeue(h *host) (entry, error) {
	if h.front.len() > 0 {
		e := h.front.take()
		f.fixed -= e.ram()
		if h.front.len() == 0 {
			h.front = nil
		}
		h.n--
		f.queued--
		return e, nil
	}
	q := h.q
	e, err := f.take(q)
	if e.enc != nil {
		h.n--
		f.queued--
	}
	if q.n == 0 {
		f.delist(q)
		h.q = q.next
	}
	return e, err
}

// head sets h's key to that of its first link. h has links.
func (h *host) head() {
	k := key{warm: h.turns > 0}
	if h.q != nil {
		k.level, k.number = h.q.level, h.q.head.first
	}
	if h.front.len() > 0 {
		e := &h.front.items[h.front.head]
		k.level, k.number = max(k.level, e.level), e.number
	}
	h.key = k
}

// putFront puts a link before h's queues: before all else, or behind what is
// there already.
func (f *Frontier) putFront(h *host, e entry, first bool) {
	if h.front == nil {
		h.own().front = &frontQueue{}
	}
	if first {
		h.front.prepend(e)
	} else {
		h.front.append(e)
	}
	f.fixed += e.ram()
	h.n++
	f.queued++
}

func decode(e entry) (weburl.Link, error) {
	l, _, err := weburl.PeekLink(e.enc) // which nobody writes to again
	return l, err
}
