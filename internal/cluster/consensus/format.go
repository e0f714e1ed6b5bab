package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"
)

const (
	segmentMagic = "owraftl\x01"
	segmentHead  = 20
	recordMagic  = 0x7246526f
	recordHead   = 20
	entryHead    = 25

	voteMagic     = "owraftv\x01"
	snapshotMagic = "owrafts\x01"
	snapshotHead  = 36
	snapshotTail  = 16

	// maxConfiguration bounds the encoded list of members in a snapshot.
	maxConfiguration = 64 << 10
	// maxEntry bounds the data of an entry on disk.
	maxEntry = MaxCommand + maxConfiguration
)

// ErrDamaged means that a file does not hold the bytes that were written, and that no crash explains it. The error is
// a *DamageError.
var ErrDamaged = errors.New("damaged")

// A DamageError says which file is damaged, and where.
type DamageError struct {
	File   string
	Offset int64
	Reason string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is %v at byte %d: %s", e.File, ErrDamaged, e.Offset, e.Reason)
}

// Is reports whether target is ErrDamaged.
func (e *DamageError) Is(target error) bool { return target == ErrDamaged }

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	le         = binary.LittleEndian
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// appendSegmentHead appends the header of the segment whose first entry is first.
func appendSegmentHead(dst []byte, first uint64) []byte {
	start := len(dst)
	dst = le.AppendUint64(append(dst, segmentMagic...), first)
	return le.AppendUint32(dst, checksum(dst[start:]))
}

func parseSegmentHead(b []byte, first uint64) error {
	switch {
	case len(b) < segmentHead || string(b[:7]) != segmentMagic[:7]:
		return errors.New("it does not start with the header of a log")
	case checksum(b[:16]) != le.Uint32(b[16:]):
		return errors.New("the checksum of the header is wrong")
	case b[7] != segmentMagic[7]:
		return fmt.Errorf("it has format version %d; use a program that reads it, this one reads version %d",
			b[7], segmentMagic[7])
	case le.Uint64(b[8:]) != first:
		return fmt.Errorf("the header says that entry %d is the first, the name says %d", le.Uint64(b[8:]), first)
	}
	return nil
}

// appendRecord appends the record of l, which will start at byte off of its file. The first synced bytes of the file
// are durable.
func appendRecord(dst []byte, l *raft.Log, off, synced int64) []byte {
	start := len(dst)
	dst = le.AppendUint32(dst, recordMagic)
	dst = le.AppendUint32(dst, uint32(entryHead+len(l.Data)))
	dst = le.AppendUint64(dst, uint64(synced))
	dst = append(dst, 0, 0, 0, 0)
	dst = le.AppendUint64(dst, l.Index)
	dst = le.AppendUint64(dst, l.Term)
	dst = append(dst, byte(l.Type))
	var at int64
	if !l.AppendedAt.IsZero() {
		at = l.AppendedAt.UnixNano()
	}
	dst = le.AppendUint64(dst, uint64(at))
	dst = append(dst, l.Data...)
	le.PutUint32(dst[start+16:], recordSum(dst[start:], off))
	return dst
}

// recordSum covers the position, so that a record at another offset does not pass as one here.
func recordSum(b []byte, off int64) uint32 {
	return crc32.Update(checksum(b[:16]), castagnoli, b[recordHead:]) ^ uint32(off) ^ uint32(off>>32)
}

// recordSize returns the size of the record that b starts with, or 0 if b does not start with the head of a record.
func recordSize(b []byte) int64 {
	if len(b) < recordHead || le.Uint32(b) != recordMagic {
		return 0
	}
	n := le.Uint32(b[4:])
	if n < entryHead || n > entryHead+maxEntry {
		return 0
	}
	return recordHead + int64(n)
}

// A head holds what the index in RAM keeps of a record.
type head struct {
	off    int64
	size   int64
	index  uint64
	term   uint64
	synced int64
}

// parseRecord checks the whole record b, which stands at byte off of its file.
func parseRecord(b []byte, off int64) (h head, ok bool) {
	if n := recordSize(b); n == 0 || n != int64(len(b)) || recordSum(b, off) != le.Uint32(b[16:]) {
		return h, false
	}
	return head{off, int64(len(b)), le.Uint64(b[20:]), le.Uint64(b[28:]), int64(le.Uint64(b[8:]))}, true
}
