package warc

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/message"
)

// An UnreadableError means that a record cannot be read to its end, and that other records may be readable: its file is
// missing or damaged, or its content cannot be decoded (message.ErrCoding, message.ErrTooLong).
type UnreadableError struct {
	Path string // of the WARC file
	Err  error
}

func (e *UnreadableError) Error() string { return e.Path + ": " + e.Err.Error() }

func (e *UnreadableError) Unwrap() error { return e.Err }

// Unreadable adds the name of a WARC file to the error of a record. The result is an UnreadableError unless the disk
// has failed or refuses the file.
func Unreadable(path string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok { // it repeats the path
		err = p.Err
	}
	for _, expected := range []error{ErrDamaged, message.ErrCoding, message.ErrTooLong, fs.ErrNotExist, fs.ErrInvalid} {
		if errors.Is(err, expected) {
			return &UnreadableError{path, err}
		}
	}
	return fmt.Errorf("%s: %w", path, err)
}

// OpenRecord opens the record that an index line of the crawl directory dir names. If the file is missing, damaged or
// too short, the error is an UnreadableError. A nil fsys means the machine's filesystem. The caller closes the file
// when it has read the record.
func OpenRecord(fsys disk.FS, dir string, l Line) (*Record, disk.File, error) {
	f, err := openRange(cmp.Or(fsys, disk.OS), dir, l)
	if errors.Is(err, fs.ErrInvalid) {
		return nil, nil, Unreadable(indexPath(dir), err)
	}
	if err != nil {
		return nil, nil, Unreadable(filepath.Join(archiveDir(dir), l.File), err)
	}
	rec, err := At(f, l.Offset)
	if err != nil {
		return nil, nil, errors.Join(Unreadable(f.Name(), err), f.Close())
	}
	return rec, f, nil
}

// Undecodable reports whether an error is of the content codings of a body, and not of the archive.
func Undecodable(err error) bool {
	return errors.Is(err, message.ErrCoding) || errors.Is(err, message.ErrTooLong)
}
