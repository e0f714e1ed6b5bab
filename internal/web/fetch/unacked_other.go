//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package fetch

// unacked cannot tell here.
func unacked(int) bool { return false }
