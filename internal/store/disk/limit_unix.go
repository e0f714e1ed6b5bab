//go:build unix

package disk

import "syscall"

// MaxOpen returns how many file descriptors the process may have open at once, or 0 if the limit is unknown.
func MaxOpen() int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return int(min(uint64(l.Cur), 1<<30))
}
