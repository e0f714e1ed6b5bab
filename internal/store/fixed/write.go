package fixed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A Key is a hash of what an entry is about.
type Key [20]byte

const (
	magic      = "OWFIXED\x01"
	blockBytes = 8 << 10
	indexEntry = len(Key{}) + 8
	footBytes  = 76
	// MaxValue is the longest value, in bytes.
	MaxValue = 32 << 10

	filterBits  = 10 // for each entry, if there is memory
	leastBits   = 2  // with fewer bits there is no filter
	filterBlock = 64 // bytes
	maxProbes   = 7
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errOrder reports keys that do not increase, a broken invariant of the caller.
var errOrder = errors.New("the keys are not in order")

// A Source has the entries of a file.
type Source interface {
	// Entries calls add for each entry in the order of the keys, and returns the note of the owner. Each key comes
	// once.
	Entries(add func(key Key, value []byte) error) (note []byte, err error)
}

// Write writes the file name, whole or not at all. most is at least the number of entries. The filter takes at most
// memory bytes less those of the index. It blocks until the file is on the disk.
func Write(fs disk.FS, name string, most, memory int64, from Source) error {
	return disk.WriteStream(fs, name, func(to io.Writer) error {
		w := &writer{to: to, filter: newFilter(most, memory)}
		note, err := from.Entries(w.add)
		if err == nil {
			err = w.end(note)
		}
		return err
	})
}

type writer struct {
	to      io.Writer
	at      int64
	block   []byte // with room for its checksum
	index   []byte
	filter  filter
	last    Key
	entries uint64
}

func (w *writer) add(key Key, value []byte) error {
	if w.entries > 0 && bytes.Compare(key[:], w.last[:]) <= 0 {
		return errOrder
	}
	if len(value) > MaxValue {
		return fmt.Errorf("a value of %d bytes, over %d", len(value), MaxValue)
	}
	if len(w.block) > 4 && len(w.block)+len(key)+3+len(value) > blockBytes {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if len(w.block) == 0 {
		w.block = append(w.block, 0, 0, 0, 0)
		w.index = binary.LittleEndian.AppendUint64(append(w.index, key[:]...), uint64(w.at))
	}
	w.block = binary.AppendUvarint(append(w.block, key[:]...), uint64(len(value)))
	w.block = append(w.block, value...)
	w.filter.add(&key)
	w.last = key
	w.entries++
	return nil
}

// flush writes the block.
func (w *writer) flush() error {
	if len(w.block) == 0 {
		return nil
	}
	binary.LittleEndian.PutUint32(w.block, crc32.Checksum(w.block[4:], castagnoli))
	err := w.write(w.block)
	w.block = w.block[:0]
	return err
}

func (w *writer) write(b []byte) error {
	n, err := w.to.Write(b)
	w.at += int64(n)
	return err
}

// end writes what follows the blocks.
func (w *writer) end(note []byte) error {
	if err := w.flush(); err != nil {
		return err
	}
	var foot []byte
	for _, part := range [][]byte{w.index, w.filter.bits, note} {
		foot = binary.LittleEndian.AppendUint64(foot, uint64(w.at))
		if err := w.write(part); err != nil {
			return err
		}
	}
	foot = binary.LittleEndian.AppendUint64(foot, w.entries)
	foot = binary.LittleEndian.AppendUint64(foot, uint64(len(w.index)/indexEntry))
	foot = binary.LittleEndian.AppendUint32(foot, uint32(w.filter.probes))
	for _, part := range [][]byte{w.index, w.filter.bits, note} {
		foot = binary.LittleEndian.AppendUint32(foot, crc32.Checksum(part, castagnoli))
	}
	foot = append(append(foot, 0, 0, 0, 0), magic...)
	foot = binary.LittleEndian.AppendUint32(foot, crc32.Checksum(foot, castagnoli))
	return w.write(append(foot, 0, 0, 0, 0))
}

// A filter tells which keys a file does not have. Without bits it may have any key.
type filter struct {
	bits   []byte
	probes int
}

// newFilter returns a filter for n entries in memory bytes less those of their index, which has about one entry in
// 8 KiB of entries of 75 bytes.
func newFilter(n, memory int64) filter {
	memory -= n * int64(indexEntry) * 75 / blockBytes
	size := min(n*filterBits/8, memory) / filterBlock * filterBlock
	if n <= 0 || size*8 < n*leastBits {
		return filter{}
	}
	return filter{make([]byte, size+filterBlock), int(min(maxProbes, max(1, size*8*7/10/n)))}
}

// each calls fn with the bits of a key until fn returns false.
func (f *filter) each(key *Key, fn func(at *byte, bit byte) bool) {
	block, _ := bits.Mul64(binary.BigEndian.Uint64(key[:]), uint64(len(f.bits)/filterBlock))
	b := f.bits[block*filterBlock:][:filterBlock]
	h := binary.BigEndian.Uint64(key[8:])
	for range f.probes {
		n := h & (filterBlock*8 - 1)
		if !fn(&b[n/8], 1<<(n%8)) {
			return
		}
		h >>= 9
	}
}

func (f *filter) add(key *Key) {
	if len(f.bits) > 0 {
		f.each(key, func(at *byte, bit byte) bool { *at |= bit; return true })
	}
}

func (f *filter) has(key *Key) bool {
	has := true
	if len(f.bits) > 0 {
		f.each(key, func(at *byte, bit byte) bool { has = *at&bit != 0; return has })
	}
	return has
}
