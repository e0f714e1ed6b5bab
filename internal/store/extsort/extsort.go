// Package extsort answers: which of more records than fit in memory is the least?
//
//	Push -> RAM -(full)-> sorted runs on disk -(16 of a size)-> merged runs -> Pop, Each
//
// A record is a string of bytes, and bytes.Compare orders the records. A Queue sorts a set once (Push, then Each) or is
// a priority queue (Push, Min and Pop in any order). Disk access is sequential, and memory stays within the limit for
// any number of records. The files need not be durable: a Queue is rebuilt from the records' source after a restart.
//
//	run:    blocks
//	block:  uint32 LE  CRC-32C of what follows
//	        uint32 LE  length of the records
//	        bytes      records, each: uvarint length, bytes
//
// One goroutine owns a Queue. After an error of the disk the Queue can only be closed.
package extsort

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/frames"
	"github.com/orbweaver/orbweaver/internal/store/heap"
)

// ErrDamaged means that a run does not have the bytes that were written.
var ErrDamaged = errors.New("damaged run of a sort")

const (
	overhead   = 48 // bytes of RAM for a record, besides its own
	chunkBytes = 64 << 10
	mergeAt    = 16       // runs of one size class that are merged into one of the next
	maxBlock   = 64 << 20 // no record is as large, so a larger block is damage
	stopEvery  = 1024     // records between two calls of stop
)

// A Queue holds records and returns the least one first.
type Queue struct {
	fs     disk.FS
	prefix string
	limit  int
	stop   Stop

	ram    heap.Heap[[]byte] // a heap if sorted, otherwise in any order
	sorted bool
	popped bool   // Pop was called: the Queue is a priority queue
	chunk  []byte // has the newest records of ram
	live   int    // bytes that the records of ram take
	used   int    // live, and those that have left since the chunks were made

	runs heap.Heap[*run]
	n    int64
	made int // runs so far, for their names
}

// A Config says where and how large sorts take place.
type Config struct {
	// FS is the file system of the temporary files. Nil means the machine's.
	FS disk.FS
	// Prefix begins the names of the temporary files.
	Prefix string
	// Memory is about how many bytes of RAM one sort takes. Zero means 64 MiB.
	Memory int
	Stop   Stop // nil: nothing ends the work early
}

// A Stop ends long work. A context.Context is one.
type Stop interface {
	// Err is called often. If it is not nil, it ends the work.
	Err() error
}

// Queue returns an empty Queue. Its files have name in their names, so that several sorts can share a Config.
func (c Config) Queue(name string) *Queue {
	c.FS = cmp.Or(c.FS, disk.OS)
	c.Memory = cmp.Or(c.Memory, 64<<20)
	return New(c.FS, c.Prefix+name, c.Memory, c.Stop)
}

// New returns an empty Queue that takes about limit bytes of RAM. The names of its files begin with prefix. If stop is
// not nil, it is called often during long writes and by Each; its error ends them and is returned.
func New(fs disk.FS, prefix string, limit int, stop Stop) *Queue {
	return &Queue{fs: fs, prefix: prefix, limit: limit, stop: stop, runs: byHead(),
		ram: heap.Heap[[]byte]{Less: func(a, b []byte) bool { return bytes.Compare(a, b) < 0 }}}
}

// Len returns the number of records.
func (q *Queue) Len() int64 { return q.n }

// Memory returns how many bytes the records in RAM take.
func (q *Queue) Memory() int { return q.used }

// Push adds a copy of rec.
func (q *Queue) Push(rec []byte) error {
	if rec = q.keep(rec); q.sorted {
		q.ram.Push(rec)
	} else {
		q.ram.Items = append(q.ram.Items, rec)
	}
	q.n++
	if q.used > q.limit && len(q.ram.Items) > 8 {
		return q.shrink()
	}
	return nil
}

// keep copies rec into the chunk.
func (q *Queue) keep(rec []byte) []byte {
	q.live += len(rec) + overhead
	q.used += len(rec) + overhead
	if len(rec) > cap(q.chunk)-len(q.chunk) {
		if len(rec) > chunkBytes/4 {
			return bytes.Clone(rec)
		}
		q.chunk = make([]byte, 0, min(chunkBytes, max(q.limit/8, len(rec))))
	}
	at := len(q.chunk)
	q.chunk = append(q.chunk, rec...)
	return q.chunk[at:len(q.chunk):len(q.chunk)]
}

