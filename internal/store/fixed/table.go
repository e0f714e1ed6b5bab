package fixed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"os"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// ErrDamaged means that a file does not have the bytes that Write wrote, or that another version wrote it.
var ErrDamaged = errors.New("damaged table")

// A Table is an open file. Find is safe for concurrent use.
type Table struct {
	file   disk.File
	end    int64 // of the blocks
	index  []byte
	filter filter
	note   []byte
	n      int64
	bad    atomic.Int64
	bufs   sync.Pool // of *[]byte
}

// Open opens the file name. It reads the index, and the filter if it fits into memory bytes together with the index.
// The error wraps ErrDamaged, or is one of the disk.
func Open(fs disk.FS, name string, memory int64) (*Table, error) {
	f, err := fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	t := &Table{file: f}
	t.bufs.New = func() any { return new([]byte) }
	if err := t.open(memory); err != nil {
		f.Close() // the first error says more
		return nil, fmt.Errorf("table %s: %w", name, err)
	}
	return t, nil
}

func (t *Table) open(memory int64) error {
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	end := info.Size() - footBytes
	if end < 0 {
		return ErrDamaged
	}
	foot := make([]byte, footBytes)
	if err := t.read(foot, end); err != nil {
		return err
	}
	u64 := func(i int) uint64 { return binary.LittleEndian.Uint64(foot[i:]) }
	u32 := func(i int) uint32 { return binary.LittleEndian.Uint32(foot[i:]) }
	if string(foot[60:68]) != magic || crc32.Checksum(foot[:68], castagnoli) != u32(68) {
		return ErrDamaged
	}
	index, filter, note := int64(u64(0)), int64(u64(8)), int64(u64(16))
	if index < 0 || filter < index || note < filter || end < note || u64(24) > uint64(end) ||
		uint64(filter-index) != u64(32)*uint64(indexEntry) || u64(32) > uint64(end) ||
		(note-filter)%filterBlock != 0 || u32(40) > maxProbes {
		return ErrDamaged
	}
	t.end, t.n = index, int64(u64(24))
	if t.index, err = t.part(index, filter, u32(44)); err != nil {
		return err
	}
	if note-filter+int64(len(t.index)) <= memory {
		if t.filter.bits, err = t.part(filter, note, u32(48)); err != nil {
			return err
		}
		t.filter.probes = int(u32(40))
	}
	t.note, err = t.part(note, end, u32(52))
	return err
}

// part reads the bytes between two offsets and checks their checksum.
func (t *Table) part(from, to int64, sum uint32) ([]byte, error) {
	b := make([]byte, to-from)
	if err := t.read(b, from); err != nil {
		return nil, err
	}
	if crc32.Checksum(b, castagnoli) != sum {
		return nil, ErrDamaged
	}
	return b, nil
}

func (t *Table) read(b []byte, at int64) error {
	n, err := t.file.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		err = ErrDamaged
	}
	return err
}

// Len returns the number of entries.
func (t *Table) Len() int64 { return t.n }

// Note returns the note of the owner.
func (t *Table) Note() []byte { return t.note }

// Memory returns how many bytes of RAM the Table takes.
func (t *Table) Memory() int64 { return int64(len(t.index) + len(t.filter.bits)) }

// Damaged returns how many keys could not be looked up because their block is damaged.
func (t *Table) Damaged() int64 { return t.bad.Load() }

// Find appends the value of key to dst. ok is false if the Table has no such key, or if its block is damaged. The error
// is one of the disk. It blocks for the read of one block, or not at all.
func (t *Table) Find(dst []byte, key Key) (value []byte, ok bool, err error) {
	if !t.filter.has(&key) {
		return dst, false, nil
	}
	from, to, ok := t.blockOf(&key)
	if !ok {
		return dst, false, nil
	}
	buf := t.bufs.Get().(*[]byte)
	defer t.bufs.Put(buf)
	if cap(*buf) < int(to-from) {
		*buf = make([]byte, to-from)
	}
	b := (*buf)[:to-from]
	if err := t.read(b, from); err != nil {
		if errors.Is(err, ErrDamaged) {
			t.bad.Add(1)
			err = nil
		}
		return dst, false, err
	}
	if crc32.Checksum(b[4:], castagnoli) != binary.LittleEndian.Uint32(b) {
		t.bad.Add(1)
		return dst, false, nil
	}
	for b = b[4:]; len(b) > len(key); {
		order := bytes.Compare(b[:len(key)], key[:])
		n, width := binary.Uvarint(b[len(key):])
		rest := b[len(key)+max(width, 0):]
		if width <= 0 || n > uint64(len(rest)) {
			t.bad.Add(1)
			return dst, false, nil
		}
		switch {
		case order == 0:
			return append(dst, rest[:n]...), true, nil
		case order > 0:
			return dst, false, nil
		}
		b = rest[n:]
	}
	return dst, false, nil
}

// blockOf returns the offsets of the block that may have a key. ok is false if none has it.
func (t *Table) blockOf(key *Key) (from, to int64, ok bool) {
	n := len(t.index) / indexEntry
	first := func(i int) []byte { return t.index[i*indexEntry:][:len(key)] }
	// The keys are hashes, so the block is near its share of all blocks.
	guess, _ := bits.Mul64(binary.BigEndian.Uint64(key[:]), uint64(n))
	low, high, step := int(guess), int(guess), 16
	for low > 0 && bytes.Compare(first(low), key[:]) > 0 {
		low, high, step = max(0, low-step), low, 4*step
	}
	for step = 16; high < n && bytes.Compare(first(high), key[:]) <= 0; step *= 4 {
		low, high = high, min(n, high+step)
	}
	i := low + sort.Search(high-low, func(i int) bool { return bytes.Compare(first(low+i), key[:]) > 0 }) - 1
	if i < 0 {
		return 0, 0, false
	}
	at := func(i int) int64 {
		if i == n {
			return t.end
		}
		return int64(binary.LittleEndian.Uint64(t.index[i*indexEntry+len(key):]))
	}
	from, to = at(i), at(i+1)
	if from < 0 || to > t.end || to-from < 4 || to-from > blockBytes+MaxValue+64 {
		t.bad.Add(1)
		return 0, 0, false
	}
	return from, to, true
}

// Close closes the file.
func (t *Table) Close() error { return t.file.Close() }
