package outbox

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"unsafe"

	"github.com/orbweaver/orbweaver/internal/store/frames"
)

// pageBytes is the size at which a leaf with several keys is divided. It is a variable, so that
// tests need only a few links.
var pageBytes = 16 << 10

// A waitingRoom keeps the links without an owner, by key. It is a search tree of two levels. The
// upper one, leaves, is in RAM and divides the keys into ranges. A leaf has the links of a range:
// older ones in blocks on disk, newer ones in its tail, in RAM. A leaf with several keys has at most
// one block and about a page. A key with more links than that has a leaf of its own, with any
// number of blocks.
//
//	entry in a leaf: 8 octets key, big-endian, then an Entry
//
// Blocks are written to files in sequence and never change. A file whose blocks are out of use is
// deleted. If less than half of all files is in use, the blocks of the oldest one are written again.
type waitingRoom struct {
	dir    *folder
	memory int // bounds ram, and the leaves in RAM

	n       int64
	leaves  []leaf // ascending; the first one begins at 0
	ram     int    // octets of all tails
	next    uint64 // the leaf of this key is the next one to be flushed
	files   []*file
	sweeps  []sweep
	through uint64 // a sweep of all keys has come to this one
	buf     []byte
}

type leaf struct {
	first  uint64 // the leaf has the keys from this one up to the next leaf
	blocks []block
	tail   []byte
}

// A block is a part of a file.
type block struct {
	f    *file
	at   int64
	size int // of its content
}

// What a leaf and a sweep take in RAM. Nearly every leaf has one block.
const (
	leafBytes  = int(unsafe.Sizeof(leaf{}) + unsafe.Sizeof(block{}))
	sweepBytes = int(unsafe.Sizeof(sweep{}))
)

// A sweep asks for the destination of the links of a range of keys.
type sweep struct {
	at, last uint64
	block    int // the blocks of the leaf before this one are done; only for a leaf with one key
}

func newWaitingRoom(dir *folder, memory int) *waitingRoom {
	return &waitingRoom{dir: dir, memory: memory, leaves: make([]leaf, 1)}
}

func (w *waitingRoom) close() error {
	var errs []error
	for _, f := range w.files {
		errs = append(errs, f.remove())
	}
	w.files = nil
	return errors.Join(errs...)
}

// find returns the index of the leaf that has a key.
func (w *waitingRoom) find(key uint64) int {
	i, found := slices.BinarySearchFunc(w.leaves, key, func(l leaf, k uint64) int { return cmp.Compare(l.first, k) })
	if !found {
		i--
	}
	return i
}

// last returns the last key of a leaf.
func (w *waitingRoom) last(i int) uint64 {
	if i+1 < len(w.leaves) {
		return w.leaves[i+1].first - 1
	}
	return math.MaxUint64
}

// single reports whether a leaf can have only one key.
func (w *waitingRoom) single(i int) bool { return w.leaves[i].first == w.last(i) }

// add appends a link. After an error, which is one of the disk, the link is in RAM.
func (w *waitingRoom) add(key, number uint64, link []byte) error {
	i := w.find(key)
	l := &w.leaves[i]
	was := len(l.tail)
	l.tail = binary.BigEndian.AppendUint64(l.tail, key)
	l.tail = appendEntry(l.tail, number, 0, link)
	w.ram += len(l.tail) - was
	w.n++
	if len(l.tail) > pageBytes && !w.single(i) {
		if err := w.divide(i); err != nil {
			return err
		}
	}
	return w.flush()
}

// whole returns all entries of a leaf that has at most one block. They are valid until the next
// call of a method.
func (w *waitingRoom) whole(i int) (entries []byte, err error) {
	l := &w.leaves[i]
	if len(l.blocks) == 0 {
		return l.tail, nil
	}
	b := l.blocks[0]
	if w.buf, err = b.f.read(w.buf[:0], b.at); err != nil {
		return nil, err
	}
	w.buf = append(w.buf, l.tail...)
	return w.buf, nil
}

