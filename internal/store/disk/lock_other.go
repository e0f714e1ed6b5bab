//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package disk

import (
	"os"
	"strconv"
)

func pid() string { return strconv.Itoa(os.Getpid()) + "\n" }

// Without flock(2) osFS is no locker, and Lock says so.
