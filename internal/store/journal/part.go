package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A Part is a file of records that a snapshot stands on. It does not change,
// so that what is large need not be written anew for each snapshot.
type Part struct {
	Label   []byte // the caller's: what is in it
	Records int64
	Bytes   int64 // of the file

	number uint64
	index  uint32
	sum    count
}

const (
	partHead = 40      // bytes of a part's reference before its label
	maxLabel = 1 << 16 // bytes
	maxIndex = 1<<23 - 1
)

func partName(dir string, n uint64, index uint32) string {
	return filepath.Join(dir, fmt.Sprintf("part-%08d-%04d.log", n, index))
}

// id is the number in a part's headers.
func partID(number uint64, index uint32) uint64 { return number + uint64(index)<<40 }

func (p *Part) name(dir string) string { return partName(dir, p.number, p.index) }

// partNumber reads a file name, only as partName writes it.
func partNumber(base string) (n uint64, index uint32, ok bool) {
	first, last, ok := strings.Cut(strings.TrimPrefix(base, "part-"), "-")
	n, err := strconv.ParseUint(first, 10, 40)
	if !ok || err != nil {
		return 0, 0, false
	}
	i, err := strconv.ParseUint(strings.TrimSuffix(last, ".log"), 10, 23)
	return n, uint32(i), err == nil && partName("", n, uint32(i)) == base
}

func (p *Part) appendTo(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, partID(p.number, p.index))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(p.Bytes))
	dst = p.sum.appendTo(dst)
	dst = binary.AppendUvarint(dst, uint64(len(p.Label)))
	return append(dst, p.Label...)
}

// parseParts reads the body of a frame of parts.
func parseParts(b []byte) (ps []Part, ok bool) {
	for len(b) > 0 {
		if len(b) < partHead {
			return nil, false
		}
		le := binary.LittleEndian.Uint64
		id := le(b)
		p := Part{
			number: id & (1<<40 - 1), index: uint32(id >> 40), Bytes: int64(le(b[8:])),
			sum: count{le(b[16:]), le(b[24:]), le(b[32:])},
		}
		p.Records = int64(p.sum.records)
		n, w := binary.Uvarint(b[partHead:])
		if w <= 0 || n > maxLabel || n > uint64(len(b)-partHead-w) || p.index > maxIndex {
			return nil, false
		}
		b = b[partHead+w:]
		p.Label, b = slices.Clone(b[:n]), b[n:]
		ps = append(ps, p)
	}
	return ps, true
}

// Parts are those of the snapshot that the Checkpoint replaces, in their order.
func (c *Checkpoint) Parts() ([]Part, error) {
	l, err := c.replaced()
	if err != nil {
		return nil, err
	}
	return l.parts(c.fs, c.dir)
}

// Keep takes a part over as it is.
func (c *Checkpoint) Keep(p Part) { c.parts = append(c.parts, p) }

// ReplayPart gives fn the records of one part.
func (c *Checkpoint) ReplayPart(p Part, fn func(kind byte, payload []byte) error) error {
	var st Stats
	return p.scan(c.fs, c.dir, &st, fn)
}

// A PartWriter writes a new part.
type PartWriter struct {
	fileWriter
	c     *Checkpoint
	index uint32
}

// NewPart begins one. One at a time may be written.
func (c *Checkpoint) NewPart() (*PartWriter, error) {
	if c.made > maxIndex {
		return nil, fmt.Errorf("snapshot %d: over %d parts", c.number, maxIndex)
	}
	w := &PartWriter{c: c, index: uint32(c.made)}
	c.made++
	if err := w.create(c.fs, partName(c.dir, c.number, w.index), typePart, partID(c.number, w.index)); err != nil {
		w.close()
		return nil, fmt.Errorf("part %d of snapshot %d: %w", w.index, c.number, err)
	}
	return w, nil
}

// Close makes the part durable, and the next of those that the snapshot
// stands on.
func (w *PartWriter) Close(label []byte) error {
	if len(label) > maxLabel {
		return fmt.Errorf("label of a part: %w (%d bytes, limit %d)", ErrTooLarge, len(label), maxLabel)
	}
	if err := w.finish(nil); err != nil {
		return fmt.Errorf("part %d of snapshot %d: %w", w.index, w.c.number, err)
	}
	w.c.Keep(Part{Label: label, Records: int64(w.sum.records), Bytes: w.off, number: w.c.number, index: w.index, sum: w.sum})
	return nil
}

// Abandon gives up a part that is not closed; after Close it does nothing.
func (w *PartWriter) Abandon() {
	if w.f != nil {
		w.close()
		_ = w.c.fs.Remove(partName(w.c.dir, w.c.number, w.index)) // best effort; Open removes it too
	}
}

// scan gives fn the part's records.
func (p *Part) scan(fs disk.FS, dir string, st *Stats, fn func(byte, []byte) error) error {
	name := p.name(dir)
	_, err := scan(fs, name, scanning{typ: typePart, number: partID(p.number, p.index), part: p}, st, fn)
	if errors.Is(err, iofs.ErrNotExist) {
		return &DamageError{File: name, Reason: "part is missing"}
	}
	return err
}

// parts are those of the newest snapshot, whose other frames are not read.
func (l listing) parts(fs disk.FS, dir string) ([]Part, error) {
	n := l.newest()
	if n == 0 {
		return nil, nil
	}
	name := snapshotName(dir, n)
	f, err := fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// The header first: another version may have another end.
	size := fi.Size()
	head := make([]byte, min(size, fileHeader))
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	s := scanner{scanning: scanning{typ: typeSnapshot, number: n}, name: name, f: f, size: size}
	if err := s.knownHeader(head); err != nil {
		return nil, err
	}
	s.off = size - frameHead - endBody
	typ, body, err := s.frameAt(s.off)
	if err != nil {
		return nil, err
	}
	if typ != frameEnd || len(body) != endBody {
		return nil, s.damage("no end of a snapshot")
	}
	at := int64(binary.LittleEndian.Uint64(body[24:]))
	if at == 0 {
		return nil, nil
	}
	s.off = at
	if typ, body, err = s.frameAt(at); err != nil {
		return nil, err
	}
	if ps, ok := parseParts(body); ok && typ == frameParts {
		return ps, nil
	}
	return nil, s.damage("no frame of parts")
}

// strayParts are the names of those that the newest snapshot does not stand on.
func (l listing) strayParts(fs disk.FS, dir string) ([]string, error) {
	if len(l.partNames) == 0 {
		return nil, nil
	}
	ps, err := l.parts(fs, dir)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for i := range ps {
		used[ps[i].name(dir)] = true
	}
	return slices.DeleteFunc(slices.Clone(l.partNames), func(name string) bool { return used[name] }), nil
}
