package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/orbweaver/orbweaver/internal/output/crawls"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// mayRead is the advice for a file or directory of another user.
const mayRead = "run the command as a user who may read it, such as its owner"

// unreadable returns the error for a file or directory that cannot be read. what is how the command line names it, and
// path is its name. remedy says what would be right, unless only the permission is missing.
func unreadable(what, path string, err error, remedy string) error {
	if errors.Is(err, fs.ErrPermission) {
		remedy = mayRead
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok && e.Path != crawls.Name(path) {
		what += ": " + e.Path
	}
	return bad("%s: %v; %s", crawls.Name(what), cause(err), remedy)
}

// refused returns an error for a wrong setting if the file system refuses the path that the command line names, or one
// below it. It returns other errors as they are, and nil for nil. what is how the command line names the path.
func refused(what, path string, err error) error {
	if text, ok := disk.Refusal(path, err); ok {
		return bad("%s: %s", what, text)
	}
	return err
}

// holds reports whether dir contains the directory name. The error says why that is unknown, such as a missing
// permission.
func holds(dir, name string) (bool, error) {
	info, err := os.Stat(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}

// isCrawlDir reports whether path is a directory that contains the directory archive.
func isCrawlDir(path string) bool {
	is, err := holds(path, "archive")
	return is && err == nil
}

// cause returns err without the operation and the file name that the operating system's errors
// begin with, for messages that name the file.
func cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return link.Err
	}
	return err
}
