package frontier

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/orbweaver/orbweaver/internal/store/frames"
)

// ErrSpill means that a block of queued links on disk does not hold what was written. The error names file and offset.
var ErrSpill = errors.New("damaged spill block")

// A segment is an append-only file of blocks. It is deleted when all blocks are consumed. A block is a frame of package
// frames whose payload is entries.
type segment struct {
	tempFile
	live int // number of blocks not yet consumed
}

// queues owns the blocks of all queues of links: those in RAM, within a budget, and the files to which they spill. It
// has the files of the pools, too, and counts the memory that cannot be spilled.
type queues struct {
	files        tempFiles
	memory       int64 // Config.MemoryBytes
	segmentBytes int64 // of the Config
	hostBytes    int64 // in RAM, of hosts, groups and buckets, as spill was told last

	ram      int64 // bytes of queued links in RAM
	fixed    int64 // bytes in RAM that cannot be spilled, without the hosts
	spilled  int64 // bytes of blocks on disk that are not yet consumed
	lists    [64]*queue
	tails    int // queues in the lists with a tail in RAM
	out      []byte
	runs     []run
	segments int // on disk now
	current  *segment

	spares [bufClasses][][]byte // memory to reuse
}

const (
	writeBytes = 1 << 20 // size of one sequential write
	spillBytes = 4 << 20 // freed by one spill, unless more is needed
)

// A run is a sequence of blocks of a queue that become one block on disk.
type run struct {
	q           *queue
	first, last int // indexes of blocks
	n           int32
	off, size   int // position in the write buffer
}

// spill writes tails, and then heads, until the queues fit into the budget. After an error, the links that could not be
// written are still in RAM. hostBytes is the memory of hosts, groups and buckets. loose yields the queues that may be
// in no list, each once.
func (qs *queues) spill(hostBytes int64, loose iter.Seq[*queue]) error {
	qs.hostBytes = hostBytes
	if qs.ram <= qs.budget() {
		return nil
	}
	// Go below the budget, so that not every push writes; but not so far that one Next or Push waits for all of it.
	target := min(qs.budget(), max(qs.budget()*7/8, qs.ram-spillBytes))
	for class := len(qs.lists) - 1; class >= 0 && qs.ram > target; {
		q := qs.lists[class]
		if q == nil {
			class--
			continue
		}
		// Take queues off the lists until one write is full.
		var pending []*queue
		var freed int64
		qs.out, qs.runs = qs.out[:0], qs.runs[:0]
		for q != nil && len(qs.out) < writeBytes && qs.ram-freed > target {
			qs.delist(q)
			pending = append(pending, q)
			freed += qs.gather(q)
			if q = qs.lists[class]; q == nil && class > 0 {
				class--
				q = qs.lists[class]
			}
		}
		err := qs.writeRuns()
		for _, q := range pending {
			qs.enlist(q)
		}
		if err != nil {
			return err
		}
	}
	return qs.spillLoose(target, loose)
}

// spillLoose writes the heads of those queues that are in no list, until all queues fit into target. Every queue with
// bytes in RAM is in a list or among these, whatever its level. So there is something to write while ram exceeds
// target.
func (qs *queues) spillLoose(target int64, loose iter.Seq[*queue]) error {
	var freed int64
	write := func() error {
		err := qs.writeRuns()
		for i := range qs.runs {
			qs.enlist(qs.runs[i].q)
		}
		qs.out, qs.runs, freed = qs.out[:0], qs.runs[:0], 0
		return err
	}
	qs.out, qs.runs = qs.out[:0], qs.runs[:0]
	for q := range loose {
		if qs.ram-freed <= target {
			break
		}
		if q.n > 0 && q.tail == nil {
			freed += qs.gather(q)
		}
		if len(qs.out) >= writeBytes {
			if err := write(); err != nil {
				return err
			}
		}
	}
	return write()
}

// budget returns the limit for the bytes of queues in RAM: the memory without what cannot be spilled. It is never less
// than a quarter of the memory, because otherwise every push would write.
func (qs *queues) budget() int64 {
	return max(qs.memory-qs.hostBytes-qs.fixed, qs.memory/4)
}

// gather adds to the write buffer what q can spare: its tail or, without a tail, its head. It returns the number of
// bytes that writing them will free. Blocks that are on disk already lose their copy in RAM at once.
func (qs *queues) gather(q *queue) (freed int64) {
	i := 0
	if q.tailInRAM() {
		i = 1
	}
	var r *run
	for ; i < q.blocks(); i++ {
		b := q.block(i)
		if b.buf == nil {
			r = nil
			continue
		}
		freed += int64(cap(b.buf))
		if q.place(i).onDisk() {
			qs.grow(q, i, -int64(cap(b.buf)))
			freed -= int64(cap(b.buf))
			b.buf, r = nil, nil
			continue
		}
		entries := b.buf[b.r:]
		if r == nil || r.size+len(entries) > spillBlockBytes {
			qs.runs = append(qs.runs, run{q: q, first: i, off: len(qs.out), size: frames.Head})
			r = &qs.runs[len(qs.runs)-1]
			qs.out = append(qs.out, make([]byte, frames.Head)...)
		}
		qs.out = append(qs.out, entries...)
		r.last = i
		r.n += b.n
		r.size += len(entries)
	}
	return freed
}

