package drum

import (
	"encoding/binary"
	"math/bits"
)

// slack is the number of bytes that must follow a buffer that is read by bits: every load takes eight bytes.
const slack = 16

// A bitWriter packs numbers, lowest bit first.
type bitWriter struct {
	b   []byte
	acc uint64
	n   uint // bits in acc, under 64
}

// write appends the low n bits of v. The other bits of v must be zero.
func (w *bitWriter) write(v uint64, n uint) {
	w.acc |= v << w.n
	if w.n+n < 64 {
		w.n += n
		return
	}
	w.b = binary.LittleEndian.AppendUint64(w.b, w.acc)
	w.acc = v >> (64 - w.n) // Go shifts by 64 to zero
	w.n = w.n + n - 64
}

func (w *bitWriter) zeros(n uint64) {
	for ; n >= 64; n -= 64 {
		w.write(0, 64)
	}
	w.write(0, uint(n))
}

// align pads the last byte.
func (w *bitWriter) align() {
	for n := uint(0); n < w.n; n += 8 {
		w.b = append(w.b, byte(w.acc>>n))
	}
	w.acc, w.n = 0, 0
}

func (w *bitWriter) reset() { *w = bitWriter{b: w.b[:0]} }

// bitLen returns the number of bits written so far, including padding.
func (w *bitWriter) bitLen() uint64 { return uint64(len(w.b))*8 + uint64(w.n) }

// An Elias-Fano list (Elias 1974; Fano 1971) encodes n ascending numbers. First come the low l bits of each. Then, for
// each number, come as many zeros as its high part exceeds the previous one, and a one. n, l and the largest high part
// determine the length, so that a reader can skip a list without reading it.

// efBits returns the length of a list in bits.
func efBits(n int, l uint, high uint64) uint64 { return uint64(n)*uint64(l) + uint64(n) + high }

// writeEF appends the list of vals, with first subtracted from each.
func (w *bitWriter) writeEF(vals []uint64, first uint64, l uint, high uint64) {
	mask := uint64(1)<<l - 1
	for _, v := range vals {
		w.write((v-first)&mask, l)
	}
	at := uint64(0)
	for _, v := range vals {
		hi := (v - first) >> l
		w.zeros(hi - at)
		w.write(1, 1)
		at = hi
	}
	w.zeros(high - at)
}

// readEF decodes len(out) numbers at bit pos of buf and adds first to each. The list must lie within buf, followed by
// slack bytes. It returns false if the bits are not such a list.
func readEF(out []uint64, buf []byte, pos uint64, l uint, high, first uint64) bool {
	n := uint64(len(out))
	mask := uint64(1)<<l - 1
	at := pos + n*uint64(l)
	end := at + n + high
	if l > 56 {
		return readWideEF(out, buf, pos, l, high, first)
	}
	i := uint64(0)
	for base := uint64(0); i < n; base += 56 {
		if at >= end {
			return false
		}
		word := binary.LittleEndian.Uint64(buf[at>>3:]) >> (at & 7) & (1<<56 - 1)
		at += 56
		for ; word != 0 && i < n; word &= word - 1 {
			hi := base + uint64(bits.TrailingZeros64(word)) - i
			low := binary.LittleEndian.Uint64(buf[pos>>3:]) >> (pos & 7) & mask
			pos += uint64(l)
			out[i] = first + (hi<<(l&63) | low)
			i++
		}
	}
	return (out[n-1]-first)>>l <= high
}

// readWideEF is readEF for low parts that an eight-byte load may not cover.
func readWideEF(out []uint64, buf []byte, pos uint64, l uint, high, first uint64) bool {
	n := uint64(len(out))
	mask := uint64(1)<<l - 1
	at := pos + n*uint64(l)
	end := at + n + high
	hi := uint64(0)
	for i := range out {
		for ; ; at++ {
			if at >= end {
				return false
			}
			if buf[at>>3]>>(at&7)&1 == 1 {
				at++
				break
			}
			hi++
		}
		low := binary.LittleEndian.Uint64(buf[pos>>3:]) >> (pos & 7)
		low |= uint64(buf[pos>>3+8]) << (64 - pos&7) // by 64: zero
		out[i] = first + (hi<<l | low&mask)
		pos += uint64(l)
	}
	return hi <= high
}
