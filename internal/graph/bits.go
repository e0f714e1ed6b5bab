package graph

import (
	"encoding/binary"
	"math/bits"
)

// A bitWriter writes numbers as strings of bits, the highest bit first.
type bitWriter struct {
	buf  []byte
	acc  uint64 // the last n bits, in its low part
	n    uint   // less than 8 between calls
	bits int64  // written so far
}

func (w *bitWriter) reset() { *w = bitWriter{buf: w.buf[:0]} }

// write appends the low n bits of v, at most 56.
func (w *bitWriter) write(v uint64, n uint) {
	w.acc = w.acc<<n | v&(1<<n-1)
	w.n += n
	w.bits += int64(n)
	for w.n >= 8 {
		w.n -= 8
		w.buf = append(w.buf, byte(w.acc>>w.n))
	}
}

// bytes returns what was written, with zero bits up to a whole byte.
func (w *bitWriter) bytes() []byte {
	if w.n > 0 {
		w.buf = append(w.buf, byte(w.acc<<(8-w.n)))
		w.n, w.acc = 0, 0
	}
	return w.buf
}

// unary writes n zeros and a one.
func (w *bitWriter) unary(n uint) {
	for ; n >= 32; n -= 32 {
		w.write(0, 32)
	}
	w.write(1, n+1)
}

// gamma writes v in Elias's gamma code of v+1.
func (w *bitWriter) gamma(v uint64) {
	l := uint(bits.Len64(v+1) - 1)
	w.unary(l)
	w.write(v+1, l)
}

func gammaBits(v uint64) int { return 2*bits.Len64(v+1) - 1 }

// zetaK is the parameter of the zeta codes, as in WebGraph's data sets.
const zetaK = 3

// zeta writes v in the zeta code of v+1 with parameter 3 (Boldi and Vigna, "Codes for the World Wide Web", 2005).
func (w *bitWriter) zeta(v uint64) {
	x := v + 1
	h := uint(bits.Len64(x)-1) / zetaK
	left := uint64(1) << (h * zetaK)
	w.unary(h)
	if x-left < left {
		w.write(x-left, h*zetaK+zetaK-1)
	} else {
		w.write(x, h*zetaK+zetaK)
	}
}

func zetaBits(v uint64) int {
	x := v + 1
	h := (bits.Len64(x) - 1) / zetaK
	if left := uint64(1) << (h * zetaK); x-left < left {
		return h + 1 + h*zetaK + zetaK - 1
	}
	return h + 1 + h*zetaK + zetaK
}

// zigzag maps 0, -1, 1, -2 to 0, 1, 2, 3.
func zigzag(v int64) uint64 { return uint64(v)<<1 ^ uint64(v>>63) }

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// A bitReader reads what a bitWriter has written. After an error, which bad reports, it returns zeros.
type bitReader struct {
	buf []byte // with padBytes zeros behind the payload
	pos uint64 // in bits
	end uint64
	bad bool
}

// padBytes is how many bytes peek may read past the payload.
const padBytes = 8

// maxUnary bounds a run of zeros: no number has more than 34 bits.
const maxUnary = 40

// read makes r read a payload. padded has padBytes zeros behind it.
func (r *bitReader) read(padded []byte) {
	*r = bitReader{buf: padded, end: uint64(len(padded)-padBytes) * 8}
}

// peek returns the next bits, at least 57, at the top of the result.
func (r *bitReader) peek() uint64 {
	return binary.BigEndian.Uint64(r.buf[r.pos>>3:]) << (r.pos & 7)
}

func (r *bitReader) skip(n uint) {
	if r.pos += uint64(n); r.pos > r.end {
		r.pos, r.bad = r.end, true
	}
}

// get returns the next n bits, at most 56.
func (r *bitReader) get(n uint) uint64 {
	if n == 0 {
		return 0
	}
	v := r.peek() >> (64 - n)
	r.skip(n)
	return v
}

func (r *bitReader) unary() uint {
	n := uint(bits.LeadingZeros64(r.peek()))
	if n > maxUnary {
		r.bad = true
		return 0
	}
	r.skip(n + 1)
	return n
}

func (r *bitReader) gamma() uint64 {
	l := r.unary()
	return 1<<l + r.get(l) - 1
}

func (r *bitReader) zeta() uint64 {
	h := r.unary()
	if h*zetaK+zetaK > maxUnary {
		r.bad = true
		return 0
	}
	left := uint64(1) << (h * zetaK)
	x := r.get(h*zetaK + zetaK - 1)
	if x < left {
		return x + left - 1
	}
	return x<<1 + r.get(1) - 1
}
