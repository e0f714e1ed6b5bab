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
	maxHeader = 2 << 20 // bytes of a record's header; its URL may have 1 MB
	maxFields = 4096

	// magic begins a record. Any case is accepted, as other readers do.
	magic = "WARC/"
)

// ErrDamaged means that a file is not a WARC file, or is a damaged one. A Reader wraps it in every error that is about
// the content of the file, and not about reading it. Such an error is a *DamageError.
var ErrDamaged = errors.New("damaged WARC")

// A DamageError describes damage in a WARC file.
type DamageError struct {
	Offset int64 // in the file: of the record, or of the gzip member
	Text   string
}

func (e *DamageError) Error() string { return fmt.Sprintf("offset %d: %s", e.Offset, e.Text) }

// Unwrap returns ErrDamaged.
func (e *DamageError) Unwrap() error { return ErrDamaged }

// A Header holds the fields of a record, in their order.
type Header []Field

// Value returns the value of the first field of that name, in any case; "" if there is none.
func (h Header) Value(name string) string {
	for i := range h {
		if len(h[i].Name) == len(name) && strings.EqualFold(h[i].Name, name) {
			return h[i].Value
		}
	}
	return ""
}

// repeats reports whether several fields have that name, in any case.
func (h Header) repeats(name string) bool {
	n := 0
	for _, f := range h {
		if strings.EqualFold(f.Name, name) {
			n++
		}
	}
	return n > 1
}

// A Record is one record of a WARC file. Read reads its content. The next call of the Reader's Next or Finish skips the
// part that has not been read.
type Record struct {
	Version string // such as "WARC/1.1", spelled as in the file
	Header  Header
	Offset  int64 // in the file; of the gzip member if the record is compressed
	// Length is the number of bytes in the file: of the gzip member, or of the plain record without the empty lines
	// after it. It is known after Finish. It is zero if the gzip member holds several records.
	Length int64
	// Size is Content-Length.
	Size int64
	// Gzip means that the record is compressed. Shared means that its gzip member holds other records too, so that a
	// reader cannot start at its offset.
	Gzip, Shared bool

	r      *Reader
	left   int64   // content bytes that have not been read yet
	tail   []byte  // up to eight CR and LF bytes that followed the content
	looked *looked // nil: no Looker reads the record
}

// Type returns WARC-Type in lower case.
func (rec *Record) Type() string { return strings.ToLower(rec.Header.Value("WARC-Type")) }

// URL returns WARC-Target-URI, without the angle brackets that some writers add.
func (rec *Record) URL() string {
	u := strings.TrimSpace(rec.Header.Value("WARC-Target-URI"))
	if len(u) > 1 && u[0] == '<' && u[len(u)-1] == '>' {
		u = u[1 : len(u)-1]
	}
	return u
}

// Date returns WARC-Date unchanged.
func (rec *Record) Date() string { return rec.Header.Value("WARC-Date") }

// Read reads the content block. If the block ends before Content-Length, the error wraps ErrDamaged.
func (rec *Record) Read(p []byte) (int, error) {
	if n := rec.looked.again(p); n > 0 {
		return n, nil
	}
	if rec.left == 0 {
		return 0, io.EOF
	}
	p, err := rec.looked.room(p)
	if err != nil {
		return 0, err
	}
	if rec.r.rec != rec {
		return 0, fmt.Errorf("record at %d: the Reader has moved on to another record", rec.Offset)
	}
	if int64(len(p)) > rec.left {
		p = p[:rec.left]
	}
	n, err := rec.r.cur.Read(p)
	rec.left -= int64(n)
	rec.looked.keep(p[:n])
	if err == io.EOF || err == nil && n == 0 && len(p) > 0 {
		if rec.left == 0 {
			return n, nil
		}
		return n, rec.r.broken(rec.Offset, fmt.Sprintf("the content ends %d bytes before its Content-Length of %d",
			rec.left, rec.Size))
	}
	if err != nil {
		err = rec.r.readError(err)
	}
	return n, err
}

// A Reader reads the records of a WARC file, plain or gzip, one after the other. Its memory is bounded: one header and
// its buffers. It is not safe for concurrent use.
type Reader struct {
	raw  *bufio.Reader
	n    counter
	base int64 // offset of the first byte read
	back rewind
	gz   *gzip.Reader
	gbuf *bufio.Reader
	cur  *bufio.Reader // raw, or gbuf inside a gzip member

	member  int64 // offset of the current gzip member
	records int   // seen in that member
	rec     *Record
	err     error // returned by all later calls; Skip clears it if it is damage
	// Empty counts the gzip members without a record.
	Empty int64
	// Damaged, if it is not nil, is called for damage, also for damage that Read or Finish reported, and Next then
	// returns the next record that it can find (see Skip). skipped is the number of bytes that were passed over.
	Damaged func(d *DamageError, skipped int64)
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

// NewReader returns a Reader of the WARC file r, which must be at its beginning.
func NewReader(r io.Reader) *Reader { return NewReaderAt(r, 0) }

// NewReaderAt returns a Reader that starts inside a file, where a record begins. offset is the position of r in the
// file, so that records and errors name their offsets in the file.
func NewReaderAt(r io.Reader, offset int64) *Reader {
	rd := &Reader{base: offset}
	rd.n.r = r
	rd.back.file, _ = r.(io.Seeker)
	rd.raw = bufio.NewReaderSize(&rd.n, 64<<10)
	return rd
}

// offset returns the position in the file of the next raw byte.
func (r *Reader) offset() int64 { return r.base + r.n.n - int64(r.raw.Buffered()) }

// broken records damage. Reading ends there unless Skip finds a later record.
func (r *Reader) broken(at int64, text string) error {
	r.err = &DamageError{at, text}
	return r.err
}

func isDeflate(err error) bool {
	var corrupt flate.CorruptInputError
	var internal flate.InternalError
	return errors.As(err, &corrupt) || errors.As(err, &internal)
}

// readError classifies the error of a read: damage of the compression, or a failure of the disk.
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

// Next finishes the current record and returns the next one. The error is io.EOF at the end of the file, wraps
// ErrDamaged if the file is damaged and Damaged is nil, and else is of reading.
func (r *Reader) Next() (*Record, error) {
	for {
		rec, err := r.next()
		damage, ok := errors.AsType[*DamageError](err)
		if !ok || r.Damaged == nil {
			return rec, err
		}
		skipped, err := r.Skip()
		r.Damaged(damage, skipped)
		if err != nil {
			return nil, err
		}
	}
}

func (r *Reader) next() (*Record, error) {
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
		if !start { // end of a gzip member, or of the file
			if r.cur == r.raw {
				r.err = io.EOF
				return nil, io.EOF
			}
			if r.records == 0 {
				r.Empty++
			}
			r.cur, r.back.to = nil, r.offset()
			continue
		}
		return r.header()
	}
}

