package drum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errBlock means that a block does not hold what was written.
var errBlock = errors.New("damaged block")

const (
	blockHead = 36
	// listKeys is the maximum length of a list, and thus of what is decoded at once. If a class of a host has
	// more keys, it is split into chunks.
	listKeys = 1024
	maxBlock = 1 << 20 // limit in bytes for lengths that a reader accepts
)

// A list holds keys of one host in one class, in ascending order.
type list struct {
	h     uint64
	class uint8
	n     int
	low   uint   // bits of a low part
	high  uint64 // the largest high part
	first uint64 // subtracted from each number; the first number of a chunk, otherwise 0
	bit   uint64 // where the list begins in the block
	index int    // number of keys in the block before it
}

// plain sets the lengths of a list that holds a whole class.
func (l *list) plain() {
	c := uint(bits.Len(uint(l.n - 1)))
	l.low = width(l.class) - c
	l.high = uint64(1)<<c - 1
	l.first = 0
}

// chunk sets the lengths of a list that holds a part of a class.
func (l *list) chunk(vals []uint64) {
	l.first = vals[0]
	span := vals[len(vals)-1] - l.first
	l.low = uint(max(0, bits.Len64(span/uint64(l.n))-1))
	l.high = span >> l.low
}

func (l *list) bits() uint64 {
	if l.n == 1 && l.high == 0 && l.first == 0 {
		return uint64(l.low)
	}
	return efBits(l.n, l.low, l.high)
}

// A blockWriter packs lists into one block.
type blockWriter struct {
	hosts []uint64
	heads []byte
	more  int // position of the previous list's header
	data  bitWriter
	vals  []byte
	keys  int

	host  bitWriter
	out   []byte
	first blockAt
}

func (w *blockWriter) empty() bool { return w.keys == 0 }

func (w *blockWriter) size() int {
	return blockHead + len(w.hosts)*5 + len(w.heads) + int(w.data.bitLen()/8) + len(w.vals)
}

// add appends a list of vals, with their values in a Store that has values. part says that the list is not the whole of
// its class.
func (w *blockWriter) add(h uint64, class uint8, vals, values []uint64, part bool) {
	l := list{class: class, n: len(vals)}
	if part {
		l.chunk(vals)
	} else {
		l.plain()
	}
	if w.empty() {
		w.first = blockAt{h: h, p: vals[0] << (64 - width(class)), at: uint64(class) << offsetBits}
	}
	if n := len(w.hosts); n > 0 && w.hosts[n-1] == h {
		w.heads[w.more] |= headMore
	} else {
		w.hosts = append(w.hosts, h)
	}
	w.more = len(w.heads)
	head := class << 4
	switch {
	case part:
		w.heads = append(w.heads, head|headChunk)
		w.heads = binary.AppendUvarint(w.heads, uint64(l.n))
		w.heads = append(w.heads, byte(l.low))
		w.heads = binary.AppendUvarint(w.heads, l.high)
		w.heads = binary.AppendUvarint(w.heads, l.first)
	case l.n >= headLong:
		w.heads = append(w.heads, head|headLong)
		w.heads = binary.AppendUvarint(w.heads, uint64(l.n))
	default:
		w.heads = append(w.heads, head|uint8(l.n))
	}
	if l.n == 1 && !part {
		w.data.write(vals[0], l.low)
	} else {
		w.data.writeEF(vals, l.first, l.low, l.high)
	}
	for _, v := range values {
		w.vals = binary.LittleEndian.AppendUint64(w.vals, v)
	}
	w.keys += l.n
}

const (
	headMore  = 0x80 // the next list is of the same host
	headChunk = 0    // in place of the number of keys
	headLong  = 15
)

// finish returns the block. It is valid until the next finish.
func (w *blockWriter) finish() []byte {
	le := binary.LittleEndian
	first, last := w.hosts[0], w.hosts[len(w.hosts)-1]
	n := len(w.hosts)
	low := uint(max(0, bits.Len64((last-first)/uint64(n))-1))
	high := (last - first) >> low
	w.host.reset()
	w.host.writeEF(w.hosts, first, low, high)
	w.host.align()
	w.data.align()
	b := append(w.out[:0], make([]byte, blockHead)...)
	le.PutUint32(b[8:], uint32(w.keys))
	le.PutUint32(b[12:], uint32(n))
	le.PutUint64(b[16:], first)
	le.PutUint32(b[24:], uint32(low))
	le.PutUint32(b[28:], uint32(high))
	le.PutUint32(b[32:], uint32(len(w.heads)))
	b = append(b, w.host.b...)
	b = append(b, w.heads...)
	b = append(b, w.data.b...)
	b = append(b, w.vals...)
	le.PutUint32(b[4:], uint32(len(b)))
	le.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	w.out = b
	w.hosts, w.heads, w.vals, w.keys, w.more = w.hosts[:0], w.heads[:0], w.vals[:0], 0, 0
	w.data.reset()
	return b
}

// A block is decoded list by list.
type block struct {
	buf   []byte // followed by slack bytes
	hosts []uint64
	heads []byte
	data  uint64 // the bit at which the lists begin
	end   uint64 // the bit at which they end
	vals  []byte
	keys  int

	host  int // index of the host whose list comes next
	more  bool
	bit   uint64
	index int
}

