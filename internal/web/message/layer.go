package message

import (
	"bufio"
	"errors"
	"io"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Limits of a layer.
const (
	maxMembers = 10_000  // members of a gzip body
	maxWindow  = 8 << 20 // bytes of zstd's window (RFC 9659, 3)
)

// A layer undoes one coding. reset only sets the source; errors come from Read.
type layer interface {
	io.Reader
	reset(io.Reader)
	plain() bool // the bytes do not begin as the coding does, so Read returns them as they are
	free()       // return it to its pool
}

// begins reports whether h, the first bytes of a body, can be the beginning of magic.
func begins(h []byte, magic string) bool { return string(h) == magic[:min(len(h), len(magic))] }

var (
	gzips    = sync.Pool{New: func() any { return new(gzipLayer) }}
	deflates = sync.Pool{New: func() any { return new(deflateLayer) }}
	brotlis  = sync.Pool{New: func() any { return new(brotliLayer) }}
	zstds    = sync.Pool{New: func() any { return new(zstdLayer) }}
)

// peeked is a reader whose first bytes can be looked at. It is a bufio.Reader, because flate reads
// those faster than other readers.
type peeked struct{ bufio.Reader }

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
	raw     bool
}

func (g *gzipLayer) reset(r io.Reader) { g.in.Reset(r); g.members, g.open, g.raw = 0, false, false }
func (g *gzipLayer) plain() bool       { return g.raw }
func (g *gzipLayer) free()             { g.in.Reset(nil); gzips.Put(g) }

func (g *gzipLayer) Read(b []byte) (int, error) {
	if g.raw {
		return g.in.Read(b)
	}
	for {
		if !g.open {
			if g.members == 0 {
				switch h := g.in.peek(2); {
				case len(h) == 0:
					return 0, io.EOF // an empty body has no coding
				case !begins(h, "\x1f\x8b"):
					g.raw = true
					return g.in.Read(b)
				case len(h) < 2:
					return 0, io.ErrUnexpectedEOF
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

func (d *deflateLayer) reset(r io.Reader) { d.in.Reset(r); d.cur = nil }
func (d *deflateLayer) plain() bool       { return false }
func (d *deflateLayer) free()             { d.in.Reset(nil); d.cur = nil; deflates.Put(d) }

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

func (l *brotliLayer) reset(r io.Reader) { l.in.Reset(r); l.on = false }
func (l *brotliLayer) plain() bool       { return false }
func (l *brotliLayer) free()             { l.in.Reset(nil); brotlis.Put(l) }

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
	// raw: the bytes are not zstd.
	raw bool
}

func (l *zstdLayer) reset(r io.Reader) { l.in.Reset(r); l.on, l.raw = false, false }
func (l *zstdLayer) plain() bool       { return l.raw }

func (l *zstdLayer) free() {
	l.in.Reset(nil)
	if l.z != nil && l.z.Reset(nil) != nil {
		l.z = nil
	}
	zstds.Put(l)
}

func (l *zstdLayer) Read(b []byte) (n int, err error) {
	if l.raw {
		return l.in.Read(b)
	}
	if !l.on {
		h := l.in.peek(4)
		switch {
		case len(h) == 0:
			return 0, io.EOF
		case !begins(h, "\x28\xb5\x2f\xfd") && !(h[0]&0xf0 == 0x50 && begins(h[1:], "\x2a\x4d\x18")):
			l.raw = true
			return l.in.Read(b)
		case len(h) < 4:
			return 0, io.ErrUnexpectedEOF
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

// noEOF converts an early end to io.ErrUnexpectedEOF.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
