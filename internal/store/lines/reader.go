package lines

import (
	"bufio"
	"io"
)

// A Reader reads lines, however long and however they end. It holds one of them.
type Reader struct {
	// Strict ends at a line that is left out: Next does not look for its end.
	Strict bool

	in   *bufio.Reader
	most int
	long []byte
	size int
}

// NewReader returns a Reader with a buffer. Lines that are longer than the buffer and than most bytes are left out.
func NewReader(in io.Reader, buffer, most int) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, buffer), most: most}
}

// Next returns the next line without its line feed. It is valid until the next call. For a line that is left out, the
// error is bufio.ErrTooLong. At the end it is io.EOF, or io.ErrUnexpectedEOF after a line without a line feed.
func (r *Reader) Next() ([]byte, error) {
	r.long, r.size = r.long[:0], 0
	for tooLong := false; ; {
		part, err := r.in.ReadSlice('\n')
		r.size += len(part)
		switch {
		case err == nil && r.size == len(part):
			return part[:len(part)-1], nil
		case err == nil || err == bufio.ErrBufferFull:
			if tooLong = tooLong || r.size > r.most; !tooLong {
				r.long = append(r.long, part...)
			}
			switch {
			case tooLong && r.Strict:
				return nil, bufio.ErrTooLong
			case err != nil:
			case tooLong:
				return nil, bufio.ErrTooLong
			default:
				return r.long[:len(r.long)-1], nil
			}
		case err == io.EOF && r.size > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// Size returns how many bytes the last line had, with its line feed.
func (r *Reader) Size() int { return r.size }
