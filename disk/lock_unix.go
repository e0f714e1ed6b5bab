//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package disk

import (
	"errors"
	"io"
	"os"
	"strconv"
	"syscall"
)

func pid() string { return strconv.Itoa(os.Getpid()) + "\n" }

// lock takes flock(2), which the kernel gives back when the process ends.
func (osFS) lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
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
	// The pid is for people: a disk too full to hold it does not stop us.
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
