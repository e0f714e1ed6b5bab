package warc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
)

const (
	maxHeader = 2 << 20 // bytes of a record's header; a URL may be 1 MB
	maxFields = 4096

	// magic begins a record, in any case as other readers take it.
	magic = "WARC/"
)

// ErrDamaged is a file that is no WARC file, or not one any more. Every error
// of a Reader that is about the bytes and not about reading them wraps it, and
// names the offset.
var ErrDamaged = errors.New("damaged WARC")

// A DamageError says what is wrong where.
type DamageError struct {
	Offset int64 // in the file: of the record, or of the gzip member
	Text   string
}

func (e *DamageError) Error() string { return fmt.Sprintf("offset %d: %s", e.Offset, e.Text) }

// Unwrap makes every DamageError an ErrDamaged.
func (e *DamageError) Unwrap() error { return ErrDamaged }

// A Header is the fields of a record, in their order.
type Header []Field

// Value is the value of the first field of that name, whatever its case, or "".
func (h Header) Value(name string) string {
	for i := range h {
		if len(h[i].Name) == len(name) && strings.EqualFold(h[i].Name, name) {
			return h[i].Value
		}
	}
	return ""
}

// A Record is one record of a WARC file. Its content is read from it; what is
// left is skipped by the Reader's Next or Finish.
type Record struct {
	Version string // "WARC/1.1", in the writer's case
	Header  Header
	Offset  int64 // in the file; of the gzip member for a compressed record
	// Length is the record's bytes in the file: of the gzip member, or of the
	// plain record without the empty lines behind it. It is known after
	// Finish, and zero in a gzip member that holds several records.
	Length int64
	// Size is Content-Length.
	Size int64
	// Gzip says that the record was compressed, Shared that its gzip member
	// holds other records too, so that it cannot be read from its offset.
	Gzip, Shared bool

	r    *Reader
	left int64  // content bytes not yet read
	tail []byte // what stood where CR LF CR LF should, as far as blank
}

// Type is WARC-Type, in lower case.
func (rec *Record) Type() string { return strings.ToLower(rec.Header.Value("WARC-Type")) }

// URL is WARC-Target-URI without the angle brackets that some writers put.
func (rec *Record) URL() string {
	u := strings.TrimSpace(rec.Header.Value("WARC-Target-URI"))
	if len(u) > 1 && u[0] == '<' && u[len(u)-1] == '>' {
		u = u[1 : len(u)-1]
	}
	return u
}

// Date is WARC-Date as it stands.
func (rec *Record) Date() string { return rec.Header.Value("WARC-Date") }

// Read reads the content block. io.ErrUnexpectedEOF, wrapped, is a block that
// ends before Content-Length.
func (rec *Record) Read(p []byte) (int, error) {
	if rec.left == 0 {
		return 0, io.EOF
	}
	if rec.r.rec != rec {
		return 0, fmt.Errorf("record at %d: read after the next", rec.Offset)
	}
	if int64(len(p)) > rec.left {
		p = p[:rec.left]
	}
	n, err := rec.r.cur.Read(p)
	rec.left -= int64(n)
	if err == io.EOF || err == nil && n == 0 && len(p) > 0 {
		if rec.left == 0 {
			return n, nil
		}
		return n, rec.r.broken(rec.Offset, fmt.Sprintf("content ends %d bytes before its Content-Length of %d",
			rec.left, rec.Size))
	}
	if err != nil {
		err = rec.r.readError(err)
	}
	return n, err
}

