package frontier

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A pool is Polybot's queue of request files: the links of one level that are in no host's queue yet, in the order of
// their numbers. It grows at its end in RAM, is written to disk in frames, and is consumed frame by frame from its
// beginning.
type pool struct {
	level  uint8
	n      int64 // number of links in it, including withdrawn ones
	at     int64 // number of links that were in it before its first one
	files  []*poolFile
	frames []*frame // frames in RAM, after those in the files; the last one is open
	broken bool     // the last file had a write error: make another

	marks     []mark           // ascending
	withdrawn map[string]int64 // the last mark of each host
}

// pools are the pools that are not empty.
type pools struct {
	queues *queues // have the files and the count of memory

	list       []*pool     // highest level first
	links      int64       // in them
	bytes      int64       // on disk
	onDisk     int         // number of files
	spares     [][]byte    // memory for frames
	window     frameWindow // the file that is being read
	arrivals   []arrival   // links of the frame that is being read
	frameBytes int         // size at which a frame is closed
}

// A mark records that the links of a host before a position in the pool are withdrawn.
type mark struct {
	name string
	end  int64
}

// withdraw marks all links of a host that are now in the pool.
func (p *pool) withdraw(name string) {
	m := mark{name, p.at + p.n}
	if p.withdrawn == nil {
		p.withdrawn = make(map[string]int64)
	}
	if p.withdrawn[name] != m.end {
		p.withdrawn[name] = m.end
		p.marks = append(p.marks, m)
	}
}

// passed records that the first n links have been read.
func (p *pool) passed(n int64) {
	p.at += n
	p.n -= n
	for len(p.marks) > 0 && p.marks[0].end <= p.at {
		if m := p.marks[0]; p.withdrawn[m.name] == m.end {
			delete(p.withdrawn, m.name)
		}
		p.marks = p.marks[1:]
	}
}

// A frame holds consecutive links of a pool.
//
//	entry: uvarint request number minus that of the entry before it in the frame
//	       uvarint length of the link
//	       bytes   the link (link.Link.AppendTo)
type frame struct {
	entries     []byte
	n           int32
	inRAM       bool   // set by read: it was in no file, and its memory is used again
	first, last uint64 // numbers
}

// needed reports whether links of this level should go to their hosts' queues: fewer than active hosts are ready, or no
// ready host has a link of this level or a higher one. A negative active means all hosts.
func (hs *hosts) needed(level uint8, active int) bool {
	n := hs.stats.Ready - hs.shares.heldBack
	if hs.shares.tooManyAwaited(active) {
		return false
	}
	if hs.time.hushing() {
		// No host may be fetched now, and the waiting ones will be ready at the same time.
		return active < 0 || n+hs.stats.Resting < active
	}
	return active < 0 || n < active || !hs.readyAt(level)
}

// readyAt reports whether a ready host has a link of this level or a higher one. If there are classes, it reports
// whether the class has a ready host.
func (hs *hosts) readyAt(level uint8) bool {
	if hs.classes.on {
		return hs.classes.ready[classOf(level)] > 0
	}
	return hs.shares.ready.len() > 0 && levelOf(hs.shares.ready.first()) >= level
}

// at returns the pool of a level, nil if it is empty, and its index in the list.
func (ps *pools) at(level uint8) (*pool, int) {
	for i, p := range ps.list {
		if p.level <= level {
			if p.level == level {
				return p, i
			}
			return nil, i
		}
	}
	return nil, len(ps.list)
}

// intoPool puts the link into the pool of its level and returns true. It returns false if the link should go to its
// host's queue now and the pool of its level is empty.
func (f *Frontier) intoPool(level uint8, number uint64, enc []byte) (taken bool) {
	p, i := f.pools.at(level)
	if p == nil {
		if f.hosts.needed(level, f.active) {
			return false
		}
		p = &pool{level: level}
		f.pools.list = slices.Insert(f.pools.list, i, p)
	}
	f.pools.push(p, number, enc)
	return true
}

// push adds a link to the end of p.
func (ps *pools) push(p *pool, number uint64, enc []byte) {
	var c *frame
	if k := len(p.frames); k > 0 && len(p.frames[k-1].entries) < ps.frameBytes {
		c = p.frames[k-1]
	} else {
		c = &frame{first: number, last: number}
		if k := len(ps.spares); k > 0 {
			c.entries, ps.spares = ps.spares[k-1], ps.spares[:k-1]
		}
		ps.queues.fixed += int64(cap(c.entries))
		p.frames = append(p.frames, c)
	}
	was := cap(c.entries)
	c.entries = binary.AppendUvarint(c.entries, number-c.last)
	c.entries = binary.AppendUvarint(c.entries, uint64(len(enc)))
	c.entries = append(c.entries, enc...)
	ps.queues.fixed += int64(cap(c.entries) - was)
	c.last = number
	c.n++
	p.n++
	ps.links++
}