// open looks at the next raw bytes: a plain record, a gzip member or the end of the file.
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
	r.back.to, r.back.gzip = r.member+1, true
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
		err, r.cur = r.readError(err), nil
		return err
	}
	r.gz.Multistream(false)
	r.gbuf.Reset(r.gz)
	return nil
}

// blanks skips CR and LF bytes. start means that something else follows. If keep is not nil, the first eight skipped
// bytes are appended to it.
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
			return r.next()
		}
	}
	if p, err := r.cur.Peek(64); !hasPrefixFold(string(p[:min(len(p), len(magic))]), magic) {
		// Nothing is read, because a record may follow in the same line.
		if err != nil && err != io.EOF {
			return nil, r.readError(err)
		}
		return nil, r.broken(rec.Offset, notWARC(string(p)))
	}
	if r.cur == r.raw {
		r.back.to, r.back.gzip = rec.Offset+1, false
	}
	total := 0
	line, err := r.line(rec.Offset, &total)
	if err != nil {
		return nil, err
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
			// A folded line continues the value (RFC 2616, 2.2).
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
			return nil, r.broken(rec.Offset, fmt.Sprintf("a header line has no colon: %.40q", line))
		}
		if len(rec.Header) == maxFields {
			return nil, r.broken(rec.Offset, fmt.Sprintf("the header has more than %d fields", maxFields))
		}
		rec.Header = append(rec.Header, Field{strings.TrimSpace(name), strings.TrimSpace(v)})
	}
	if rec.Header.repeats("WARC-Type") || rec.Header.repeats("WARC-Record-ID") {
		return nil, r.broken(rec.Offset, "the header has the fields of two records: the end of the first is missing")
	}
	length := rec.Header.Value("Content-Length")
	size, err := strconv.ParseInt(length, 10, 64)
	if err != nil || size < 0 {
		return nil, r.broken(rec.Offset, fmt.Sprintf("Content-Length %.40q is not a length", length))
	}
	rec.Size, rec.left = size, size
	r.rec = rec
	r.records++
	return rec, nil
}

// notWARC describes bytes that begin no WARC record.
func notWARC(p string) string {
	const zstd, dictionary = "\x28\xb5\x2f\xfd", "\x5d\x2a\x4d\x18" // RFC 8878, 3.1.1; the draft of .warc.zst
	switch {
	case strings.HasPrefix(p, "filedesc://"):
		return "ARC is not supported; make a WARC file of it, such as with: warcio recompress FILE.arc.gz FILE.warc.gz"
	case strings.HasPrefix(p, "PK\x03\x04"):
		return "a ZIP file, such as a WACZ, which replay, export and extract open if its name ends in .wacz"
	case strings.HasPrefix(p, zstd) || strings.HasPrefix(p, dictionary):
		return ".warc.zst is not supported; decompress the file, such as with: zstd -d"
	}
	line, _, _ := strings.Cut(p, "\n")
	return fmt.Sprintf("no WARC record: %.40q", strings.TrimRight(line, "\r"))
}

// line reads a header line without its end. It adds the line's size to total, which maxHeader limits.
func (r *Reader) line(at int64, total *int) (string, error) {
	var long []byte
	for {
		part, err := r.cur.ReadSlice('\n')
		*total += len(part)
		if *total > maxHeader {
			return "", r.broken(at, fmt.Sprintf("the header has more than %d bytes", maxHeader))
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
			return "", r.broken(at, "the file ends in the middle of a header")
		default:
			return "", r.readError(err)
		}
	}
}

// Finish skips the rest of the current record and the empty lines after it. If the content is shorter than
// Content-Length, the error wraps ErrDamaged. After Finish the record's Length is known.
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
			return r.broken(rec.Offset, fmt.Sprintf("the content ends %d bytes before its Content-Length of %d",
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
		if bytes.Count(rec.tail, []byte("\n")) > 1 {
			r.back.to = r.offset()
		}
		return nil
	}
	if more {
		rec.Shared = true
		return nil
	}
	r.cur, r.back.to = nil, r.offset()
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
