//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package main

// inBackground returns false: on this system, process groups do not share a terminal.
func inBackground(int) bool { return false }

// isAbandoned returns false: this system does not report whether a pipe has a reader.
func isAbandoned(int) bool { return false }
