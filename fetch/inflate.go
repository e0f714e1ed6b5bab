package fetch

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"sync"
)

// An inflater undoes deflate (RFC 1951) from memory to memory, where a
// compressed body is whole and says how long it will be. It needs no window
// beside the output and looks up several bits at once, which makes it about
// twice as fast as a decoder that reads a stream (the tables are those of
// libdeflate). It knows only right and wrong: what it will not take goes to
// the stream decoder, which says what can be said about it.
type inflater struct {
	lit  [1<<litBits + (maxLitCodes/2)<<(maxCode-litBits)]uint32
	dist [1<<distBits + (maxDistCodes/2)<<(maxCode-distBits)]uint32
	pre  [1 << preBits]uint32
	lens [maxLitCodes + maxDistCodes + 138]uint8 // a run may go beyond the end
}

var inflaters = sync.Pool{New: func() any { return new(inflater) }}

const (
	litBits  = 11 // looked up at once of a literal's or a length's code
	distBits = 8
	preBits  = 7

	maxCode      = 15 // bits of a code
	maxLitCodes  = 288
	maxDistCodes = 32

	// step is how many bytes of a match are copied at once.
	step = 16
	// inflateSlack is the room behind the output that this may write to: three
	// literals, the longest match and a step.
	inflateSlack = 3 + 258 + step
	// maxRatio is the most that deflate can expand.
	maxRatio = 1032
)

// A table's entry: the bits to take (code and extra bits) in its low byte, the
// bits of the code alone in the four bits above, and a value from bit 16: a
// literal, the base of a length or distance, or where a second table begins.
const (
	isLiteral  = 1 << 31
	isSpecial  = 1 << 15 // not a length or distance; wrong without one of:
	isSubtable = 1 << 14 // the four bits from 8 tell the bits of its index
	isEnd      = 1 << 13 // of the block

	badCode = isSpecial
)

// What each symbol's entry holds before its code's length is known.
var litSymbols, distSymbols, preSymbols = func() (lit [maxLitCodes]uint32, dist [maxDistCodes]uint32, pre [19]uint32) {
	for i := range 256 {
		lit[i] = isLiteral | uint32(i)<<16
	}
	lit[256] = isSpecial | isEnd
	base := uint32(3)
	for i := 257; i < 285; i++ {
		extra := uint32(max((i-261)/4, 0))
		lit[i] = base<<16 | extra
		base += 1 << extra
	}
	lit[285] = 258 << 16
	lit[286], lit[287] = badCode, badCode
	base = 1
	for i := range 30 {
		extra := uint32(max(i/2-1, 0))
		dist[i] = base<<16 | extra
		base += 1 << extra
	}
	dist[30], dist[31] = badCode, badCode
	for i := range pre {
		pre[i] = uint32(i) << 16
	}
	return lit, dist, pre
}()

var preOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// fillTable makes the look-up table of a canonical code with the given
// lengths. first bits are looked up at once; longer codes have a second table.
// A code that leaves combinations unused is refused, but for one of at most
// one symbol.
func fillTable(table []uint32, first uint, symbols []uint32, lens []uint8) bool {
	var count [maxCode + 1]int
	for _, l := range lens {
		count[l&15]++
	}
	count[0] = 0
	longest, space, used := uint(0), 0, 0
	var next [maxCode + 2]uint
	for l := 1; l <= maxCode; l++ {
		space = space<<1 + count[l]
		used += count[l]
		if space > 1<<l {
			return false
		}
		if count[l] > 0 {
			longest = uint(l)
		}
		next[l+1] = (next[l] + uint(count[l])) << 1
	}
	if space != 1<<maxCode {
		if used > 1 || longest > 1 {
			return false
		}
		for i := range table[:1<<first] {
			table[i] = badCode
		}
	}
	if longest > first {
		// Where a second table begins is told as it is made.
		clear(table[:1<<first])
	}
	end := uint(1) << first
	for sym, n := range lens {
		l := uint(n & 15)
		if l == 0 {
			continue
		}
		code := uint(bits.Reverse16(uint16(next[l])) >> (16 - l))
		next[l]++
		if l <= first {
			e := symbols[sym] + uint32(l)<<8 + uint32(l)
			for ; code < 1<<first; code += 1 << l {
				table[code] = e
			}
			continue
		}
		wide := longest - first
		head := code & (1<<first - 1)
		if table[head] == 0 {
			table[head] = isSpecial | isSubtable | uint32(end)<<16 | uint32(wide)<<8 | uint32(first)
			end += 1 << wide
		}
		l -= first
		sub := table[table[head]>>16:][:1<<wide]
		e := symbols[sym] + uint32(l)<<8 + uint32(l)
		for code >>= first; code < 1<<wide; code += 1 << l {
			sub[code] = e
		}
	}
	return true
}

