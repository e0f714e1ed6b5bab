//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package fetch

// unacked is not implemented on this system.
func unacked(int) bool { return false }
