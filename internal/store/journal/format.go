package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	magic      = "owjrnl\r\n"
	version    = 1
	fileHeader = 36
	frameHead  = 24

	typeSegment, typeSnapshot, typePart = 1, 2, 3
	frameBatch, frameEnd, frameParts    = 1, 2, 3

	// MaxBatch is the limit of a batch in bytes, including kinds and lengths.
	MaxBatch = 64 << 20
	// firstSegment is the number of the first segment of a journal.
	firstSegment = 1
)

// The errors of this package. Test for them with errors.Is.
var (
	// ErrDamaged means that a file does not hold the bytes that were written, and that no crash explains it. The
	// error is a *DamageError.
	ErrDamaged = errors.New("journal damaged")
	// ErrVersion means that a file has a format version that this program does not read.
	ErrVersion = errors.New("unknown journal version")
	// ErrTooLarge means that a batch exceeds MaxBatch, or that a label or a record of a snapshot is too long.
	ErrTooLarge = errors.New("batch too large")
	// ErrClosed means that the Journal was closed before the call.
	ErrClosed = errors.New("journal closed")
)

// A DamageError tells where a journal is damaged. Replay delivers the records before Offset.
type DamageError struct {
	File   string
	Offset int64 // of the unreadable frame or header
	Reason string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%v: %s at byte %d: %s", ErrDamaged, e.File, e.Offset, e.Reason)
}

// Is reports whether target is ErrDamaged.
func (e *DamageError) Is(target error) bool { return target == ErrDamaged }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func segmentName(dir string, n uint64) string {
	return filepath.Join(dir, fmt.Sprintf("journal-%08d.log", n))
}

func snapshotName(dir string, n uint64) string {
	return filepath.Join(dir, fmt.Sprintf("snapshot-%08d.log", n))
}

// number returns the number in a file name. It accepts exactly the names that segmentName and snapshotName make.
func number(base, prefix string) (n uint64, ok bool) {
	s, ok := strings.CutPrefix(base, prefix)
	if !ok {
		return 0, false
	}
	if s, ok = strings.CutSuffix(s, ".log"); !ok || len(s) < 8 || len(s) > 8 && s[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 63)
	return n, err == nil
}

func appendFileHeader(dst []byte, typ byte, number, prev uint64) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint16(dst, version)
	dst = append(dst, typ, 0, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, number)
	dst = binary.LittleEndian.AppendUint64(dst, prev)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// parseFileHeader checks a file header and returns the size of the previous segment that it records.
func parseFileHeader(b []byte, typ byte, number uint64) (prev uint64, err error) {
	if len(b) < fileHeader || string(b[:8]) != magic {
		return 0, errors.New("the file does not start with a journal header")
	}
	// Check the version before the checksum: another version may have another header.
	if v := binary.LittleEndian.Uint16(b[8:]); v != version && v != 0 { // 0: torn
		return 0, fmt.Errorf("%w: %d; use a program that reads it, this one reads version %d", ErrVersion, v, version)
	}
	switch {
	case crc32.Checksum(b[:32], castagnoli) != binary.LittleEndian.Uint32(b[32:]):
		return 0, errors.New("the checksum of the header is wrong")
	case b[10] != typ:
		return 0, fmt.Errorf("the header has file type %d, the name means type %d", b[10], typ)
	case binary.LittleEndian.Uint64(b[16:]) != number:
		return 0, fmt.Errorf("the header has file number %d, the name has another", binary.LittleEndian.Uint64(b[16:]))
	}
	return binary.LittleEndian.Uint64(b[24:]), nil
}

// A frame is the header of a frame.
type frame struct {
	length uint32 // of the body
	crc    uint32 // of the body
	synced uint64 // bytes of the file that were durable when the frame was made
	typ    byte
}

// put writes f to dst. The frame starts at byte off of file number.
func (f frame) put(dst []byte, number uint64, off int64) {
	binary.LittleEndian.PutUint32(dst[0:], f.length)
	binary.LittleEndian.PutUint32(dst[4:], f.crc)
	binary.LittleEndian.PutUint64(dst[8:], f.synced)
	dst[16], dst[17], dst[18], dst[19] = f.typ, 0, 0, 0
	binary.LittleEndian.PutUint32(dst[20:], frameCRC(dst, number, off))
}

// parseFrame parses a frame header that stands at byte off of file number. ok is false if b holds no such header.
func parseFrame(b []byte, number uint64, off int64) (f frame, ok bool) {
	if len(b) < frameHead || b[16] < frameBatch || b[16] > frameParts || b[17]|b[18]|b[19] != 0 {
		return f, false
	}
	if binary.LittleEndian.Uint32(b[20:]) != frameCRC(b, number, off) {
		return f, false
	}
	le := binary.LittleEndian
	return frame{le.Uint32(b), le.Uint32(b[4:]), le.Uint64(b[8:]), b[16]}, true
}

// frameCRC also covers the position, so that a frame of another file or another offset does not pass as a frame here.
func frameCRC(head []byte, number uint64, off int64) uint32 {
	return crc32.Checksum(head[:20], castagnoli) ^ uint32(off) ^ uint32(number^number>>32)*0x9e3779b1
}

// appendRecord appends one record to the body of a batch.
func appendRecord(dst []byte, kind byte, payload []byte) []byte {
	dst = append(dst, kind)
	dst = binary.AppendUvarint(dst, uint64(len(payload)))
	return append(dst, payload...)
}

// nextRecord splits the first record off body. ok is false if body is empty or malformed.
func nextRecord(body []byte) (kind byte, payload, rest []byte, ok bool) {
	if len(body) == 0 {
		return 0, nil, nil, false
	}
	n, w := binary.Uvarint(body[1:])
	if w <= 0 || n > uint64(len(body)-1-w) {
		return 0, nil, nil, false
	}
	payload = body[1+w : 1+w+int(n)]
	return body[0], payload[:len(payload):len(payload)], body[1+w+int(n):], true
}

// A count holds the totals in the end frame of a snapshot or part.
type count struct{ batches, records, bytes uint64 }

func (c count) appendTo(dst []byte) []byte {
	for _, v := range [...]uint64{c.batches, c.records, c.bytes} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return dst
}

// endBody is the length of the body of an end frame.
const endBody = 32

func appendEnd(dst []byte, c count, parts int64) []byte {
	return binary.LittleEndian.AppendUint64(c.appendTo(dst), uint64(parts))
}
