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

// maxWARCHead bounds the header of a record.
const maxWARCHead = 2 << 20

var errRecord = errors.New("no WARC record where one was")

// A reader reads single records; readers are pooled.
type reader struct {
	f   *os.File
	off int64
	raw *bufio.Reader // of f from off on
	gz  *gzip.Reader
	out *bufio.Reader // of gz
}

var readers = sync.Pool{New: func() any {
	return &reader{raw: bufio.NewReaderSize(nil, 16<<10), gz: new(gzip.Reader), out: bufio.NewReaderSize(nil, 4<<10)}
}}

// Read implements io.Reader by pread, so that many may read one file.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.f.ReadAt(p, r.off)
	r.off += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// content appends the content of the record at offset of f to dst, at most
// limit bytes. cut says that they are not all that was sent when it was recorded.
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
		// What the header says is believed as far as bytes come.
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

// warcHead reads the header of a record up to its content.
func warcHead(in *bufio.Reader) (size int64, truncated bool, err error) {
	size = -1
	started, continued := false, false
	open := false // a Content-Length whose value may follow on a folded line
	for total := 0; total < maxWARCHead; {
		line, err := in.ReadSlice('\n')
		total += len(line)
		if err == bufio.ErrBufferFull { // no field that matters here is so long
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
		case len(line) == 0 && !started: // between records
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

// fold compares a field's name to one in lower case.
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
