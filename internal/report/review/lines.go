package review

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/lines"
)

// maxLine is how many bytes a line may have. A line of crawl.log has four columns of at most 64 KiB from the network.
const maxLine = 512 << 10

// progressBytes is how many bytes are read between two reports of progress and two looks at the context.
const progressBytes = 4 << 20

// A Progress says how far a Review has read a file. File is its path. Total is 0 if it is not known.
type Progress struct {
	File        string
	Read, Total int64 // bytes
}

// eachLine calls fn with each line of the file, without its newline. The line is valid until fn returns. A line that
// is too long is counted as damaged. A last line without a newline is left out, because the crawl may be writing it.
// A missing file has no lines. fn returns false for a damaged line.
func (r *reader) eachLine(name string, damaged *int64, fn func(line []byte) bool) error {
	f, err := r.fs.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("read %s: not a regular file", name)
	}
	p := Progress{File: name, Total: max(0, st.Size())}
	text := io.Reader(f)
	if st.Size() >= 0 { // it is known, and the crawl may be writing more
		text = io.LimitReader(f, st.Size())
	}
	in := lines.NewReader(cancelled{r.ctx, text}, 256<<10, maxLine)
	for n, next := 1, int64(progressBytes); ; n++ {
		line, err := in.Next()
		if p.Read += int64(in.Size()); p.Read >= next {
			next = p.Read + progressBytes
			r.progress(p)
			if err := r.ctx.Err(); err != nil {
				return err
			}
		}
		switch err {
		case nil, bufio.ErrTooLong:
			if err != nil || !fn(line) {
				*damaged++
				r.damaged = cmp.Or(r.damaged, fmt.Sprintf("%s, line %d", name, n))
			}
		case io.EOF, io.ErrUnexpectedEOF:
			r.progress(p)
			return r.ctx.Err()
		case r.ctx.Err():
			return err
		default:
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
}

// cancelled reads until ctx is done, also within a line.
type cancelled struct {
	ctx context.Context
	in  io.Reader
}

func (c cancelled) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.in.Read(p)
}

// Config tunes a Review. The zero Config is usual.
type Config struct {
	FS disk.FS // nil: the disk
	// Top is how many entries each list keeps. Zero means 20.
	Top int
	// Names is how many names each table counts, and how many broken links are told apart. Zero means 100,000.
	Names int
	// Progress, if not nil, is called from time to time while a long file is read.
	Progress func(Progress)
	// OnBroken, if not nil, is called with each broken link, also with those that the list does not keep.
	OnBroken func(Broken) error
	// Held reports whether a process has the directory open. Nil means disk.Held.
	Held func(dir string) (bool, error)
}

// A reader makes a Review.
type reader struct {
	Config
	ctx context.Context
	fs  disk.FS
	out *Review
	log *logCounts

	damaged string // where the first damaged line of the directory is
}

func (r *reader) progress(p Progress) {
	if r.Progress != nil {
		r.Progress(p)
	}
}

// IsCrawl reports whether dir looks like a crawl directory: it has the directory logs or reports. The error says why
// that is unknown, such as a missing permission.
func IsCrawl(fsys disk.FS, dir string) (bool, error) {
	for _, name := range [...]string{"logs", "reports"} {
		info, err := fsys.Stat(filepath.Join(dir, name))
		if err == nil && info.IsDir() {
			return true, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	return false, nil
}
