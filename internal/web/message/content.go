package message

import (
	"bufio"
	"context"
	"io"
	"math"
)

// A decoded body is read to maxUnpacked bytes, or to maxRatio times its coded size if that is more: a small body may
// unpack to any size, and text rarely shrinks more.
const (
	maxUnpacked = 256 << 20
	maxRatio    = 20
)

// Unpacked returns how many bytes are read of a body that has size bytes with its codings.
func Unpacked(size int64) int64 { return max(maxUnpacked, maxRatio*min(size, math.MaxInt64/maxRatio)) }

// Coded returns the body of a stored response whose head is h, without chunk sizes: in has the bytes behind the head.
// Many programs store a body without its chunk sizes and leave the field, so a body that does not begin with a chunk
// size is returned as it is. A broken chunk ends the body, as it does in a crawl. coded reports that chunk sizes are
// removed. Each Read ends with ctx.
func (h *Head) Coded(ctx context.Context, in io.Reader) (body io.Reader, coded bool) {
	if chunked, _ := h.Transfer(); chunked {
		b := bufio.NewReaderSize(in, maxChunkLine)
		if coded = startsChunk(b); coded {
			in = &unchunked{r: b}
		} else {
			in = b
		}
	}
	return NewDecoder(ctx, in, nil, math.MaxInt64), coded
}

// Content returns the content of a stored response whose head is h, as a crawl reads it: without chunk sizes and
// without codings. in has the size bytes behind the head. size is the number of bytes of the content, or -1 if that is
// known only at the end. Of a body with codings, at most Unpacked(size) bytes are read. The error is ErrLayers; those
// of the body are as NewDecoder says.
func (h *Head) Content(ctx context.Context, in io.Reader, size int64) (body io.Reader, known int64, err error) {
	codings, err := AppendCodings(nil, h.Header)
	if err != nil {
		return nil, 0, err
	}
	body, chunked := h.Coded(ctx, in)
	if len(codings) > 0 {
		return NewDecoder(ctx, body, codings, Unpacked(size)), -1, nil
	}
	if chunked {
		size = -1
	}
	return body, size, nil
}

// startsChunk reports whether a body begins with a chunk size.
func startsChunk(b *bufio.Reader) bool {
	var c Chunks
	line, _ := b.Peek(64) // an error comes again
	if c.Next(line); c.state < chunkData {
		line, _ = b.Peek(b.Size())
		c = Chunks{}
		c.Next(line)
	}
	return c.state >= chunkData && !c.Bad()
}

// An unchunked reads a body without chunk sizes.
type unchunked struct {
	r *bufio.Reader
	c Chunks
}

func (u *unchunked) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if _, err := u.r.Peek(1); err != nil {
			return 0, err
		}
		b, _ := u.r.Peek(min(u.r.Buffered(), len(p))) // buffered, so there is no error
		data, n := u.c.Next(b)
		if n == 0 {
			return 0, io.EOF // complete or broken
		}
		k := copy(p, data)
		if _, err := u.r.Discard(n); k > 0 || err != nil {
			return k, err
		}
	}
	return 0, nil
}
