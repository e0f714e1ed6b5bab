package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// unnamed creates a file without a name in dir, and closes it. The error is errors.ErrUnsupported if the file system
// has no such files.
func unnamed(dir string) error {
	f, err := os.OpenFile(dir, unix.O_TMPFILE|os.O_WRONLY, 0o600)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // open(2)
		return errors.ErrUnsupported
	}
	if err != nil {
		return err
	}
	return f.Close()
}
