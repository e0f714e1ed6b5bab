package fetch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// ErrCoding means that a body is not coded as its header says.
var ErrCoding = errors.New("bad content coding")

// Limits of content codings.
const (
	maxCodings  = 5       // nested codings
	maxMembers  = 10_000  // members of a gzip body
	maxWindow   = 8 << 20 // bytes of zstd's window (RFC 9659, 3)
	layerMargin = 64 << 10
)

// Decode returns the body without its content codings (gzip, deflate, br, zstd), at most limit
// bytes of it. truncated is true if the body is longer, or if the response itself was truncated.
// Decode returns the body unchanged if its coding is unknown, or if the header claims gzip or zstd
// and the body is clearly neither.
//
// If the error is ErrCoding, the body holds what could be decoded. Other errors are errors of the
// spill file. The body is valid until the next Decode or Release.
func (r *Response) Decode(limit int64) (body []byte, truncated bool, err error) {
	r.decoded.release()
	r.decoded = nil
	limit = min(max(limit, 0), 1<<40)
	var list [maxCodings]string
	codings, err := r.codings(list[:0])
	if err == nil && len(codings) > 0 {
		if len(codings) == 1 && codings[0] == "gzip" {
			if body, ok := r.gunzip(limit); ok {
				return body, false, nil
			}
		}
		body, truncated, err = r.decode(codings, limit)
		if !errors.Is(err, errNotCoded) {
			return body, truncated, err
		}
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

// errNotCoded means that a body does not begin with the magic number of its coding.
var errNotCoded = fmt.Errorf("%w: the body is not coded", ErrCoding)

// codings appends to cs the codings to undo, the last applied first. It returns none if one of them
// is unknown. A transfer coding other than chunked counts as a content coding.
func (r *Response) codings(cs []string) ([]string, error) {
	add := func(t string) bool {
		switch t = strings.ToLower(t); t {
		case "identity", "chunked":
		case "x-gzip":
			cs = append(cs, "gzip")
		default:
			cs = append(cs, t)
		}
		return true
	}
	r.Header.tokens("Content-Encoding", add)
	r.Header.tokens("Transfer-Encoding", add)
	if len(cs) > maxCodings {
		return nil, fmt.Errorf("%w: %d nested codings, at most %d are allowed", ErrCoding, len(cs), maxCodings)
	}
	for i, j := 0, len(cs)-1; i < j; i, j = i+1, j-1 {
		cs[i], cs[j] = cs[j], cs[i]
	}
	for _, c := range cs {
		if c != "gzip" && c != "deflate" && c != "br" && c != "zstd" {
			return nil, nil
		}
	}
	return cs, nil
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
	var c chunks
	n := 0
	for {
		data, k := c.next(coded)
		if k == 0 && data == nil {
			return dst[:n:n]
		}
		n += copy(dst[n:], data)
		coded = coded[k:]
	}
}

func (r *Response) decode(codings []string, limit int64) (body []byte, truncated bool, err error) {
	src := &source{payload: r.Payload().(*payload)}
	var in reader = src
	var layers []*limited
	for i, c := range codings {
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
		defer l.free()
		l.reset(in)
		if i < len(codings)-1 {
			lim := &limited{r: l, left: limit + layerMargin}
			layers = append(layers, lim)
			br := bufio.NewReader(lim)
			in = br
			continue
		}
		body, truncated, err = r.readAll(l, limit)
	}
	if src.err != nil { // an error of the spill file, not of the web
		return nil, false, src.err
	}
	for _, l := range layers {
		truncated = truncated || l.hit
	}
	switch {
	case err == nil:
	case r.Truncated != "" || truncated:
		// A truncated body ends in the middle of its coding, so this is no additional error.
		truncated, err = true, nil
	case len(body) == 0 && errors.Is(err, errNotCoded):
	default:
		err = fmt.Errorf("%w: %s: %w", ErrCoding, strings.Join(codings, " then "), err)
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
			err = io.ErrNoProgress
			break
		}
	}
	r.decoded = buf
	return buf.b[:n:n], more, err
}

type reader interface {
	io.Reader
	io.ByteReader
}

// source separates errors of the spill file from errors of a coding.
type source struct {
	*payload
	err error
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.payload.Read(b)
	s.record(err)
	return n, err
}

func (s *source) ReadByte() (byte, error) {
	b, err := s.payload.ReadByte()
	s.record(err)
	return b, err
}

func (s *source) record(err error) {
	if err != nil && err != io.EOF {
		s.err = err
	}
}

// limited limits the output of an inner coding.
type limited struct {
	r    io.Reader
	left int64
	hit  bool
}

func (l *limited) Read(b []byte) (int, error) {
	if l.left <= 0 {
		l.hit = true
		return 0, io.EOF
	}
	n, err := l.r.Read(b[:min(int64(len(b)), l.left)])
	l.left -= int64(n)
	return n, err
}

// A layer undoes one coding. reset only sets the source; errors come from Read.
type layer interface {
	io.Reader
	reset(reader)
	free() // return it to its pool
}

var (
	gzips    = sync.Pool{New: func() any { return new(gzipLayer) }}
	deflates = sync.Pool{New: func() any { return new(deflateLayer) }}
	brotlis  = sync.Pool{New: func() any { return new(brotliLayer) }}
	zstds    = sync.Pool{New: func() any { return new(zstdLayer) }}
)

// peeked is a reader whose first bytes can be looked at. It is a bufio.Reader, because flate reads
// those faster than other readers.
type peeked struct{ bufio.Reader }

func (p *peeked) reset(r reader) { p.Reader.Reset(r) }

// peek returns up to n of the first bytes.
func (p *peeked) peek(n int) []byte {
	h, _ := p.Peek(n) // the error comes again after the bytes
	return h
}

// gzipLayer reads gzip members. It ignores what follows the last member.
type gzipLayer struct {
	in      peeked
	z       gzip.Reader
	members int
	open    bool
}

func (g *gzipLayer) reset(r reader) { g.in.reset(r); g.members, g.open = 0, false }
func (g *gzipLayer) free()          { g.in.reset(nil); gzips.Put(g) }

func (g *gzipLayer) Read(b []byte) (int, error) {
	for {
		if !g.open {
			if g.members == 0 {
				switch h := g.in.peek(2); {
				case len(h) == 0:
					return 0, io.EOF // an empty body has no coding
				case len(h) < 2:
					return 0, io.ErrUnexpectedEOF
				case h[0] != 0x1f || h[1] != 0x8b:
					return 0, errNotCoded
				}
			}
			if err := g.z.Reset(&g.in.Reader); err != nil {
				if g.members > 0 {
					return 0, io.EOF // padding or other bytes after the last member
				}
				return 0, noEOF(err)
			}
			if g.members++; g.members > maxMembers {
				return 0, errors.New("too many gzip members")
			}
			g.z.Multistream(false)
			g.open = true
		}
		n, err := g.z.Read(b)
		if err == io.EOF {
			g.open, err = false, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// deflateLayer reads zlib (RFC 9110, 8.4.1.2), or bare deflate, which many servers send instead.
type deflateLayer struct {
	in    peeked
	zlib  io.ReadCloser
	flate io.ReadCloser
	cur   io.Reader
}

func (d *deflateLayer) reset(r reader) { d.in.reset(r); d.cur = nil }
func (d *deflateLayer) free()          { d.in.reset(nil); d.cur = nil; deflates.Put(d) }

func (d *deflateLayer) Read(b []byte) (n int, err error) {
	if d.cur == nil {
		h := d.in.peek(2)
		switch {
		case len(h) == 0:
			return 0, io.EOF
		case len(h) == 2 && h[0]&15 == 8 && (int(h[0])<<8|int(h[1]))%31 == 0:
			if d.zlib == nil {
				d.zlib, err = zlib.NewReader(&d.in.Reader)
			} else {
				err = d.zlib.(zlib.Resetter).Reset(&d.in.Reader, nil)
			}
			if err != nil {
				d.zlib = nil
				return 0, noEOF(err)
			}
			d.cur = d.zlib
		default:
			if d.flate == nil {
				d.flate = flate.NewReader(&d.in.Reader)
			} else if err := d.flate.(flate.Resetter).Reset(&d.in.Reader, nil); err != nil {
				return 0, err
			}
			d.cur = d.flate
		}
	}
	return d.cur.Read(b)
}

type brotliLayer struct {
	in peeked
	z  brotli.Reader
	on bool
}

func (l *brotliLayer) reset(r reader) { l.in.reset(r); l.on = false }
func (l *brotliLayer) free()          { l.in.reset(nil); brotlis.Put(l) }

func (l *brotliLayer) Read(b []byte) (int, error) {
	if !l.on {
		if len(l.in.peek(1)) == 0 {
			return 0, io.EOF
		}
		if err := l.z.Reset(&l.in.Reader); err != nil {
			return 0, err
		}
		l.on = true
	}
	return l.z.Read(b)
}

type zstdLayer struct {
	in peeked
	z  *zstd.Decoder
	on bool
}

func (l *zstdLayer) reset(r reader) { l.in.reset(r); l.on = false }

func (l *zstdLayer) free() {
	l.in.reset(nil)
	if l.z != nil && l.z.Reset(nil) != nil {
		l.z = nil
	}
	zstds.Put(l)
}

func (l *zstdLayer) Read(b []byte) (n int, err error) {
	if !l.on {
		h := l.in.peek(4)
		switch {
		case len(h) == 0:
			return 0, io.EOF
		case len(h) < 4:
			return 0, io.ErrUnexpectedEOF
		case string(h) != "\x28\xb5\x2f\xfd" && !(h[0]&0xf0 == 0x50 && string(h[1:]) == "\x2a\x4d\x18"):
			return 0, errNotCoded
		}
		if l.z == nil {
			// Concurrency 1: no goroutines, and memory limited by the window.
			l.z, err = zstd.NewReader(&l.in.Reader, zstd.WithDecoderConcurrency(1),
				zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		} else {
			err = l.z.Reset(&l.in.Reader)
		}
		if err != nil {
			return 0, err
		}
		l.on = true
	}
	return l.z.Read(b)
}
