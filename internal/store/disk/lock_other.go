//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package disk

import (
	"errors"
	"io"
)

func (osFS) Lock(string) (io.Closer, error) { return nil, errors.ErrUnsupported }

func held(string) (bool, error) { return false, errors.ErrUnsupported }
