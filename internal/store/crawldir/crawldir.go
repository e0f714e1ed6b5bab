// Package crawldir answers: is there a crawl in this directory, and which process has it open?
//
// It is for those who have not opened the crawl. Nothing here changes a directory.
package crawldir

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Paths in a crawl directory.
const (
	// Marker is the file that shows that there is a crawl. It has the crawl's settings.
	Marker = "crawl.yaml"
	// APIFile and APIReaderFile hold the address of the running crawl's API, and a token: that of operators, and that
	// of readers.
	APIFile       = "state/api.json"
	APIReaderFile = "state/api-reader.json"
	// TokenFile holds the token in APIReaderFile and nothing else, as Prometheus reads it (credentials_file).
	TokenFile = "state/api-reader.token"
)

// ProgramMark begins the Marker of a crawl that a Go program makes with the package orbweaver.
const ProgramMark = "# A program with the Go package orbweaver made this crawl."

// MadeByProgram reports whether dir holds a crawl whose Marker begins with ProgramMark. Only the Go program knows the
// settings of that crawl.
func MadeByProgram(dir string) (bool, error) {
	b, err := os.ReadFile(filepath.Join(dir, Marker))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	if err != nil {
		return false, Denied(dir, err)
	}
	return strings.HasPrefix(string(b), ProgramMark), nil
}

// HoldsCrawl reports whether there is a crawl in dir that an agent can go on with. A nil fsys is the machine's disk.
func HoldsCrawl(fsys disk.FS, dir string) (bool, error) {
	fsys = cmp.Or(fsys, disk.OS)
	_, err := fsys.Stat(filepath.Join(dir, Marker))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return false, input.Errorf("{dir} %s: this is a file, or below a file; name a directory", dir)
	}
	if err != nil {
		return false, Denied(dir, err)
	}
	return true, nil
}

// CrawledBy returns the process that crawls in dir, or 0 if none does.
func CrawledBy(dir string) (pid int, err error) { return disk.Holder(filepath.Join(dir, "state")) }

// Vacant returns an *input.ConfigError, a disk.ErrLocked, if a process has the crawl directory open.
func Vacant(dir string) error {
	pid, err := CrawledBy(dir)
	if err != nil || pid == 0 {
		return nil // to open the crawl finds out the rest
	}
	if pid == os.Getpid() {
		return input.Errorf("%s is being crawled by this process; wait until it has closed the crawl, "+
			"or choose another directory", dir).Because(disk.ErrLocked)
	}
	const busy = "%s is being crawled by process %d; "
	if _, err := os.Stat(filepath.Join(dir, APIFile)); err == nil {
		return input.Errorf(busy+"use \"orbweaver ctl\" to see and control it, or choose another {dir}", dir,
			pid).Because(disk.ErrLocked)
	}
	return input.Errorf(busy+"stop it with \"kill %d\", or choose another {dir}", dir, pid, pid).Because(disk.ErrLocked)
}

// A StateError reports a directory that could not be opened, because the disk or a file in the directory is broken.
type StateError struct{ Err error }

func (e *StateError) Error() string { return e.Err.Error() }
func (e *StateError) Unwrap() error { return e.Err }

// Denied turns an error of the directory dir into an *input.ConfigError if the file system refuses the access, and
// leaves all others as they are.
func Denied(dir string, err error) error {
	if text, ok := disk.Refusal(dir, err); ok {
		return input.Errorf("{dir} %s: %s", dir, text)
	}
	return err
}
