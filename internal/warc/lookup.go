package warc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// maxCaptures is the largest number of captures that Lookup returns.
const maxCaptures = 10000

// Lookup finds the captures of url in the index of the crawl directory dir. It returns at most 10,000, oldest first;
// none is not an error. If there is no index, the error wraps fs.ErrNotExist. Lookup reads only the part of the index
// that a binary search needs. A nil fsys means the machine's filesystem.
func Lookup(fsys disk.FS, dir, url string) ([]Line, error) {
	if fsys == nil {
		fsys = disk.OS
	}
	lines, err := lookup(fsys, indexPath(dir), url)
	if p, ok := err.(*fs.PathError); ok {
		err = fmt.Errorf("%s: %w", p.Op, p.Err) // the path is added below
	}
	if err != nil {
		return nil, fmt.Errorf("index %s: %w", indexPath(dir), err)
	}
	return lines, nil
}

func lookup(fsys disk.FS, path, url string) (found []Line, err error) {
	key := surt(url) + " "
	for l, err := range lines(fsys, path, key) {
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

// Lines returns the lines of the index of the crawl directory dir from the sort key `from` on, in order. An error ends
// the sequence. If there is no index, the error wraps fs.ErrNotExist. A nil fsys means the machine's filesystem. The
// file stays open until the sequence ends or its reader stops.
func Lines(fsys disk.FS, dir, from string) iter.Seq2[Line, error] {
	if fsys == nil {
		fsys = disk.OS
	}
	return lines(fsys, indexPath(dir), from)
}

func lines(fsys disk.FS, path, from string) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
		if err != nil {
			yield(Line{}, err)
			return
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			yield(Line{}, err)
			return
		}
		// The first line that is not below from begins in (low, high].
		key := []byte(from)
		low, high := int64(0), info.Size()
		for high-low > mergeBuf {
			mid := low + (high-low)/2
			line, _, err := lineAfter(f, mid, info.Size())
			if err != nil {
				yield(Line{}, err)
				return
			}
			if line != nil && bytes.Compare(line, key) < 0 {
				low = mid
			} else {
				high = mid
			}
		}
		_, start, err := lineAfter(f, low, info.Size())
		if err != nil {
			yield(Line{}, err)
			return
		}
		s := lineSource{name: "index", r: bufio.NewReaderSize(io.NewSectionReader(f, start, info.Size()-start), 64<<10)}
		for {
			if err := s.next(); err == io.EOF {
				return
			} else if err != nil {
				yield(Line{}, err)
				return
			}
			if bytes.Compare(s.line, key) < 0 {
				continue
			}
			l, err := ParseLine(s.line)
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// lineAfter returns the first line that begins at or after byte at; nil if there is none. at may be inside a line.
func lineAfter(f io.ReaderAt, at, size int64) (line []byte, start int64, err error) {
	if at > 0 {
		at-- // a line that begins at byte `at` follows a line feed
	}
	skip := at > 0
	s := lineSource{name: "index"}
	s.r = bufio.NewReaderSize(io.NewSectionReader(f, at, size-at), 8<<10)
	if skip {
		if err := s.next(); err != nil {
			if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
				err = nil
			}
			return nil, size, err
		}
		at += int64(len(s.line))
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
		URL, MIME, Status, Digest, Length, Offset, Filename string
		Detected                                            string `json:"mime-detected"`
	}
	if err := json.Unmarshal(object, &fields); err != nil {
		return l, fmt.Errorf("CDXJ line %.40q: %w", line, err)
	}
	l.URL, l.MIME, l.Detected, l.Status = fields.URL, fields.MIME, fields.Detected, fields.Status
	l.Digest, l.File = fields.Digest, fields.Filename
	if l.Offset, err = strconv.ParseInt(fields.Offset, 10, 64); err != nil {
		return l, fmt.Errorf("CDXJ line %.40q: offset: %w", line, err)
	}
	if fields.Length != "" {
		if l.Length, err = strconv.ParseInt(fields.Length, 10, 64); err != nil {
			return l, fmt.Errorf("CDXJ line %.40q: length: %w", line, err)
		}
	}
	return l, nil
}

// OpenWARC opens a WARC file of the crawl directory dir, finished or still being written, by the name that the index
// has for it. A name with a directory is an error (fs.ErrInvalid). A nil fsys means the machine's filesystem. The
// caller closes the file.
func OpenWARC(fsys disk.FS, dir, name string) (disk.File, error) {
	if fsys == nil {
		fsys = disk.OS
	}
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return nil, fmt.Errorf("archive %q: %w", name, fs.ErrInvalid)
	}
	path := filepath.Join(archiveDir(dir), name)
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = fsys.OpenFile(path+openSuffix, os.O_RDONLY, 0)
	}
	return f, err
}
