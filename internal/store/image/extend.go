package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Extend gives files of the cut what was appended to them since: those that Grow and that pick picks. It is for logs
// that may be ahead of the other files. A file that was replaced or removed stays as it was.
func (c *Cut) Extend(fsys disk.FS, dir string, pick Picker) error {
	for _, f := range c.files {
		if f.how != Grows || pick.Pick(f.name) == Leave {
			continue
		}
		at := filepath.Join(dir, filepath.FromSlash(f.name))
		if err := f.extend(fsys, at); err != nil {
			return fmt.Errorf("save the state: %s: %w", at, err)
		}
	}
	return nil
}

func (f *cutFile) extend(fsys disk.FS, at string) error {
	file := f.file
	if file == nil {
		var err error
		if file, err = fsys.OpenFile(at, os.O_RDONLY, 0); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
	}
	i, err := file.Stat()
	same := err == nil && i.Size() > f.size && (f.file != nil || os.SameFile(f.info, i) || !os.SameFile(i, i))
	if !same {
		if f.file == nil {
			err = errors.Join(err, file.Close())
		}
		return err
	}
	f.known, f.file, f.from = nil, file, file
	f.info, f.size, f.mod = i, i.Size(), i.ModTime()
	return nil
}
