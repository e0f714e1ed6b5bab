package drum

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

const (
	runMagic  = "OWRUN\x00\x00\x01"
	runFoot   = 56
	indexSize = 24
	readAhead = 1 << 20 // bytes of one read
)

// A volume is the directory of a Store's files. It counts the bytes read and written there.
type volume struct {
	fs         disk.FS
	dir        string
	withValues bool
	blockBytes int
	readers    sync.Pool // of *runReader, with their memory
	buffers    sync.Pool // of *runBuffers

	read, written atomic.Int64
}

func (v *volume) path(name string) string { return filepath.Join(v.dir, name) }

func runName(n uint64) string { return fmt.Sprintf("run-%08d", n) }

// A Damage is a place in a file that does not hold what was written there.
type Damage struct {
	File   string
	Offset int64 // in bytes
	// Bucket is the argument for Rebuild. It is -1 if only held items are lost.
	Bucket int
	Items  int64 // number of held items that are lost, 0 if unknown
	Err    error
}

func (d *Damage) Error() string {
	if d.Bucket < 0 {
		return fmt.Sprintf("drum: %s: damage at byte %d: %v", d.File, d.Offset, d.Err)
	}
	return fmt.Sprintf("drum: %s: damage at byte %d (bucket %d): %v", d.File, d.Offset, d.Bucket, d.Err)
}

func (d *Damage) Unwrap() error { return d.Err }

// A blockAt tells with which key a block begins, and where it is.
type blockAt struct {
	h, p uint64 // of p, the bits that its class keeps; the others are zero
	at   uint64 // the offset; above offsetBits, the class of the first list
}

const offsetBits = 56

func (b blockAt) offset() int64 { return int64(b.at & (1<<offsetBits - 1)) }
func (b blockAt) class() uint8  { return uint8(b.at >> offsetBits) }

// A run is a file of a bucket's keys, sorted by host, class and path.
type run struct {
	num    uint64
	bucket int
	keys   int64
	size   int64 // bytes of the file
	last   uint64
	blocks []blockAt // one for each block, and one for the end of the last block
}

func (r *run) bytes() int64 { return int64(len(r.blocks)) * 24 }

func (r *run) damage(v *volume, off int64, err error) error {
	return &Damage{File: v.path(runName(r.num)), Offset: off, Bucket: r.bucket, Err: err}
}

// A runWriter writes a run.
type runWriter struct {
	v    *volume
	r    *run
	file disk.File
	off  int64 // offset of the next block

	h     uint64 // host of the list that is being collected
	class uint8
	part  bool
	runBuffers
}

// runBuffers is the memory of a runWriter. Later runWriters reuse it, because a pass writes one run per bucket. Between
// two runs all buffers are empty.
type runBuffers struct {
	buf    []byte
	w      blockWriter
	vals   []uint64
	values []uint64
}

func (v *volume) newRun(num uint64, bucket int) (*runWriter, error) {
	f, err := v.fs.OpenFile(v.path(runName(num)), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create run: %w", err)
	}
	b, _ := v.buffers.Get().(*runBuffers)
	if b == nil {
		b = new(runBuffers)
	}
	w := &runWriter{v: v, r: &run{num: num, bucket: bucket}, file: f, off: int64(len(runMagic)), runBuffers: *b}
	w.buf = append(w.buf[:0], runMagic...)
	return w, nil
}

// add appends keys of one host and class, in ascending order. They must follow the keys added before.
func (w *runWriter) add(h uint64, class uint8, vals, values []uint64) error {
	if h != w.h || class != w.class {
		if err := w.endList(); err != nil {
			return err
		}
		w.h, w.class = h, class
	}
	w.vals = append(w.vals, vals...)
	w.values = append(w.values, values...)
	for len(w.vals) > listKeys {
		w.part = true
		if err := w.put(listKeys); err != nil {
			return err
		}
	}
	return nil
}

func (w *runWriter) endList() error {
	if len(w.vals) > 0 {
		if err := w.put(len(w.vals)); err != nil {
			return err
		}
	}
	w.part = false
	return nil
}

func (w *runWriter) put(n int) error {
	var values []uint64
	if w.v.withValues {
		values = w.values[:n]
	}
	w.w.add(w.h, w.class, w.vals[:n], values, w.part)
	w.r.keys += int64(n)
	w.r.last = w.h
	w.vals = w.vals[:copy(w.vals, w.vals[n:])]
	if w.v.withValues {
		w.values = w.values[:copy(w.values, w.values[n:])]
	}
	if w.w.size() >= w.v.blockBytes {
		return w.endBlock()
	}
	return nil
}

func (w *runWriter) endBlock() error {
	if w.w.empty() {
		return nil
	}
	yieldCPU()
	at := w.w.first
	at.at |= uint64(w.off)
	w.r.blocks = append(w.r.blocks, at)
	b := w.w.finish()
	w.buf = append(w.buf, b...)
	w.off += int64(len(b))
	if len(w.buf) >= readAhead/4 {
		return w.flush()
	}
	return nil
}