// reuse keeps the memory of a frame that was written or read.
func (ps *pools) reuse(entries []byte) {
	if len(ps.spares) <= framesWritten {
		ps.spares = append(ps.spares, entries[:0])
	}
}

// at decodes the entry at offset i. number is that of the previous entry.
func (c *frame) at(i int, number uint64) (enc []byte, n uint64, end int, ok bool) {
	d, w := uvarint(c.entries[i:])
	if w <= 0 {
		return nil, 0, 0, false
	}
	i += w
	k, w := uvarint(c.entries[i:])
	if w <= 0 || k > uint64(len(c.entries)-i-w) {
		return nil, 0, 0, false
	}
	i += w
	return c.entries[i : i+int(k)], number + d, i + int(k), true
}

// uvarint is binary.Uvarint, faster for numbers of one byte.
func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
}

const (
	// frameMax is the size at which a frame is closed. Reading one and queuing its links takes less than a millisecond.
	frameMax = 64 << 10
	frameMin = 256 // with very little memory
	// framesWritten is the minimum number of frames that are written at once: 256 KiB.
	framesWritten = 4
	// framesRead limits what one Next reads while no host is ready. While one is, Next reads one frame.
	framesRead = 4
)

// refill reads the pools, the highest level first, while hosts are needed. It reads at most readAtOnce frames.
func (f *Frontier) refill() error {
	for i := range f.readAtOnce {
		p := f.poolToRead()
		if p == nil || i > 0 && f.hosts.readyAt(p.level) {
			return nil
		}
		if err := f.readOn(p); err != nil {
			return err
		}
	}
	return nil
}

// readOn moves the links of p's first frame into the queues.
func (f *Frontier) readOn(p *pool) error {
	c, err := f.pools.read(p)
	if err != nil {
		return err
	}
	for i, a := range f.pools.arrivals {
		if len(p.withdrawn) > 0 && p.at+int64(i) < p.withdrawn[a.name] {
			f.withdrawn.add(&f.hosts, a.number, a.enc)
			continue
		}
		f.hosts.insert(f.hosts.host(a.name), p.level, a.number, a.enc)
	}
	f.pools.passed(p, c)
	// Links that cannot be spilled stay in RAM. The next Push or Done tries again and returns the error.
	_ = f.queues.spill(f.hosts.overhead(), f.loose)
	return nil
}

// read takes p's first frame, and decodes its links into ps.arrivals. If p is empty then, read removes it from the
// list. After success the caller must call passed.
func (ps *pools) read(p *pool) (c *frame, err error) {
	place := "pool in memory"
	if len(p.files) > 0 {
		s := p.files[0]
		place = fmt.Sprintf("queue file %s, byte %d", s.name, s.read)
		var size int64
		if c, size, err = ps.readFrame(s, s.read, &ps.window); err != nil {
			return nil, err
		}
		s.read += size
		ps.bytes -= size
		if s.read == s.size {
			p.files = p.files[1:]
			if err := ps.deletePoolFile(s); err != nil {
				return nil, err
			}
		}
	} else {
		c = p.frames[0]
		c.inRAM = true
		p.frames[0] = nil
		p.frames = p.frames[1:]
		ps.queues.fixed -= int64(cap(c.entries))
	}
	if p.n == int64(c.n) {
		_, i := ps.at(p.level)
		ps.list = slices.Delete(ps.list, i, i+1)
	}
	if err = ps.arrive(c); err != nil {
		return nil, fmt.Errorf("%s: %w", place, err)
	}
	return c, nil
}

// passed records that the links of c, the first frame of p, are in their queues.
func (ps *pools) passed(p *pool, c *frame) {
	ps.links -= int64(len(ps.arrivals))
	clear(ps.arrivals)
	p.passed(int64(c.n))
	if c.inRAM {
		ps.reuse(c.entries)
	}
}

// An arrival is a link of a frame on its way to its host's queue.
type arrival struct {
	enc    []byte
	name   string // of its host; shares memory with enc
	number uint64
}

// arrive decodes the links of c into ps.arrivals.
func (ps *pools) arrive(c *frame) error {
	ps.arrivals = ps.arrivals[:0]
	number, at := c.first, 0
	for at < len(c.entries) {
		enc, num, end, ok := c.at(at, number)
		if !ok {
			return ErrSpill
		}
		number, at = num, end
		name, ok := link.PeekHost(enc)
		if !ok {
			return ErrSpill
		}
		ps.arrivals = append(ps.arrivals, arrival{enc, name, number})
	}
	if n := int32(len(ps.arrivals)); n != c.n {
		return fmt.Errorf("%d links, but the frame's header says %d: %w", n, c.n, ErrSpill)
	}
	return nil
}
