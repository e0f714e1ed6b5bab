package drum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"time"

	"github.com/orbweaver/orbweaver/disk"
	"github.com/orbweaver/orbweaver/weburl"
)

// An op is what is asked of an item.
type op uint8

const (
	opCheck  op = iota // known?
	opUpdate           // set
	opAdd              // known? else insert
)

const (
	heldMagic  = "OWHELD\x00\x01"
	frameMagic = 0x4d524644 // "DFRM"
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

// A frameWriter packs held items.
type frameWriter struct {
	buf   []byte
	n     uint32
	first uint32
}

func (w *frameWriter) add(o op, it *Item, withValues bool) {
	if w.n == 0 {
		w.buf = append(w.buf[:0], make([]byte, frameHead)...)
	}
	w.buf = append(w.buf, byte(o))
	w.buf = binary.LittleEndian.AppendUint64(w.buf, it.Key.Host)
	w.buf = binary.LittleEndian.AppendUint64(w.buf, it.Key.Path)
	if withValues {
		w.buf = binary.LittleEndian.AppendUint64(w.buf, it.Value)
	}
	w.buf = binary.AppendUvarint(w.buf, uint64(len(it.Aux)))
	w.buf = append(w.buf, it.Aux...)
	w.n++
}

// seal returns the frame; synced are the bytes of its file that are durable.
func (w *frameWriter) seal(synced int64) []byte {
	le := binary.LittleEndian
	le.PutUint32(w.buf, frameMagic)
	le.PutUint32(w.buf[8:], uint32(len(w.buf)))
	le.PutUint64(w.buf[12:], uint64(synced))
	le.PutUint32(w.buf[20:], w.n)
	le.PutUint32(w.buf[24:], 0)
	le.PutUint32(w.buf[4:], crc32.Checksum(w.buf[8:], castagnoli))
	return w.buf
}

// parseFrame checks a whole frame.
func parseFrame(b []byte) (n uint32, synced int64, items []byte, err error) {
	le := binary.LittleEndian
	if len(b) < frameHead || le.Uint32(b) != frameMagic || int(le.Uint32(b[8:])) != len(b) ||
		crc32.Checksum(b[8:], castagnoli) != le.Uint32(b[4:]) {
		return 0, 0, nil, errFrame
	}
	return le.Uint32(b[20:]), int64(le.Uint64(b[12:])), b[frameHead:], nil
}

// nextItem takes one item from the front of a frame's.
func nextItem(b []byte, it *Item, withValues bool) (o op, rest []byte, err error) {
	le := binary.LittleEndian
	need := 17
	if withValues {
		need += 8
	}
	if len(b) < need || op(b[0]) > opAdd {
		return 0, nil, errFrame
	}
	o = op(b[0])
	it.Key = weburl.Key{Host: le.Uint64(b[1:]), Path: le.Uint64(b[9:])}
	it.Value, it.Known = 0, false
	if withValues {
		it.Value = le.Uint64(b[17:])
	}
	b = b[need:]
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return 0, nil, errFrame
	}
	b = b[n:]
	it.Aux = b[:size:size]
	return o, b[size:], nil
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

// writeFrame writes the items that are not yet written.
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
	f := frame{s.part, s.part.size, uint32(len(w.buf)), w.first, w.n}
	if err := s.writePart(s.part, w.seal(s.part.synced)); err != nil {
		return err
	}
	g.frames = append(g.frames, f)
	w.n = 0
	return nil
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
	count, _, items, err := parseFrame(b[:n])
	if err != nil || count != f.n {
		return nil, &Damage{File: f.part.name, Offset: f.off, Bucket: -1, Err: errFrame}
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
