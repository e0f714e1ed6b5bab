package frontier

import (
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
}

// openFiles limits the files that are kept open.
const openFiles = 32

// create makes t's file.
func (f *Frontier) create(t *tempFile, kind string) error {
	f.segments++
	t.name = filepath.Join(f.dir, fmt.Sprintf("%s-%08d", kind, f.segments))
	return f.openFile(t, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (f *Frontier) openFile(t *tempFile, flag int) error {
	if len(f.open) >= openFiles {
		for _, o := range f.open {
			if f.current == nil || o != &f.current.tempFile {
				if err := f.closeFile(o); err != nil {
					return err
				}
				break
			}
		}
	}
	file, err := f.fs.OpenFile(t.name, flag, 0o600)
	if err != nil {
		return fmt.Errorf("open queue file %s: %w", t.name, err)
	}
	t.file = file
	f.open = append(f.open, t)
	return nil
}

func (f *Frontier) closeFile(t *tempFile) error {
	if t.file == nil {
		return nil
	}
	f.open = slices.DeleteFunc(f.open, func(o *tempFile) bool { return o == t })
	err := t.file.Close()
	t.file = nil
	if err != nil {
		return fmt.Errorf("close queue file %s: %w", t.name, err)
	}
	return nil
}

func (f *Frontier) deleteFile(t *tempFile) error {
	if err := f.closeFile(t); err != nil {
		return err
	}
	if err := f.fs.Remove(t.name); err != nil {
		return fmt.Errorf("delete queue file %s: %w", t.name, err)
	}
	return nil
}

// readAt fills buf. A file that is too short is damaged.
func (f *Frontier) readAt(t *tempFile, buf []byte, off int64) error {
	if t.file == nil {
		if err := f.openFile(t, os.O_RDONLY); err != nil {
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

// at adds the file and the offset to an error.
func (t *tempFile) at(off int64, err error) error {
	return fmt.Errorf("queue file %s, byte %d: %w", t.name, off, err)
}
