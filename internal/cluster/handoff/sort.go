package handoff

import (
	"bufio"
	"bytes"
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// An item is an element to sort: by host, class, path and place.
type item struct {
	host    uint64
	class   byte
	path    uint64
	place   uint64 // in the source's log
	payload []byte
}

const (
	itemKey  = 8 + 1 + 8 + 8
	itemHead = 4 + 4 + itemKey // length of the payload, checksum of everything after it

	chunkBits = 20
	chunkSize = 1 << chunkBits // more than any item
	readSize  = 32 << 10
	writeSize = 256 << 10
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errSorting = errors.New("damaged file of a sort")
)

// A gauge counts the octets of the live buffers.
type gauge struct{ now, peak int64 }

func (g *gauge) add(n int) {
	g.now += int64(n)
	g.peak = max(g.peak, g.now)
}

// A sorter sorts more items than fit in its memory. When its buffers are full, it sorts them and
// writes them to a file. Then it merges the files.
type sorter struct {
	ctx    context.Context
	fs     disk.FS
	prefix string // of the names of its files
	limit  int
	gauge  *gauge

	chunks [][]byte // at most chunkSize each; all but the last are full
	refs   []uint32 // number of a chunk, offset in it
	charge int      // of refs

	largest int // octets of an item
	runs    []run
	made    int
}

// A run is a file of sorted items.
type run struct {
	name  string
	items int
}

// newSorter returns an empty sorter. Its limit is at least two chunks.
func newSorter(ctx context.Context, fs disk.FS, prefix string, limit int, g *gauge) *sorter {
	return &sorter{ctx: ctx, fs: fs, prefix: prefix, limit: max(limit, 2*chunkSize), gauge: g}
}

// add adds an item. It copies the payload.
func (s *sorter) add(it item) error {
	size := itemHead + len(it.payload)
	if size > chunkSize {
		return fmt.Errorf("sort: an item of %d octets", size)
	}
	k := len(s.chunks) - 1
	if k < 0 || len(s.chunks[k])+size > chunkSize {
		// There must be room for the next chunk and for twice the references.
		if len(s.chunks) > 0 && (len(s.chunks)+1)*chunkSize+2*4*cap(s.refs) > s.limit {
			if err := s.spill(); err != nil {
				return err
			}
			k = 0
		} else {
			s.chunks = append(s.chunks, make([]byte, 0, chunkSize))
			s.gauge.add(chunkSize)
			k = len(s.chunks) - 1
		}
	}
	s.largest = max(s.largest, size)
	s.refs = append(s.refs, uint32(k)<<chunkBits|uint32(len(s.chunks[k])))
	s.recharge()
	s.chunks[k] = appendItem(s.chunks[k], it)
	return nil
}

// recharge tells the gauge the present size of refs.
func (s *sorter) recharge() {
	if n := 4 * cap(s.refs); n != s.charge {
		s.gauge.add(n - s.charge)
		s.charge = n
	}
}

func appendItem(dst []byte, it item) []byte {
	at := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(it.payload)))
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, it.host)
	dst = append(dst, it.class)
	dst = binary.BigEndian.AppendUint64(dst, it.path)
	dst = binary.BigEndian.AppendUint64(dst, it.place)
	dst = append(dst, it.payload...)
	binary.LittleEndian.PutUint32(dst[at+4:], crc32.Checksum(dst[at+8:], castagnoli))
	return dst
}

// parseItem decodes an item. The item shares the memory of b.
func parseItem(b []byte) item {
	return item{
		host: binary.BigEndian.Uint64(b[8:]), class: b[16], path: binary.BigEndian.Uint64(b[17:]),
		place: binary.BigEndian.Uint64(b[25:]), payload: b[itemHead:len(b):len(b)],
	}
}

// key returns the part of an encoded item that determines its order.
func key(b []byte) []byte { return b[8:itemHead] }

func (s *sorter) at(ref uint32) []byte {
	b := s.chunks[ref>>chunkBits][ref&(chunkSize-1):]
	return b[:itemHead+int(binary.LittleEndian.Uint32(b))]
}

func (s *sorter) sort() {
	slices.SortFunc(s.refs, func(a, b uint32) int { return bytes.Compare(key(s.at(a)), key(s.at(b))) })
}

// spill sorts the items in RAM and writes them to a file. It keeps one chunk.
func (s *sorter) spill() error {
	s.sort()
	w, err := s.create()
	if err != nil {
		return err
	}
	for i, ref := range s.refs {
		if i%4096 == 0 {
			if err := s.ctx.Err(); err != nil {
				return w.end(err)
			}
		}
		if err := w.put(s.at(ref)); err != nil {
			return w.end(err)
		}
	}
	if err := w.end(nil); err != nil {
		return err
	}
	s.gauge.add(-(len(s.chunks) - 1) * chunkSize)
	s.chunks = s.chunks[:1:1]
	s.chunks[0] = s.chunks[0][:0]
	s.refs = s.refs[:0]
	return nil
}

// A runWriter writes the next of the sorter's files.
type runWriter struct {
	run
	s *sorter
	f disk.File
	w *bufio.Writer
}

func (s *sorter) create() (*runWriter, error) {
	name := fmt.Sprintf("%s-%d", s.prefix, s.made)
	f, err := s.fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("sort: %w", err)
	}
	s.made++
	s.gauge.add(writeSize)
	return &runWriter{run{name, 0}, s, f, bufio.NewWriterSize(f, writeSize)}, nil
}

func (w *runWriter) put(item []byte) error {
	w.items++
	_, err := w.w.Write(item)
	return err
}