// replace makes entries the content of a leaf, in RAM. It keeps no reference to entries.
func (w *waitingRoom) replace(i int, entries []byte) error {
	l := &w.leaves[i]
	w.ram += len(entries) - len(l.tail)
	l.tail = append([]byte(nil), entries...)
	if len(entries) == 0 {
		l.tail = nil
	}
	blocks := l.blocks
	l.blocks = nil
	return w.release(blocks)
}

// divide divides a leaf with several keys until each part fits into a page or has one key.
func (w *waitingRoom) divide(i int) error {
	entries, err := w.whole(i)
	if err != nil {
		return err
	}
	if len(entries) <= pageBytes {
		return nil
	}
	type item struct {
		key      uint64
		from, to int
	}
	var items []item
	for at := 0; at < len(entries); {
		key, e, err := decodeWaiting(entries[at:])
		if err != nil {
			return err
		}
		items = append(items, item{key, at, at + e.size})
		at += e.size
	}
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(a.key, b.key) })
	var parts []leaf // of which the first one replaces leaf i
	part := leaf{first: w.leaves[i].first}
	cut := func(first uint64) {
		if first > part.first {
			parts = append(parts, part)
			part = leaf{first: first}
		}
	}
	for from := 0; from < len(items); {
		key, to, size := items[from].key, from, 0
		for ; to < len(items) && items[to].key == key; to++ {
			size += items[to].to - items[to].from
		}
		if len(part.tail) > 0 && len(part.tail)+size > pageBytes/2 || size > pageBytes {
			cut(key)
		}
		for _, it := range items[from:to] {
			part.tail = append(part.tail, entries[it.from:it.to]...)
		}
		if size > pageBytes && key < w.last(i) { // a leaf of its own
			cut(key + 1)
		}
		from = to
	}
	parts = append(parts, part)
	w.ram += len(entries) - len(w.leaves[i].tail)
	blocks := w.leaves[i].blocks
	w.leaves = slices.Replace(w.leaves, i, i+1, parts...)
	return w.release(blocks)
}

// release marks blocks as out of use, and deletes the files that have no others.
func (w *waitingRoom) release(blocks []block) error {
	var errs []error
	for _, b := range blocks {
		b.f.live -= int64(frames.Head + b.size)
		if b.f.live > 0 {
			continue
		}
		w.files = slices.DeleteFunc(w.files, func(f *file) bool { return f == b.f })
		errs = append(errs, b.f.remove())
	}
	return errors.Join(errs...)
}

// flush writes tails to the disk if there are too many octets of them, and makes room in the files.
// After an error, everything is still in its place.
func (w *waitingRoom) flush() error {
	if w.ram+len(w.leaves)*leafBytes <= w.memory {
		return nil
	}
	enough := min(w.ram, max(w.memory-len(w.leaves)*leafBytes, pageBytes)) * 7 / 8
	for i := w.find(w.next); w.ram > enough; i++ {
		i %= len(w.leaves)
		before := len(w.leaves)
		if err := w.flushLeaf(i); err != nil {
			return err
		}
		i += len(w.leaves) - before
		w.next = w.last(i) + 1 // 0 after the last leaf
	}
	return w.clean()
}

// flushLeaf writes the tail of a leaf.
func (w *waitingRoom) flushLeaf(i int) error {
	if len(w.leaves[i].tail) == 0 {
		return nil
	}
	if !w.single(i) {
		first, last := w.leaves[i].first, w.last(i)
		if err := w.divide(i); err != nil {
			return err
		}
		for i = w.find(last); w.leaves[i].first > first; i-- {
			if err := w.write(i); err != nil {
				return err
			}
		}
	}
	return w.write(i)
}