// A Reader reads the records of a WARC file, plain or gzip, one after the
// other. It needs memory for a header and its buffers, whatever the file.
type Reader struct {
	raw  *bufio.Reader
	n    counter
	base int64 // offset of the first byte read
	gz   *gzip.Reader
	gbuf *bufio.Reader
	cur  *bufio.Reader // raw, or gbuf inside a gzip member

	member  int64 // offset of the gzip member in hand
	records int   // seen in it
	rec     *Record
	err     error // sticky, but Skip may clear it
	// Empty counts gzip members without a record.
	Empty int64
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// NewReader reads the WARC file in r from its beginning.
func NewReader(r io.Reader) *Reader { return NewReaderAt(r, 0) }

// NewReaderAt reads from a place inside a file at which a record begins;
// offset is that place, so that records and errors name theirs in the file.
func NewReaderAt(r io.Reader, offset int64) *Reader {
	rd := &Reader{base: offset}
	rd.n.r = r
	rd.raw = bufio.NewReaderSize(&rd.n, 64<<10)
	return rd
}

// offset is the place in the file of the next raw byte.
func (r *Reader) offset() int64 { return r.base + r.n.n - int64(r.raw.Buffered()) }

// broken is a damage that ends the reading unless Skip finds a way on.
func (r *Reader) broken(at int64, text string) error {
	r.err = &DamageError{at, text}
	return r.err
}

func isDeflate(err error) bool {
	var corrupt flate.CorruptInputError
	var internal flate.InternalError
	return errors.As(err, &corrupt) || errors.As(err, &internal)
}

// readError sorts a read's error: damage of the compression, or of the disk.
func (r *Reader) readError(err error) error {
	var damage *DamageError
	switch {
	case errors.As(err, &damage):
		return err
	case r.cur != nil && r.cur == r.gbuf && (errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) ||
		errors.Is(err, io.ErrUnexpectedEOF) || isDeflate(err)):
		return r.broken(r.member, "gzip member: "+err.Error())
	}
	r.err = fmt.Errorf("offset %d: %w", r.offset(), err)
	return r.err
}

// Next finishes the record in hand and returns the next one. io.EOF is the
// end of a file that is whole.
func (r *Reader) Next() (*Record, error) {
	if r.err != nil {
		return nil, r.err
	}
	if err := r.Finish(); err != nil {
		return nil, err
	}
	r.rec = nil
	for {
		if r.cur == nil {
			if err := r.open(); err != nil {
				return nil, err
			}
		}
		start, err := r.blanks(nil)
		if err != nil {
			return nil, err
		}
		if !start { // the end of a member, or of the file
			if r.cur == r.raw {
				r.err = io.EOF
				return nil, io.EOF
			}
			if r.records == 0 {
				r.Empty++
			}
			r.cur = nil
			continue
		}
		return r.header()
	}
}

// open looks at the next raw byte: plain record, gzip member or end.
func (r *Reader) open() error {
	start, err := r.raw.Peek(2)
	if len(start) == 0 {
		if err != io.EOF {
			return r.readError(err)
		}
		r.err = io.EOF
		return io.EOF
	}
	r.member, r.records = r.offset(), 0
	if len(start) < 2 || start[0] != 0x1f || start[1] != 0x8b {
		r.cur = r.raw
		return nil
	}
	if r.gz == nil {
		r.gz, err = gzip.NewReader(r.raw)
		r.gbuf = bufio.NewReaderSize(nil, 32<<10)
	} else {
		err = r.gz.Reset(r.raw)
	}
	r.cur = r.gbuf
	if err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return r.readError(err)
	}
	r.gz.Multistream(false)
	r.gbuf.Reset(r.gz)
	return nil
}

// blanks skips empty lines; start says that something follows them. The first
// eight bytes skipped are appended to *keep.
func (r *Reader) blanks(keep *[]byte) (start bool, err error) {
	for {
		p, err := r.cur.Peek(1)
		if len(p) == 0 {
			if err == io.EOF {
				return false, nil
			}
			return false, r.readError(err)
		}
		if p[0] != '\r' && p[0] != '\n' {
			return true, nil
		}
		if keep != nil && len(*keep) < 8 {
			*keep = append(*keep, p[0])
		}
		r.cur.Discard(1) // peeked
	}
}

// header reads a record's header.
func (r *Reader) header() (*Record, error) {
	rec := &Record{r: r, Offset: r.member, Gzip: r.cur == r.gbuf, Shared: r.records > 0}
	if r.cur == r.raw {
		rec.Offset, rec.Shared = r.offset(), false
		// A gzip member may follow a plain record.
		if p, _ := r.raw.Peek(2); len(p) == 2 && p[0] == 0x1f && p[1] == 0x8b {
			r.cur = nil
			return r.Next()
		}
	}
	total := 0
	line, err := r.line(rec.Offset, &total)
	if err != nil {
		return nil, err
	}
	if !hasPrefixFold(line, magic) {
		return nil, r.broken(rec.Offset, fmt.Sprintf("no WARC record: %.40q", line))
	}
	rec.Version = strings.TrimSpace(line)
	var value []byte // of the last field
	for {
		line, err := r.line(rec.Offset, &total)
		if err != nil {
			return nil, err
		}
		n := len(rec.Header)
		if n > 0 && line != "" && (line[0] == ' ' || line[0] == '\t') {
			// A folded line goes on with the value (RFC 2616, 2.2).
			if value == nil {
				value = []byte(rec.Header[n-1].Value)
			}
			if line = strings.TrimSpace(line); len(value) > 0 && line != "" {
				value = append(value, ' ')
			}
			value = append(value, line...)
			continue
		}
		if value != nil {
			rec.Header[n-1].Value, value = string(value), nil
		}
		if line == "" {
			break
		}
		name, v, ok := strings.Cut(line, ":")
		if !ok {
			return nil, r.broken(rec.Offset, fmt.Sprintf("header line without a colon: %.40q", line))
		}
		if len(rec.Header) == maxFields {
			return nil, r.broken(rec.Offset, fmt.Sprintf("more than %d header fields", maxFields))
		}
		rec.Header = append(rec.Header, Field{strings.TrimSpace(name), strings.TrimSpace(v)})
	}
	length := rec.Header.Value("Content-Length")
	size, err := strconv.ParseInt(length, 10, 64)
	if err != nil || size < 0 {
		return nil, r.broken(rec.Offset, fmt.Sprintf("Content-Length %.40q is no length", length))
	}
	rec.Size, rec.left = size, size
	r.rec = rec
	r.records++
	return rec, nil
}

