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

// A Part is a file of records to which a snapshot refers. A Part never changes. Later snapshots can keep it, so that
// large state is not written again for each snapshot.
type Part struct {
	Label   []byte // describes the content; defined by the caller
	Records int64
	Bytes   int64 // of the file

	number uint64
	index  uint32
	sum    count
}

const (
	partHead = 40      // bytes of the reference to a part before its label
	maxLabel = 1 << 16 // bytes
	maxIndex = 1<<23 - 1
)

func partName(dir string, n uint64, index uint32) string {
	return filepath.Join(dir, fmt.Sprintf("part-%08d-%04d.log", n, index))
}

// partID returns the number in the header of a part.
func partID(number uint64, index uint32) uint64 { return number + uint64(index)<<40 }

func (p *Part) name(dir string) string { return partName(dir, p.number, p.index) }

// partNumber parses the name of a part. It accepts exactly the names that partName makes.
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

// parseParts parses the body of a frame of parts.
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

// Keep makes the new snapshot refer to p, an existing part. p comes after the parts kept or closed before.
func (c *Checkpoint) Keep(p Part) { c.parts = append(c.parts, p) }

// A PartWriter writes a new part. After Close or Abandon it must not be used.
type PartWriter struct {
	fileWriter
	c     *Checkpoint
	index uint32
}

// NewPart creates a part of c. The caller must Close or Abandon it before the next call of NewPart.
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

// Close makes the part durable and makes the new snapshot refer to it. label has at most 64 KiB, else the error is
// ErrTooLarge.
func (w *PartWriter) Close(label []byte) error {
	if len(label) > maxLabel {
		return fmt.Errorf("label of a part: %w (%d bytes, limit %d)", ErrTooLarge, len(label), maxLabel)
	}
	if err := w.finish(nil); err != nil {
		return fmt.Errorf("part %d of snapshot %d: %w", w.index, w.c.number, err)
	}
	w.c.Keep(Part{
		Label: label, Records: int64(w.sum.records), Bytes: w.off, number: w.c.number, index: w.index, sum: w.sum,
	})
	return nil
}

// Abandon deletes a part that is not closed. After Close it does nothing.
func (w *PartWriter) Abandon() {
	if w.f != nil {
		w.close()
		_ = w.c.fs.Remove(partName(w.c.dir, w.c.number, w.index)) // best effort; Open removes it too
	}
}

// scan calls fn for each record of the part. A missing file is a *DamageError.
func (p *Part) scan(fs disk.FS, dir string, st *Stats, fn func(byte, []byte) error) error {
	name := p.name(dir)
	_, err := scan(fs, name, scanOptions{typ: typePart, number: partID(p.number, p.index), part: p}, st, fn)
	if errors.Is(err, iofs.ErrNotExist) {
		return &DamageError{File: name, Reason: "part is missing"}
	}
	return err
}

// parts returns the parts of the newest snapshot. It reads only the header, the end and the frame of parts.
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
	// Read the header first: another version may have another end.
	size := fi.Size()
	head := make([]byte, min(size, fileHeader))
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	s := scanner{scanOptions: scanOptions{typ: typeSnapshot, number: n}, name: name, f: f, size: size}
	if err := s.knownHeader(head); err != nil {
		return nil, err
	}
	s.off = size - frameHead - endBody
	typ, body, err := s.frameAt(s.off)
	if err != nil {
		return nil, err
	}
	if typ != frameEnd || len(body) != endBody {
		return nil, s.damage("the snapshot does not stop with an end frame")
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
	return nil, s.damage("the frame of parts is malformed or missing")
}

// strayParts returns the names of the parts to which the newest snapshot does not refer.
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
