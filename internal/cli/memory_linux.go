package cli

import (
	"math"

	"golang.org/x/sys/unix"
)

// addressSpace returns the limit of the process's address space ("ulimit -v").
func addressSpace() int64 {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &l) != nil {
		return math.MaxInt
	}
	return int64(min(l.Cur, math.MaxInt))
}
