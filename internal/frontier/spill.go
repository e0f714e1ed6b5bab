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
// written are still in RAM.
func (f *Frontier) spill() error {
	if f.ram <= f.budget() {
		return nil
	}
	// Go below the budget, so that not every push writes; but not so far that one Next or Push waits for all of it.
	target := min(f.budget(), max(f.budget()*7/8, f.ram-spillBytes))
	for class := len(f.lists) - 1; class >= 0 && f.ram > target; {
		q := f.lists[class]
		if q == nil {
			class--
			continue
		}
		// Take queues off the lists until one write is full.
		var pending []*queue
		var freed int64
		f.out, f.runs = f.out[:0], f.runs[:0]
		for q != nil && len(f.out) < writeBytes && f.ram-freed > target {
			f.delist(q)
			pending = append(pending, q)
			freed += f.gather(q)
			if q = f.lists[class]; q == nil && class > 0 {
				class--
				q = f.lists[class]
			}
		}
		err := f.writeRuns()
		for _, q := range pending {
			f.enlist(q)
		}
		if err != nil {
			return err
		}
	}
	return f.spillHeads(target)
}

// spillHeads writes the heads that are in no list, until the queues fit into target. It finds them in the
// dictionary, in the withdrawn queues and in the Sides. Every queue with bytes in RAM is in a list
// or found here, whatever its level. So there is something to write while ram exceeds target.
func (f *Frontier) spillHeads(target int64) error {
	loose := slices.Clone(f.withdrawn.qs)
	for _, s := range f.aside.sides {
		loose = append(loose, s.q)
	}
	if err := f.spillLoose(target, slices.Values(loose)); err != nil || f.ram <= target {
		return err
	}
	return f.spillLoose(target, f.hosts.queues())
}

// spillLoose writes those of qs that are in no list, until all queues fit into target.
func (f *Frontier) spillLoose(target int64, qs iter.Seq[*queue]) error {
	var freed int64
	write := func() error {
		err := f.writeRuns()
		for i := range f.runs {
			f.enlist(f.runs[i].q)
		}
		f.out, f.runs, freed = f.out[:0], f.runs[:0], 0
		return err
	}
	f.out, f.runs = f.out[:0], f.runs[:0]
	for q := range qs {
		if f.ram-freed <= target {
			break
		}
		if q.n > 0 && q.tail == nil {
			freed += f.gather(q)
		}
		if len(f.out) >= writeBytes {
			if err := write(); err != nil {
				return err
			}
		}
	}
	return write()
}

// budget returns the limit for the bytes of queues in RAM: the memory without what cannot be spilled. It is never less
// than a quarter of the memory, because otherwise every push would write.
func (f *Frontier) budget() int64 {
	return max(f.cfg.MemoryBytes-f.overhead()-f.fixed, f.cfg.MemoryBytes/4)
}

// gather adds to the write buffer what q can spare: its tail or, without a tail, its head. It returns the number of
// bytes that writing them will free. Blocks that are on disk already lose their copy in RAM at once.
func (f *Frontier) gather(q *queue) (freed int64) {
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
			f.grow(q, i, -int64(cap(b.buf)))
			freed -= int64(cap(b.buf))
			b.buf, r = nil, nil
			continue
		}
		entries := b.buf[b.r:]
		if r == nil || r.size+len(entries) > spillBlockBytes {
			f.runs = append(f.runs, run{q: q, first: i, off: len(f.out), size: frames.Head})
			r = &f.runs[len(f.runs)-1]
			f.out = append(f.out, make([]byte, frames.Head)...)
		}
		f.out = append(f.out, entries...)
		r.last = i
		r.n += b.n
		r.size += len(entries)
	}
	return freed
}

// writeRuns writes the buffer to the current segment and then replaces the blocks in RAM by references.
func (f *Frontier) writeRuns() error {
	if len(f.runs) == 0 {
		return nil
	}
	for _, r := range f.runs {
		frames.Seal(f.out[r.off : r.off+r.size])
	}
	s, err := f.writable()
	if err != nil {
		return err
	}
	if _, err := s.file.Write(f.out); err != nil {
		// It is unknown how much was written: write no more to this file.
		f.current = nil
		if s.live == 0 {
			_ = f.deleteSegment(s) // the error of the write says more
		}
		return fmt.Errorf("write queue file %s: %w", s.name, err)
	}
	for i := range f.runs {
		r := &f.runs[i]
		rest := f.need(r.q)
		for j := r.first; j <= r.last; j++ {
			b := r.q.block(j)
			f.grow(r.q, j, -int64(cap(b.buf)))
			f.freeBuf(b.buf)
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
		f.spilled += int64(r.size)
	}
	f.joinRuns()
	s.size += int64(len(f.out))
	if s.size >= f.cfg.SegmentBytes {
		f.current = nil
	}
	return nil
}

// joinRuns removes the blocks that were joined with the block before them.
func (f *Frontier) joinRuns() {
	for i := len(f.runs) - 1; i >= 0; i-- { // from the last run on, so that the indexes of earlier ones stay valid
		if r := &f.runs[i]; r.last > r.first {
			r.q.tail.blocks = slices.Delete(r.q.tail.blocks, r.first, r.last)
		}
	}
}

func (f *Frontier) writable() (*segment, error) {
	if f.current != nil {
		return f.current, nil
	}
	s := &segment{}
	if err := f.create(&s.tempFile, "spill"); err != nil {
		return nil, err
	}
	f.current = s
	f.files++
	return s, nil
}

func (f *Frontier) deleteSegment(s *segment) error {
	f.files--
	return f.deleteFile(&s.tempFile)
}

// load reads the head of q into RAM.
func (f *Frontier) load(q *queue) error {
	if q.head.buf != nil {
		return nil
	}
	buf, err := f.read(q.tail.place)
	if err != nil {
		return err
	}
	q.head.buf = buf
	f.grow(q, 0, int64(cap(buf)))
	f.enlist(q)
	return nil
}

// readAhead reads the next link of a host that is not due yet into RAM, if there is memory or the tail of another queue
// can be spilled. It ignores read errors: Next will meet them again.
func (f *Frontier) readAhead(h *host) {
	q := h.first()
	if q == nil || q.head.buf != nil || f.ram+int64(q.tail.place.size) > f.budget() && f.tails == 0 {
		return
	}
	_ = f.load(q)
}

// release records that the block at p is consumed.
func (f *Frontier) release(p place) error {
	s := p.seg
	f.spilled -= int64(p.size)
	if s.live--; s.live > 0 {
		return nil
	}
	if s == f.current {
		f.current = nil
	}
	return f.deleteSegment(s)
}

func (p place) damaged(i int) error {
	if !p.onDisk() {
		return fmt.Errorf("a queue in memory: %w", ErrSpill)
	}
	return p.seg.at(p.off+frames.Head+int64(i), ErrSpill)
}

func (f *Frontier) read(p place) ([]byte, error) { return f.readBlock(p, make([]byte, p.size)) }

func (f *Frontier) readBlock(p place, buf []byte) ([]byte, error) {
	if err := f.readAt(&p.seg.tempFile, buf, p.off); err != nil {
		return nil, err
	}
	entries, err := frames.Payload(buf)
	if err != nil {
		return nil, p.seg.at(p.off, ErrSpill)
	}
	return entries, nil
}
