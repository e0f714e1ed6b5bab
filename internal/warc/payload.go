package warc

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Payload returns the content that the current record is about. For an HTTP message this is the body without transfer
// coding and content coding; for any other record it is the content block. The caller must read it before the next call
// of the Reader. A body without the coding that its header names is returned unchanged; a body that breaks in the
// middle ends in an error. The payload can be any multiple of the record's size, so the caller must bound what it
// keeps.
func (rec *Record) Payload() (io.Reader, error) {
	_, body, _, err := rec.Message()
	return body, err
}

const maxCodings = 5

// isHTTP reports whether the content begins with an HTTP header.
func (rec *Record) isHTTP() bool {
	return hasPrefixFold(strings.TrimSpace(rec.Header.Value("Content-Type")), "application/http") && rec.Size > 0 ||
		rec.Header.Value("Content-Type") == "" && hasHTTP(rec.Type(), rec.URL()) && rec.Size > 0
}

// HTTPHead reads the HTTP header of the current record. It returns nil if the content does not begin with one. It must
// be called before any other read of the content.
func (rec *Record) HTTPHead() ([]byte, error) {
	if !rec.isHTTP() {
		return nil, nil
	}
	head, _, err := readHead(rec)
	return head, err
}

// decoder removes one content coding. If the coding is unknown, or if a gzip body does not begin as gzip, it returns
// the body unchanged.
func decoder(coding string, r io.Reader) io.Reader {
	b := bufio.NewReader(r)
	switch coding {
	case "gzip", "x-gzip":
		if p, _ := b.Peek(2); len(p) < 2 || p[0] != 0x1f || p[1] != 0x8b {
			return b
		}
		z, err := gzip.NewReader(b)
		if err != nil {
			return failing{err}
		}
		return z
	case "deflate":
		// Most servers send zlib, as RFC 9110, 8.4.1.2 demands; some send raw deflate.
		if p, _ := b.Peek(2); len(p) == 2 && p[0]&15 == 8 && (int(p[0])<<8|int(p[1]))%31 == 0 {
			z, err := zlib.NewReader(b)
			if err != nil {
				return failing{err}
			}
			return z
		}
		return flate.NewReader(b)
	case "br":
		return brotli.NewReader(b)
	case "zstd":
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
		if err != nil {
			return failing{err}
		}
		return z // it has no goroutine to stop, because its concurrency is 1
	}
	return b
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A dechunker removes the chunked transfer coding (RFC 9112, 7.1). From the first line that is not a chunk header, it
// returns the rest unchanged, as warcio does.
type dechunker struct {
	r     *bufio.Reader
	left  int64
	first bool // no chunk has been read yet
	plain bool
	done  bool
}

func newDechunker(r io.Reader) *dechunker {
	return &dechunker{r: bufio.NewReader(r), first: true}
}

var errChunk = errors.New("broken chunk")

func (d *dechunker) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		switch {
		case d.plain:
			return d.r.Read(p)
		case d.done:
			return 0, io.EOF
		case d.left > 0:
			n, err := d.r.Read(p[:min(int64(len(p)), d.left)])
			d.left -= int64(n)
			if n > 0 {
				return n, nil
			}
			return 0, err
		}
		if err := d.header(); err != nil {
			if err != errChunk {
				return 0, err
			}
			d.plain = true
		}
	}
}

// header reads the line in front of a chunk. If it is not a chunk header, header returns errChunk without consuming it.
func (d *dechunker) header() error {
	if !d.first {
		end, err := d.r.Peek(2)
		if len(end) == 0 {
			return eof(err)
		}
		if end[0] == '\n' {
			d.r.Discard(1) // peeked
		} else if len(end) == 2 && end[0] == '\r' && end[1] == '\n' {
			d.r.Discard(2) // peeked
		} else {
			return errChunk
		}
	}
	p, err := d.r.Peek(1)
	if len(p) == 0 {
		return eof(err)
	}
	for n := 64; ; n *= 4 {
		p, err = d.r.Peek(min(n, d.r.Size()))
		if bytes.IndexByte(p, '\n') >= 0 || err != nil || n >= d.r.Size() {
			break
		}
	}
	if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
		return err
	}
	i := bytes.IndexByte(p, '\n')
	if i < 0 {
		return errChunk
	}
	size, _, _ := strings.Cut(string(p[:i]), ";")
	n, err := strconv.ParseUint(strings.TrimSpace(size), 16, 62)
	if err != nil {
		return errChunk
	}
	d.r.Discard(i + 1) // peeked
	d.first, d.left, d.done = false, int64(n), n == 0
	return nil
}

// eof returns the error of a Peek that returned no bytes.
func eof(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}