// parse checks the block in buf, which includes slack bytes, and starts to read it. It replaces the previous block.
// withValues reports whether the Store has values.
func (b *block) parse(buf []byte, withValues bool) error {
	le := binary.LittleEndian
	size := len(buf) - slack
	if size < blockHead || int(le.Uint32(buf[4:])) != size {
		return fmt.Errorf("%w: wrong length", errBlock)
	}
	if le.Uint32(buf) != crc32.Checksum(buf[4:size], castagnoli) {
		return fmt.Errorf("%w: wrong checksum", errBlock)
	}
	return b.parseChecked(buf, withValues)
}

func (b *block) parseChecked(buf []byte, withValues bool) error {
	le := binary.LittleEndian
	size := uint64(len(buf) - slack)
	keys, n := uint64(le.Uint32(buf[8:])), uint64(le.Uint32(buf[12:]))
	first, low, high := le.Uint64(buf[16:]), le.Uint32(buf[24:]), uint64(le.Uint32(buf[28:]))
	heads := uint64(le.Uint32(buf[32:]))
	if n == 0 || keys < n || n > size*8 || keys > size*8 || low > 63 || high > size*8 {
		return fmt.Errorf("%w: impossible counts", errBlock)
	}
	headsAt := blockHead + (efBits(int(n), uint(low), high)+7)/8
	dataAt := headsAt + heads
	dataEnd := size
	if withValues {
		dataEnd -= min(size, keys*8)
	}
	if dataAt > dataEnd {
		return fmt.Errorf("%w: the sections are longer than the block", errBlock)
	}
	if uint64(cap(b.hosts)) < n {
		b.hosts = make([]uint64, n)
	}
	b.hosts = b.hosts[:n]
	if !readEF(b.hosts, buf, blockHead*8, uint(low), high, first) || b.hosts[0] != first || b.hosts[n-1] < first {
		return fmt.Errorf("%w: malformed list of hosts", errBlock)
	}
	b.buf, b.heads, b.vals = buf, buf[headsAt:dataAt], buf[dataEnd:size]
	b.data, b.end, b.keys = dataAt*8, dataEnd*8, int(keys)
	b.host, b.more, b.bit, b.index = -1, false, b.data, 0
	return nil
}

// next sets l to the next list. After the last one it sets l.n to 0.
func (b *block) next(l *list) error {
	l.n = 0
	if !b.more {
		b.host++
	}
	if b.host == len(b.hosts) {
		if b.index != b.keys || len(b.heads) != 0 {
			return fmt.Errorf("%w: the lists do not match the counts", errBlock)
		}
		return nil
	}
	if len(b.heads) == 0 {
		return fmt.Errorf("%w: a list header is missing", errBlock)
	}
	head := b.heads[0]
	b.heads = b.heads[1:]
	b.more = head&headMore != 0
	l.h, l.class = b.hosts[b.host], head>>4&7
	l.bit, l.index = b.bit, b.index
	n := int(head & 15)
	switch n {
	case headChunk:
		var ok1, ok2, ok3 bool
		var v uint64
		v, ok1 = b.uvarint()
		if len(b.heads) == 0 {
			return fmt.Errorf("%w: chunk header cut short", errBlock)
		}
		l.low = uint(b.heads[0])
		b.heads = b.heads[1:]
		l.high, ok2 = b.uvarint()
		l.first, ok3 = b.uvarint()
		if !ok1 || !ok2 || !ok3 || v == 0 || v > listKeys || l.low > 63 || l.high > maxBlock*8 {
			return fmt.Errorf("%w: malformed chunk header", errBlock)
		}
		n = int(v)
		l.n = n
		b.bit += efBits(n, l.low, l.high)
	case headLong:
		v, ok := b.uvarint()
		if !ok || v < headLong || v > listKeys {
			return fmt.Errorf("%w: malformed list header", errBlock)
		}
		n = int(v)
		fallthrough
	default:
		l.n = n
		l.plain()
		b.bit += l.bits()
	}
	b.index += n
	if b.bit > b.end || b.index > b.keys {
		l.n = 0
		return fmt.Errorf("%w: a list is longer than the block", errBlock)
	}
	return nil
}

func (b *block) uvarint() (uint64, bool) {
	v, n := binary.Uvarint(b.heads)
	if n <= 0 {
		return 0, false
	}
	b.heads = b.heads[n:]
	return v, true
}

// read decodes l into out, which must have room for listKeys numbers.
func (b *block) read(l *list, out []uint64) ([]uint64, error) {
	out = out[:l.n]
	if l.n == 1 && l.high == 0 && l.first == 0 && l.low == width(l.class) {
		bit := l.bit
		one := binary.LittleEndian.Uint64(b.buf[bit>>3:]) >> (bit & 7)
		one |= uint64(b.buf[bit>>3+8]) << (64 - bit&7)
		out[0] = one & (uint64(1)<<l.low - 1)
		return out, nil
	}
	if !readEF(out, b.buf, l.bit, l.low, l.high, l.first) {
		return nil, fmt.Errorf("%w: malformed numbers", errBlock)
	}
	return out, nil
}

// value returns the value of key i of the block.
func (b *block) value(i int) uint64 { return binary.LittleEndian.Uint64(b.vals[i*8:]) }
