package warc

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/lines"
	"github.com/orbweaver/orbweaver/internal/store/zipnum"
)

// maxCaptures is the largest number of captures that Lookup returns.
const maxCaptures = 10000

// Lookup finds the captures of url in the index of the crawl directory p.Dir. It returns at most 10,000, oldest first;
// none is not an error. If there is no index, the error wraps fs.ErrNotExist. Lookup reads only the part of the index
// that a binary search needs. A nil fsys means the machine's filesystem. Of a crawl that runs (Place.Live), Lookup
// knows all that is written.
func Lookup(fsys disk.FS, p Place, url string) ([]Line, error) {
	found, err := lookup(fsys, p, url)
	if p, ok := err.(*fs.PathError); ok {
		err = fmt.Errorf("%s: %w", p.Op, p.Err) // the path is added below
	}
	if err != nil {
		return nil, fmt.Errorf("index %s: %w", indexPath(p.Dir), err)
	}
	return found, nil
}

func lookup(fsys disk.FS, p Place, url string) (found []Line, err error) {
	key := surt(url) + " "
	if p.Live != nil {
		raw, err := FindLines(context.Background(), fsys, p, key, "", maxCaptures)
		for _, line := range raw {
			l, err := ParseLine([]byte(line))
			if err != nil {
				return nil, err
			}
			found = append(found, l)
		}
		return found, err
	}
	for l, err := range Lines(fsys, p, key) {
		if err != nil {
			return nil, err
		}
		if l.SURT+" " != key || len(found) == maxCaptures {
			break
		}
		found = append(found, l)
	}
	return found, nil
}

// Lines returns the lines of the index of the crawl directory p.Dir from the sort key `from` on, in order. An error
// ends the sequence. If there is no index, the error wraps fs.ErrNotExist. A nil fsys means the machine's filesystem.
// The files stay open until the sequence ends or its reader stops.
func Lines(fsys disk.FS, p Place, from string) iter.Seq2[Line, error] {
	fsys = cmp.Or(fsys, disk.OS)
	if len(p.Merged) > 0 {
		return p.merged(fsys, from)
	}
	return merged(fsys, p.Indexes(), from)
}

// merged merges the lines of sorted files from the key `from` on. A line that is in two files comes once. If none of
// the files exists, the error wraps fs.ErrNotExist.
func merged(fsys disk.FS, paths []string, from string) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		err := merge(fsys, paths, from, func(line []byte) (more bool, err error) {
			l, err := ParseLine(line)
			return err == nil && yield(l, nil), err
		})
		if err != nil {
			yield(Line{}, err)
		}
	}
}

func merge(fsys disk.FS, paths []string, from string, yield func(line []byte) (more bool, err error)) error {
	var at string
	return mergeAt(fsys, paths, from, &at, yield)
}

// mergeAt is merge, and sets at to the file that is read.
func mergeAt(fsys disk.FS, paths []string, from string, at *string,
	yield func(line []byte) (more bool, err error)) error {
	var sources sortedSources // of the files that have more lines
	var absent error
	opened := 0
	for _, path := range paths {
		*at = path
		s, done, err := openLines(fsys, path, []byte(from))
		if errors.Is(err, fs.ErrNotExist) {
			absent = err
			continue
		}
		if err != nil {
			return err
		}
		defer done()
		opened++
		if s != nil {
			s.path = path
			sources = append(sources, s)
		}
	}
	if opened == 0 {
		return absent
	}
	heap.Init(&sources)
	var last []byte // nil: none was handed out
	for len(sources) > 0 {
		s := sources[0]
		*at = s.path
		if last == nil || !bytes.Equal(s.line, last) {
			last = append(last[:0], s.line...)
			if more, err := yield(s.line); !more {
				return err
			}
		}
		switch err := s.next(); err {
		case nil:
			heap.Fix(&sources, 0)
		case io.EOF:
			heap.Pop(&sources)
		default:
			return err
		}
	}
	return nil
}

// sortedSources is a heap of the files that are merged, by their current lines.
type sortedSources []*lineSource

func (h sortedSources) Len() int           { return len(h) }
func (h sortedSources) Less(i, j int) bool { return bytes.Compare(h[i].line, h[j].line) < 0 }
func (h sortedSources) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *sortedSources) Push(s any)        { *h = append(*h, s.(*lineSource)) }

// Pop removes the last one.
func (h *sortedSources) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	*h = (*h)[:last]
	return s
}

// seekLine returns a source whose current line is the first one of the sorted file f that is not below from; nil if
// there is none.
func seekLine(f disk.File, from []byte) (*lineSource, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// The line begins in (low, high].
	low, high := int64(0), info.Size()
	for high-low > mergeBuf {
		mid := low + (high-low)/2
		line, _, err := lineAfter(f, mid, info.Size())
		if err != nil {
			return nil, err
		}
		if line != nil && bytes.Compare(line, from) < 0 {
			low = mid
		} else {
			high = mid
		}
	}
	_, start, err := lineAfter(f, low, info.Size())
	if err != nil {
		return nil, err
	}
	return skipTo(source(io.NewSectionReader(f, start, info.Size()-start), "index"), from, info.Size())
}

