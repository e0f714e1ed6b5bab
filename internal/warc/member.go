package warc

import (
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/flate"
)

// A member writes one gzip member (RFC 1952): first a compressed part, then a part that is only stored (RFC 1951,
// 3.2.4). So the headers of a record shrink, while a body that the server sent compressed is not compressed again.
// compress/gzip cannot change its level inside a member.
type member struct {
	level  int
	fw     *flate.Writer // nil until first needed
	dst    io.Writer
	crc    uint32
	size   uint32 // of the uncompressed data, modulo 2^32, for the trailer
	packed bool   // fw has bytes of this member
	err    error
	buf    [18]byte
}

const (
	maxStored = 65535 // bytes that a stored block can hold
	recordEnd = "\r\n\r\n"
)

var recordEndBytes = []byte(recordEnd)

var gzipHead = [10]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff}

// begin starts a member on dst. If dst fails, end returns the error.
func (m *member) begin(dst io.Writer) {
	m.dst, m.crc, m.size, m.packed, m.err = dst, 0, 0, false, nil
	m.raw(gzipHead[:])
}

func (m *member) raw(p []byte) {
	if m.err == nil {
		_, m.err = m.dst.Write(p)
	}
}

func (m *member) count(p []byte) {
	m.crc = crc32.Update(m.crc, crc32.IEEETable, p)
	m.size += uint32(len(p))
}

// pack adds p compressed. The caller must not call it after store.
func (m *member) pack(p []byte) {
	if m.level < 0 {
		m.store(p)
		return
	}
	if len(p) == 0 || m.err != nil {
		return
	}
	if !m.packed {
		m.packed = true
		if m.fw == nil {
			m.fw, m.err = flate.NewWriter(m.dst, m.level)
			if m.err != nil {
				return
			}
		} else {
			m.fw.Reset(m.dst)
		}
	}
	m.count(p)
	_, m.err = m.fw.Write(p)
}

// store adds p uncompressed.
func (m *member) store(p []byte) {
	m.align()
	for len(p) > 0 {
		n := min(len(p), maxStored)
		m.block(p[:n], 0)
		p = p[n:]
	}
}

// align ends the compressed part at a byte boundary.
func (m *member) align() {
	if m.packed && m.err == nil {
		m.err = m.fw.Flush()
	}
	m.packed = false
}

func (m *member) block(p []byte, final byte) {
	m.count(p)
	b := m.buf[:5]
	b[0] = final
	binary.LittleEndian.PutUint16(b[1:], uint16(len(p)))
	binary.LittleEndian.PutUint16(b[3:], ^uint16(len(p)))
	m.raw(b)
	m.raw(p)
}

// end writes the end of the record and of the member. It returns the member's first error.
func (m *member) end() error {
	if m.packed {
		m.pack(recordEndBytes)
		if m.err == nil {
			m.err = m.fw.Close()
		}
	} else {
		m.block(recordEndBytes, 1)
	}
	t := m.buf[:8]
	binary.LittleEndian.PutUint32(t, m.crc)
	binary.LittleEndian.PutUint32(t[4:], m.size)
	m.raw(t)
	return m.err
}

// A slab is a growing buffer to which a member writes.
type slab struct{ b []byte }

func (s *slab) Write(p []byte) (int, error) {
	s.b = append(s.b, p...)
	return len(p), nil
}
