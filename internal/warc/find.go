package warc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// FindLines returns index lines of p, without their line feeds: those that begin with prefix and follow the line after
// (empty: all), at most n, in the order of an index. They come from the index of p.Dir, from the sorted runs that are
// newer, and from the memory of p.Live. So of a crawl that runs, FindLines knows all that is written. It holds n lines
// and has one file open at a time, however many there are. It leaves out lines above 64 KiB. A nil fsys means the
// machine's filesystem.
func FindLines(ctx context.Context, fsys disk.FS, p Place, prefix, after string, n int) ([]string, error) {
	fsys = cmp.Or(fsys, disk.OS)
	if n <= 0 {
		return nil, nil
	}
	f := finding{prefix: []byte(prefix), after: []byte(after), n: n}
	if p.Live != nil {
		p.Live.find(&f) // before the files: lines move from the memory to a file
	}
	paths, err := indexFiles(fsys, p)
	if err != nil {
		return nil, fmt.Errorf("index of %s: %w", p.Dir, err)
	}
	for _, path := range paths {
		if err := errors.Join(ctx.Err(), f.file(fsys, path)); err != nil {
			return nil, fmt.Errorf("index of %s: %w", p.Dir, err)
		}
	}
	return f.lines, nil
}

// indexFiles returns the files with the index lines of p: its index, and the runs that the index does not have because
// they are newer.
func indexFiles(fsys disk.FS, p Place) ([]string, error) {
	paths := p.Indexes()
	index, err := fsys.Stat(indexPath(p.Dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	entries, err := fsys.ReadDir(runsDir(p.Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return paths, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if runOf(e.Name()) == "" {
			continue
		}
		if info, err := e.Info(); index != nil && err == nil && info.ModTime().Before(index.ModTime()) {
			continue
		}
		paths = append(paths, filepath.Join(runsDir(p.Dir), e.Name()))
	}
	return paths, nil
}

// IndexFiles returns the files with the index lines of a crawl directory that no crawl writes to: its index, and runs
// that the index does not have because they are newer. None is not an error.
func IndexFiles(fsys disk.FS, dir string) (paths []string, err error) {
	all, err := indexFiles(fsys, Place{Dir: dir})
	if err != nil {
		return nil, err
	}
	var index fs.FileInfo
	for i, path := range all {
		info, err := fsys.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		case i == 0:
			index = info
		case index != nil && !info.ModTime().After(index.ModTime()):
			continue // written in the same tick of the clock
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// maxFound is the longest line that FindLines returns.
const maxFound = 64 << 10

// A finding collects the first n lines with a prefix that follow a line.
type finding struct {
	prefix, after []byte
	n             int
	lines         []string // sorted, each once
}

// add adds a line. more reports whether later lines of a sorted file may be wanted.
func (f *finding) add(line []byte) (more bool) {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	if !bytes.HasPrefix(line, f.prefix) {
		return bytes.Compare(line, f.prefix) < 0
	}
	if bytes.Compare(line, f.after) <= 0 || len(line) > maxFound {
		return true
	}
	if len(f.lines) == f.n && string(line) >= f.lines[f.n-1] {
		return false
	}
	i, there := slices.BinarySearchFunc(f.lines, line, func(have string, want []byte) int {
		return strings.Compare(have, string(want))
	})
	if !there {
		f.lines = slices.Insert(f.lines[:min(len(f.lines), f.n-1)], min(i, f.n-1), string(line))
	}
	return true
}

// file adds the lines of a sorted file. A file that does not exist has none.
func (f *finding) file(fsys disk.FS, path string) error {
	from := f.prefix
	if bytes.Compare(f.after, from) > 0 {
		from = f.after
	}
	s, done, err := openLines(fsys, path, from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer done()
	for ; err == nil && s != nil; err = s.next() {
		if !f.add(s.line) {
			return nil
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// find adds the lines that are in no run yet. It takes some milliseconds for each run in memory, of which there are at
// most maxTasks and two.
func (w *Writer) find(f *finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := [][]byte{w.doing}
	for _, s := range w.streams {
		all = append(all, s.lines.buf)
	}
	for _, t := range w.tasks {
		all = append(all, t.run.lines)
	}
	for _, buf := range all {
		for len(buf) > 0 {
			line := buf
			if i := bytes.IndexByte(buf, '\n'); i >= 0 {
				line = buf[:i]
				buf = buf[i+1:]
			} else {
				buf = nil
			}
			f.add(line)
		}
	}
}
