package fetch

import "golang.org/x/sys/unix"

// unacked reports whether bytes sent on fd wait to be acknowledged (tcp(7),
// SIOCOUTQ).
func unacked(fd int) bool {
	n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	return err == nil && n > 0
}