// skipTo moves s to its first line that is not below from, and returns it; nil if there is none. It reads at most a
// line more than most bytes.
func skipTo(s *lineSource, from []byte, most int64) (*lineSource, error) {
	for read := int64(0); ; read += int64(s.r.Size()) {
		switch err := s.next(); {
		case err == io.EOF:
			return nil, nil
		case err != nil:
			return nil, err
		case bytes.HasPrefix(s.line, []byte("!meta ")): // the name of the format, which some programs write
		case bytes.Compare(s.line, from) >= 0:
			return s, nil
		case read > most:
			return nil, fmt.Errorf("%s: %w: the lines are not sorted", s.name, zipnum.ErrDamaged)
		}
	}
}

// lineAfter returns the first line that begins at or after byte at; nil if there is none. at may be inside a line.
func lineAfter(f io.ReaderAt, at, size int64) (line []byte, start int64, err error) {
	if at > 0 {
		at-- // a line that begins at byte `at` follows a line feed
	}
	skip := at > 0
	s := lineSource{name: "index", r: lines.NewReader(io.NewSectionReader(f, at, size-at), 8<<10, lineLimit)}
	s.r.Strict = true
	if skip {
		if err := s.next(); err != nil {
			if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
				err = nil
			}
			return nil, size, err
		}
		at += int64(s.r.Size())
	}
	if err := s.next(); err == io.EOF {
		return nil, size, nil
	} else if err != nil {
		return nil, size, err
	}
	return s.line, at, nil
}

// ParseLine parses a CDXJ line. A field that the line lacks is empty.
func ParseLine(line []byte) (l Line, err error) {
	key, rest, ok := bytes.Cut(bytes.TrimSpace(line), []byte{' '})
	stamp, object, ok2 := bytes.Cut(rest, []byte{' '})
	if !ok || !ok2 {
		return l, fmt.Errorf("CDXJ line %.40q: not a sort key, a time and an object", line)
	}
	l.SURT, l.Time = string(key), string(stamp)
	var fields struct {
		URL, MIME, Digest, Filename             string
		Status, Length, Offset                  number
		Charset, Languages, Truncated, Redirect string
		Hops, Via, Category                     string

		Detected  string `json:"mime-detected"`
		Fetched   number `json:"fetched-status"`
		Duplicate string `json:"duplicate-of"`
		Near      string `json:"near-duplicate-of"`
		Body      string `json:"body-digest"`
	}
	if err := json.Unmarshal(object, &fields); err != nil {
		return l, fmt.Errorf("CDXJ line %.40q: %w", line, err)
	}
	l.URL, l.MIME, l.Detected, l.Status = fields.URL, fields.MIME, fields.Detected, string(fields.Status)
	l.Digest, l.File = fields.Digest, fields.Filename
	l.Charset, l.Languages, l.Truncated = fields.Charset, fields.Languages, fields.Truncated
	l.Redirect = fields.Redirect
	l.Hops, l.Via, l.Fetched = fields.Hops, fields.Via, string(fields.Fetched)
	l.Duplicate, l.Near, l.Category, l.Body = fields.Duplicate, fields.Near, fields.Category, fields.Body
	if l.Offset, err = strconv.ParseInt(string(fields.Offset), 10, 64); err != nil {
		return l, fmt.Errorf("CDXJ line %.40q: offset: %w", line, err)
	}
	if fields.Length != "" {
		if l.Length, err = strconv.ParseInt(string(fields.Length), 10, 64); err != nil {
			return l, fmt.Errorf("CDXJ line %.40q: length: %w", line, err)
		}
	}
	return l, nil
}

// A number is a JSON number, or a string that has one: programs write both.
type number string

// UnmarshalJSON takes the text of either.
func (n *number) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(n))
	}
	if string(b) != "null" {
		*n = number(b)
	}
	return nil
}

// OpenWARC opens a WARC file of the crawl directory dir, finished or still being written, by the name that an index has
// for it. That of a segment has the path from the crawl directory; any other name with a directory is an error
// (fs.ErrInvalid). A nil fsys means the machine's filesystem. The caller closes the file.
func OpenWARC(fsys disk.FS, dir, name string) (f disk.File, err error) {
	return openRange(cmp.Or(fsys, disk.OS), dir, Line{File: name})
}

// openRange is OpenWARC for reading the record of a line.
func openRange(fsys disk.FS, dir string, l Line) (f disk.File, err error) {
	if InSegment(l.File) {
		f, err = disk.OpenRange(fsys, filepath.Join(dir, filepath.FromSlash(l.File)), l.Offset, l.Length)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		l.File = path.Base(l.File)
	}
	if l.File != filepath.Base(l.File) || strings.HasPrefix(l.File, ".") {
		return nil, fmt.Errorf("the file %q is not in the archive: %w", l.File, fs.ErrInvalid)
	}
	return openFile(fsys, dir, l.File)
}
