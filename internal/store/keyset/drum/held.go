package drum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"os"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// An op is the operation of an item.
type op uint8

const (
	opCheck  op = iota // look up
	opUpdate           // set the value
	opAdd              // look up; insert if unknown
)

const (
	heldMagic  = "OWHELD\x00\x01"
	frameMagic = 0x4d524644 // "DFRM"
	frameHead  = 28
	frameBytes = 64 << 10 // size at which a frame is written
	maxFrame   = 1 << 30
)

// errFrame means that a frame does not hold what was written.
var errFrame = errors.New("damaged frame")

// A part is a file of held items, in order of arrival.
type part struct {
	num     uint64
	name    string
	file    disk.File
	size    int64
	synced  int64 // bytes that are known to be durable
	clean   int64 // bytes that need no sync: the durable ones and the empty frame that says so
	named   bool  // the name in the directory is durable
	pending int   // frames that are not yet written and will follow size
	last    *pendingFrame
	tail    int64 // offset of the next write; the held writer owns it while frames are pending
	end     int64 // end of the last items, or of those before the first damage
	items   int64 // number of items up to end
}

// A HeldFile names a file of held items and the extent of its items.
type HeldFile struct {
	Num   uint64
	End   int64 // offset at which its last item ends
	Items int64
}

func heldName(n uint64) string { return fmt.Sprintf("held-%08d", n) }

// A frame tells where some items of a generation are.
type frame struct {
	part  *part
	off   int64
	size  uint32
	first uint32 // sequence number of the first item
	n     uint32
}

// A generation is the set of items that are held for one pass. The part files have the whole items. RAM or, above the
// budget, spill files have only the keys that the pass compares.
type generation struct {
	parts  []*part
	frames []frame
	n      uint32
	since  time.Time // arrival of the first item

	slab   log // the latest keys; earlier ones are in spill files
	base   uint32
	spills []*spill

	// Results of the pass.
	unknown []uint64 // a bit for each item
	values  []uint64 // of each item; nil in a Store without values

	at int // number of frames that were emitted
}

// A frameWriter encodes held items. Links of one page have most of their aux in common. An item may therefore leave out
// the bytes that its aux shares, at its front and end, with the aux of its base: the last item that left nothing out.
type frameWriter struct {
	buf   []byte
	n     uint32
	first uint32
	base  []byte
}

// opShared marks an item that leaves out a part of its aux.
const opShared = 0x80

func (w *frameWriter) add(o op, it *Item, withValues bool) {
	if w.n == 0 {
		w.buf = append(w.buf[:0], make([]byte, frameHead)...)
		w.base = w.base[:0]
	}
	prefix, suffix := common(w.base, it.Aux)
	shared := 2*(prefix+suffix) > len(it.Aux)
	kind := byte(o)
	if shared {
		kind |= opShared
	}
	w.buf = append(w.buf, kind)
	w.buf = binary.LittleEndian.AppendUint64(w.buf, it.Key.Host)
	w.buf = binary.LittleEndian.AppendUint64(w.buf, it.Key.Path)
	if withValues {
		w.buf = binary.LittleEndian.AppendUint64(w.buf, it.Value)
	}
	if shared {
		w.buf = binary.AppendUvarint(w.buf, uint64(prefix))
		w.buf = binary.AppendUvarint(w.buf, uint64(suffix))
	} else {
		prefix, suffix = 0, 0
		w.base = append(w.base[:0], it.Aux...)
	}
	own := it.Aux[prefix : len(it.Aux)-suffix]
	w.buf = binary.AppendUvarint(w.buf, uint64(len(own)))
	w.buf = append(w.buf, own...)
	w.n++
}

