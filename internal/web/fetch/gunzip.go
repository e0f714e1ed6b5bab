package fetch

import (
	"bytes"
	"encoding/binary"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// maxGunzip is the maximum size in bytes of a body to decode in one piece.
const maxGunzip = 4 << 20

// maxRatio is the highest compression ratio of deflate: a match of 258 bytes takes two bits.
const maxRatio = 1032

// An unzipper decodes from memory.
type unzipper struct {
	in bytes.Reader
	z  gzip.Reader
}

var unzippers = sync.Pool{New: func() any { return new(unzipper) }}

// gunzip decodes a body that is one complete gzip member (RFC 1952) of at most limit bytes.
// Checksum and length must be correct. The result has exactly the size of the member. For any other
// body ok is false; the caller then uses the stream decoder, which reports the error.
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
	b = newBuffer(int(size) + 1) // one byte more reveals a body that is too long
	var err error
	for err == nil && int64(n) <= size {
		var k int
		k, err = u.z.Read(b.b[n : size+1])
		n += k
	}
	u.z.Header = gzip.Header{} // free it, since it may be long
	if err != io.EOF || int64(n) != size || u.in.Len() > 0 {
		b.release()
		return nil, 0, false
	}
	return b, n, true
}
