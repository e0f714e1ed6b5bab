// Package fields answers: what does this record say, and is it whole?
//
// One function names the fields of a record in their order, by methods of a Codec. It serves both ways:
//
//	fields.Write(dst) -> the function appends each field -> Written
//	fields.Read(src)  -> the function sets each field    -> Whole, or Rest
//
// After the first field that src does not hold, all others are zero. Each number must have its shortest encoding, so
// that a record has one encoding only.
//
// A Codec belongs to one goroutine.
package fields

import (
	"encoding/binary"
	"slices"
	"time"
)

// A Codec writes the fields of a record, or reads them.
type Codec struct {
	b     []byte // what is written, or what is left to read
	reads bool
	bad   bool
}

// Write returns a Codec that appends to dst.
func Write(dst []byte) *Codec { return &Codec{b: dst} }

// Read returns a Codec that reads src.
func Read(src []byte) *Codec { return &Codec{b: src, reads: true} }

// Written returns dst with all fields.
func (c *Codec) Written() []byte { return c.b }

// Reads reports that the Codec reads.
func (c *Codec) Reads() bool { return c.reads }

// Check ends the reading unless ok. When the Codec writes, Check does nothing.
func (c *Codec) Check(ok bool) {
	if c.reads && !ok {
		c.b, c.bad = nil, true
	}
}

// Ok reports that src held all fields so far.
func (c *Codec) Ok() bool { return !c.bad }

// Whole reports that src held all fields, and nothing else.
func (c *Codec) Whole() bool { return !c.bad && len(c.b) == 0 }

// Rest takes all that is left to read. It lies in src.
func (c *Codec) Rest() []byte { return c.Take(len(c.b)) }

// Left returns how many bytes are left to read.
func (c *Codec) Left() int { return len(c.b) }

// Take reads n bytes, which lie in src. If there are fewer, it returns nil.
func (c *Codec) Take(n int) []byte {
	if c.Check(n <= len(c.b)); c.bad {
		return nil
	}
	p := c.b[:n:n]
	c.b = c.b[n:]
	return p
}

// Fixed is a field of len(p) bytes.
func (c *Codec) Fixed(p []byte) {
	if c.reads {
		clear(p[copy(p, c.Take(len(p))):])
	} else {
		c.b = append(c.b, p...)
	}
}

// Tag is a byte that is always the same, such as a version.
func (c *Codec) Tag(tag byte) {
	v := tag
	Byte(c, &v)
	c.Check(v == tag)
}

// Flags is a byte of as many bits, the lowest first. Other bits are none of a whole record.
func (c *Codec) Flags(flags ...*bool) {
	var b byte
	for i, f := range flags {
		if *f {
			b |= 1 << i
		}
	}
	Byte(c, &b)
	c.Check(int(b)>>len(flags) == 0)
	for i, f := range flags {
		if c.reads {
			*f = c.Ok() && b>>i&1 == 1
		}
	}
}

// Byte is a number of one byte.
func Byte[T ~uint8](c *Codec, v *T) {
	if !c.reads {
		c.b = append(c.b, byte(*v))
	} else if p := c.Take(1); p != nil {
		*v = T(p[0])
	} else {
		*v = 0
	}
}

// Fixed64 is a number of eight bytes, big-endian.
func Fixed64[T ~uint64](c *Codec, v *T) {
	if !c.reads {
		c.b = binary.BigEndian.AppendUint64(c.b, uint64(*v))
	} else if p := c.Take(8); p != nil {
		*v = T(binary.BigEndian.Uint64(p))
	} else {
		*v = 0
	}
}

// Uint is a uvarint. A signed number must not be negative, but reads back if it is.
func Uint[T ~int | ~int64 | ~uint32 | ~uint64](c *Codec, v *T) {
	if !c.reads {
		c.b = binary.AppendUvarint(c.b, uint64(*v))
		return
	}
	if len(c.b) > 0 && c.b[0] < 0x80 { // most numbers are small
		*v, c.b = T(c.b[0]), c.b[1:]
		return
	}
	x, n := binary.Uvarint(c.b)
	*v = T(c.number(x, n, uint64(T(x)) == x))
}

// number takes a number of n bytes, which is x.
func (c *Codec) number(x uint64, n int, fits bool) uint64 {
	if c.Check(fits && n > 0 && (n == 1 || c.b[n-1] != 0)); c.bad {
		return 0
	}
	c.b = c.b[n:]
	return x
}

// Int is a varint.
func Int[T ~int | ~int64](c *Codec, v *T) {
	if !c.reads {
		c.b = binary.AppendVarint(c.b, int64(*v))
		return
	}
	x, n := binary.Varint(c.b)
	*v = T(c.number(uint64(x), n, int64(T(x)) == x))
}

// Text is a uvarint of its length, at most most when it is read, and its bytes. A slice of bytes lies in src.
func Text[T ~string | ~[]byte](c *Codec, v *T, most int) {
	n := len(*v)
	if Uint(c, &n); !c.reads {
		c.b = append(c.b, *v...)
		return
	}
	c.Check(n >= 0 && n <= most)
	*v = T(c.Take(n))
}

// Duration is a uvarint of whole units.
func (c *Codec) Duration(d *time.Duration, unit time.Duration) {
	n := *d / unit
	if Uint(c, &n); c.reads {
		c.Check(n*unit/unit == n)
		*d = n * unit
	}
}

// Micro is a varint of the microseconds since 1970. Milli is one of milliseconds.
func (c *Codec) Micro(t *time.Time) { c.time(t, time.Time.UnixMicro, time.UnixMicro) }

// Milli is a varint of the milliseconds since 1970.
func (c *Codec) Milli(t *time.Time) { c.time(t, time.Time.UnixMilli, time.UnixMilli) }

func (c *Codec) time(t *time.Time, number func(time.Time) int64, of func(int64) time.Time) {
	if !c.reads {
		c.b = binary.AppendVarint(c.b, number(*t))
		return
	}
	var n int64
	Int(c, &n)
	*t = of(n).UTC()
}

// List is a uvarint of the number of items, at most most when they are read, and the items. Each has at least least
// bytes, which bounds the memory by that of src.
func List[T any](c *Codec, v *[]T, most, least int, item func(*T)) {
	n := len(*v)
	Uint(c, &n)
	if c.reads {
		if c.Check(n >= 0 && n <= most && n <= len(c.b)/least); !c.Ok() {
			n = 0
		}
		*v = slices.Grow((*v)[:0], n)[:n]
	}
	for i := range *v {
		item(&(*v)[i])
	}
}
