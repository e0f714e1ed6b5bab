package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A Work is a folder for the unfinished output of one process. It is locked until Close removes it.
type Work struct {
	// Dir is the name of the folder.
	Dir  string
	fs   FS
	lock io.Closer
}

// workMarker is the file that marks a Work. Its content is workText.
const (
	workMarker = "orbweaver-unfinished"
	workText   = "The unfinished output of an orbweaver command that still runs or was killed.\n"
)

// ErrForeign means that a folder was not made by OpenWork.
var ErrForeign = errors.New("not made by this program")

// OpenWork makes the folder dir, whose parent must exist. If a killed process has left it, OpenWork empties it. If
// there is anything else under that name, also a symbolic link, nothing is changed, and the error is ErrForeign. If
// another process works there, it is ErrLocked.
func OpenWork(fsys FS, dir string) (*Work, error) {
	return ReopenWork(fsys, dir, func() error { return nil })
}

// ReopenWork is OpenWork that calls rescue before it empties the folder, also a new one. If rescue fails, the folder
// stays as it is.
func ReopenWork(fsys FS, dir string, rescue func() error) (*Work, error) {
	marker := filepath.Join(dir, workMarker)
	err := fsys.Mkdir(dir, 0o777)
	if errors.Is(err, fs.ErrExist) {
		err = left(fsys, dir)
	}
	if err != nil {
		return nil, err
	}
	f, err := fsys.OpenFile(marker, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		_, err = io.WriteString(f, workText)
		err = errors.Join(err, f.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	lock, err := Lock(fsys, dir)
	if err != nil {
		return nil, err
	}
	if err := rescue(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	w := &Work{dir, fsys, lock}
	entries, err := fsys.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != workMarker && e.Name() != LockName {
			err = errors.Join(err, fsys.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return w, nil
}

// left returns ErrForeign unless a process that was killed has left the folder dir: it is no link, and has the marker
// or nothing at all.
func left(fsys FS, dir string) error {
	foreign := fmt.Errorf("%s: %w", dir, ErrForeign)
	siblings, err := fsys.ReadDir(filepath.Dir(dir))
	if err != nil {
		return err
	}
	for _, e := range siblings {
		if e.Name() == filepath.Base(dir) && !e.IsDir() { // a link, or a file
			return foreign
		}
	}
	entries, err := fsys.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		return err
	}
	for _, e := range entries {
		if e.Name() == workMarker && e.Type().IsRegular() {
			b, err := ReadFile(fsys, filepath.Join(dir, workMarker), 1<<10)
			if err == nil && strings.HasPrefix(workText, string(b)) { // a kill may have cut it
				return nil
			}
		}
	}
	return foreign
}

// Leave ends the lock and leaves the folder to the next process.
func (w *Work) Leave() error { return w.lock.Close() }

// Close removes the folder and ends the lock.
func (w *Work) Close() error { return errors.Join(w.fs.RemoveAll(w.Dir), w.lock.Close()) }
