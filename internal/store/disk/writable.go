package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Writable returns an error if the process cannot create files and directories in dir or, if dir does not exist, in
// the nearest directory above it. It leaves nothing behind: it creates a file without a name or, where the file system
// has no such files, a directory that it removes.
func Writable(dir string) error {
	at := dir
	for {
		info, err := os.Stat(at)
		if up := filepath.Dir(at); errors.Is(err, fs.ErrNotExist) && up != at {
			at = up
			continue
		}
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: at, Err: syscall.ENOTDIR}
		}
		break
	}
	err := unnamed(at)
	if errors.Is(err, errors.ErrUnsupported) {
		var made string
		if made, err = os.MkdirTemp(at, ".orbweaver-"); err == nil {
			return os.Remove(made)
		}
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: p.Err}
	}
	return err
}