// common returns how many bytes a and b share at their fronts and, beyond that, at their ends.
func common(a, b []byte) (prefix, suffix int) {
	le := binary.LittleEndian
	most := min(len(a), len(b))
	for prefix+8 <= most {
		if x := le.Uint64(a[prefix:]) ^ le.Uint64(b[prefix:]); x != 0 {
			prefix += bits.TrailingZeros64(x) / 8
			most = min(most, prefix)
			break
		}
		prefix += 8
	}
	for prefix < most && a[prefix] == b[prefix] {
		prefix++
	}
	a, b = a[prefix:], b[prefix:]
	most = min(len(a), len(b))
	for suffix+8 <= most {
		if x := le.Uint64(a[len(a)-suffix-8:]) ^ le.Uint64(b[len(b)-suffix-8:]); x != 0 {
			return prefix, suffix + bits.LeadingZeros64(x)/8
		}
		suffix += 8
	}
	for suffix < most && a[len(a)-suffix-1] == b[len(b)-suffix-1] {
		suffix++
	}
	return prefix, suffix
}

// sealFrame fills in the header of frame b. raw is the length of its items before packing, 0 if they are not packed.
// synced is the number of durable bytes of its file.
func sealFrame(b []byte, n uint32, raw int, synced int64) {
	le := binary.LittleEndian
	le.PutUint32(b, frameMagic)
	le.PutUint32(b[8:], uint32(len(b)))
	le.PutUint64(b[12:], uint64(synced))
	le.PutUint32(b[20:], n)
	le.PutUint32(b[24:], uint32(raw))
	le.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
}

// parseFrame checks a whole frame and returns its items. Packed items are unpacked into buf.
func parseFrame(b []byte, buf *[]byte) (n uint32, synced int64, items []byte, err error) {
	le := binary.LittleEndian
	if len(b) < frameHead || le.Uint32(b) != frameMagic || int(le.Uint32(b[8:])) != len(b) ||
		crc32.Checksum(b[8:], castagnoli) != le.Uint32(b[4:]) {
		return 0, 0, nil, errFrame
	}
	items, err = unpackFrame(b, buf)
	return le.Uint32(b[20:]), int64(le.Uint64(b[12:])), items, err
}

// An itemReader decodes the items of a frame. An Aux is valid until the next frame is read into the same memory.
type itemReader struct {
	b          []byte
	withValues bool
	base       []byte
	space      []byte // memory for reassembled aux
}

// reset starts with the items of another frame.
func (r *itemReader) reset(items []byte) { r.b, r.base, r.space = items, nil, r.space[:0] }

// next decodes an item. If whole is false, it leaves Aux undefined.
func (r *itemReader) next(it *Item, whole bool) (o op, err error) {
	le := binary.LittleEndian
	need := 17
	if r.withValues {
		need += 8
	}
	b := r.b
	if len(b) < need || op(b[0]&^opShared) > opAdd {
		return 0, errFrame
	}
	shared := b[0]&opShared != 0
	o = op(b[0] &^ opShared)
	it.Key = link.Key{Host: le.Uint64(b[1:]), Path: le.Uint64(b[9:])}
	it.Value, it.Known = 0, false
	if r.withValues {
		it.Value = le.Uint64(b[17:])
	}
	b = b[need:]
	var sizes [3]uint64 // shared at the front, at the end, its own
	for i := range sizes {
		if i < 2 && !shared {
			continue
		}
		size, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, errFrame
		}
		sizes[i], b = size, b[n:]
	}
	prefix, suffix, own := sizes[0], sizes[1], sizes[2]
	if most := uint64(len(r.base)); prefix > most || suffix > most-prefix || own > uint64(len(b)) {
		return 0, errFrame
	}
	it.Aux, r.b = b[:own:own], b[own:]
	switch {
	case !shared:
		r.base = it.Aux
	case whole:
		at := len(r.space)
		r.space = append(append(append(r.space, r.base[:prefix]...), it.Aux...), r.base[uint64(len(r.base))-suffix:]...)
		it.Aux = r.space[at:len(r.space):len(r.space)]
	}
	return o, nil
}

// newPart creates a part file.
func (s *Store) newPart() (*part, error) {
	num := s.nextNum()
	p := &part{num: num, name: s.vol.path(heldName(num))}
	f, err := s.vol.fs.OpenFile(p.name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create held items: %w", err)
	}
	p.file = f
	if err := s.writePart(p, []byte(heldMagic)); err != nil {
		f.Close()
		return nil, err
	}
	s.parts = append(s.parts, p)
	return p, nil
}

