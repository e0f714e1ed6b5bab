package warc

import (
	"fmt"
	"sync"
)

// Digests returns Written.BodyDigest and Written.PayloadDigest of x before it is written. A caller can ask other agents
// whether they have archived the same stored payload. ok is false if Write would not make x a revisit by its payload: x
// has no payload, the payload is truncated, or it is not clear where it begins. The error is of reading x.Response.
func Digests(x *Exchange) (body, stored [20]byte, ok bool, err error) {
	if x.Response == nil || !x.HTTP || x.Truncated != "" || x.HeadLen <= 0 || int64(x.HeadLen) >= x.Response.Size() {
		return body, stored, false, nil
	}
	g := digesters.Get().(*group)
	defer digesters.Put(g)
	whole, inMemory := x.Response.Bytes()
	size := x.Response.Size()
	if inMemory {
		size = int64(len(whole))
	}
	head, err := g.httpHead(x, true, whole, inMemory)
	if err == nil {
		if end, clear := headEnd(head); !clear || end != len(head) {
			return body, stored, false, nil
		}
		err = g.hash(x.Response, head, whole, inMemory, size)
	}
	if g.body = g.digest; err == nil && parseHead(head).Chunked {
		err = g.hashBody(x.Response, head, whole, inMemory, size)
	}
	if err != nil {
		return body, stored, false, fmt.Errorf("archive %s: %w", x.URL, err)
	}
	return g.body, g.digest, true, nil
}

// digesters are groups that only compute digests.
var digesters = sync.Pool{New: func() any { return newGroup(1, 0, nil) }}
