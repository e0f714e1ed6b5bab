// Package frames answers: does this piece of a file hold the bytes that were written there?
//
//	0  4  CRC-32C of all that follows, little-endian
//	4  4  length of the payload, little-endian
//	8     payload
//
// It is for files that are read where they were written, such as spilled queues. A frame does not tell where it stands,
// so a frame at the place of another one is not found out: the journal and the key set have formats of their own.
package frames

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"
)

// Head is the length of a frame before its payload.
const Head = 8

// ErrDamaged reports a piece of a file that is no whole frame.
var ErrDamaged = errors.New("damaged frame")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Seal fills in the head of a frame, whose first Head bytes are free.
func Seal(frame []byte) {
	binary.LittleEndian.PutUint32(frame[4:], uint32(len(frame)-Head))
	binary.LittleEndian.PutUint32(frame, crc32.Checksum(frame[4:], castagnoli))
}

// Append appends the frame of a payload.
func Append(dst, payload []byte) []byte {
	from := len(dst)
	dst = append(append(dst, make([]byte, Head)...), payload...)
	Seal(dst[from:])
	return dst
}

// Size returns the length of the frame that begins with head, which has at least Head bytes. It checks nothing.
func Size(head []byte) int64 { return Head + int64(binary.LittleEndian.Uint32(head[4:])) }

// Payload returns the payload of a frame. The error is ErrDamaged.
func Payload(frame []byte) ([]byte, error) {
	if len(frame) < Head || Size(frame) != int64(len(frame)) ||
		crc32.Checksum(frame[4:], castagnoli) != binary.LittleEndian.Uint32(frame) {
		return nil, ErrDamaged
	}
	return frame[Head:], nil
}

// Read appends the payload of the frame at an offset to dst. The frame must end at end or before. The error is
// ErrDamaged, or that of r; then dst is as it was.
func Read(r io.ReaderAt, off, end int64, dst []byte) ([]byte, error) {
	var head [Head]byte
	if err := readFull(r, head[:], off); err != nil {
		return dst, err
	}
	size := Size(head[:])
	if size > end-off {
		return dst, ErrDamaged
	}
	from := len(dst)
	dst = slices.Grow(dst, int(size-Head))[:from+int(size-Head)]
	if err := readFull(r, dst[from:], off+Head); err != nil {
		return dst[:from], err
	}
	sum := crc32.Update(crc32.Checksum(head[4:], castagnoli), castagnoli, dst[from:])
	if sum != binary.LittleEndian.Uint32(head[:]) {
		return dst[:from], ErrDamaged
	}
	return dst, nil
}

// readFull fills p. A file that ends before is damaged.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == io.EOF:
		return ErrDamaged
	}
	return err
}
