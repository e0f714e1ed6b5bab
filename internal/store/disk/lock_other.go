//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package disk

import (
	"errors"
	"io"
)

// Holder reports no holder: this system has no flock(2).
func Holder(string) (pid int, err error) { return 0, nil }

func (osFS) Lock(string) (io.Closer, error) { return nil, errors.ErrUnsupported }

func held(string) (bool, error) { return false, errors.ErrUnsupported }
