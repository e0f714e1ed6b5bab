package frontier

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
)

// A cursor walks one queue or pool, or what stands before the queues of a
// host, without taking anything from it.
type cursor struct {
	number uint64
	pos    int32
	front  []entry
	pool   *poolCursor
	q      *queue
	i      int   // the block of q
	r      int   // in its entries
	left   int32 // in it
	window []byte
	at     int // where window begins in the block's entries
}

// The bytes of a disk block that a cursor keeps at once.
const (
	windowMin = 1 << 10
	windowMax = spillBlockBytes
)

// merge shows the links of hs, and those of the hosts of in the pools, in the
// order of their numbers; what is in process is not among them. An entry is
// valid during the call, and knows its level if it stands before the queues;
// fn must not call the frontier. There is a cursor for each queue; those on disk hold
// only a small part of a block, so that the memory stays in bounds with very
// many hosts.
func (f *Frontier) merge(hs []*host, of map[string]levelCount, fn func(e *entry, front bool) error) error {
	cs := heap[*cursor]{
		key: func(c *cursor) uint64 { return c.number },
		pos: func(c *cursor) *int32 { return &c.pos },
	}
	for _, h := range hs {
		if h.front.len() > 0 {
			front := h.front.items[h.front.head:]
			cs.push(&cursor{number: front[0].number, front: front})
		}
		for q := h.first(); q != nil; q = q.next() {
			b := &q.head
			cs.push(&cursor{number: b.first, q: q, r: int(b.r), left: b.n})
		}
	}
	for _, p := range f.pools {
		w := f.walkPool(p, of)
		ok, err := w.next()
		if err != nil {
			return err
		}
		if ok {
			cs.push(&cursor{number: w.number, pool: w})
		}
	}
	window := int(min(max(f.cfg.MemoryBytes/4/int64(cs.len()+1), windowMin), windowMax))
	for cs.len() > 0 {
		c := cs.top()
		more, err := f.step(c, window, fn)
		switch {
		case err != nil:
			return err
		case more:
			cs.fix(c)
		default:
			cs.remove(c)
		}
	}
	return nil
}

// step shows c's link and moves c to the next one.
func (f *Frontier) step(c *cursor, window int, fn func(e *entry, front bool) error) (more bool, err error) {
	if c.front != nil {
		if err := fn(&c.front[0], true); err != nil {
			return false, err
		}
		if c.front = c.front[1:]; len(c.front) == 0 {
			return false, nil
		}
		c.number = c.front[0].number
		return true, nil
	}
	if w := c.pool; w != nil {
		if err := fn(&entry{number: c.number, enc: w.enc}, false); err != nil {
			return false, err
		}
		more, err := w.next()
		c.number = w.number
		return more, err
	}
	_, enc, size, err := f.entryAt(c, window)
	if err != nil {
		return false, err
	}
	if err := fn(&entry{number: c.number, enc: enc}, false); err != nil {
		return false, err
	}
	c.r += size
	if c.left--; c.left > 0 {
		c.number, _, _, err = f.entryAt(c, window)
		return true, err
	}
	if c.i++; c.i == c.q.blocks() {
		return false, nil
	}
	b := c.q.block(c.i)
	c.r, c.left, c.number, c.window = int(b.r), b.n, b.first, nil
	return true, nil
}

// entryAt reads the entry at c without its block's bytes staying in RAM.
func (f *Frontier) entryAt(c *cursor, window int) (number uint64, enc []byte, size int, err error) {
	src, base, place := c.q.block(c.i).buf, 0, c.q.place(c.i)
	inRAM := src != nil
	if !inRAM {
		if c.window == nil {
			if err := f.verify(place); err != nil {
				return 0, nil, 0, err
			}
			if err := f.fill(c, window); err != nil {
				return 0, nil, 0, err
			}
		}
		src, base = c.window, c.at
	}
	for {
		i := c.r - base
		d, w := binary.Uvarint(src[i:])
		n, v := 0, 0
		if w > 0 {
			var k uint64
			if k, v = binary.Uvarint(src[i+w:]); k > 1<<30 {
				return 0, nil, 0, place.damaged(c.r)
			}
			n = int(k)
		}
		if w > 0 && v > 0 && n <= len(src)-i-w-v {
			i += w + v
			return d, src[i : i+n], w + v + n, nil
		}
		if inRAM || c.at == c.r && len(c.window) == int(place.size)-blockHeader-c.r {
			return 0, nil, 0, place.damaged(c.r)
		}
		want := window
		if c.at == c.r { // a link longer than the window
			want = int(place.size)
		}
		if err := f.fill(c, want); err != nil {
			return 0, nil, 0, err
		}
		src, base = c.window, c.at
	}
}

// fill reads up to n bytes from where c stands.
func (f *Frontier) fill(c *cursor, n int) error {
	place := c.q.place(c.i)
	n = min(n, int(place.size)-blockHeader-c.r)
	if n <= 0 {
		return place.damaged(c.r)
	}
	buf := make([]byte, n)
	if err := f.readAt(place.seg, buf, place.off+blockHeader+int64(c.r)); err != nil {
		return err
	}
	c.window, c.at = buf, c.r
	return nil
}

// verify reads the whole block for its checksum.
func (f *Frontier) verify(p place) error {
	size := int(p.size)
	if cap(f.scratch) < size {
		f.scratch = make([]byte, size)
	}
	_, err := f.readBlock(p, f.scratch[:size])
	return err
}

func (f *Frontier) read(p place) ([]byte, error) { return f.readBlock(p, make([]byte, p.size)) }

func (f *Frontier) readBlock(p place, buf []byte) ([]byte, error) {
	if err := f.readAt(p.seg, buf, p.off); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint32(buf) != crc32.Checksum(buf[4:], castagnoli) ||
		int64(binary.LittleEndian.Uint32(buf[4:])) != int64(len(buf)-blockHeader) {
		return nil, fmt.Errorf("spill %s at %d: %w", p.seg.name, p.off, ErrSpill)
	}
	return buf[blockHeader:], nil
}

func (f *Frontier) readAt(s *segment, buf []byte, off int64) error {
	if s.file == nil {
		if err := f.openSegment(s, os.O_RDONLY); err != nil {
			return err
		}
	}
	if _, err := s.file.ReadAt(buf, off); err != nil {
		return fmt.Errorf("spill %s at %d: %w", s.name, off, err)
	}
	return nil
}