// line reads a header line without its end; total counts against maxHeader.
func (r *Reader) line(at int64, total *int) (string, error) {
	var long []byte
	for {
		part, err := r.cur.ReadSlice('\n')
		*total += len(part)
		if *total > maxHeader {
			return "", r.broken(at, fmt.Sprintf("header over %d bytes", maxHeader))
		}
		switch {
		case err == nil:
			if long == nil {
				return string(bytes.TrimRight(part, "\r\n")), nil
			}
			return string(bytes.TrimRight(append(long, part...), "\r\n")), nil
		case err == bufio.ErrBufferFull:
			long = append(long, part...)
		case err == io.EOF:
			return "", r.broken(at, "header ends in the middle")
		default:
			return "", r.readError(err)
		}
	}
}

// Finish skips what is left of the record in hand, and checks that it ends
// where it says. Then its Length is known.
func (r *Reader) Finish() error {
	rec := r.rec
	if rec == nil {
		return r.end()
	}
	if r.err != nil {
		return r.err
	}
	for rec.left > 0 {
		n, err := r.cur.Discard(int(min(rec.left, 1<<30)))
		rec.left -= int64(n)
		if err == io.EOF {
			return r.broken(rec.Offset, fmt.Sprintf("content ends %d bytes before its Content-Length of %d",
				rec.left, rec.Size))
		}
		if err != nil {
			return r.readError(err)
		}
	}
	plainEnd := r.offset()
	more, err := r.blanks(&rec.tail)
	if err != nil {
		return err
	}
	r.rec = nil
	if r.cur == r.raw {
		rec.Length = plainEnd - rec.Offset
		return nil
	}
	if more {
		rec.Shared = true
		return nil
	}
	r.cur = nil
	if !rec.Shared {
		rec.Length = r.offset() - rec.Offset
	}
	return nil
}

func (r *Reader) end() error {
	if r.err != nil && r.err != io.EOF {
		return r.err
	}
	return nil
}

// Skip goes on behind a damage that Next or Read reported: to the next gzip
// member, or plain record, whose beginning can be read. It says how many bytes
// it passed over; io.EOF means that there is none.
func (r *Reader) Skip() (skipped int64, err error) {
	if r.err != nil && !errors.Is(r.err, ErrDamaged) {
		return 0, r.err
	}
	from := r.offset()
	r.err, r.rec, r.cur = nil, nil, nil
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
			if p[i] == 0x1f && startsMember(p[i:]) ||
				p[i]|0x20 == 'w' && hasPrefixFold(string(p[i:min(len(p), i+len(magic))]), magic) &&
					(i == 0 || p[i-1] == '\n') {
				r.raw.Discard(i) // peeked
				return r.offset() - from, nil
			}
		}
		// A beginning may be cut by the end of what was peeked.
		n := len(p)
		if n > 512 {
			n -= 512
		}
		r.raw.Discard(n) // peeked
	}
}

// startsMember says whether a gzip member that holds a WARC record begins here.
func startsMember(p []byte) bool {
	if len(p) < 18 || p[1] != 0x8b || p[2] != 8 {
		return false
	}
	z, err := gzip.NewReader(bytes.NewReader(p))
	if err != nil {
		return false
	}
	var b [len(magic)]byte
	_, err = io.ReadFull(z, b[:])
	return err == nil && hasPrefixFold(string(b[:]), magic)
}
