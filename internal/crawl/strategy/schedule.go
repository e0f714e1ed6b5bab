package strategy

import (
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A schedule is a priority queue of pages: the page that is due first comes out first. It
// holds any number of pages in bounded memory: a heap in RAM, and sorted runs on disk.
// Disk access is sequential.
//
//	push -> heap -(full: all but its earliest quarter)-> run ... -> pop
//
// When there are eight runs of one size class, they are merged into one run of the next
// class. So an entry is written a few times. The files need not be durable: each run of the
// crawl rebuilds the schedule from the journal.
//
//	run:    blocks
//	block:  uint32 LE  CRC-32C of what follows
//	        uint32 LE  length of the entries
//	        bytes      entries, each: int64 LE due, uvarint length, bytes
type schedule struct {
	fs    disk.FS
	dir   string
	limit int64 // of ram
	heap  entries
	ram   int64 // bytes that the heap takes
	runs  []*run
	n     int64 // entries in all
	made  int   // runs written so far, for their names
}

// An entry is an encoded page and the time at which it is due, in Unix milliseconds.
type entry struct {
	due  int64
	data []byte
}

func (e entry) compare(f entry) int {
	return cmp.Or(cmp.Compare(e.due, f.due), bytes.Compare(e.data, f.data))
}

const (
	entryOverhead = 48 // bytes of RAM per entry, besides its data
	blockBytes    = 64 << 10
	maxBlock      = 16 << 20 // no entry is larger, so a larger block is damage
	mergeAt       = 8        // number of runs of one size class that are merged
)

var errSchedule = errors.New("damaged schedule")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// push adds a page. The schedule keeps data.
func (s *schedule) push(due int64, data []byte) error {
	heap.Push(&s.heap, entry{due, data})
	s.ram += int64(len(data)) + entryOverhead
	s.n++
	if s.ram > s.limit && len(s.heap) > 8 {
		return s.spill()
	}
	return nil
}

// earliest returns the entry that pop would return. Its data is valid until the next change
// of the schedule. ok is false if the schedule is empty.
func (s *schedule) earliest() (e entry, ok bool) {
	e, _, ok = s.find()
	return e, ok
}

// find returns the earliest entry and its run. The run is nil if the entry is in the heap.
func (s *schedule) find() (e entry, from *run, ok bool) {
	if len(s.heap) > 0 {
		e, ok = s.heap[0], true
	}
	for _, r := range s.runs {
		if !ok || r.head.compare(e) < 0 {
			e, from, ok = r.head, r, true
		}
	}
	return e, from, ok
}

// pop removes and returns the earliest entry. The caller owns its data.
func (s *schedule) pop() (entry, error) {
	e, from, ok := s.find()
	if !ok {
		return e, nil
	}
	s.n--
	if from != nil {
		e.data = bytes.Clone(e.data)
		return e, s.advance(from)
	}
	s.ram -= int64(len(e.data)) + entryOverhead
	heap.Pop(&s.heap)
	return e, nil
}

// advance moves a run to its next entry. At its end it removes the run and its file.
func (s *schedule) advance(r *run) error {
	ok, err := r.next()
	if err != nil || ok {
		return err
	}
	s.runs = slices.DeleteFunc(s.runs, func(o *run) bool { return o == r })
	return s.drop(r)
}

// drop closes and deletes the file of a run.
func (s *schedule) drop(r *run) error {
	err := errors.Join(r.file.Close(), s.fs.Remove(r.name))
	if err != nil {
		return fmt.Errorf("schedule %s: %w", r.name, err)
	}
	return nil
}

// close deletes the files.
func (s *schedule) close() error {
	var errs []error
	for _, r := range s.runs {
		errs = append(errs, s.drop(r))
	}
	s.runs, s.heap = nil, nil
	return errors.Join(errs...)
}

// spill moves all but the earliest quarter of the heap to a new run.
func (s *schedule) spill() error {
	slices.SortFunc(s.heap, entry.compare)
	keep := len(s.heap) / 4
	i := keep
	r, err := s.write(0, func() (entry, bool, error) {
		if i == len(s.heap) {
			return entry{}, false, nil
		}
		i++
		return s.heap[i-1], true, nil
	})
	if err != nil {
		return err
	}
	clear(s.heap[keep:])
	s.heap = s.heap[:keep] // a sorted slice is a heap
	s.ram = 0
	for _, e := range s.heap {
		s.ram += int64(len(e.data)) + entryOverhead
	}
	s.runs = append(s.runs, r)
	return s.merge(0)
}

// merge merges the runs of a size class into one, if there are enough of them.
func (s *schedule) merge(size int) error {
	var part schedule
	for _, r := range s.runs {
		if r.size == size {
			part.runs = append(part.runs, r)
		}
	}
	if len(part.runs) < mergeAt {
		return nil
	}
	// Delete the old runs after the new one is written.
	old := slices.Clone(part.runs)
	var last *run
	r, err := s.write(size+1, func() (entry, bool, error) {
		if last != nil {
			ok, err := last.next()
			if err != nil {
				return entry{}, false, err
			}
			if !ok {
				part.runs = slices.DeleteFunc(part.runs, func(o *run) bool { return o == last })
			}
		}
		e, from, ok := part.find()
		last = from
		return e, ok, nil
	})
	if err != nil {
		return err
	}
	s.runs = append(slices.DeleteFunc(s.runs, func(o *run) bool { return o.size == size }), r)
	for _, o := range old {
		if err := s.drop(o); err != nil {
			return err
		}
	}
	return s.merge(size + 1)
}

// write writes a new run of the entries that next returns, in their order. next returns at
// least one entry.
func (s *schedule) write(size int, next func() (entry, bool, error)) (*run, error) {
	s.made++
	r := &run{name: filepath.Join(s.dir, fmt.Sprintf("run-%06d", s.made)), size: size}
	fail := func(err error) (*run, error) {
		if r.file != nil {
			_ = r.file.Close()      // fail returns the first error
			_ = s.fs.Remove(r.name) // likewise
		}
		return nil, fmt.Errorf("schedule %s: %w", r.name, err)
	}
	var err error
	if r.file, err = s.fs.OpenFile(r.name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644); err != nil {
		return fail(err)
	}
	buf := make([]byte, 8, blockBytes+4096)
	flush := func() error {
		if len(buf) == 8 {
			return nil
		}
		binary.LittleEndian.PutUint32(buf[4:], uint32(len(buf)-8))
		binary.LittleEndian.PutUint32(buf, crc32.Checksum(buf[4:], castagnoli))
		_, err := r.file.Write(buf)
		r.end += int64(len(buf))
		buf = buf[:8]
		return err
	}
	for {
		e, ok, err := next()
		if err != nil {
			return fail(err)
		}
		if !ok {
			break
		}
		buf = binary.LittleEndian.AppendUint64(buf, uint64(e.due))
		buf = binary.AppendUvarint(buf, uint64(len(e.data)))
		buf = append(buf, e.data...)
		if len(buf) >= blockBytes {
			if err := flush(); err != nil {
				return fail(err)
			}
		}
	}
	if err := flush(); err != nil {
		return fail(err)
	}
	if _, err := r.next(); err != nil {
		return fail(err)
	}
	return r, nil
}

// each calls fn with each entry, in no order, until fn returns an error.
func (s *schedule) each(fn func(entry) error) error {
	for _, e := range s.heap {
		if err := fn(e); err != nil {
			return err
		}
	}
	for _, r := range s.runs {
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

// A run is a sorted file of entries that is read from its front.
type run struct {
	name     string
	file     disk.File
	size     int   // size class
	off, end int64 // offsets of the next block and of the end
	block    []byte
	rest     []byte // the part of block after head
	head     entry  // the next entry; its data is in block
}

// next moves to the next entry. ok is false at the end.
func (r *run) next() (ok bool, err error) {
	if len(r.rest) == 0 {
		if r.off == r.end {
			r.head = entry{}
			return false, nil
		}
		if err := r.load(); err != nil {
			return false, fmt.Errorf("%s at %d: %w", r.name, r.off, err)
		}
	}
	n, w := uint64(0), 0
	if len(r.rest) > 8 {
		n, w = binary.Uvarint(r.rest[8:])
	}
	if w <= 0 || n > uint64(len(r.rest)-8-w) {
		return false, fmt.Errorf("%s before %d: %w", r.name, r.off, errSchedule)
	}
	to := 8 + w + int(n)
	r.head = entry{int64(binary.LittleEndian.Uint64(r.rest)), r.rest[8+w : to : to]}
	r.rest = r.rest[to:]
	return true, nil
}

// load reads the next block and checks its checksum.
func (r *run) load() error {
	var head [8]byte
	if n, err := r.file.ReadAt(head[:], r.off); n < len(head) {
		return err
	}
	n := binary.LittleEndian.Uint32(head[4:])
	if n == 0 || n > maxBlock || int64(n) > r.end-r.off-8 {
		return errSchedule
	}
	if cap(r.block) < int(n)+4 {
		r.block = make([]byte, n+4)
	}
	r.block = r.block[:n+4]
	if k, err := r.file.ReadAt(r.block, r.off+4); k < len(r.block) {
		return err
	}
	if crc32.Checksum(r.block, castagnoli) != binary.LittleEndian.Uint32(head[:]) {
		return errSchedule
	}
	r.off += 8 + int64(n)
	r.rest = r.block[4:]
	return nil
}

// entries implements heap.Interface.
type entries []entry

func (h entries) Len() int           { return len(h) }
func (h entries) Less(i, j int) bool { return h[i].compare(h[j]) < 0 }
func (h entries) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *entries) Push(x any)        { *h = append(*h, x.(entry)) }
func (h *entries) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = entry{}
	*h = (*h)[:last]
	return e
}
