// Package zipnum answers: which lines of a sorted list begin at a key, without unpacking the whole list?
//
//	sorted lines -> Writer -> blocks (NAME.cdx.gz) and their index (NAME.idx)
//	key -> binary search in the index -> one block -> lines
//
// The format is that of WACZ files and of web archives' large indexes (ZipNum, cdxj-gzip-1.0). The file of blocks is a
// row of gzip members. Each holds 256 lines, or fewer if these have more than 1 MiB. The index has one line a block,
// after a line that names the format:
//
//	!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}
//	com,example)/ 20260131000000 {"offset": 0, "length": 5432, "digest": "sha256:…", "filename": "index.cdx.gz"}
//
// The key of an index line is the beginning of the block's first line, up to the second blank.
//
// Common Crawl and pywb have another index of the same blocks, which a Writer with Tabs writes and a reader reads, too.
// It has no first line of its own, and its lines have tabs: key, file of blocks, offset, length, number of the block.
//
//	com,example)/ 20260131000000	index.cdx.gz	0	5432	1
//
// A reader bounds what a hostile file can cost: an index line has at most 1 MiB, and a block unpacks to at most 64 MiB.
// A Writer and a reader belong to one goroutine each.
package zipnum

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
)

const (
	blockLines = 256     // of a full block
	blockBytes = 1 << 20 // of the lines after which a block ends early
	// MaxBlock is how many bytes a block may unpack to.
	MaxBlock = 64 << 20
	format   = "cdxj-gzip-1.0"
	maxEntry = 1 << 20 // bytes of a line of the index
	buffer   = 64 << 10
	probe    = 4 << 10 // bytes that one step of a binary search reads
)

// ErrDamaged means that the files are not what a Writer writes.
var ErrDamaged = errors.New("damaged ZipNum index")

// A Writer writes both files. Its lines must be sorted by their bytes.
type Writer struct {
	blocks, index io.Writer
	name          string // of the file of blocks
	gz            *gzip.Writer
	packed        bytes.Buffer // the block
	first         []byte       // the first line of the block
	lines, text   int          // of the block
	offset        int64        // of the block
	begun         bool

	// Segments are named in the first line of the index, if there are any: what the lines are of.
	Segments []string
	// Tabs gives the index the form of Common Crawl and pywb, which has no Segments.
	Tabs   bool
	number int64 // of blocks, with Tabs
}

// A Meta is the first line of an index.
type Meta struct {
	Format   string   `json:"format"`
	Filename string   `json:"filename"`           // of the file of blocks
	Segments []string `json:"segments,omitempty"` // see Writer
}

// MaxSegments bounds the names in the first line of an index, in bytes.
const MaxSegments = maxEntry / 2

// ReadMeta reads the first line of an index. If there is none, the error wraps ErrDamaged.
func ReadMeta(index io.Reader) (m Meta, err error) {
	in := bufio.NewScanner(index)
	in.Buffer(make([]byte, buffer), maxEntry)
	in.Split(splitLine)
	if !in.Scan() {
		if err := in.Err(); err != nil && err != io.ErrUnexpectedEOF && err != bufio.ErrTooLong {
			return m, err
		}
		return m, fmt.Errorf("%w: the index has no first line", ErrDamaged)
	}
	rest, ok := bytes.CutPrefix(in.Bytes(), []byte("!meta 0 "))
	if !ok || json.Unmarshal(rest, &m) != nil || m.Format != format {
		return Meta{}, fmt.Errorf("%w: the first line of the index does not name the format %s", ErrDamaged, format)
	}
	return m, nil
}

// NewWriter returns a Writer. name is the name of the file of blocks, without a directory. The caller closes the files.
func NewWriter(blocks, index io.Writer, name string) *Writer {
	w := &Writer{blocks: blocks, index: index, name: name}
	w.gz = gzip.NewWriter(&w.packed)
	return w
}

// Add adds a line, which has no line feed.
func (w *Writer) Add(line []byte) error {
	if w.lines == 0 {
		w.first = append(w.first[:0], line...)
		w.packed.Reset()
		w.gz.Reset(&w.packed)
	}
	w.lines++
	w.text += len(line) + 1
	w.gz.Write(line)
	w.gz.Write([]byte{'\n'}) // into memory
	if w.lines == blockLines || w.text >= blockBytes {
		return w.flush()
	}
	return nil
}

// Close writes the last block.
func (w *Writer) Close() error {
	if w.lines > 0 {
		return w.flush()
	}
	return w.begin()
}

