package disk_test

import (
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

func TestRefusal(t *testing.T) {
	path := func(op string, err error) error { return &fs.PathError{Op: op, Path: "a/b", Err: err} }
	for _, c := range []struct {
		named string
		err   error
		want  string
	}{
		{"a", path("open", syscall.EACCES), "a/b: permission denied; run the command as a user who may use it, " +
			"such as its owner, or choose another path"},
		{"a/b", path("open", syscall.EROFS), "the file system is read-only; choose another path"},
		{"a", path("mkdir", syscall.ENOTDIR), "a/b: this is a file, or below a file; choose another path"},
		{"a/b", path("open", syscall.ENAMETOOLONG), "the name is too long for the file system; " +
			"choose a shorter one"},
		{"b", path("mkdir", syscall.ENOENT), "a/b: the file system takes no directory there; " +
			"choose another path"},
		{"a", &os.LinkError{Op: "rename", Old: "a/b.tmp", New: "a/b", Err: syscall.EROFS}, "a/b: the file system is " +
			"read-only; choose another path"},
		{"a", path("open", syscall.ENOENT), ""},
		{"a", path("write", syscall.ENOSPC), ""},
		{"a", os.NewSyscallError("bind", syscall.EACCES), ""}, // not of a file
		{"a", nil, ""},
	} {
		if got, ok := disk.Refusal(c.named, c.err); got != c.want || ok != (c.want != "") {
			t.Errorf("Refusal(%s, %v): %q, %v", c.named, c.err, got, ok)
		}
	}
}