func (w *runWriter) flush() error {
	_, err := w.file.Write(w.buf)
	w.v.written.Add(int64(len(w.buf)))
	w.buf = w.buf[:0]
	if err != nil {
		return fmt.Errorf("write %s: %w", runName(w.r.num), err)
	}
	return nil
}

// finish writes the rest and makes the run durable, except for its name in the directory. If there are no keys, it
// removes the file and returns nil.
func (w *runWriter) finish() (*run, error) {
	err := w.endList()
	if err == nil {
		err = w.endBlock()
	}
	if err != nil || w.r.keys == 0 {
		w.abandon()
		return nil, err
	}
	r := w.r
	r.blocks = append(r.blocks, blockAt{h: r.last, at: uint64(w.off)})
	le := binary.LittleEndian
	start := len(w.buf)
	for _, e := range r.blocks {
		w.buf = le.AppendUint64(w.buf, e.h)
		w.buf = le.AppendUint64(w.buf, e.p)
		w.buf = le.AppendUint64(w.buf, e.at)
	}
	sum := crc32.Checksum(w.buf[start:], castagnoli)
	foot := len(w.buf)
	w.buf = append(w.buf, runMagic...)
	w.buf = le.AppendUint32(w.buf, uint32(r.bucket))
	flags := uint32(0)
	if w.v.withValues {
		flags = 1
	}
	w.buf = le.AppendUint32(w.buf, flags)
	w.buf = le.AppendUint64(w.buf, uint64(len(r.blocks)))
	w.buf = le.AppendUint64(w.buf, uint64(r.keys))
	w.buf = le.AppendUint64(w.buf, uint64(w.off))
	w.buf = le.AppendUint64(w.buf, r.num)
	w.buf = le.AppendUint32(w.buf, sum)
	w.buf = le.AppendUint32(w.buf, crc32.Checksum(w.buf[foot:], castagnoli))
	r.size = w.off + int64(len(w.buf)-start)
	if err := w.flush(); err != nil {
		w.abandon()
		return nil, err
	}
	err = cmp.Or(w.file.Sync(), w.file.Close())
	if err != nil {
		_ = w.v.fs.Remove(w.v.path(runName(r.num))) // best effort
		return nil, fmt.Errorf("write %s: %w", runName(r.num), err)
	}
	w.file = nil
	b := w.runBuffers
	w.runBuffers = runBuffers{}
	w.v.buffers.Put(&b)
	return r, nil
}

// abandon removes the file.
func (w *runWriter) abandon() {
	if w.file != nil {
		_ = w.file.Close()
		_ = w.v.fs.Remove(w.v.path(runName(w.r.num))) // best effort; Open removes it too
		w.file = nil
	}
}

// openRun reads the index of a run. If the file does not hold what was written, the error is a *Damage, and the run is
// returned without blocks.
func (v *volume) openRun(num uint64, bucket int, keys, size int64) (*run, error) {
	r := &run{num: num, bucket: bucket, keys: keys, size: size}
	f, err := v.fs.OpenFile(v.path(runName(num)), os.O_RDONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return r, r.damage(v, 0, err)
	} else if err != nil {
		return nil, fmt.Errorf("open run: %w", err)
	}
	defer f.Close()
	head := make([]byte, len(runMagic))
	foot := make([]byte, runFoot)
	if size < int64(len(head)+runFoot+2*indexSize) {
		return r, r.damage(v, 0, errBlock)
	}
	if err := v.readAt(f, head, 0); err != nil {
		return r, r.damage(v, 0, err)
	}
	if string(head) != runMagic {
		return r, r.damage(v, 0, errBlock)
	}
	if err := v.readAt(f, foot, size-runFoot); err != nil {
		return r, r.damage(v, size-runFoot, err)
	}
	le := binary.LittleEndian
	blocks, off := int64(le.Uint64(foot[16:])), int64(le.Uint64(foot[32:]))
	flags := uint32(0)
	if v.withValues {
		flags = 1
	}
	if le.Uint32(foot[52:]) != crc32.Checksum(foot[:52], castagnoli) ||
		string(foot[:8]) != runMagic || int(le.Uint32(foot[8:])) != bucket || le.Uint32(foot[12:]) != flags ||
		int64(le.Uint64(foot[24:])) != keys || le.Uint64(foot[40:]) != num ||
		blocks < 2 || blocks > size || off+blocks*indexSize+runFoot != size {
		return r, r.damage(v, size-runFoot, errBlock)
	}
	idx := make([]byte, blocks*indexSize)
	if err := v.readAt(f, idx, off); err != nil {
		return r, r.damage(v, off, err)
	}
	if crc32.Checksum(idx, castagnoli) != le.Uint32(foot[48:]) {
		return r, r.damage(v, off, errBlock)
	}
	r.blocks = make([]blockAt, blocks)
	for i := range r.blocks {
		e := idx[i*indexSize:]
		r.blocks[i] = blockAt{le.Uint64(e), le.Uint64(e[8:]), le.Uint64(e[16:])}
		if i > 0 && (r.blocks[i].offset() <= r.blocks[i-1].offset() || r.blocks[i].offset() > off) {
			return r, r.damage(v, off, errBlock)
		}
	}
	r.last = r.blocks[blocks-1].h
	return r, nil
}