func (s *Store) writePart(p *part, b []byte) error {
	n, err := p.file.Write(b)
	p.size += int64(n)
	p.tail = p.size
	s.vol.written.Add(int64(n))
	if err != nil {
		return fmt.Errorf("write held items: %w", err)
	}
	return nil
}

// hold stores an item for the next pass.
func (s *Store) hold(o op, it *Item, k key) error {
	g := s.gen
	if g.n == 0 {
		g.since = time.Now()
	}
	if s.frame.n == 0 {
		s.frame.first = g.n
	}
	s.frame.add(o, it, s.vol.withValues)
	if err := s.holdKey(k); err != nil {
		return err
	}
	if len(s.frame.buf) >= frameBytes {
		return s.writeFrame()
	}
	return nil
}

// holdKey records the key of item g.n.
func (s *Store) holdKey(k key) error {
	g := s.gen
	if g.n == 1<<32-1 {
		return errors.New("drum: more than 2^32-2 held items")
	}
	g.slab.append(k)
	g.n++
	if g.slab.n >= s.tune.slabKeys {
		return s.spill()
	}
	return nil
}

// writeFrame passes the collected items to the held writer as a frame.
func (s *Store) writeFrame() error {
	w := &s.frame
	if w.n == 0 {
		return nil
	}
	g := s.gen
	if s.part == nil {
		p, err := s.newPart()
		if err != nil {
			return err
		}
		s.part = p
		g.parts = append(g.parts, p)
	}
	if err := s.collectFrames(s.heldWriter.most - 1); err != nil {
		return err
	}
	p := s.part
	p.pending++
	p.last = &pendingFrame{buf: w.buf, gen: g, part: p, at: frame{part: p, first: w.first, n: w.n}, synced: p.synced}
	s.enqueueFrame(p.last)
	w.buf, w.n = nil, 0
	if free := s.heldWriter.free; len(free) > 0 {
		w.buf, s.heldWriter.free = free[len(free)-1], free[:len(free)-1]
	}
	return nil
}

// commit writes all held items and waits for the writes.
func (s *Store) commit() error {
	if err := s.writeFrame(); err != nil {
		return err
	}
	return s.collectFrames(0)
}

// held returns the generations whose items are not yet emitted.
func (s *Store) held() []*generation {
	if g := s.passGeneration(); g != nil {
		return []*generation{g, s.gen}
	}
	return []*generation{s.gen}
}

// Holds reports whether some items are still without an answer.
func (s *Store) Holds() bool {
	return s.gen.n > 0 || s.pass != nil && s.pass.gen != nil && s.pass.gen.n > 0
}

// Held appends the files of committed items that have no answer yet. A file that it no longer names may be removed
// after the next EndSync.
func (s *Store) Held(dst []HeldFile) []HeldFile {
	for _, g := range s.held() {
		for _, p := range g.parts {
			if p.end > 0 {
				dst = append(dst, HeldFile{p.num, p.end, p.items})
			}
		}
	}
	return dst
}

// Missing returns, after Open, how many of the items of h are gone. h is what Held returned before.
func (s *Store) Missing(h HeldFile) int64 {
	n := h.Items
	for _, g := range s.held() {
		for _, p := range g.parts {
			if p.num != h.Num {
				continue
			}
			if p.end >= h.End {
				return 0
			}
			for i := range g.frames {
				if f := &g.frames[i]; f.part == p && f.off < h.End {
					n -= int64(f.n)
				}
			}
		}
	}
	return max(n, 0)
}

// noteLost records that the items of a frame are lost, from item i on. It clears the cache, so that their keys do not
// look known.
func (s *Store) noteLost(f *frame, i uint32, err error) {
	d := Damage{File: f.part.name, Offset: f.off, Bucket: -1, Err: err}
	for ; i < f.n; i++ {
		if s.cfg.Known || s.pass.gen.isUnknown(f.first+i) {
			d.Items++
		}
	}
	s.lost = append(s.lost, d)
	if s.cache != nil {
		clear(s.cache.sets)
	}
}

