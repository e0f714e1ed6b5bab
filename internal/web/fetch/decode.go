package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/orbweaver/orbweaver/internal/web/message"
)

// ErrCoding means that a body is not coded as its header says.
var ErrCoding = message.ErrCoding

// errNotCoded means that a body does not have a coding that its header names.
var errNotCoded = fmt.Errorf("%w: the body is not coded", ErrCoding)

// Decode returns the body without its content codings (gzip, deflate, br, zstd), at most limit
// bytes of it. truncated is true if the body is longer, or if the response itself was truncated.
// Decode returns the body unchanged if its coding is unknown. If the header claims gzip or zstd and the
// bytes are clearly neither, Decode leaves out this coding.
//
// If the error is ErrCoding, the body holds what could be decoded. Other errors are errors of the
// spill file. The body is valid until the next Decode or Release.
func (r *Response) Decode(limit int64) (body []byte, truncated bool, err error) {
	r.decoded.release()
	r.decoded = nil
	limit = min(max(limit, 0), 1<<40)
	var list [message.MaxCodings]string
	codings, err := message.AppendCodings(list[:0], r.Header)
	if err == nil && len(codings) > 0 {
		if len(codings) == 1 && codings[0] == "gzip" {
			if body, ok := r.gunzip(limit); ok {
				return body, false, nil
			}
		}
		return r.decode(codings, limit)
	}
	body, truncated, ioErr := r.rawPayload(limit)
	if ioErr != nil {
		return nil, false, ioErr
	}
	return body, truncated, err
}

// gunzip decodes the usual case, a complete gzip body in memory.
func (r *Response) gunzip(limit int64) (body []byte, ok bool) {
	wire, ok := r.Wire.Bytes()
	if !ok || r.Truncated != "" || len(wire) > maxGunzip {
		return nil, false
	}
	coded := wire[min(r.HeadLen, len(wire)):]
	if r.chunked {
		b := newBuffer(len(coded))
		defer b.release()
		coded = unchunk(b.b, coded)
	}
	b, n, ok := gunzip(coded, limit)
	if !ok {
		return nil, false
	}
	r.decoded = b
	return b.b[:n:n], true
}

// rawPayload returns the payload without decoding. It avoids a copy if it can.
func (r *Response) rawPayload(limit int64) (body []byte, truncated bool, err error) {
	if b, ok := r.Wire.Bytes(); ok {
		b = b[min(r.HeadLen, len(b)):]
		if r.chunked {
			r.decoded = newBuffer(len(b))
			b = unchunk(r.decoded.b, b)
		}
		if int64(len(b)) > limit {
			return b[:limit:limit], true, nil
		}
		return b[:len(b):len(b)], r.Truncated != "", nil
	}
	body, more, err := r.readAll(r.Payload(), limit)
	return body, more || r.Truncated != "", err
}

// unchunk copies the payload of a chunked body to dst, which must be at least as long as the body.
func unchunk(dst, coded []byte) []byte {
	var c message.Chunks
	n := 0
	for {
		data, k := c.Next(coded)
		if k == 0 && data == nil {
			return dst[:n:n]
		}
		n += copy(dst[n:], data)
		coded = coded[k:]
	}
}

func (r *Response) decode(codings []string, limit int64) (body []byte, truncated bool, err error) {
	d := message.NewDecoder(context.Background(), r.Payload(), codings, math.MaxInt64) // the payload is at hand
	defer d.Free()
	body, truncated, err = r.readAll(d, limit)
	switch {
	case errors.Is(err, message.ErrTooLong):
		return body, true, nil
	case err == nil && d.Plain():
		return body, truncated || r.Truncated != "", errNotCoded
	case err == nil:
		return body, truncated, nil
	case !errors.Is(err, ErrCoding): // an error of the spill file, not of the web
		return nil, false, err
	case r.Truncated != "" || truncated:
		// A truncated body ends in the middle of its coding, so this is no additional error.
		return body, true, nil
	}
	return body, truncated, err
}

// readAll reads at most limit bytes into a pooled buffer that r owns.
func (r *Response) readAll(from io.Reader, limit int64) (body []byte, more bool, err error) {
	r.decoded.release()
	r.decoded = nil
	buf := newBuffer(int(min(limit+1, 4*r.Wire.Size()+512, 1<<20)))
	n := 0
	for idle := 0; ; {
		if int64(n) > limit {
			n, more = int(limit), true
			break
		}
		if n == len(buf.b) {
			size := 2 * int64(n)
			if size >= limit {
				size = limit + 1 // the last buffer: one byte more shows whether there is more
			}
			b := newBuffer(int(size))
			copy(b.b, buf.b)
			buf.release()
			buf = b
		}
		k, e := from.Read(buf.b[n:])
		n += k
		if e != nil {
			if e != io.EOF {
				err = e
			}
			if int64(n) > limit {
				n, more, err = int(limit), true, nil
			}
			break
		}
		if idle++; k > 0 {
			idle = 0
		}
		if idle > 100 {
			err = fmt.Errorf("%w: %w", ErrCoding, io.ErrNoProgress)
			break
		}
	}
	r.decoded = buf
	return buf.b[:n:n], more, err
}