// Min returns the least record. It is valid until the next call of another method. ok is false if there is none.
func (q *Queue) Min() (rec []byte, ok bool) {
	q.order()
	switch {
	case len(q.ram.Items) > 0 && (len(q.runs.Items) == 0 || bytes.Compare(q.ram.Items[0], q.runs.Items[0].head) <= 0):
		return q.ram.Items[0], true
	case len(q.runs.Items) > 0:
		return q.runs.Items[0].head, true
	}
	return nil, false
}

// order makes ram a heap.
func (q *Queue) order() {
	if !q.sorted {
		q.sorted = true
		q.ram.Init()
	}
}

// Pop removes the record that Min returns, if there is one.
func (q *Queue) Pop() error {
	least, ok := q.Min()
	if !ok {
		return nil
	}
	q.n--
	q.popped = true
	if len(q.ram.Items) > 0 && (len(q.runs.Items) == 0 || bytes.Compare(q.ram.Items[0], q.runs.Items[0].head) <= 0) {
		q.live -= len(least) + overhead
		if q.ram.Pop(); len(q.ram.Items) == 0 {
			q.reset()
		}
		return nil
	}
	return q.advance(&q.runs)
}

// reset reuses the memory when no record is left in RAM.
func (q *Queue) reset() {
	clear(q.ram.Items)
	q.ram.Items, q.chunk, q.live, q.used = q.ram.Items[:0], q.chunk[:0], 0, 0
}

// Each removes all records and calls fn for each of them in order. rec is valid until fn returns. After an error of fn
// the Queue can only be closed.
func (q *Queue) Each(fn func(rec []byte) error) error {
	if len(q.runs.Items) > 0 && len(q.ram.Items) > 0 {
		if err := q.spill(0); err != nil {
			return err
		}
	}
	n := 0
	emit := func(rec []byte) error {
		if n++; q.stop != nil && n%stopEvery == 0 {
			if err := q.stop.Err(); err != nil {
				return err
			}
		}
		return fn(rec)
	}
	slices.SortFunc(q.ram.Items, bytes.Compare)
	for _, rec := range q.ram.Items {
		if err := emit(rec); err != nil {
			return err
		}
	}
	q.reset()
	q.n, q.sorted = 0, false
	for len(q.runs.Items) > 0 {
		if err := emit(q.runs.Items[0].head); err != nil {
			return err
		}
		if err := q.advance(&q.runs); err != nil {
			return err
		}
	}
	return nil
}