func (v *volume) readAt(f disk.File, b []byte, off int64) error {
	n, err := f.ReadAt(b, off)
	v.read.Add(int64(n))
	if n == len(b) {
		return nil
	}
	if err == io.EOF {
		return fmt.Errorf("%w: %w", errBlock, io.ErrUnexpectedEOF)
	}
	return err
}

// A runReader reads the blocks of a run.
type runReader struct {
	v    *volume
	r    *run
	file disk.File
	buf  []byte
	from int64 // buf holds the bytes [from, to) of the file
	to   int64
	b    block
}

func (v *volume) reader(r *run) (*runReader, error) {
	if r.blocks == nil {
		return nil, r.damage(v, 0, errBlock) // damage that Open found
	}
	f, err := v.fs.OpenFile(v.path(runName(r.num)), os.O_RDONLY, 0)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, r.damage(v, 0, err)
		}
		return nil, fmt.Errorf("open run: %w", err)
	}
	rr, _ := v.readers.Get().(*runReader)
	if rr == nil {
		rr = &runReader{}
	}
	rr.v, rr.r, rr.file, rr.from, rr.to = v, r, f, 0, 0
	return rr, nil
}

// close also returns the memory to the pool: nothing that came from rr may be used afterwards.
func (rr *runReader) close() {
	_ = rr.file.Close() // it was only read from
	v := rr.v
	rr.v, rr.r, rr.file = nil, nil, nil
	v.readers.Put(rr)
}

// block returns block i. The caller will also read the blocks before upto, so they may be read ahead.
func (rr *runReader) block(i, upto int) (*block, error) {
	from, to := rr.r.blocks[i].offset(), rr.r.blocks[i+1].offset()
	if from < rr.from || to > rr.to {
		end := to
		for j := i + 1; j < upto && rr.r.blocks[j+1].offset()-from <= readAhead; j++ {
			end = rr.r.blocks[j+1].offset()
		}
		if n := int(end-from) + slack; cap(rr.buf) < n {
			rr.buf = make([]byte, max(n, min(readAhead+slack, int(rr.r.size))))
		}
		rr.buf = rr.buf[:int(end-from)+slack]
		if err := rr.v.readAt(rr.file, rr.buf[:end-from], from); err != nil {
			rr.from, rr.to = 0, 0
			if errors.Is(err, errBlock) {
				return nil, rr.r.damage(rr.v, from, err)
			}
			return nil, fmt.Errorf("read %s: %w", runName(rr.r.num), err)
		}
		rr.from, rr.to = from, end
	}
	yieldCPU()
	at := from - rr.from
	if err := rr.b.parse(rr.buf[at:at+to-from+slack], rr.v.withValues); err != nil {
		return nil, rr.r.damage(rr.v, from, err)
	}
	return &rr.b, nil
}

// blocksOf returns the blocks [i, j) in which keys of host h may lie.
func (r *run) blocksOf(h uint64) (i, j int) {
	n := len(r.blocks) - 1
	j = sort.Search(n, func(i int) bool { return r.blocks[i].h > h })
	i = sort.Search(j, func(i int) bool { return r.blocks[i].h >= h })
	return max(0, i-1), j // the previous block may end with keys of h
}

// A runIter iterates over the lists of a run.
type runIter struct {
	rr     *runReader
	i      int // the next block
	b      *block
	l      list // l.n is 0 at the end
	out    []uint64
	vals   []uint64 // the keys of l
	values []uint64
	space  []uint64
}

func (v *volume) iterate(r *run) (*runIter, error) {
	rr, err := v.reader(r)
	if err != nil {
		return nil, err
	}
	return &runIter{rr: rr, out: make([]uint64, listKeys)}, nil
}

func (it *runIter) next() error {
	for {
		if it.b != nil {
			if err := it.b.next(&it.l); err != nil {
				return it.rr.r.damage(it.rr.v, it.rr.r.blocks[it.i-1].offset(), err)
			}
			if it.l.n > 0 {
				break
			}
		}
		if it.i == len(it.rr.r.blocks)-1 {
			it.l.n = 0
			return nil
		}
		var err error
		if it.b, err = it.rr.block(it.i, len(it.rr.r.blocks)-1); err != nil {
			return err
		}
		it.i++
	}
	var err error
	if it.vals, err = it.b.read(&it.l, it.out); err != nil {
		return it.rr.r.damage(it.rr.v, it.rr.r.blocks[it.i-1].offset(), err)
	}
	if it.rr.v.withValues {
		it.space = it.space[:0]
		for i := range it.l.n {
			it.space = append(it.space, it.b.value(it.l.index+i))
		}
		it.values = it.space
	}
	return nil
}
