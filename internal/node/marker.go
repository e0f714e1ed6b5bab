package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// ProgramMark begins Config.Effective of a crawl that a Go program makes with the package orbweaver.
const ProgramMark = "# A program with the Go package orbweaver made this crawl."

// MadeByProgram reports whether dir holds a crawl whose crawl.yaml begins with ProgramMark. Only the
// Go program knows the settings of that crawl.
func MadeByProgram(dir string) (bool, error) {
	b, err := os.ReadFile(filepath.Join(dir, marker))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	if err != nil {
		return false, denied(dir, err)
	}
	return strings.HasPrefix(string(b), ProgramMark), nil
}

// HoldsCrawl reports whether there is a crawl in dir that Config.Resume can go on with.
// A nil fsys is the machine's disk.
func HoldsCrawl(fsys disk.FS, dir string) (bool, error) {
	if fsys == nil {
		fsys = disk.OS
	}
	_, err := fsys.Stat(filepath.Join(dir, marker))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return false, configErrorf("--dir %s: this is a file, or below a file; name a directory", dir)
	}
	if err != nil {
		return false, denied(dir, err)
	}
	return true, nil
}
