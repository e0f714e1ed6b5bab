//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package main

// inBackground is always false: this system has no process groups that share a
// terminal.
func inBackground(int) bool { return false }

// isAbandoned is always false: this system cannot ask a pipe for its reader.
func isAbandoned(int) bool { return false }
