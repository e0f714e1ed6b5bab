package fetch

import "golang.org/x/sys/unix"

// unacked reports whether some bytes sent on fd are not acknowledged yet (tcp(7), SIOCOUTQ).
func unacked(fd int) bool {
	n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	return err == nil && n > 0
}
