package disk

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// WriteOutput is WriteStream for a file of the machine that a user names: fsys is OS, or wraps it. It never replaces
// anything but a regular file:
//
//	symbolic link   the file that the link leads to is replaced or created; the link stays
//	device, pipe    write writes straight to it; it may have some of the bytes after an error
//
// The temporary file beside it is new: WriteOutput leaves a file or link alone that has such a name.
// Opening a named pipe blocks until it has a reader.
func WriteOutput(fsys FS, name string, write func(w io.Writer) error) error {
	info, err := fsys.Stat(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("write %s: %w", name, err)
	}
	target, ok := followLinks(name)
	if err == nil && ok && info.Mode().IsRegular() { // not so below /proc, whose links may lead to files without names
		there, err := fsys.Stat(target)
		ok = err == nil && os.SameFile(info, there)
	}
	if err == nil && !info.IsDir() && !(ok && info.Mode().IsRegular()) {
		return writeStraight(fsys, name, write)
	}
	tmp := target + ".tmp"
	for try := 1; ; try++ {
		f, err := fsys.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		switch {
		case err == nil:
			return finish(fsys, f, tmp, target, buffered(write))
		case !errors.Is(err, os.ErrExist) || try == maxTemporary:
			return fmt.Errorf("write %s: %w", target, err)
		}
		tmp = fmt.Sprintf("%s.%d.tmp", target, try)
	}
}

// maxTemporary is how many names of temporary files WriteOutput tries.
const maxTemporary = 100

// maxLinks bounds the symbolic links that lead to one file. Linux follows 40.
const maxLinks = 40

// followLinks returns the name to which symbolic links lead. There need not be a file. ok is false if the links are
// too many; the name then is one of theirs.
func followLinks(name string) (target string, ok bool) {
	for range maxLinks {
		to, err := os.Readlink(name)
		if err != nil {
			return name, true
		}
		if !filepath.IsAbs(to) { // without filepath.Join: the directory may be a link, too, and have another parent
			to = filepath.Dir(name) + string(filepath.Separator) + to
		}
		name = to
	}
	return name, false
}

// writeStraight writes to what name is.
func writeStraight(fsys FS, name string, write func(w io.Writer) error) error {
	f, err := fsys.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	b := bufio.NewWriterSize(f, 64<<10)
	if err := errors.Join(write(b), b.Flush(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