// begin writes the first line of the index.
func (w *Writer) begin() error {
	if w.begun || w.Tabs {
		return nil
	}
	w.begun = true
	name, err := json.Marshal(w.name)
	segments := ""
	if err == nil && len(w.Segments) > 0 {
		var list []byte
		list, err = json.Marshal(w.Segments)
		segments = ", \"segments\": " + string(list)
	}
	if err == nil {
		_, err = fmt.Fprintf(w.index, "!meta 0 {\"format\": \"%s\", \"filename\": %s%s}\n", format, name, segments)
	}
	return err
}

// flush writes the block and its line of the index.
func (w *Writer) flush() error {
	if err := errors.Join(w.begin(), w.gz.Close()); err != nil {
		return err
	}
	w.number++
	name, err := json.Marshal(w.name)
	switch {
	case err != nil:
		return err
	case w.Tabs:
		_, err = fmt.Fprintf(w.index, "%s\t%s\t%d\t%d\t%d\n", keyOf(w.first), w.name, w.offset, w.packed.Len(),
			w.number)
	default:
		_, err = fmt.Fprintf(w.index, "%s {\"offset\": %d, \"length\": %d, \"digest\": \"sha256:%x\", \"filename\": "+
			"%s}\n", keyOf(w.first), w.offset, w.packed.Len(), sha256.Sum256(w.packed.Bytes()), name)
	}
	if err != nil {
		return err
	}
	w.offset += int64(w.packed.Len())
	w.lines, w.text = 0, 0
	_, err = w.blocks.Write(w.packed.Bytes())
	return err
}

// keyOf returns the beginning of a line up to its second blank, without it.
func keyOf(line []byte) []byte {
	i := bytes.IndexByte(line, ' ')
	if i < 0 {
		return line
	}
	if j := bytes.IndexByte(line[i+1:], ' '); j >= 0 {
		return line[:i+1+j]
	}
	return line
}

// A Source is a file that is read at any place.
type Source interface {
	io.ReaderAt
	// Size returns the size of the file in bytes.
	Size() int64
}

// CheckEnd returns an error that wraps ErrDamaged if the last block of the index does not end where a file of blocks
// with so many bytes does. It reads the end of the index.
func CheckEnd(index Source, blocks int64) error {
	size := index.Size()
	for _, step := range []int64{buffer, 2 * maxEntry} { // the second has a whole line
		end, found := int64(0), false
		s := scan(index, max(0, size-step), size, buffer)
		e, err := s.next()
		for ; err == nil && e != nil; e, err = s.next() {
			end, found = e.offset+e.length, true
		}
		switch {
		case err != nil:
			return err
		case !found && size > step:
			continue
		case end != blocks:
			return fmt.Errorf("%w: the blocks end at byte %d in place of %d", ErrDamaged, blocks, end)
		}
		return nil
	}
	return fmt.Errorf("%w: the index ends without a line of a block", ErrDamaged)
}

// From returns the text of the lines from the block on that has the first line that is not below key. The lines before
// it in its block come, too. Read unpacks one block after the other. Its error wraps ErrDamaged if the files are not
// what they should be.
func From(index, blocks Source, key []byte) (io.Reader, error) {
	at, err := find(index, keyOf(key))
	if err != nil {
		return nil, err
	}
	if at < 0 || at > blocks.Size() {
		return nil, fmt.Errorf("%w: a block begins at byte %d of %d", ErrDamaged, at, blocks.Size())
	}
	return &text{in: bufio.NewReaderSize(io.NewSectionReader(blocks, at, blocks.Size()-at), buffer)}, nil
}

// find returns where the last block begins whose key is below key, or the first block.
func find(index Source, key []byte) (offset int64, err error) {
	size := index.Size()
	s := scan(index, 0, size, probe)
	e, err := s.next()
	if err != nil || e == nil {
		return 0, err
	}
	// best is the last entry known to be below key. The first one that is not begins in (low, high].
	best, low, high := e.offset, e.end, size
	for high-low > buffer {
		mid := low + (high-low)/2
		switch e, err := scan(index, mid, size, probe).next(); {
		case err != nil:
			return 0, err
		case e == nil || e.start >= high || bytes.Compare(e.key, key) >= 0:
			high = mid
		default:
			best, low = e.offset, e.end
		}
	}
	s = scan(index, low, size, buffer)
	for {
		e, err := s.next()
		if err != nil || e == nil || bytes.Compare(e.key, key) >= 0 {
			return best, err
		}
		best = e.offset
	}
}

// An entry is a line of the index.
type entry struct {
	key        []byte // valid until the next one is read
	offset     int64  // of the block
	length     int64  // of the block; 0 if the line does not name it
	start, end int64  // of the line in the index
}

