package frontier

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A tempFile is an append-only file of queued links: a segment or a pool file.
type tempFile struct {
	name string
	file disk.File // nil: open it when needed
	size int64     // bytes written
	keep bool      // it stays open: the current segment
}

// openFiles limits the files that are kept open.
const openFiles = 32

// tempFiles are the files of a frontier. The files that are read or written last are open.
type tempFiles struct {
	fs   disk.FS
	dir  string
	made int // number of files ever made
	open []*tempFile
}

// create makes t's file.
func (fs *tempFiles) create(t *tempFile, kind string) error {
	fs.made++
	t.name = filepath.Join(fs.dir, fmt.Sprintf("%s-%08d", kind, fs.made))
	return fs.openFile(t, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (fs *tempFiles) openFile(t *tempFile, flag int) error {
	if len(fs.open) >= openFiles {
		for _, o := range fs.open {
			if !o.keep {
				if err := fs.closeFile(o); err != nil {
					return err
				}
				break
			}
		}
	}
	file, err := fs.fs.OpenFile(t.name, flag, 0o600)
	if err != nil {
		return fmt.Errorf("open queue file %s: %w", t.name, err)
	}
	t.file = file
	fs.open = append(fs.open, t)
	return nil
}

func (fs *tempFiles) closeFile(t *tempFile) error {
	if t.file == nil {
		return nil
	}
	fs.open = slices.DeleteFunc(fs.open, func(o *tempFile) bool { return o == t })
	err := t.file.Close()
	t.file = nil
	if err != nil {
		return fmt.Errorf("close queue file %s: %w", t.name, err)
	}
	return nil
}

func (fs *tempFiles) deleteFile(t *tempFile) error {
	if err := fs.closeFile(t); err != nil {
		return err
	}
	if err := fs.fs.Remove(t.name); err != nil {
		return fmt.Errorf("delete queue file %s: %w", t.name, err)
	}
	return nil
}

// readAt fills buf. A file that is too short is damaged.
func (fs *tempFiles) readAt(t *tempFile, buf []byte, off int64) error {
	if t.file == nil {
		if err := fs.openFile(t, os.O_RDONLY); err != nil {
			return err
		}
	}
	if n, err := t.file.ReadAt(buf, off); n < len(buf) {
		if err == io.EOF {
			err = ErrSpill
		}
		return t.at(off, err)
	}
	return nil
}

// close closes and deletes all files.
func (fs *tempFiles) close() error {
	var errs []error
	for _, t := range slices.Clone(fs.open) {
		errs = append(errs, fs.closeFile(t))
	}
	if err := fs.fs.RemoveAll(fs.dir); err != nil {
		errs = append(errs, fmt.Errorf("delete the frontier's directory: %w", err))
	}
	return errors.Join(errs...)
}

// at adds the file and the offset to an error.
func (t *tempFile) at(off int64, err error) error {
	return fmt.Errorf("queue file %s, byte %d: %w", t.name, off, err)
}
