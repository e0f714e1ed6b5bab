//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package main

// inBackground is always false: this system has no process groups that share a
// terminal.
func inBackground(int) bool { return false }