// A scanner reads entries.
type scanner struct {
	in   *bufio.Scanner
	at   int64
	skip bool // the reader begins before an entry
}

// scan returns a scanner of the entries that begin at byte at or after it. It reads step bytes at a time.
func scan(index Source, at, size int64, step int) *scanner {
	skip := at > 0
	if skip {
		at-- // a line that begins at byte at follows a line feed
	}
	in := bufio.NewScanner(io.NewSectionReader(index, at, size-at))
	in.Buffer(make([]byte, step), maxEntry)
	in.Split(splitLine)
	return &scanner{in, at, skip}
}

// splitLine is a bufio.SplitFunc for lines that end with a line feed, which is a part of the token.
func splitLine(data []byte, atEOF bool) (advance int, token []byte, err error) {
	i := bytes.IndexByte(data, '\n')
	switch {
	case i < 0 && atEOF && len(data) > 0:
		return 0, nil, io.ErrUnexpectedEOF
	case i < 0:
		return 0, nil, nil
	}
	return i + 1, data[:i+1], nil
}

// next returns the next entry; nil at the end.
func (s *scanner) next() (*entry, error) {
	for {
		if !s.in.Scan() {
			switch err := s.in.Err(); {
			case err == io.ErrUnexpectedEOF && s.skip:
				return nil, nil
			case err == io.ErrUnexpectedEOF || err == bufio.ErrTooLong:
				return nil, fmt.Errorf("%w: a line of the index at byte %d: %w", ErrDamaged, s.at, err)
			default:
				return nil, err // nil at the end
			}
		}
		line := s.in.Bytes()
		start := s.at
		s.at += int64(len(line))
		if s.skip || bytes.HasPrefix(line, []byte{'!'}) {
			s.skip = false
			continue
		}
		e := &entry{start: start, end: s.at}
		if !e.parse(line) {
			return nil, fmt.Errorf("%w: the line of the index at byte %d names no offset: %s", ErrDamaged, start,
				strings.ToValidUTF8(fmt.Sprintf("%.60s", line), "?"))
		}
		return e, nil
	}
}

// parse reads a line of either form. It reports whether the line names an offset.
func (e *entry) parse(line []byte) bool {
	if i := bytes.IndexAny(line, "\t{"); i >= 0 && line[i] == '\t' {
		e.key = line[:i]
		fields := strings.Split(strings.TrimRight(string(line[i+1:]), "\r\n"), "\t")
		if len(fields) < 3 {
			return false
		}
		offset, err := strconv.ParseInt(fields[1], 10, 64)
		length, bad := strconv.ParseInt(fields[2], 10, 64)
		e.offset, e.length = offset, length
		return err == nil && bad == nil
	}
	e.key = keyOf(line)
	var place struct {
		Offset *int64 `json:"offset"`
		Length int64  `json:"length"`
	}
	if err := json.Unmarshal(line[len(e.key):], &place); err != nil || place.Offset == nil {
		return false
	}
	e.offset, e.length = *place.Offset, place.Length
	return true
}

// text unpacks blocks.
type text struct {
	in   *bufio.Reader
	gz   *gzip.Reader
	open bool // gz has more of its block
	left int64
	err  error
}

// Read reads the text of the blocks.
func (t *text) Read(p []byte) (int, error) {
	for t.err == nil {
		if !t.open {
			if t.err = t.next(); t.err != nil {
				break
			}
		}
		n, err := t.gz.Read(p[:min(int64(len(p)), t.left+1)])
		t.left -= int64(n)
		switch {
		case t.left < 0:
			t.err = fmt.Errorf("%w: a block has more than %d bytes", ErrDamaged, MaxBlock)
		case err == io.EOF:
			t.open = false
		case err != nil:
			t.err = broken(err)
		}
		if n > 0 && t.err == nil {
			return n, nil
		}
	}
	return 0, t.err
}

// next begins a block.
func (t *text) next() error {
	if _, err := t.in.Peek(1); err != nil {
		return err
	}
	var err error
	if t.gz == nil {
		t.gz, err = gzip.NewReader(t.in)
	} else {
		err = t.gz.Reset(t.in)
	}
	if err != nil {
		return broken(err)
	}
	t.gz.Multistream(false)
	t.open, t.left = true, MaxBlock
	return nil
}

// broken classifies an error of gzip: what the bytes cause wraps ErrDamaged.
func broken(err error) error {
	var path interface{ Timeout() bool } // of a disk or a network
	if errors.As(err, &path) {
		return err
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}
