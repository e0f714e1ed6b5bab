package disk

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Refusal explains err if the file system refuses a path to this user: the permission is missing, the file system is
// read-only, the name is too long, or a file is where a directory should be. The text has the form "PATH: CAUSE;
// REMEDY", without PATH if that is named, which the caller's message has already. ok is false for all other errors.
func Refusal(named string, err error) (text string, ok bool) {
	op, path := "", ""
	if e, is := errors.AsType[*fs.PathError](err); is {
		op, path = e.Op, e.Path
	} else if e, is := errors.AsType[*os.LinkError](err); is {
		op, path = e.Op, e.New
	} else {
		return "", false
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		text = "permission denied; run the command as a user who may use it, such as its owner, or choose another path"
	case errors.Is(err, syscall.EROFS):
		text = "the file system is read-only; choose another path"
	case errors.Is(err, syscall.ENAMETOOLONG):
		text = "the name is too long for the file system; choose a shorter one"
	case errors.Is(err, syscall.ENOTDIR):
		text = "this is a file, or below a file; choose another path"
	case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(op, "mkdir"): // such as /proc
		text = "the file system takes no directory there; choose another path"
	default:
		return "", false
	}
	if path != named {
		text = path + ": " + text
	}
	return text, true
}