// end closes the file and adds it to the runs. err is the error of the writes before.
func (w *runWriter) end(err error) error {
	w.s.gauge.add(-writeSize)
	w.s.runs = append(w.s.runs, w.run)
	if err == nil {
		err = w.w.Flush()
	}
	if cerr := w.f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("sort %s: %w", filepath.Base(w.name), err)
	}
	return nil
}

// each calls fn for all items in order, and leaves the sorter empty. A payload is valid until fn
// returns.
func (s *sorter) each(fn func(item) error) error {
	if len(s.runs) == 0 {
		s.sort()
		for _, ref := range s.refs {
			if err := fn(parseItem(s.at(ref))); err != nil {
				return err
			}
		}
		s.refs = s.refs[:0]
		for i := range s.chunks {
			s.chunks[i] = s.chunks[i][:0]
		}
		if len(s.chunks) > 1 { // keep one chunk for the next use
			s.gauge.add(-(len(s.chunks) - 1) * chunkSize)
			s.chunks = s.chunks[:1:1]
		}
		return nil
	}
	if len(s.refs) > 0 {
		if err := s.spill(); err != nil {
			return err
		}
	}
	s.free()
	for fan := s.fan(); len(s.runs) > fan; {
		if err := s.fold(fan); err != nil {
			return err
		}
	}
	runs := s.runs
	if err := s.merge(runs, func(b []byte) error { return fn(parseItem(b)) }); err != nil {
		return err
	}
	s.runs = nil
	return s.remove(runs)
}

// fan returns how many files may be read at once.
func (s *sorter) fan() int { return max(2, (s.limit-writeSize)/(readSize+s.largest)) }

// fold merges the first files into one.
func (s *sorter) fold(fan int) error {
	from := slices.Clone(s.runs[:fan])
	w, err := s.create()
	if err != nil {
		return err
	}
	if err := w.end(s.merge(from, w.put)); err != nil {
		return err
	}
	s.runs = slices.Clone(s.runs[fan:])
	return s.remove(from)
}

func (s *sorter) remove(runs []run) error {
	for _, r := range runs {
		if err := s.fs.Remove(r.name); err != nil {
			return fmt.Errorf("sort: %w", err)
		}
	}
	return nil
}

// free releases the memory.
func (s *sorter) free() {
	s.gauge.add(-len(s.chunks) * chunkSize)
	s.chunks, s.refs = nil, nil
	s.recharge()
}

// close releases everything and removes the files.
func (s *sorter) close() {
	s.free()
	for _, r := range s.runs {
		_ = s.fs.Remove(r.name) // Open removes leftover files, too
	}
	s.runs = nil
}

// A runReader reads a file item by item.
type runReader struct {
	run  // items: the number still to read
	r    *bufio.Reader
	item []byte
}

// next reads the next item; more is false at the end.
func (r *runReader) next(largest int) (more bool, err error) {
	if r.items == 0 {
		return false, nil
	}
	r.items--
	r.item = slices.Grow(r.item[:0], largest)[:itemHead]
	if _, err := io.ReadFull(r.r, r.item); err != nil {
		return false, fmt.Errorf("sort %s: %w", filepath.Base(r.name), err)
	}
	n := int(binary.LittleEndian.Uint32(r.item))
	if n > largest-itemHead {
		return false, fmt.Errorf("%w: %s", errSorting, r.name)
	}
	r.item = r.item[:itemHead+n]
	if _, err := io.ReadFull(r.r, r.item[itemHead:]); err != nil {
		return false, fmt.Errorf("sort %s: %w", filepath.Base(r.name), err)
	}
	if crc32.Checksum(r.item[8:], castagnoli) != binary.LittleEndian.Uint32(r.item[4:]) {
		return false, fmt.Errorf("%w: %s", errSorting, r.name)
	}
	return true, nil
}

// merging is a heap of readers, ordered by their current items.
type merging []*runReader

func (m merging) Len() int           { return len(m) }
func (m merging) Less(i, j int) bool { return bytes.Compare(key(m[i].item), key(m[j].item)) < 0 }
func (m merging) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *merging) Push(x any)        { *m = append(*m, x.(*runReader)) }
func (m *merging) Pop() any {
	old := *m
	x := old[len(old)-1]
	*m = old[:len(old)-1]
	return x
}

// merge calls fn for the items of several files in order.
func (s *sorter) merge(runs []run, fn func([]byte) error) error {
	var m merging
	cost := len(runs) * (readSize + s.largest)
	s.gauge.add(cost)
	defer s.gauge.add(-cost)
	var files []disk.File
	defer func() {
		for _, f := range files {
			_ = f.Close() // the file was only read
		}
	}()
	for _, from := range runs {
		f, err := s.fs.OpenFile(from.name, os.O_RDONLY, 0)
		if err != nil {
			return fmt.Errorf("sort: %w", err)
		}
		files = append(files, f)
		r := &runReader{run: from, r: bufio.NewReaderSize(f, readSize)}
		more, err := r.next(s.largest)
		if err != nil {
			return err
		}
		if more {
			m = append(m, r)
		}
	}
	heap.Init(&m)
	for n := 0; len(m) > 0; n++ {
		if n%4096 == 0 {
			if err := s.ctx.Err(); err != nil {
				return err
			}
		}
		if err := fn(m[0].item); err != nil {
			return err
		}
		more, err := m[0].next(s.largest)
		if err != nil {
			return err
		}
		if more {
			heap.Fix(&m, 0)
		} else {
			heap.Pop(&m)
		}
	}
	return nil
}
