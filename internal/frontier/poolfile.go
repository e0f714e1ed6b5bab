package frontier

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/klauspost/compress/s2"

	"github.com/orbweaver/orbweaver/internal/store/frames"
)

// A poolFile is Polybot's request file: frames that are written and read in sequence. It is deleted when it has been
// read. The last file of a pool is continued until it is as large as a spill segment.
//
// A frame is one of package frames. Its payload is
//
//	uint32 LE  number of links
//	uint64 LE  request number of the first
//	bytes      entries, an S2 block
type poolFile struct {
	tempFile
	read int64 // bytes consumed
}

// frameHeader is the length of a frame before its entries.
const frameHeader = frames.Head + 4 + 8

// writePools writes the closed frames of pools that have enough of them. After an error, the frames that could not be
// written are still in RAM.
func (ps *pools) writePools() error {
	for _, p := range ps.list {
		for len(p.frames) > framesWritten {
			if err := ps.writeFrames(p, min(len(p.frames)-1, 4*framesWritten)); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeFrames writes the first n frames of p that are in RAM, with one write.
func (ps *pools) writeFrames(p *pool, n int) error {
	ps.queues.out = ps.queues.out[:0]
	for _, c := range p.frames[:n] {
		ps.queues.out = c.appendTo(ps.queues.out)
	}
	s, err := ps.writableFile(p)
	if err != nil {
		return err
	}
	if _, err := s.file.Write(ps.queues.out); err != nil {
		// It is unknown how much was written: write no more to this file.
		p.broken = true
		if s.size == 0 {
			p.files = p.files[:len(p.files)-1]
			_ = ps.deletePoolFile(s) // the error of the write says more
		}
		return fmt.Errorf("write queue file %s: %w", s.name, err)
	}
	s.size += int64(len(ps.queues.out))
	ps.bytes += int64(len(ps.queues.out))
	for i, c := range p.frames[:n] {
		ps.queues.fixed -= int64(cap(c.entries))
		ps.reuse(c.entries)
		p.frames[i] = nil
	}
	p.frames = append([]*frame(nil), p.frames[n:]...)
	return nil
}

// appendTo appends the encoding of c.
func (c *frame) appendTo(dst []byte) []byte {
	at := len(dst)
	dst = slices.Grow(dst, frameHeader+s2.MaxEncodedLen(len(c.entries)))[:at+frameHeader]
	packed := s2.Encode(dst[at+frameHeader:cap(dst)], c.entries)
	binary.LittleEndian.PutUint32(dst[at+frames.Head:], uint32(c.n))
	binary.LittleEndian.PutUint64(dst[at+frames.Head+4:], c.first)
	dst = dst[:at+frameHeader+len(packed)]
	frames.Seal(dst[at:])
	return dst
}

// decodeFrame decodes a frame from the front of src. size is its length. If src is too short, short is the number of
// bytes that it needs. The entries use the memory of dst if they fit.
func decodeFrame(dst, src []byte) (c frame, size, short int, ok bool) {
	if len(src) < frameHeader {
		return c, 0, frameHeader, false
	}
	n := frames.Size(src)
	if n < frameHeader || n > frameMost {
		return c, 0, 0, false
	}
	if size = int(n); size > len(src) {
		return c, 0, size, false
	}
	payload, err := frames.Payload(src[:size])
	if err != nil {
		return c, 0, 0, false
	}
	c.n = int32(binary.LittleEndian.Uint32(payload))
	c.first = binary.LittleEndian.Uint64(payload[4:])
	packed := src[frameHeader:size]
	if k, err := s2.DecodedLen(packed); err != nil || k > frameMost {
		return c, 0, 0, false
	}
	c.entries, err = s2.Decode(dst[:cap(dst)], packed)
	return c, size, 0, err == nil && c.n > 0
}

// frameMost limits the size of a frame, so that a damaged one cannot ask for all memory.
const frameMost = 1 << 30

// A frameWindow is a section of a pool file in RAM, from which frames are read, and the entries of the last one.
type frameWindow struct {
	s       *poolFile // nil if it is empty
	off     int64
	bytes   []byte
	entries []byte
}

// at returns what w has of s from off on.
func (w *frameWindow) at(s *poolFile, off int64) []byte {
	if i := off - w.off; s == w.s && i >= 0 && i < int64(len(w.bytes)) {
		return w.bytes[i:]
	}
	return nil
}

// readFrame reads the frame of s at off. size is its length in the file. The entries are valid until w is used again.
func (ps *pools) readFrame(s *poolFile, off int64, w *frameWindow) (c *frame, size int64, err error) {
	for {
		got, n, short, ok := decodeFrame(w.entries, w.at(s, off))
		if ok {
			w.entries = got.entries
			return &got, int64(n), nil
		}
		if short == 0 || int64(short) > s.size-off {
			return nil, 0, s.at(off, ErrSpill)
		}
		// This nearly always covers the frame and the beginning of the next ones.
		want := int(min(int64(max(short, frameHeader+ps.frameBytes)), s.size-off))
		w.s = nil
		w.bytes = slices.Grow(w.bytes[:0], want)[:want]
		if err := ps.queues.files.readAt(&s.tempFile, w.bytes, off); err != nil {
			return nil, 0, err
		}
		w.s, w.off = s, off
	}
}

// writableFile returns the last file of p, or a new one.
func (ps *pools) writableFile(p *pool) (*poolFile, error) {
	if k := len(p.files); k > 0 && !p.broken {
		s := p.files[k-1]
		if s.size < ps.queues.segmentBytes && s.file != nil {
			return s, nil
		}
		if k > 1 { // the first file stays open, because it is being read
			if err := ps.queues.files.closeFile(&s.tempFile); err != nil {
				return nil, err
			}
		}
	}
	s := &poolFile{}
	if err := ps.queues.files.create(&s.tempFile, "pool"); err != nil {
		return nil, err
	}
	p.broken = false
	p.files = append(p.files, s)
	ps.onDisk++
	return s, nil
}

func (ps *pools) deletePoolFile(s *poolFile) error {
	ps.onDisk--
	return ps.queues.files.deleteFile(&s.tempFile)
}