// inflate decodes the stream that in begins with into out, of which the last
// inflateSlack bytes are room for copies. n is how many bytes of out there
// are, used how many of in were read. ok is false for a stream that is
// damaged, cut short or too long for out.
func (f *inflater) inflate(out, in []byte) (n, used int, ok bool) {
	var (
		buf    uint64 // bits not yet taken, the next lowest
		have   uint   // how many
		pos    int
		op     int
		fast   = len(in) - 24
		outEnd = len(out) - inflateSlack
	)
	if outEnd < 0 {
		return 0, 0, false
	}
	for last := false; !last; {
		for have < 48 && pos < len(in) {
			buf |= uint64(in[pos]) << have
			have += 8
			pos++
		}
		if have < 3 {
			return 0, 0, false
		}
		last = buf&1 != 0
		kind := buf >> 1 & 3
		buf >>= 3
		have -= 3
		switch kind {
		case 0:
			// Back to the byte behind the last that was touched.
			pos -= int(have / 8)
			buf, have = 0, 0
			if len(in)-pos < 4 {
				return 0, 0, false
			}
			size := int(binary.LittleEndian.Uint16(in[pos:]))
			if size^0xffff != int(binary.LittleEndian.Uint16(in[pos+2:])) {
				return 0, 0, false
			}
			pos += 4
			if size > len(in)-pos || size > outEnd-op {
				return 0, 0, false
			}
			copy(out[op:], in[pos:pos+size])
			op += size
			pos += size
			continue
		case 1:
			lens := f.lens[:maxLitCodes+maxDistCodes]
			for i := range lens {
				switch {
				case i < 144:
					lens[i] = 8
				case i < 256:
					lens[i] = 9
				case i < 280:
					lens[i] = 7
				case i < maxLitCodes:
					lens[i] = 8
				default:
					lens[i] = 5
				}
			}
			if !fillTable(f.lit[:], litBits, litSymbols[:], lens[:maxLitCodes]) ||
				!fillTable(f.dist[:], distBits, distSymbols[:], lens[maxLitCodes:]) {
				return 0, 0, false
			}
		case 2:
			if have < 14 {
				return 0, 0, false
			}
			lits, dists, pres := int(buf&31)+257, int(buf>>5&31)+1, int(buf>>10&15)+4
			buf >>= 14
			have -= 14
			if lits > 286 {
				return 0, 0, false
			}
			var plens [19]uint8
			for i := range pres {
				for have < 48 && pos < len(in) {
					buf |= uint64(in[pos]) << have
					have += 8
					pos++
				}
				if have < 3 {
					return 0, 0, false
				}
				plens[preOrder[i]] = uint8(buf & 7)
				buf >>= 3
				have -= 3
			}
			if !fillTable(f.pre[:], preBits, preSymbols[:], plens[:]) {
				return 0, 0, false
			}
			for i := 0; i < lits+dists; {
				if pos <= fast {
					buf |= binary.LittleEndian.Uint64(in[pos:]) << (have & 63)
					pos += int(63-have) >> 3
					have |= 56
				} else {
					for have < 48 && pos < len(in) {
						buf |= uint64(in[pos]) << have
						have += 8
						pos++
					}
				}
				e := f.pre[buf&(1<<preBits-1)]
				if e&isSpecial != 0 {
					return 0, 0, false
				}
				taken := uint(e & 63)
				buf >>= taken & 63
				sym, repeat, value := e>>16, 1, uint8(e>>16)
				var extra uint
				switch {
				case sym == 16:
					if i == 0 {
						return 0, 0, false
					}
					repeat, value, extra = 3+int(buf&3), f.lens[i-1], 2
				case sym == 17:
					repeat, value, extra = 3+int(buf&7), 0, 3
				case sym == 18:
					repeat, value, extra = 11+int(buf&127), 0, 7
				}
				buf >>= extra & 63
				if taken += extra; taken > have {
					return 0, 0, false
				}
				have -= taken
				if sym < 16 {
					f.lens[i] = value
					i++
					continue
				}
				run := f.lens[i : i+repeat]
				for j := range run {
					run[j] = value
				}
				if i += repeat; i > lits+dists {
					return 0, 0, false
				}
			}
			if f.lens[256] == 0 || !fillTable(f.dist[:], distBits, distSymbols[:], f.lens[lits:lits+dists]) ||
				!fillTable(f.lit[:], litBits, litSymbols[:], f.lens[:lits]) {
				return 0, 0, false
			}
		default:
			return 0, 0, false
		}

		// While a symbol's bits are surely there and so is room for what it
		// stands for, nothing need be checked but the codes themselves.
		var e uint32
		var length, from int
	symbols:
		for {
			if pos > fast || op > outEnd-3 {
				goto careful
			}
			buf |= binary.LittleEndian.Uint64(in[pos:]) << (have & 63)
			pos += int(63-have) >> 3
			have |= 56
			e = f.lit[buf&(1<<litBits-1)]
		decode:
			if e&isLiteral != 0 {
				buf >>= e & 63
				have -= uint(e & 63)
				out[op] = byte(e >> 16)
				op++
				e = f.lit[buf&(1<<litBits-1)]
				if e&isLiteral != 0 {
					buf >>= e & 63
					have -= uint(e & 63)
					out[op] = byte(e >> 16)
					op++
					e = f.lit[buf&(1<<litBits-1)]
					if e&isLiteral != 0 {
						buf >>= e & 63
						have -= uint(e & 63)
						out[op] = byte(e >> 16)
						op++
						continue
					}
				}
			}
			if e&isSpecial != 0 {
				if e&isSubtable != 0 {
					buf >>= litBits
					have -= litBits
					e = f.lit[uint64(e>>16&0x1fff)+buf&(1<<(e>>8&15)-1)]
					if e&isLiteral != 0 {
						buf >>= e & 63
						have -= uint(e & 63)
						out[op] = byte(e >> 16)
						op++
						continue
					}
				}
				if e&isSpecial != 0 {
					if e&isEnd == 0 {
						return 0, 0, false
					}
					buf >>= e & 63
					have -= uint(e & 63)
					break symbols
				}
			}
			// At least 56 bits were there, of which three literals take 33, or
			// two 22 and a length 20.
			length = int(e>>16) + int(buf&(1<<(e&63)-1)>>(e>>8&15))
			buf >>= e & 63
			have -= uint(e & 63)
			if have < maxCode+13 {
				buf |= binary.LittleEndian.Uint64(in[pos:]) << (have & 63)
				pos += int(63-have) >> 3
				have |= 56
			}
			e = f.dist[buf&(1<<distBits-1)]
			if e&isSpecial != 0 {
				if e&isSubtable == 0 {
					return 0, 0, false
				}
				buf >>= distBits
				have -= distBits
				e = f.dist[uint64(e>>16&0x1fff)+buf&(1<<(e>>8&15)-1)]
				if e&isSpecial != 0 {
					return 0, 0, false
				}
			}
			from = op - int(e>>16) - int(buf&(1<<(e&63)-1)>>(e>>8&15))
			buf >>= e & 63
			have -= uint(e & 63)
			if from < 0 {
				return 0, 0, false
			}
			// The next look-up need not wait for the copy.
			buf |= binary.LittleEndian.Uint64(in[pos:]) << (have & 63)
			pos += int(63-have) >> 3
			have |= 56
			e = f.lit[buf&(1<<litBits-1)]
			if op-from >= step {
				src, dst := out[from:], out[op:op+length+step]
				*(*[step]byte)(dst) = *(*[step]byte)(src)
				for i := step; i < length; i += step {
					*(*[step]byte)(dst[i:]) = *(*[step]byte)(src[i:])
				}
			} else {
				src, dst := out[from:], out[op:op+length]
				for i := range dst {
					dst[i] = src[i]
				}
			}
			op += length
			if pos <= fast && op <= outEnd-3 {
				goto decode
			}

		careful:
			for have < 48 && pos < len(in) {
				buf |= uint64(in[pos]) << have
				have += 8
				pos++
			}
			e = f.lit[buf&(1<<litBits-1)]
			if e&isSubtable != 0 && e&(isSpecial|isLiteral) == isSpecial {
				if have < litBits {
					return 0, 0, false
				}
				buf >>= litBits
				have -= litBits
				e = f.lit[uint64(e>>16&0x1fff)+buf&(1<<(e>>8&15)-1)]
			}
			if uint(e&63) > have {
				return 0, 0, false
			}
			switch {
			case e&isLiteral != 0:
				if op >= outEnd {
					return 0, 0, false
				}
				out[op] = byte(e >> 16)
				op++
				buf >>= e & 63
				have -= uint(e & 63)
				continue
			case e&(isSpecial|isEnd) == isSpecial|isEnd:
				buf >>= e & 63
				have -= uint(e & 63)
				break symbols
			case e&isSpecial != 0:
				return 0, 0, false
			}
			length = int(e>>16) + int(buf&(1<<(e&63)-1)>>(e>>8&15))
			buf >>= e & 63
			have -= uint(e & 63)
			for have < 48 && pos < len(in) {
				buf |= uint64(in[pos]) << have
				have += 8
				pos++
			}
			e = f.dist[buf&(1<<distBits-1)]
			if e&isSpecial != 0 {
				if e&isSubtable == 0 || have < distBits {
					return 0, 0, false
				}
				buf >>= distBits
				have -= distBits
				e = f.dist[uint64(e>>16&0x1fff)+buf&(1<<(e>>8&15)-1)]
			}
			if e&isSpecial != 0 || uint(e&63) > have {
				return 0, 0, false
			}
			from = op - int(e>>16) - int(buf&(1<<(e&63)-1)>>(e>>8&15))
			buf >>= e & 63
			have -= uint(e & 63)
			if from < 0 || length > outEnd-op {
				return 0, 0, false
			}
			for range length {
				out[op] = out[from]
				op++
				from++
			}
		}
	}
	return op, pos - int(have/8), true
}

