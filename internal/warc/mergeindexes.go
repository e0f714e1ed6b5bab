package warc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/zipnum"
)

// mergeAtOnce is how many index files MergeIndexes reads at the same time. The lines of more are sorted on the disk.
const mergeAtOnce = 64

// zipPlaces is the file in which pywb looks for the file of blocks.
const zipPlaces = "index.loc"

// ErrIndexThere means that there is something under the name of a merged index.
var ErrIndexThere = errors.New("there is something under this name")

// MergeIndexes writes the index lines of places into the new folder dir of out, in the form of pywb and Common Crawl:
// index.cdx.gz, index.idx and index.loc. It returns the number of lines. Its memory is bounded. A line that is in two
// places comes once. The folder appears when it is complete. A kill leaves dir.partial, which the next call empties. If
// there is something under the name dir, the error is ErrIndexThere. If no place has an index, the error wraps
// fs.ErrNotExist.
func MergeIndexes(ctx context.Context, fsys disk.FS, places []Place, out disk.FS, dir string) (n int64, err error) {
	dir = filepath.Clean(dir)
	if _, err := out.Stat(dir); err == nil {
		return 0, ErrIndexThere
	} else if !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if err := out.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return 0, err
	}
	work, err := disk.OpenWork(out, dir+".partial")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, work.Close()) }()
	m := indexMerge{ctx: ctx, in: fsys, out: out, dir: filepath.Join(work.Dir, "index"), work: work.Dir}
	var few, all []string
	for _, p := range places {
		all = append(all, p.Indexes()...)
		if len(p.Merged) > 0 {
			p.Parts = p.Merged
		}
		few = append(few, p.Indexes()...)
	}
	if err = m.write(few); errors.Is(err, zipnum.ErrDamaged) && len(few) < len(all) {
		err = m.write(all) // the segments have the same lines
	}
	if m.failed != nil {
		err = m.failed // without the names of the files that were being written
	}
	if err == nil {
		err = out.Rename(m.dir, dir)
	}
	if err == nil {
		err = out.SyncDir(filepath.Dir(dir))
	}
	return m.lines, err
}

// An indexMerge writes a merged index into the folder dir.
type indexMerge struct {
	ctx       context.Context
	in, out   disk.FS
	dir, work string
	lines     int64
	failed    error // of what is read; it names the file
	at        string
	checks    int
}

// read is merge, and notes its error.
func (m *indexMerge) read(paths []string, yield func(line []byte) (more bool, err error)) error {
	var wrote error
	err := mergeAt(m.in, paths, "", &m.at, m.checked(func(line []byte) (more bool, err error) {
		more, wrote = yield(line)
		return more, wrote
	}))
	if err == nil || wrote != nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m.failed = err
	if _, named := errors.AsType[*fs.PathError](err); !named && m.ctx.Err() == nil {
		m.failed = fmt.Errorf("%s: %w", m.at, err)
	}
	return err
}

func (m *indexMerge) write(paths []string) error {
	m.lines, m.failed = 0, nil
	if err := errors.Join(m.out.RemoveAll(m.dir), m.out.Mkdir(m.dir, 0o777)); err != nil {
		return err
	}
	places := []byte(zipBlocks + "\t" + zipBlocks + "\n")
	if err := disk.WriteFile(m.out, filepath.Join(m.dir, zipPlaces), places); err != nil {
		return err
	}
	return disk.WriteStream(m.out, filepath.Join(m.dir, zipIndex), func(index io.Writer) error {
		return disk.WriteStream(m.out, filepath.Join(m.dir, zipBlocks), func(blocks io.Writer) error {
			z := zipnum.NewWriter(blocks, index, zipBlocks)
			z.Tabs = true
			add := func(line []byte) (more bool, err error) {
				m.lines++
				return true, z.Add(line)
			}
			if len(paths) > mergeAtOnce {
				return errors.Join(m.sort(paths, add), z.Close())
			}
			return errors.Join(m.read(paths, add), z.Close())
		})
	})
}

// sort is merge for many files: each is read by itself.
func (m *indexMerge) sort(paths []string, yield func(line []byte) (more bool, err error)) error {
	q := sorting(m.out, m.work)
	defer q.Close() // the folder is removed
	push := func(line []byte) (more bool, err error) { return true, q.Push(line) }
	var absent error
	opened := false
	for _, path := range paths {
		switch err := m.read([]string{path}, push); {
		case errors.Is(err, fs.ErrNotExist):
			absent = err
		case err != nil:
			return err
		default:
			opened = true
		}
	}
	if !opened {
		return absent
	}
	var last []byte
	return q.Each(func(line []byte) error {
		if last != nil && bytes.Equal(line, last) {
			return nil
		}
		last = append(last[:0], line...)
		_, err := yield(line)
		return err
	})
}

// checked passes on lines that are index lines, and that a line of index.idx can name.
func (m *indexMerge) checked(yield func(line []byte) (more bool, err error)) func([]byte) (bool, error) {
	return func(line []byte) (more bool, err error) {
		if m.checks++; m.checks%1024 == 0 && m.ctx.Err() != nil {
			return false, m.ctx.Err()
		}
		if bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' }) {
			return false, fmt.Errorf("%w: the line %.60q has a control character", zipnum.ErrDamaged, line)
		}
		if _, err := ParseLine(line); err != nil {
			return false, fmt.Errorf("%w: %w", zipnum.ErrDamaged, err)
		}
		more, err = yield(line)
		return more && err == nil, err
	}
}
