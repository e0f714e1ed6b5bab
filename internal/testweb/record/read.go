package record

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// maxWARCHead is the largest header of a record in bytes.
const maxWARCHead = 2 << 20

var errRecord = errors.New("there is no WARC record at this offset; the file may have changed")

// A reader reads single records. Readers are pooled.
type reader struct {
	f   *os.File
	off int64         // offset in f of the next Read
	raw *bufio.Reader // reads from f, through Read
	gz  *gzip.Reader
	out *bufio.Reader // reads from gz
}

var readers = sync.Pool{New: func() any {
	return &reader{raw: bufio.NewReaderSize(nil, 16<<10), gz: new(gzip.Reader), out: bufio.NewReaderSize(nil, 4<<10)}
}}

// Read implements io.Reader. It uses ReadAt, so that many readers can share a file.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.f.ReadAt(p, r.off)
	r.off += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// content appends at most limit bytes of the content of the record at offset in f to dst. cut means that the server had
// sent more than that.
func content(dst []byte, f *os.File, offset, limit int64) (_ []byte, cut bool, err error) {
	r := readers.Get().(*reader)
	defer readers.Put(r)
	r.f, r.off = f, offset
	r.raw.Reset(r)
	in := r.raw
	magic, err := in.Peek(2)
	if err != nil {
		return dst, false, err
	}
	if magic[0] == 0x1f && magic[1] == 0x8b {
		if err := r.gz.Reset(in); err != nil {
			return dst, false, err
		}
		r.gz.Multistream(false)
		r.out.Reset(r.gz)
		in = r.out
	}
	size, cut, err := warcHead(in)
	if err != nil {
		return dst, false, err
	}
	if size > limit {
		size, cut = limit, true
	}
	for size > 0 {
		// Content-Length may be wrong, so grow dst only as bytes arrive.
		n := int(min(size, 1<<20))
		dst = slices.Grow(dst, n)
		m, err := io.ReadFull(in, dst[len(dst):len(dst)+n])
		dst = dst[:len(dst)+m]
		if err != nil {
			return dst, false, err
		}
		size -= int64(n)
	}
	return dst, cut, nil
}

// warcHead reads the header of a record. size is its Content-Length.
func warcHead(in *bufio.Reader) (size int64, truncated bool, err error) {
	size = -1
	started, continued := false, false
	open := false // a Content-Length had no value, which may follow on a folded line
	for total := 0; total < maxWARCHead; {
		line, err := in.ReadSlice('\n')
		total += len(line)
		if err == bufio.ErrBufferFull { // none of the fields below is so long
			continued = true
			continue
		}
		if err != nil {
			return 0, false, err
		}
		if continued {
			continued = false
			continue
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case len(line) == 0 && !started: // empty lines between records
		case len(line) == 0:
			if size < 0 {
				return 0, false, errRecord
			}
			return size, truncated, nil
		case !started:
			if len(line) < 5 || !fold(line[:5], "warc/") {
				return 0, false, errRecord
			}
			started = true
		case open && (line[0] == ' ' || line[0] == '\t'):
			line = bytes.TrimSpace(line)
			if size, err = strconv.ParseInt(string(line), 10, 64); err != nil || size < 0 {
				return 0, false, errRecord
			}
			open = false
		default:
			name, value, _ := bytes.Cut(line, []byte{':'})
			name = bytes.TrimSpace(name)
			switch {
			case size < 0 && fold(name, "content-length") && len(bytes.TrimSpace(value)) == 0:
				open = true
			case size < 0 && fold(name, "content-length"):
				if size, err = strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err != nil || size < 0 {
					return 0, false, errRecord
				}
			case fold(name, "warc-truncated"):
				truncated = true
			}
		}
	}
	return 0, false, errRecord
}

// fold reports whether the name of a field equals want, which is lower case, in any case.
func fold(name []byte, want string) bool {
	if len(name) != len(want) {
		return false
	}
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != want[i] {
			return false
		}
	}
	return true
}