// gunzip decodes a body that is one whole gzip member (RFC 1952) of at most
// limit bytes and has the checksum and length that it claims. Any other is not
// ok, and left to the stream decoder.
func gunzip(in []byte, limit int64) (*buffer, int, bool) {
	const header, trailer = 10, 8
	if len(in) < header+trailer || in[0] != 0x1f || in[1] != 0x8b || in[2] != 8 {
		return nil, 0, false
	}
	sum := binary.LittleEndian.Uint32(in[len(in)-8:])
	size := int64(binary.LittleEndian.Uint32(in[len(in)-4:]))
	if size > limit || size > int64(len(in))*maxRatio || size > maxGunzip {
		return nil, 0, false
	}
	at, ok := gzipHeader(in)
	if !ok {
		return nil, 0, false
	}
	b := newBuffer(int(size) + inflateSlack)
	f := inflaters.Get().(*inflater)
	n, used, ok := f.inflate(b.b[:int(size)+inflateSlack], in[at:])
	inflaters.Put(f)
	if !ok || int64(n) != size || at+used != len(in)-trailer || crc32.ChecksumIEEE(b.b[:n]) != sum {
		b.release()
		return nil, 0, false
	}
	return b, n, true
}

// maxGunzip bounds what is decoded in one piece.
const maxGunzip = 4<<20 - inflateSlack

// gzipHeader is the length of the header, if it has nothing unusual.
func gzipHeader(in []byte) (n int, ok bool) {
	const hcrc, extra, name, comment, reserved = 2, 4, 8, 16, 0xe0
	flags := in[3]
	if flags&(hcrc|reserved) != 0 {
		return 0, false
	}
	n = 10
	if flags&extra != 0 {
		if len(in) < n+2 {
			return 0, false
		}
		n += 2 + int(binary.LittleEndian.Uint16(in[n:]))
	}
	for _, f := range [...]byte{name, comment} {
		if flags&f == 0 {
			continue
		}
		for ; ; n++ {
			if n >= len(in) {
				return 0, false
			}
			if in[n] == 0 {
				break
			}
		}
		n++
	}
	return n, n <= len(in)
}
