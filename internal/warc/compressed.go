package warc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/zipnum"
)

// The names of a compressed index, which stands in place of an index without compression (package zipnum).
const (
	zipBlocks = "index.cdx.gz"
	zipIndex  = "index.idx"
)

// openLines opens a sorted file of index lines at its first line that is not below from. s is nil if there is none. In
// place of the file, a compressed index may stand beside it. If there is neither, the error wraps fs.ErrNotExist. The
// caller calls done when it has read the lines.
func openLines(fsys disk.FS, path string, from []byte) (s *lineSource, done func(), err error) {
	if filepath.Base(path) == MergedIndex {
		return openMerged(fsys, path, from)
	}
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) && filepath.Base(path) == filepath.Base(indexPath("")) {
		s, done, bad := openCompressed(fsys, filepath.Dir(path), zipBlocks, from)
		if !errors.Is(bad, fs.ErrNotExist) {
			return s, done, bad
		}
	}
	if err != nil {
		return nil, nil, err
	}
	done = func() { f.Close() } // it was only read
	if s, err = seekLine(f, from); err != nil {
		done()
	}
	return s, done, err
}

// openCompressed is openLines for the compressed index in dir with a file of blocks.
func openCompressed(fsys disk.FS, dir, blocks string, from []byte) (s *lineSource, done func(), err error) {
	var files []disk.File
	done = func() {
		for _, f := range files {
			f.Close() // it was only read
		}
	}
	var sources []zipnum.Source
	for _, name := range []string{zipIndex, blocks} {
		f, err := fsys.OpenFile(filepath.Join(dir, name), os.O_RDONLY, 0)
		if err != nil {
			done()
			return nil, nil, err
		}
		files = append(files, f)
		info, err := f.Stat()
		if err != nil {
			done()
			return nil, nil, err
		}
		sources = append(sources, sized{f, info.Size()})
	}
	text, err := zipnum.From(sources[0], sources[1], from)
	if err == nil {
		// The lines before the first one may be those of two blocks.
		s, err = skipTo(source(text, blocks), from, 2*zipnum.MaxBlock)
	}
	if err != nil {
		done()
		return nil, nil, fmt.Errorf("%s: %w", blocks, err)
	}
	return s, done, nil
}

// A sized is a file whose size is known.
type sized struct {
	disk.File
	size int64
}

// Size returns the size of the file.
func (s sized) Size() int64 { return s.size }