// write writes the tail of a leaf, together with its last block if that is small.
func (w *waitingRoom) write(i int) (err error) {
	l := &w.leaves[i]
	entries, keep := l.tail, len(l.blocks)
	if len(entries) == 0 {
		return nil
	}
	sweeping := len(w.sweeps) > 0 && w.sweeps[0].block > 0 // it may have passed the last block
	if keep > 0 && (!w.single(i) || l.blocks[keep-1].size < pageBytes/2 && !sweeping) {
		keep--
		b := l.blocks[keep]
		if w.buf, err = b.f.read(w.buf[:0], b.at); err != nil {
			return err
		}
		w.buf = append(w.buf, l.tail...)
		entries = w.buf
	}
	blocks := slices.Clone(l.blocks[:keep])
	for rest := entries; len(rest) > 0; {
		size := 0
		for size < len(rest) && (size < pageBytes || !w.single(i)) {
			_, e, err := decodeWaiting(rest[size:])
			if err != nil {
				return err
			}
			size += e.size
		}
		b, err := w.append(rest[:size])
		if err != nil {
			return errors.Join(err, w.release(blocks[keep:]))
		}
		blocks, rest = append(blocks, b), rest[size:]
	}
	w.ram -= len(l.tail)
	old := l.blocks[keep:]
	l.blocks, l.tail = blocks, nil
	return w.release(old)
}

// append writes a block.
func (w *waitingRoom) append(p []byte) (b block, err error) {
	if n := len(w.files); n == 0 || w.files[n-1].full() {
		f, err := w.dir.create()
		if err != nil {
			return b, err
		}
		for _, old := range w.files {
			if err := old.close(); err != nil {
				return b, errors.Join(err, f.remove())
			}
		}
		w.files = append(w.files, f)
	}
	f := w.files[len(w.files)-1]
	b = block{f, f.end, len(p)}
	if err := f.write(p); err != nil {
		if f.live == 0 {
			w.files = w.files[:len(w.files)-1]
			_ = f.remove() // the error of the write says more
		}
		return b, err
	}
	f.live += int64(frames.Head + len(p))
	return b, nil
}