// writeRuns writes the buffer to the current segment and then replaces the blocks in RAM by references.
func (qs *queues) writeRuns() error {
	if len(qs.runs) == 0 {
		return nil
	}
	for _, r := range qs.runs {
		frames.Seal(qs.out[r.off : r.off+r.size])
	}
	s, err := qs.writable()
	if err != nil {
		return err
	}
	if _, err := s.file.Write(qs.out); err != nil {
		// It is unknown how much was written: write no more to this file.
		qs.leave()
		if s.live == 0 {
			_ = qs.deleteSegment(s) // the error of the write says more
		}
		return fmt.Errorf("write queue file %s: %w", s.name, err)
	}
	for i := range qs.runs {
		r := &qs.runs[i]
		rest := qs.need(r.q)
		for j := r.first; j <= r.last; j++ {
			b := r.q.block(j)
			qs.grow(r.q, j, -int64(cap(b.buf)))
			qs.freeBuf(b.buf)
			b.buf, b.r = nil, 0
		}
		r.q.block(r.first).n = r.n
		p := place{seg: s, off: s.size + int64(r.off), size: int32(r.size)}
		if r.first == 0 {
			rest.place = p
		} else {
			rest.blocks[r.first-1].place = p
		}
		s.live++
		qs.spilled += int64(r.size)
	}
	qs.joinRuns()
	s.size += int64(len(qs.out))
	if s.size >= qs.segmentBytes {
		qs.leave()
	}
	return nil
}

// joinRuns removes the blocks that were joined with the block before them.
func (qs *queues) joinRuns() {
	for i := len(qs.runs) - 1; i >= 0; i-- { // from the last run on, so that the indexes of earlier ones stay valid
		if r := &qs.runs[i]; r.last > r.first {
			r.q.tail.blocks = slices.Delete(r.q.tail.blocks, r.first, r.last)
		}
	}
}

func (qs *queues) writable() (*segment, error) {
	if qs.current != nil {
		return qs.current, nil
	}
	s := &segment{}
	if err := qs.files.create(&s.tempFile, "spill"); err != nil {
		return nil, err
	}
	s.keep, qs.current = true, s
	qs.segments++
	return s, nil
}

// leave ends the writing of the current segment.
func (qs *queues) leave() {
	if qs.current != nil {
		qs.current.keep, qs.current = false, nil
	}
}

func (qs *queues) deleteSegment(s *segment) error {
	qs.segments--
	return qs.files.deleteFile(&s.tempFile)
}

// load reads the head of q into RAM.
func (qs *queues) load(q *queue) error {
	if q.head.buf != nil {
		return nil
	}
	buf, err := qs.read(q.tail.place)
	if err != nil {
		return err
	}
	q.head.buf = buf
	qs.grow(q, 0, int64(cap(buf)))
	qs.enlist(q)
	return nil
}

// readAhead reads the head of q into RAM, if there is memory or the tail of another queue can be spilled. It ignores
// read errors: take will meet them again.
func (qs *queues) readAhead(q *queue) {
	if q == nil || q.head.buf != nil || qs.ram+int64(q.tail.place.size) > qs.budget() && qs.tails == 0 {
		return
	}
	_ = qs.load(q)
}

// release records that the block at p is consumed.
func (qs *queues) release(p place) error {
	s := p.seg
	qs.spilled -= int64(p.size)
	if s.live--; s.live > 0 {
		return nil
	}
	if s == qs.current {
		qs.leave()
	}
	return qs.deleteSegment(s)
}

func (p place) damaged(i int) error {
	if !p.onDisk() {
		return fmt.Errorf("a queue in memory: %w", ErrSpill)
	}
	return p.seg.at(p.off+frames.Head+int64(i), ErrSpill)
}

func (qs *queues) read(p place) ([]byte, error) { return qs.readBlock(p, make([]byte, p.size)) }

func (qs *queues) readBlock(p place, buf []byte) ([]byte, error) {
	if err := qs.files.readAt(&p.seg.tempFile, buf, p.off); err != nil {
		return nil, err
	}
	entries, err := frames.Payload(buf)
	if err != nil {
		return nil, p.seg.at(p.off, ErrSpill)
	}
	return entries, nil
}
