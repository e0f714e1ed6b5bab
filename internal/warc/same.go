package warc

import (
	"crypto/sha1"
	"fmt"
	"io"
)

// PayloadDigest returns the digest that Write will give to the payload of x, so that a caller can ask other agents
// whether they know it. ok is false if Write would not make x a revisit by its payload: x has no payload, the payload
// is truncated, or it is not clear where it begins. The error is of reading x.Response.
func PayloadDigest(x *Exchange) (digest [20]byte, ok bool, err error) {
	if x.Response == nil || !x.HTTP || x.Truncated != "" || x.HeadLen <= 0 || int64(x.HeadLen) >= x.Response.Size() {
		return digest, false, nil
	}
	sum := sha1.New()
	whole, inMemory := x.Response.Bytes()
	head := whole
	if inMemory {
		head = whole[:x.HeadLen]
	} else {
		head = make([]byte, x.HeadLen)
		if n, err := x.Response.ReadAt(head, 0); n < len(head) {
			return digest, false, fmt.Errorf("archive %s: %w", x.URL, short(err))
		}
	}
	if end, clear := headEnd(head); !clear || end != len(head) {
		return digest, false, nil
	}
	if inMemory {
		sum.Write(whole[x.HeadLen:])
	} else {
		size := x.Response.Size() - int64(x.HeadLen)
		n, err := io.Copy(sum, io.NewSectionReader(x.Response, int64(x.HeadLen), size))
		if err == nil && n < size {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return digest, false, fmt.Errorf("archive %s: %w", x.URL, err)
		}
	}
	return [20]byte(sum.Sum(nil)), true, nil
}
