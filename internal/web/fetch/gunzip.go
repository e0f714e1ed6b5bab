package fetch

import (
	"bytes"
	"encoding/binary"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// maxGunzip bounds what is decoded in one piece.
const maxGunzip = 4 << 20

// maxRatio is the most that deflate can make of a byte: a match of 258 bytes
// takes two bits.
const maxRatio = 1032

// An unzipper decodes from memory.
type unzipper struct {
	in bytes.Reader
	z  gzip.Reader
}

var unzippers = sync.Pool{New: func() any { return new(unzipper) }}

// gunzip decodes a body that is one whole gzip member (RFC 1952) of at most
// limit bytes and has the checksum and length that it claims, into a buffer of
// its length. Any other is not ok, and left to the stream decoder, which says
// what can be said about it.
func gunzip(in []byte, limit int64) (b *buffer, n int, ok bool) {
	const header, trailer = 10, 8
	if len(in) < header+trailer {
		return nil, 0, false
	}
	size := int64(binary.LittleEndian.Uint32(in[len(in)-4:]))
	if size > limit || size > int64(len(in))*maxRatio || size > maxGunzip {
		return nil, 0, false
	}
	u := unzippers.Get().(*unzipper)
	defer unzippers.Put(u)
	u.in.Reset(in)
	if u.z.Reset(&u.in) != nil {
		return nil, 0, false
	}
	u.z.Multistream(false)
	b = newBuffer(int(size) + 1) // one byte more shows what is too long
	var err error
	for err == nil && int64(n) <= size {
		var k int
		k, err = u.z.Read(b.b[n : size+1])
		n += k
	}
	u.z.Header = gzip.Header{} // it may be long
	if err != io.EOF || int64(n) != size || u.in.Len() > 0 {
		b.release()
		return nil, 0, false
	}
	return b, n, true
}
