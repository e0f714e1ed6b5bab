package message

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Errors of content codings.
var (
	// ErrCoding means that a body is not coded as its header says.
	ErrCoding = errors.New("bad content coding")
	// ErrLayers means that a body has too many codings, one over the other. It wraps ErrCoding.
	ErrLayers = fmt.Errorf("%w: more than %d of them, one over the other", ErrCoding, MaxCodings)
	// ErrTooLong means that a body unpacks to more than is read of it.
	ErrTooLong = errors.New("the content unpacks to more than is read")
)

const (
	// MaxCodings is the largest number of codings, one over the other, that are undone.
	MaxCodings = 5
	// layerRoom is the number of bytes by which the output of an inner coding may exceed twice what the reader has
	// received. A coding that expands its input has no use, so only hostile bodies reach this bound.
	layerRoom = 1 << 20
)

// AppendCodings appends to cs the codings to undo, the last applied first. It appends none if one of them is unknown.
// Several fields are one list (RFC 9110, 5.3). A transfer coding other than chunked counts as a content coding. The
// error is ErrLayers.
func AppendCodings(cs []string, h Header) ([]string, error) {
	add := func(t string) bool {
		switch t = strings.ToLower(t); t {
		case "identity", "chunked":
		case "x-gzip":
			cs = append(cs, "gzip")
		default:
			cs = append(cs, t)
		}
		return len(cs) <= MaxCodings
	}
	from := len(cs)
	h.Tokens("Content-Encoding", add)
	h.Tokens("Transfer-Encoding", add)
	if len(cs)-from > MaxCodings {
		return cs[:from], ErrLayers
	}
	added := cs[from:]
	for i, j := 0, len(added)-1; i < j; i, j = i+1, j-1 {
		added[i], added[j] = added[j], added[i]
	}
	for _, c := range added {
		if c != "gzip" && c != "deflate" && c != "br" && c != "zstd" {
			return cs[:from], nil
		}
	}
	return cs, nil
}

// A Decoder reads a body without its codings. Its work is bounded by what has been read of it and by the size of the
// coded body: an inner coding that yields much more than the outer ones ends the body with ErrTooLong. One goroutine
// owns it. It implements io.Reader.
type Decoder struct {
	ctx     context.Context
	in      io.Reader
	codings []string
	layers  []layer // nil before the first Read, and after the last one
	inner   [MaxCodings]stage
	plain   bool
	read    int64 // bytes that the caller has received
	left    int64 // bytes that the caller may still receive
	err     error // of ctx or of in
	over    bool  // an inner coding yields too much
	end     error // of all further Reads
}

// NewDecoder returns a reader of in without codings, the last applied first, as AppendCodings returns them. Each Read
// ends with ctx. After most bytes of a longer body, Read returns ErrTooLong. It returns errors of ctx and of in as
// they are; all others wrap ErrCoding. If the bytes under a coding clearly do not have it, they are returned as they
// are; see Plain.
func NewDecoder(ctx context.Context, in io.Reader, codings []string, most int64) *Decoder {
	return &Decoder{ctx: ctx, in: in, codings: codings, left: most}
}

// Plain reports that the bytes under one of the codings did not have it. It is known after the first Read.
func (d *Decoder) Plain() bool {
	for _, l := range d.layers {
		d.plain = d.plain || l.plain()
	}
	return d.plain
}

// Free gives the Decoder's memory to later ones, as the end of the body does. No Read may follow.
func (d *Decoder) Free() {
	d.Plain()
	for _, l := range d.layers {
		l.free()
	}
	d.layers = nil
	d.end = cmp.Or(d.end, io.ErrClosedPipe)
}

func (d *Decoder) Read(p []byte) (n int, err error) {
	if d.end != nil || len(p) == 0 {
		return 0, d.end
	}
	if d.left <= 0 { // one byte more shows whether the body is longer
		p = make([]byte, 1)
	}
	p = p[:min(int64(len(p)), max(d.left, 1))]
	n, err = d.body().Read(p)
	if int64(n) > d.left {
		n, err = 0, ErrTooLong
	}
	d.read += int64(n)
	d.left -= int64(n)
	switch {
	case err == nil:
		return n, nil
	case d.err != nil:
		err = d.err
	case d.over:
		err = ErrTooLong
	case err != io.EOF && err != ErrTooLong:
		err = fmt.Errorf("%w: %s: %w", ErrCoding, strings.Join(d.codings, " then "), err)
	}
	d.end = err
	d.Free()
	return n, err
}

// body returns the reader of the outermost coding.
func (d *Decoder) body() io.Reader {
	from := io.Reader((*source)(d))
	if len(d.layers) > 0 || len(d.codings) == 0 {
		if k := len(d.layers); k > 0 {
			from = d.layers[k-1]
		}
		return from
	}
	for i, c := range d.codings {
		var l layer
		switch c {
		case "gzip":
			l = gzips.Get().(*gzipLayer)
		case "deflate":
			l = deflates.Get().(*deflateLayer)
		case "br":
			l = brotlis.Get().(*brotliLayer)
		case "zstd":
			l = zstds.Get().(*zstdLayer)
		}
		l.reset(from)
		d.layers = append(d.layers, l)
		d.inner[i] = stage{d: d, r: l}
		from = &d.inner[i]
	}
	return d.layers[len(d.layers)-1]
}

// A source is the coded body. It keeps errors that are not of the coding.
type source Decoder

func (s *source) Read(p []byte) (int, error) {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.in.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// A stage is the output of an inner coding.
type stage struct {
	d    *Decoder
	r    io.Reader
	read int64
}

func (s *stage) Read(p []byte) (int, error) {
	if s.d.err == nil {
		s.d.err = s.d.ctx.Err()
	}
	if s.d.err != nil {
		return 0, s.d.err
	}
	room := layerRoom + 2*s.d.read - s.read
	if room <= 0 {
		s.d.over = true
		return 0, ErrTooLong
	}
	n, err := s.r.Read(p[:min(int64(len(p)), room)])
	s.read += int64(n)
	return n, err
}
