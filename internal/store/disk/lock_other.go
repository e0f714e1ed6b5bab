//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package disk

import (
	"os"
	"strconv"
)

func pid() string { return strconv.Itoa(os.Getpid()) + "\n" }

// On systems without flock(2), osFS does not implement locker. Lock returns errors.ErrUnsupported.