// All calls fn for each record in any order, and removes none. rec is valid until fn returns.
func (q *Queue) All(fn func(rec []byte) error) error {
	for _, rec := range q.ram.Items {
		if err := fn(rec); err != nil {
			return err
		}
	}
	for _, r := range q.runs.Items {
		again := *r
		again.block = nil // so that load allocates a block of its own
		for ok := true; ok; {
			if err := fn(again.head); err != nil {
				return err
			}
			var err error
			if ok, err = again.next(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close deletes the files.
func (q *Queue) Close() error {
	var errs []error
	for _, r := range q.runs.Items {
		errs = append(errs, q.drop(r))
	}
	q.runs.Items, q.ram.Items, q.chunk, q.n = nil, nil, nil, 0
	return errors.Join(errs...)
}

// advance moves the least run of h to its next record. At its end it removes the run.
func (q *Queue) advance(h *heap.Heap[*run]) error {
	r := h.Items[0]
	ok, err := r.next()
	if err != nil {
		return err
	}
	if ok {
		h.FixFirst()
		return nil
	}
	h.Pop()
	return q.drop(r)
}

// drop closes and deletes the file of a run.
func (q *Queue) drop(r *run) error {
	if err := errors.Join(r.file.Close(), q.fs.Remove(r.name)); err != nil {
		return fmt.Errorf("sort %s: %w", r.name, err)
	}
	return nil
}

// shrink makes room in RAM. A sort writes everything to disk. A priority queue keeps the least quarter, which will
// leave first; if most records have left already, it keeps all.
func (q *Queue) shrink() error {
	keep := 0
	if q.popped {
		keep = len(q.ram.Items) / 4
	}
	if 2*q.live > q.limit {
		if err := q.spill(keep); err != nil || keep == 0 {
			return err
		}
	}
	// Copy what is left, so that the chunks of the others become free.
	left := q.ram.Items
	q.ram.Items, q.chunk, q.live, q.used = make([][]byte, 0, 2*len(left)), nil, 0, 0
	for _, rec := range left {
		q.ram.Items = append(q.ram.Items, q.keep(rec))
	}
	return nil
}

// spill writes all but the first keep records of ram to a new run.
func (q *Queue) spill(keep int) error {
	slices.SortFunc(q.ram.Items, bytes.Compare)
	r, err := q.write(0, func(put func([]byte) error) error {
		for _, rec := range q.ram.Items[keep:] {
			if err := put(rec); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if clear(q.ram.Items[keep:]); keep == 0 {
		q.reset()
	}
	q.ram.Items = q.ram.Items[:keep] // sorted, and so a heap
	q.runs.Push(r)
	return q.merge(0)
}

// merge merges the runs of a size class into one of the next, if there are enough of them.
func (q *Queue) merge(class int) error {
	from, rest := byHead(), byHead()
	for _, r := range q.runs.Items {
		if r.class == class {
			from.Push(r)
		} else {
			rest.Push(r)
		}
	}
	if len(from.Items) < mergeAt {
		return nil
	}
	r, err := q.write(class+1, func(put func([]byte) error) error {
		for len(from.Items) > 0 {
			if err := put(from.Items[0].head); err != nil {
				return err
			}
			if err := q.advance(&from); err != nil {
				return err
			}
		}
		return nil
	})
	if q.runs.Items = append(rest.Items, from.Items...); err != nil { // Close removes those that are left
		return err
	}
	q.runs.Push(r)
	return q.merge(class + 1)
}

// write writes a run of the records, at least one, that fill passes to put in their order.
func (q *Queue) write(class int, fill func(put func([]byte) error) error) (*run, error) {
	q.made++
	r := &run{name: fmt.Sprintf("%s-%06d", q.prefix, q.made), class: class}
	var err error
	if r.file, err = q.fs.OpenFile(r.name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644); err != nil {
		return nil, fmt.Errorf("sort: %w", err)
	}
	buf := make([]byte, frames.Head, q.blockBytes()+1024)
	flush := func() error {
		frames.Seal(buf)
		_, err := r.file.Write(buf)
		r.end += int64(len(buf))
		buf = buf[:frames.Head]
		return err
	}
	n := 0
	err = fill(func(rec []byte) error {
		buf = binary.AppendUvarint(buf, uint64(len(rec)))
		buf = append(buf, rec...)
		if n++; q.stop != nil && n%stopEvery == 0 {
			if err := q.stop.Err(); err != nil {
				return err
			}
		}
		if len(buf) < q.blockBytes() {
			return nil
		}
		return flush()
	})
	if err == nil && len(buf) > frames.Head {
		err = flush()
	}
	if err == nil {
		_, err = r.next()
	}
	if err != nil {
		_ = q.drop(r) // the first error says more
		return nil, fmt.Errorf("sort %s: %w", r.name, err)
	}
	return r, nil
}

// blockBytes returns the size of a block. The blocks of all runs together are small compared with the limit.
func (q *Queue) blockBytes() int { return min(64<<10, max(q.limit/128, 4<<10)) }

// A run is a sorted file of records that is read from its front.
type run struct {
	name     string
	file     disk.File
	class    int   // size class
	off, end int64 // offsets of the next block and of the end
	block    []byte
	rest     []byte // the part of block after head
	head     []byte // the next record; it is in block
}

// next moves to the next record. ok is false at the end.
func (r *run) next() (ok bool, err error) {
	if len(r.rest) == 0 {
		if r.off == r.end {
			r.head = nil
			return false, nil
		}
		if err := r.load(); err != nil {
			return false, fmt.Errorf("%s at %d: %w", r.name, r.off, err)
		}
	}
	n, w := binary.Uvarint(r.rest)
	if w <= 0 || n > uint64(len(r.rest)-w) {
		return false, fmt.Errorf("%s before %d: %w", r.name, r.off, ErrDamaged)
	}
	to := w + int(n)
	r.head, r.rest = r.rest[w:to:to], r.rest[to:]
	return true, nil
}

// byHead returns a heap of runs by their next records.
func byHead() heap.Heap[*run] {
	return heap.Heap[*run]{Less: func(a, b *run) bool { return bytes.Compare(a.head, b.head) < 0 }}
}

// load reads the next block and checks its checksum.
func (r *run) load() error {
	b, err := frames.Read(r.file, r.off, min(r.end, r.off+frames.Head+maxBlock), r.block[:0])
	if r.block = b; len(b) == 0 && err == nil || errors.Is(err, frames.ErrDamaged) {
		return ErrDamaged
	}
	if err != nil {
		return err
	}
	r.off += frames.Head + int64(len(b))
	r.rest = b
	return nil
}
