//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func pid() string { return strconv.Itoa(os.Getpid()) + "\n" }

// Lock takes flock(2), which the kernel releases when the process ends. It truncates and writes the file that it
// locks. It therefore refuses a symbolic link, which could point to any file of the user.
func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	switch info, lerr := os.Lstat(name); {
	case lerr == nil && info.Mode()&os.ModeSymlink != 0:
		if err == nil {
			f.Close()
		}
		return nil, fmt.Errorf("%s is a symbolic link; the lock must be a regular file: remove the link", name)
	case err != nil:
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file; the lock must be one: remove it", name))
	}
	if err := flock(f, syscall.LOCK_EX); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, err
		}
		var b [32]byte
		n, _ := f.ReadAt(b[:], 0)
		return nil, lockedBy(b[:n])
	}
	// The process id only helps people. If the disk is too full to store it, the lock still holds.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(pid()), 0)
	}
	return f, nil
}

// held tries a shared lock, which fails if a process has the lock.
func held(name string) (bool, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	switch err := flock(f, syscall.LOCK_SH); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return true, nil
	case err != nil:
		return false, &os.PathError{Op: "flock", Path: name, Err: err}
	}
	return false, nil
}

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if err != syscall.EINTR {
			return err
		}
	}
}

// Holder returns the id of the process that has dir locked, or 0 if it is not locked. The id is 1 if the lock file does
// not tell it. Holder changes nothing. A process that locks dir at the same moment may be refused.
func Holder(dir string) (pid int, err error) {
	f, err := os.OpenFile(filepath.Join(dir, LockName), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close() // releases the lock
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return 0, err
	}
	var b [32]byte
	n, _ := f.ReadAt(b[:], 0)
	if pid, err = strconv.Atoi(strings.TrimSpace(string(b[:n]))); err != nil || pid <= 0 {
		return 1, nil
	}
	return pid, nil
}
