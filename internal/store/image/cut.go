package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

const (
	// smallFile is how long a file may be that is read at the cut. smallFiles bounds all of them together.
	smallFile, smallFiles = 64 << 10, 32 << 20
	// maxOpen bounds the files that a Cut holds open.
	maxOpen = 4096
)

// A Cut is the content of a folder at one instant. Files that are removed, renamed or appended to afterwards are in it
// as they were. Save or Close ends it.
type Cut struct {
	// Taken is the instant, by the clock of the Place. Note is JSON that the caller may add, at most 256 KiB.
	Taken time.Time
	Note  []byte

	saver *Saver
	files []*cutFile // in the order of their names
}

// A cutFile is a file of a Cut. Bytes after its size do not belong to it.
type cutFile struct {
	name  string // below the folder, with slashes
	size  int64
	mod   time.Time
	info  fs.FileInfo
	how   How
	known *seen       // as this claim has saved it: it is not read again
	from  io.ReaderAt // nil if known
	file  disk.File   // nil if it is not open
}

// seen is a file as the store has it.
type seen struct {
	// own says that this claim has saved the file. Otherwise pieces are those of the newest image, and the file may
	// have changed since.
	own    bool
	size   int64
	mod    time.Time // zero: the file may have changed without a change of its time
	edges  digest    // see edgesOf
	pieces []piece
}

// Take opens the files of dir. Others may write meanwhile in these ways only:
//
//   - They append to files.
//   - They replace a file as a whole, by renaming, if no other file depends on it.
//   - They make files, and then replace a First file by one that names them. After that they remove what it named
//     before.
//
// A file that this claim has saved, and whose size and time have not changed, is not opened. If First files are
// replaced again and again, the error is ErrBusy.
func (s *Saver) Take(fsys disk.FS, dir string, pick Picker) (*Cut, error) {
	if s.taken {
		return nil, errors.New("another cut is being saved")
	}
	if _, err := fsys.Stat(dir); err != nil {
		return nil, fmt.Errorf("save the state: %w", err)
	}
	for n := 1; ; n++ {
		c := &Cut{Taken: s.place.now(), saver: s}
		t := &taking{Cut: c, fs: fsys, dir: dir, pick: pick}
		err := t.take()
		if err == nil {
			slices.SortFunc(c.files, func(a, b *cutFile) int { return strings.Compare(a.name, b.name) })
			s.taken = true
			return c, nil
		}
		err = errors.Join(err, c.Close())
		if errors.Is(err, fs.ErrNotExist) { // it was removed after its folder was read
			err = fmt.Errorf("%w: %w", ErrBusy, err)
		}
		if !errors.Is(err, ErrBusy) || n == tries {
			return nil, fmt.Errorf("save the state of %s: %w", dir, err)
		}
	}
}

// A taking is a try to take a cut.
type taking struct {
	*Cut
	fs    disk.FS
	dir   string
	pick  Picker
	first bool // First files are looked for, else the others
	open  int
	small int64 // bytes
}

// take opens First files, then the others. If the First files are then still there, nothing was removed that they name.
func (t *taking) take() error {
	t.first = true
	if err := t.folder(t.dir, ""); err != nil {
		return err
	}
	firsts := slices.Clone(t.files)
	t.first = false
	if err := t.folder(t.dir, ""); err != nil {
		return err
	}
	for _, f := range firsts {
		at := filepath.Join(t.dir, filepath.FromSlash(f.name))
		now, err := t.fs.Stat(at)
		if err != nil {
			return err
		}
		ours := os.SameFile(f.info, f.info) // it can tell
		if now.Size() != f.size || !now.ModTime().Equal(f.mod) || ours && !os.SameFile(f.info, now) {
			return fmt.Errorf("%s: %w", at, ErrBusy)
		}
	}
	return nil
}

// folder adds a folder. name is its path below the folder of the cut: it is empty, or ends with a slash.
func (t *taking) folder(dir, name string) error {
	entries, err := t.fs.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		at, below := filepath.Join(dir, e.Name()), path.Join(name, e.Name())
		switch {
		case e.IsDir():
			if t.pick.Pick(below+"/") != Leave {
				err = t.folder(at, below+"/")
			}
		case !e.Type().IsRegular(): // a link, a socket
		default:
			if how := t.pick.Pick(below); how != Leave && (how == First) == t.first {
				err = t.add(at, e, &cutFile{name: below, how: how})
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add adds a file.
func (t *taking) add(at string, e fs.DirEntry, f *cutFile) error {
	if !validName(f.name) {
		return fmt.Errorf("%s: this name cannot be that of an object", at)
	}
	i, err := e.Info()
	if err != nil {
		return err
	}
	f.info, f.size, f.mod = i, i.Size(), i.ModTime()
	t.files = append(t.files, f)
	old := t.saver.files[f.name]
	if old != nil && old.own && old.size == f.size && !old.mod.IsZero() && old.mod.Equal(f.mod) {
		f.known = old
		return nil
	}
	if t.open == maxOpen {
		return fmt.Errorf("%w: more than %d that are longer than %d bytes", ErrTooMany, maxOpen, smallFile)
	}
	file, err := t.fs.OpenFile(at, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	f.file, f.from = file, file
	t.open++
	if i, err = file.Stat(); err != nil {
		return err
	}
	f.info, f.size, f.mod = i, i.Size(), i.ModTime()
	if f.size > smallFile || t.small+f.size > smallFiles {
		return nil
	}
	b := make([]byte, f.size)
	if _, err := io.ReadFull(io.NewSectionReader(file, 0, f.size), b); err != nil {
		return fmt.Errorf("read %s: %w", at, err)
	}
	t.small += f.size
	t.open--
	f.from = bytes.NewReader(b)
	return f.close()
}

func (f *cutFile) close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

// Close ends a Cut that is not saved.
func (c *Cut) Close() (err error) {
	for _, f := range c.files {
		err = errors.Join(err, f.close())
	}
	c.files = nil
	c.saver.taken = false
	return err
}

// racy is how long before a cut a file must have changed last, so that a change after the cut has another time: some
// file systems keep the time in steps of 2 s.
const racy = 3 * time.Second

// edge is how many bytes edgesOf reads at each end.
const edge = 4 << 10

// edgesOf returns a checksum of the first and the last bytes of the first size bytes of a file. It finds a log that was
// replaced by a longer one.
func edgesOf(from io.ReaderAt, size int64) (digest, error) {
	n := min(size, edge)
	b := make([]byte, 2*n)
	if err := readAt(from, b[:n], 0); err != nil {
		return digest{}, err
	}
	if err := readAt(from, b[n:], size-n); err != nil {
		return digest{}, err
	}
	return sum(b), nil
}

// readAt fills b, or returns an error.
func readAt(from io.ReaderAt, b []byte, off int64) error {
	n, err := from.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = fmt.Errorf("it has become shorter than at the cut: %w", io.ErrUnexpectedEOF)
	}
	return err
}