// clean writes the blocks of the oldest file again if more than half of all files is out of use.
func (w *waitingRoom) clean() error {
	var size, live int64
	for _, f := range w.files {
		size, live = size+f.end, live+f.live
	}
	if len(w.files) < 3 || size <= 2*live+fileBytes {
		return nil
	}
	oldest := w.files[0]
	for i := range w.leaves {
		for j, b := range w.leaves[i].blocks {
			if b.f != oldest {
				continue
			}
			var err error
			if w.buf, err = b.f.read(w.buf[:0], b.at); err != nil {
				return err
			}
			if w.leaves[i].blocks[j], err = w.append(w.buf); err != nil {
				w.leaves[i].blocks[j] = b
				return err
			}
			if err := w.release([]block{b}); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask begins a sweep of one key, askAll one of all keys. A sweep of all keys begins where the last
// one has ended. So if owners change all the time, it still reaches each key.
func (w *waitingRoom) ask(key uint64) {
	if w.n == 0 {
		return
	}
	if len(w.sweeps)*sweepBytes > w.memory/8 {
		w.askAll()
		return
	}
	w.sweeps = append(w.sweeps, sweep{at: key, last: key})
}

func (w *waitingRoom) askAll() {
	if w.sweeps = nil; w.n == 0 {
		return
	}
	w.sweeps = append(w.sweeps, sweep{at: w.through, last: math.MaxUint64})
	if w.through > 0 {
		w.sweeps = append(w.sweeps, sweep{last: w.through - 1})
	}
}

// route continues the first sweep with one block, or with a leaf of several keys. It calls decide for
// each link in the range of the sweep, and removes a link for which decide returns false. It returns
// the number of calls.
func (w *waitingRoom) route(decide func(key uint64, e Entry) (keep bool, err error)) (n int, err error) {
	n, err = w.routePart(decide)
	if err == nil {
		err = w.flush() // the leaf may be in RAM now
	}
	return n, err
}

func (w *waitingRoom) routePart(decide func(key uint64, e Entry) (keep bool, err error)) (n int, err error) {
	s := &w.sweeps[0]
	i := w.find(s.at)
	if len(w.leaves[i].blocks) > 1 || w.single(i) {
		return w.routeBlock(i, decide)
	}
	entries, err := w.whole(i)
	if err != nil {
		return 0, err
	}
	kept, n, changed, err := w.sift(entries, *s, decide)
	if changed {
		err = errors.Join(err, w.replace(i, kept))
	}
	if err == nil {
		w.done(i)
	}
	return n, err
}

// routeBlock is route for a leaf with one key.
func (w *waitingRoom) routeBlock(i int, decide func(uint64, Entry) (bool, error)) (n int, err error) {
	s, l := &w.sweeps[0], &w.leaves[i]
	if s.block >= len(l.blocks) {
		kept, n, changed, err := w.sift(l.tail, *s, decide)
		if changed {
			w.ram += len(kept) - len(l.tail)
			l.tail = append([]byte(nil), kept...)
		}
		if err == nil {
			w.done(i)
		}
		return n, err
	}
	b := l.blocks[s.block]
	if w.buf, err = b.f.read(w.buf[:0], b.at); err != nil {
		return 0, err
	}
	kept, n, changed, err := w.sift(w.buf, *s, decide)
	switch {
	case !changed && err == nil:
		s.block++
	case len(kept) == 0 && changed:
		l.blocks = slices.Delete(l.blocks, s.block, s.block+1)
		err = errors.Join(err, w.release([]block{b}))
	case changed:
		// The disk may be full, and then these links have no place but RAM. They lose their place in the order.
		l.blocks = slices.Delete(l.blocks, s.block, s.block+1)
		l.tail = append(l.tail, kept...)
		w.ram += len(kept)
		err = errors.Join(err, w.release([]block{b}))
	}
	return n, err
}

// sift calls decide for the entries in the range of a sweep. After an error, it keeps the rest. kept
// uses other memory than entries; changed is false if it is equal to entries.
func (w *waitingRoom) sift(entries []byte, s sweep, decide func(uint64, Entry) (bool, error)) (kept []byte, n int,
	changed bool, err error) {
	for at := 0; at < len(entries); {
		key, e, wrong := decodeWaiting(entries[at:])
		if wrong != nil {
			return kept, n, changed, wrong
		}
		keep := true
		if err == nil && key >= s.at && key <= s.last {
			keep, err = decide(key, e)
			n++
		}
		switch {
		case !keep && !changed:
			kept, changed = append(kept, entries[:at]...), true
		case keep && changed:
			kept = append(kept, entries[at:at+e.size]...)
		}
		if !keep {
			w.n--
		}
		at += e.size
	}
	return kept, n, changed, err
}

// done ends the work of the first sweep on a leaf, and removes an empty leaf.
func (w *waitingRoom) done(i int) {
	s, last := &w.sweeps[0], w.last(i)
	if s.last > s.at {
		w.through = min(last, s.last) + 1
	}
	if s.at, s.block = last+1, 0; last >= s.last {
		w.sweeps = w.sweeps[1:]
	}
	l := &w.leaves[i]
	if i > 0 && len(l.blocks) == 0 && len(l.tail) == 0 && len(w.leaves[i-1].blocks) <= 1 && !w.single(i-1) {
		w.leaves = slices.Delete(w.leaves, i, i+1)
	}
	if w.n == 0 {
		w.leaves, w.sweeps, w.through = make([]leaf, 1), nil, 0
	}
}

// decodeWaiting reads an entry of a leaf. Its size includes the key.
func decodeWaiting(b []byte) (key uint64, e Entry, err error) {
	if len(b) < 8 {
		return 0, e, ErrDamaged
	}
	if e, err = decodeEntry(b[8:]); err != nil {
		return 0, e, err
	}
	e.size += 8
	return binary.BigEndian.Uint64(b), e, nil
}
