package state

import (
	"encoding/binary"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
)

// AppendRuns appends the encoding of a set of numbers as runs: for each run uvarint the gap
// before it, uvarint its length minus one. The set's own format is not used, because damaged
// bytes make its reader panic.
func AppendRuns(dst []byte, done *roaring64.Bitmap) []byte {
	var buf [1024]uint64
	next, from, to := uint64(0), uint64(0), uint64(0) // the current run is [from, to)
	flush := func() {
		if to > from {
			dst = binary.AppendUvarint(dst, from-next)
			dst = binary.AppendUvarint(dst, to-from-1)
			next = to
		}
	}
	for it := done.ManyIterator(); ; {
		n := it.NextMany(buf[:])
		for _, v := range buf[:n] {
			if v != to || to == 0 {
				flush()
				from = v
			}
			to = v + 1
		}
		if n == 0 {
			flush()
			return dst
		}
	}
}

// longRun is the length from which a run is added as a range. Adding a range copies all runs of
// the set in the same block of 65,536 numbers, so short runs are added number by number.
const longRun = 1 << 12

// DecodeRuns reads what AppendRuns wrote. Numbers above last are damage.
func DecodeRuns(p []byte, last uint64) (*roaring64.Bitmap, error) {
	done := roaring64.New()
	var short []uint64
	for next := uint64(0); len(p) > 0; {
		gap, n := binary.Uvarint(p)
		if n <= 0 || gap > last {
			return nil, ErrRecord
		}
		length, m := binary.Uvarint(p[n:])
		if m <= 0 || length > last || next+gap+length > last {
			return nil, ErrRecord
		}
		p = p[n+m:]
		from := next + gap
		next = from + length + 1
		if length >= longRun {
			done.AddRange(from, next)
			continue
		}
		for n := from; n < next; n++ {
			short = append(short, n)
		}
		if len(short) >= longRun {
			done.AddMany(short)
			short = short[:0]
		}
	}
	done.AddMany(short)
	return done, nil
}

// PutPieces writes p in pieces, because it may be too large for one record. Before each piece
// is a byte, which is 1 if more pieces follow.
func PutPieces(kind byte, p []byte, size int, put func(kind byte, p []byte) error) error {
	var buf []byte
	for {
		n := min(len(p), size)
		more := byte(0)
		if n < len(p) {
			more = 1
		}
		buf = append(append(buf[:0], more), p[:n]...)
		if err := put(kind, buf); err != nil {
			return err
		}
		if p = p[n:]; more == 0 {
			return nil
		}
	}
}

// Pieces joins what PutPieces wrote.
type Pieces struct{ buf []byte }

// Add adds a piece. whole is nil until the last piece.
func (s *Pieces) Add(p []byte) (whole []byte, err error) {
	if len(p) == 0 {
		return nil, ErrRecord
	}
	if s.buf = append(s.buf, p[1:]...); p[0] != 0 {
		return nil, nil
	}
	whole, s.buf = s.buf, nil
	if whole == nil {
		whole = []byte{}
	}
	return whole, nil
}

// Label returns the label of a part: the kind of its records, K or P, and as uvarints the first
// and the last number of their accepts. Keys are in the order of the numbers, without a gap.
func Label(kind byte, first, last uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint([]byte{kind}, first), last)
}

func ParseLabel(b []byte) (kind byte, first, last uint64, err error) {
	if len(b) == 0 || b[0] != Keys && b[0] != Pending {
		return 0, 0, 0, fmt.Errorf("%w: label %x of a part", ErrRecord, b)
	}
	first, n := binary.Uvarint(b[1:])
	m := 0
	if n > 0 {
		last, m = binary.Uvarint(b[1+n:])
	}
	if m <= 0 || 1+n+m != len(b) || first == 0 || last < first-1 || last > MaxNumber {
		return 0, 0, 0, fmt.Errorf("%w: label %x of a part", ErrRecord, b)
	}
	return b[0], first, last, nil
}
