package warc

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/zipnum"
)

// MergedIndex is a compressed index of many segments of a crawl, beside the folder of the segments. Its first line
// names its file of blocks, which another generation of the index does not have, and the segments.
const MergedIndex = zipIndex

// MergedFront is the beginning of the names of files of blocks.
const MergedFront = "index-"

const mergedEnd = ".cdx.gz"

// MergedBlocks returns the name of the file of blocks of a generation, which is in hexadecimal.
func MergedBlocks(generation string) string { return MergedFront + generation + mergedEnd }

// IsMergedBlocks reports whether MergedBlocks returns a name.
func IsMergedBlocks(name string) bool {
	name, front := strings.CutPrefix(name, MergedFront)
	name, end := strings.CutSuffix(name, mergedEnd)
	b, err := hex.DecodeString(name)
	return front && end && len(b) > 0 && err == nil
}

// ReadMerged reads the first line of a MergedIndex, and looks whether its file of blocks is there and has its size. If
// there is no index, the error wraps fs.ErrNotExist. If it cannot be used, the error wraps zipnum.ErrDamaged.
func ReadMerged(fsys disk.FS, path string) (m zipnum.Meta, err error) {
	info, err := fsys.Stat(path)
	if err != nil {
		return m, err
	}
	f, err := disk.OpenRange(fsys, path, 0, info.Size()) // a search needs the rest, so it comes in the same request
	if err != nil {
		return m, err
	}
	defer f.Close()
	if m, err = zipnum.ReadMeta(f); err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	if !IsMergedBlocks(m.Filename) || len(m.Segments) == 0 {
		return m, fmt.Errorf("%s: %w: the first line does not name a file of blocks and segments", path,
			zipnum.ErrDamaged)
	}
	blocks, err := fsys.Stat(filepath.Join(filepath.Dir(path), m.Filename))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: there is no file %s", zipnum.ErrDamaged, m.Filename)
	}
	if err == nil {
		err = zipnum.CheckEnd(sized{f, info.Size()}, blocks.Size())
	}
	if err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// openMerged is openLines for a MergedIndex.
func openMerged(fsys disk.FS, path string, from []byte) (s *lineSource, done func(), err error) {
	m, err := ReadMerged(fsys, path)
	if err == nil {
		s, done, err = openCompressed(fsys, filepath.Dir(path), m.Filename, from)
	}
	if errors.Is(err, fs.ErrNotExist) { // it was there
		err = fmt.Errorf("%s: %w: %v", path, zipnum.ErrDamaged, err)
	}
	return s, done, err
}

// merged returns the lines of p from the key `from` on. They are those of p.Merged. From where that is damaged, they
// are those of the other indexes.
func (p Place) merged(fsys disk.FS, from string) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		var last []byte // nil: none was handed out
		each := func(line []byte) (more bool, err error) {
			if last != nil && bytes.Equal(line, last) {
				return true, nil
			}
			l, err := ParseLine(line)
			if err != nil {
				return false, fmt.Errorf("%w: %w", zipnum.ErrDamaged, err)
			}
			last = append(last[:0], line...)
			return yield(l, nil), nil
		}
		paths := p.Merged
		if p.Extra != "" {
			paths = append(paths[:len(paths):len(paths)], p.Extra)
		}
		err := merge(fsys, paths, from, each)
		if errors.Is(err, zipnum.ErrDamaged) || errors.Is(err, errLongLine) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = merge(fsys, p.Indexes(), cmp.Or(string(last), from), each)
		}
		if err != nil {
			yield(Line{}, err)
		}
	}
}