// Lost returns where held items were found to be damaged since the last call. These items get no answer; all others do.
func (s *Store) Lost() []Damage {
	lost := s.lost
	s.lost = nil
	return lost
}

// readFrame reads a frame into s.framed.
func (s *Store) readFrame(f *frame) ([]byte, error) {
	if cap(s.framed) < int(f.size) {
		s.framed = make([]byte, f.size)
	}
	b := s.framed[:f.size]
	n, err := f.part.file.ReadAt(b, f.off)
	s.vol.read.Add(int64(n))
	if n < len(b) && err != io.EOF {
		return nil, fmt.Errorf("read held items: %w", err)
	}
	count, _, items, err := parseFrame(b[:n], &s.unpacked)
	if err != nil || count != f.n {
		return nil, errFrame
	}
	return items, nil
}

// A spill is a file of held keys and their sequence numbers, sorted by bucket. It does not outlive a crash: the part
// files have the same keys.
type spill struct {
	name string
	from []uint32 // as in grouping
	sums []uint32 // checksum of each bucket's bytes
	done chan struct{}
	err  error
}

const spillEntry = 20

// spill starts to write the slab to a spill file. At most one write runs at a time.
func (s *Store) spill() error {
	g := s.gen
	for _, sp := range g.spills {
		<-sp.done
		if sp.err != nil {
			return sp.err
		}
	}
	sp := &spill{name: s.vol.path(fmt.Sprintf("spill-%08d", s.nextNum())), done: make(chan struct{})}
	g.spills = append(g.spills, sp)
	slab, base := g.slab, g.base
	g.base = g.n
	g.slab = log{pool: s.pool}
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		defer close(sp.done)
		sp.err = s.writeSpill(sp, &slab, base)
		slab.release()
	}()
	return nil
}

func (s *Store) writeSpill(sp *spill, slab *log, base uint32) error {
	gr := slab.group(len(s.buckets), s.shift)
	f, err := s.vol.fs.OpenFile(sp.name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("create spill: %w", err)
	}
	defer f.Close()
	sp.from = gr.from
	var buf []byte
	for b := range s.buckets {
		yieldCPU()
		buf = buf[:0]
		for _, i := range gr.of(b) {
			k := slab.at(int(i))
			buf = binary.LittleEndian.AppendUint64(buf, k.h)
			buf = binary.LittleEndian.AppendUint64(buf, k.p)
			buf = binary.LittleEndian.AppendUint32(buf, base+i)
		}
		sp.sums = append(sp.sums, crc32.Checksum(buf, castagnoli))
		n, err := f.Write(buf)
		s.vol.written.Add(int64(n))
		if err != nil {
			return fmt.Errorf("write spill: %w", err)
		}
	}
	return nil
}

// read appends the held keys of bucket b to q.
func (sp *spill) read(v *volume, b int, q []query) ([]query, error) {
	n := int(sp.from[b+1] - sp.from[b])
	if n == 0 {
		return q, nil
	}
	f, err := v.fs.OpenFile(sp.name, os.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("open spill: %w", err)
	}
	defer f.Close()
	buf := make([]byte, n*spillEntry)
	if err := v.readAt(f, buf, int64(sp.from[b])*spillEntry); err != nil {
		return nil, fmt.Errorf("read %s: %w", sp.name, err)
	}
	if crc32.Checksum(buf, castagnoli) != sp.sums[b] {
		return nil, fmt.Errorf("drum: %s is damaged; restart to read the held keys again", sp.name)
	}
	for e := buf; len(e) > 0; e = e[spillEntry:] {
		le := binary.LittleEndian
		q = append(q, query{key{le.Uint64(e), le.Uint64(e[8:])}, le.Uint32(e[16:]), 0})
	}
	return q, nil
}
