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
	version    = 2
	fileHeader = 36
	frameHead  = 24

	typeSegment, typeSnapshot, typePart = 1, 2, 3
	frameBatch, frameEnd, frameParts    = 1, 2, 3

	// MaxBatch bounds the bytes of a batch with its kinds and lengths.
	MaxBatch = 64 << 20
	// firstSegment is the number of the first segment of a journal.
	firstSegment = 1
)

// Errors of this package; test with errors.Is.
var (
	// ErrDamaged is a file whose bytes are not what was written, in a place
	// where no crash explains it. The error is a *DamageError.
	ErrDamaged = errors.New("journal damaged")
	// ErrVersion is a file of a version that this program does not read.
	ErrVersion = errors.New("journal of another version")
	// ErrTooLarge is a batch over MaxBatch.
	ErrTooLarge = errors.New("batch too large")
	// ErrClosed is a Journal that was closed.
	ErrClosed = errors.New("journal closed")
)

// A DamageError says where a journal is damaged. Everything before Offset was
// read.
type DamageError struct {
	File   string
	Offset int64 // of the frame or header that cannot be read
	Reason string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%v: %s at byte %d: %s", ErrDamaged, e.File, e.Offset, e.Reason)
}

// Is makes a DamageError an ErrDamaged.
func (e *DamageError) Is(target error) bool { return target == ErrDamaged }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func segmentName(dir string, n uint64) string {
	return filepath.Join(dir, fmt.Sprintf("journal-%08d.log", n))
}

func snapshotName(dir string, n uint64) string {
	return filepath.Join(dir, fmt.Sprintf("snapshot-%08d.log", n))
}

// number reads the number out of a file name, only as the names above write it.
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

// parseFileHeader returns the size of the segment before, as the header has it.
func parseFileHeader(b []byte, typ byte, number uint64) (prev uint64, err error) {
	if len(b) < fileHeader || string(b[:8]) != magic {
		return 0, errors.New("no journal header")
	}
	// The version stands before the checksum is believed: another version may
	// have another header.
	if v := binary.LittleEndian.Uint16(b[8:]); v != version && v != 0 { // 0: torn
		return 0, fmt.Errorf("%w: version %d, this program reads %d", ErrVersion, v, version)
	}
	switch {
	case crc32.Checksum(b[:32], castagnoli) != binary.LittleEndian.Uint32(b[32:]):
		return 0, errors.New("header checksum differs")
	case b[10] != typ:
		return 0, fmt.Errorf("file type %d under the name of type %d", b[10], typ)
	case binary.LittleEndian.Uint64(b[16:]) != number:
		return 0, fmt.Errorf("file number %d under another name", binary.LittleEndian.Uint64(b[16:]))
	}
	return binary.LittleEndian.Uint64(b[24:]), nil
}

// A frame is the header of one.
type frame struct {
	length uint32 // of the body
	crc    uint32 // of the body
	synced uint64
	typ    byte
}

// put writes f, which starts at byte off of file number, to dst.
func (f frame) put(dst []byte, number uint64, off int64) {
	binary.LittleEndian.PutUint32(dst[0:], f.length)
	binary.LittleEndian.PutUint32(dst[4:], f.crc)
	binary.LittleEndian.PutUint64(dst[8:], f.synced)
	dst[16], dst[17], dst[18], dst[19] = f.typ, 0, 0, 0
	binary.LittleEndian.PutUint32(dst[20:], frameCRC(dst, number, off))
}

// parseFrame says whether b holds the frame header of byte off of file number.
func parseFrame(b []byte, number uint64, off int64) (f frame, ok bool) {
	if len(b) < frameHead || b[16] < frameBatch || b[16] > frameParts || b[17]|b[18]|b[19] != 0 {
		return f, false
	}
	if binary.LittleEndian.Uint32(b[20:]) != frameCRC(b, number, off) {
		return f, false
	}
	return frame{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint64(b[8:]), b[16]}, true
}

// frameCRC covers the place too, so that bytes of another file or of another
// time are no frame here.
func frameCRC(head []byte, number uint64, off int64) uint32 {
	return crc32.Checksum(head[:20], castagnoli) ^ uint32(off) ^ uint32(number^number>>32)*0x9e3779b1
}

// appendRecord appends one record of a body.
func appendRecord(dst []byte, kind byte, payload []byte) []byte {
	dst = append(dst, kind)
	dst = binary.AppendUvarint(dst, uint64(len(payload)))
	return append(dst, payload...)
}

// nextRecord takes one record from the front of body.
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

// A count is what the end frame of a snapshot or part states.
type count struct{ batches, records, bytes uint64 }

func (c count) appendTo(dst []byte) []byte {
	for _, v := range [...]uint64{c.batches, c.records, c.bytes} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return dst
}

// endBody is the length of an end frame's body.
const endBody = 32

func appendEnd(dst []byte, c count, parts int64) []byte {
	return binary.LittleEndian.AppendUint64(c.appendTo(dst), uint64(parts))
}
