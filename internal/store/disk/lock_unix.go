//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
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
	if err := flock(f); err != nil {
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

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR {
			return err
		}
	}
}
