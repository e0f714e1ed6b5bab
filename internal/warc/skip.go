package warc

import (
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
)

// A rewind lets Skip look for records in bytes that the Reader has passed. A damaged gzip member, or a plain record of
// a wrong length, may have led the Reader over the beginnings of intact records.
type rewind struct {
	file io.Seeker // nil: Skip only goes on
	to   int64     // offset: the Reader reads what begins there, or one byte before
	gzip bool      // the Reader reads a gzip member
	last int64     // offset: the Reader has been there
	sum  int64     // bytes that were read again
}

// maxRewind bounds how often Skip reads a file again, on average, because a file may be made to be slow: its damaged
// members may contain each other.
const maxRewind = 4

// Skip continues after damage that Next, Read or Finish reported. It moves to the next readable beginning of a gzip
// member or plain record and returns the number of bytes that it passed over. If the file is an io.Seeker, Skip begins
// right behind the beginning of what is damaged. The error is io.EOF if there is no such beginning.
func (r *Reader) Skip() (skipped int64, err error) {
	if r.err != nil && !errors.Is(r.err, ErrDamaged) {
		return 0, r.err
	}
	until := r.offset()
	if r.cur != nil && r.cur == r.gbuf {
		if _, err := io.Copy(io.Discard, r.gbuf); err == nil {
			r.back.to = r.offset() // the damage ends with the member, whose checksum is right
		}
	}
	r.err, r.rec, r.cur = nil, nil, nil
	r.goBack()
	from := r.offset()
	var probe gzip.Reader
	for {
		p, err := r.raw.Peek(4096)
		if len(p) == 0 {
			if err == io.EOF {
				r.err = io.EOF
			} else {
				r.err = r.readError(err)
			}
			return r.offset() - from, r.err
		}
		for i := range p {
			// In bytes that are read again, a record of the other kind is content.
			again := r.offset()+int64(i) < until
			if p[i] == 0x1f && !(again && !r.back.gzip) && startsMember(&probe, p[i:]) ||
				p[i]|0x20 == 'w' && !(again && r.back.gzip) && startsRecord(p[i:], i == 0 || p[i-1] == '\n') {
				r.raw.Discard(i) // peeked
				return r.offset() - from, nil
			}
		}
		// A beginning may continue behind the peeked bytes.
		n := len(p)
		if n > 512 {
			n -= 512
		}
		r.raw.Discard(n) // peeked
	}
}

// goBack moves the Reader to r.back.to, if the file permits it.
func (r *Reader) goBack() {
	b, at := &r.back, r.offset()
	b.last = max(b.last, at)
	again := at - b.to
	if b.file == nil || again <= 0 || b.sum+again > maxRewind*(b.last-r.base) {
		return
	}
	if _, err := b.file.Seek(b.to-r.base-r.n.n, io.SeekCurrent); err != nil {
		return // such as a pipe: the Reader goes on from where it is
	}
	b.sum += again
	r.n.n = b.to - r.base
	r.raw.Reset(&r.n)
}

// startsRecord reports whether a plain record begins at p. Inside a line, the rest of the line must be a version.
func startsRecord(p []byte, line bool) bool {
	if len(p) < len(magic) || !bytes.EqualFold(p[:len(magic)], []byte(magic)) {
		return false
	}
	p = p[len(magic):min(len(p), len(magic)+8)]
	end := bytes.IndexAny(p, "\r\n")
	return line || end > 0 && len(bytes.Trim(p[:end], "0123456789.")) == 0
}

// startsMember reports whether a gzip member that holds a WARC record begins at p.
func startsMember(z *gzip.Reader, p []byte) bool {
	if len(p) < 18 || p[1] != 0x8b || p[2] != 8 {
		return false
	}
	var b [len(magic)]byte
	err := z.Reset(bytes.NewReader(p))
	if err == nil {
		_, err = io.ReadFull(z, b[:])
	}
	return err == nil && bytes.EqualFold(b[:], []byte(magic))
}
