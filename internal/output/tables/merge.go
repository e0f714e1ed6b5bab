package tables

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/lines"
	"github.com/orbweaver/orbweaver/internal/warc"
)

const (
	readBuffer = 256 << 10
	// maxLine is the longest index line, in bytes. The longest one of our own has 1.6 MB.
	maxLine = 8 << 20
	// maxSame bounds the captures of one sort key and second that are held to find those that are there twice.
	maxSame = 10_000
)

var (
	errOrder = errors.New("the line is not in the order of the index")
	errLong  = errors.New("the line is longer than 8 MiB")
	errCut   = errors.New("the last line is not complete")
)

// A source is a crawl directory.
type source struct {
	warc.Place
	segment string
	renewed *warc.Renewal
	told    bool              // of all files is known how the crawl came to the URLs
	files   map[string]stored // WARC files that are not in the folder archive
}

// A stored says where a WARC file of a segment is.
type stored struct{ path, segment, subset string }

// newSource returns the source of a directory.
func newSource(fsys disk.FS, d Dir) (*source, error) {
	s := &source{Place: d.Place, segment: d.Segment, files: map[string]stored{}}
	all, err := warc.Files(fsys, d.Place.Dir)
	if err != nil {
		return nil, err
	}
	for _, f := range all {
		subset := filepath.Base(filepath.Dir(f.Path))
		if slices.Contains(subsets, subset) {
			segment := filepath.Base(filepath.Dir(filepath.Dir(f.Path)))
			s.files[f.Name] = stored{strings.TrimSuffix(filepath.ToSlash(f.Path), ".open"), segment, subset}
		}
	}
	return s, nil
}

// at returns where a WARC file is: its name in the table, its segment and, if a folder tells it, its subset.
func (s *source) at(file string) stored {
	if at, ok := s.files[file]; ok {
		return at
	}
	if part := path.Dir(file); slices.Contains(subsets, path.Base(part)) { // the index of a segment has paths
		return stored{file, path.Base(path.Dir(part)), path.Base(part)}
	}
	return stored{path.Join(filepath.ToSlash(s.Dir), "archive", file), s.segment, ""}
}

// An index is a file of index lines that is read.
type index struct {
	dir   *source
	f     disk.File
	r     *lines.Reader
	line  []byte // the current one
	c     capture
	ended bool
}

// A judge is told what becomes of the lines.
type judge interface {
	// fault tells that a line is no row, in which file it is, and why.
	fault(where string, err error)
	// read tells how many more bytes of lines were read.
	read(n int)
}

// merger merges the captures of several directories.
type merger struct {
	open  []*index
	judge judge
}

func (m *merger) Len() int      { return len(m.open) }
func (m *merger) Swap(i, j int) { m.open[i], m.open[j] = m.open[j], m.open[i] }
func (m *merger) Push(x any)    { m.open = append(m.open, x.(*index)) }

func (m *merger) Less(i, j int) bool {
	a, b := m.open[i], m.open[j]
	return cmp.Or(strings.Compare(a.c.SURT, b.c.SURT), strings.Compare(a.c.Time, b.c.Time),
		bytes.Compare(a.line, b.line)) < 0
}

func (m *merger) Pop() any {
	last := m.open[len(m.open)-1]
	m.open = m.open[:len(m.open)-1]
	return last
}

// add opens an index file. One that does not exist has no lines.
func (m *merger) add(fsys disk.FS, dir *source, name string) error {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	x := &index{dir: dir, f: f, r: lines.NewReader(f, readBuffer, maxLine)}
	m.open = append(m.open, x)
	return m.next(x)
}

// close closes the files that are open.
func (m *merger) close() (err error) {
	for _, x := range m.open {
		err = errors.Join(err, x.f.Close())
	}
	m.open = nil
	return err
}

// next goes to the next line of x that is one.
func (m *merger) next(x *index) error {
	for {
		line, err := x.r.Next()
		m.judge.read(x.r.Size())
		switch {
		case errors.Is(err, bufio.ErrTooLong):
			m.judge.fault(x.f.Name(), errLong)
			continue
		case errors.Is(err, io.ErrUnexpectedEOF):
			m.judge.fault(x.f.Name(), errCut)
			x.ended = true
			return nil
		case err == io.EOF:
			x.ended = true
			return nil
		case err != nil:
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		l, err := warc.ParseLine(line)
		if err == nil && l.SURT < x.c.SURT {
			err = errOrder
		}
		if err != nil {
			m.judge.fault(x.f.Name(), err)
			continue
		}
		x.line = append(x.line[:0], line...)
		x.c = capture{Line: l, dir: x.dir, told: x.dir.told || x.dir.renewed.Told[l.File]}
		return nil
	}
}

// each calls fn with the captures in order.
func (m *merger) each(ctx context.Context, fn func(c *capture) error) error {
	kept := m.open[:0]
	for _, x := range m.open {
		if x.ended {
			if err := x.f.Close(); err != nil {
				return err
			}
			continue
		}
		kept = append(kept, x)
	}
	m.open = kept
	heap.Init(m)
	var same []capture
	flush := func() error {
		same = once(same)
		for i := range same {
			if err := fn(&same[i]); err != nil {
				return err
			}
		}
		same = same[:0]
		return ctx.Err()
	}
	for len(m.open) > 0 {
		x := m.open[0]
		if n := len(same); n == maxSame || n > 0 && (same[0].SURT != x.c.SURT || same[0].Time != x.c.Time) {
			if err := flush(); err != nil {
				return err
			}
		}
		same = append(same, x.c)
		if err := m.next(x); err != nil {
			return err
		}
		if x.ended {
			if err := heap.Pop(m).(*index).f.Close(); err != nil {
				return err
			}
			continue
		}
		heap.Fix(m, 0)
	}
	return flush()
}

// validName reports whether s can be the name of a crawl: a value in the name of a folder.
func validName(s string) bool {
	return s != "" && len(s) <= 100 && s[0] != '.' && strings.Trim(s, nameBytes) == ""
}

const nameBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
