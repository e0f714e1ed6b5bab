//go:build linux || darwin || freebsd || netbsd || openbsd

package main

import "golang.org/x/sys/unix"

// inBackground reports whether the terminal fd belongs to another process group
// than ours, as after "orbweaver crawl ... &". It is false if fd is no terminal.
func inBackground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group != unix.Getpgrp()
}
