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
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// An op is what is asked of an item.
type op uint8

const (
	opCheck  op = iota // known?
	opUpdate           // set
	opAdd              // known? else insert
)

const (
	heldMagic  = "OWHELD\x00\x03"
	heldMagic2 = "OWHELD\x00\x02" // no frame is packed
	heldMagic1 = "OWHELD\x00\x01" // and each item has the whole of its aux
	frameMagic = 0x4d524644       // "DFRM"
	frameHead  = 28
	frameBytes = 64 << 10 // a frame is written when it has so many
	maxFrame   = 1 << 30
)

// errFrame is a frame that does not say what was written.
var errFrame = errors.New("damaged frame")

// A part is a file of held items in the order of their arrival.
type part struct {
	num    uint64
	name   string
	file   disk.File
	size   int64
	synced int64 // bytes that are known to be durable
	clean  int64 // bytes that need no sync: those, and a frame that says so
	named  bool  // so is its name in the directory
	away   int   // frames on their way to it, which come behind size
	last   *sheet
	tail   int64 // where the next write goes; the scribe's while frames are away
	end    int64 // of its last items, or of those before the first damage
	items  int64 // up to there
}

// A HeldFile is a file of held items, as far as it has any.
type HeldFile struct {
	Num   uint64
	End   int64 // of its last items
	Items int64
}

func heldName(n uint64) string { return fmt.Sprintf("held-%08d", n) }

// A frame is where some items of a generation lie.
type frame struct {
	part  *part
	off   int64
	size  uint32
	first uint32 // sequence number of its first item
	n     uint32
}

// A generation is the items that are held for one pass: in files with all
// that belongs to them, in RAM or, over the budget, in spill files with only
// what the pass compares.
type generation struct {
	parts  []*part
	frames []frame
	n      uint32
	since  time.Time // the first item's arrival

	slab   log // the last keys; those before are spilled
	base   uint32
	spills []*spill

	// What the pass found.
	unknown []uint64 // a bit for each item
	values  []uint64 // of each item; nil in a Store without values

	at   int // frames that were emitted
	part int // of frame at: items that were emitted
}

// A frameWriter packs held items. What comes from one page has most of its aux
// in common: an item may leave out what its aux begins and ends with like that
// of the last item before it that left nothing out, its base.
type frameWriter struct {
	buf   []byte
	n     uint32
	first uint32
	base  []byte
}

// opShared marks an item that has only a part of its aux.
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

// common is how many bytes a and b begin with, and end with besides, that are
// the same.
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

// sealFrame fills the head of a frame in. raw is how long its items are
// unpacked, 0 if they are not packed; synced are the bytes of its file that are
// durable.
func sealFrame(b []byte, n uint32, raw int, synced int64) {
	le := binary.LittleEndian
	le.PutUint32(b, frameMagic)
	le.PutUint32(b[8:], uint32(len(b)))
	le.PutUint64(b[12:], uint64(synced))
	le.PutUint32(b[20:], n)
	le.PutUint32(b[24:], uint32(raw))
	le.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
}

// parseFrame checks a whole frame. Its items are in buf where they are packed.
func parseFrame(b []byte, buf *[]byte) (n uint32, synced int64, items []byte, err error) {
	le := binary.LittleEndian
	if len(b) < frameHead || le.Uint32(b) != frameMagic || int(le.Uint32(b[8:])) != len(b) ||
		crc32.Checksum(b[8:], castagnoli) != le.Uint32(b[4:]) {
		return 0, 0, nil, errFrame
	}
	items, err = unpackFrame(b, buf)
	return le.Uint32(b[20:]), int64(le.Uint64(b[12:])), items, err
}

// An itemReader takes items from the front of a frame's. An Aux is valid until
// the next frame is read into the same memory.
type itemReader struct {
	b          []byte
	withValues bool
	base       []byte
	space      []byte // for what is put together
}

// reset begins with the items of another frame.
func (r *itemReader) reset(items []byte) { r.b, r.base, r.space = items, nil, r.space[:0] }

// next takes an item; without whole its Aux is of no use.
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
	it.Key = weburl.Key{Host: le.Uint64(b[1:]), Path: le.Uint64(b[9:])}
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

// newPart creates the file of a generation.
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

// hold keeps an item for the next pass.
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

// holdKey notes the key of item g.n.
func (s *Store) holdKey(k key) error {
	g := s.gen
	if g.n == 1<<32-1 {
		return errors.New("drum: too many held items")
	}
	g.slab.append(k)
	g.n++
	if g.slab.n >= s.tune.slabKeys {
		return s.spill()
	}
	return nil
}

// writeFrame has the items written that are in no frame yet.
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
	if err := s.take(s.scribe.most - 1); err != nil {
		return err
	}
	p := s.part
	p.away++
	p.last = &sheet{buf: w.buf, gen: g, part: p, at: frame{part: p, first: w.first, n: w.n}, synced: p.synced}
	s.give(p.last)
	w.buf, w.n = nil, 0
	if free := s.scribe.free; len(free) > 0 {
		w.buf, s.scribe.free = free[len(free)-1], free[:len(free)-1]
	}
	return nil
}

// commit writes all that is held, and waits for it.
func (s *Store) commit() error {
	if err := s.writeFrame(); err != nil {
		return err
	}
	return s.take(0)
}

// held are the generations that have not been emitted.
func (s *Store) held() []*generation {
	if g := s.passGeneration(); g != nil {
		return []*generation{g, s.gen}
	}
	return []*generation{s.gen}
}

// Holds says that some items have no answer yet.
func (s *Store) Holds() bool {
	return s.gen.n > 0 || s.pass != nil && s.pass.gen != nil && s.pass.gen.n > 0
}

// Held appends the files that have items without an answer, as far as they were
// committed. A file that it no longer names may be removed after the next
// EndSync.
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

// Missing says, after Open, how many of the items that Held told of are gone.
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

// lose notes that items of a frame have no answer, from item i on. Their keys
// are not to look known.
func (s *Store) lose(f *frame, i uint32, err error) {
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

// Lost returns, once, where held items were found to be damaged: those have no
// answer, and the others have theirs.
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

// A spill is a file of held keys and their numbers, bucket by bucket. It is
// gone after a crash: the parts have the same keys.
type spill struct {
	name string
	from []uint32 // as in a grouping
	sums []uint32 // of each bucket's bytes
	done chan struct{}
	err  error
}

const spillEntry = 20

// spill writes the slab away beside the intake. At most one is on its way.
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
		makeWay()
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

// read appends the keys of bucket b to q.
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
		return nil, fmt.Errorf("drum: %s: damaged", sp.name) // a restart reads the parts again
	}
	for e := buf; len(e) > 0; e = e[spillEntry:] {
		le := binary.LittleEndian
		q = append(q, query{key{le.Uint64(e), le.Uint64(e[8:])}, le.Uint32(e[16:]), 0})
	}
	return q, nil
}
