//go:build !linux

package main

import "os"

// asNobody calls fn. It returns false if the test has the rights of root, which it cannot give up.
func asNobody(fn func()) bool {
	if os.Getuid() == 0 {
		return false
	}
	fn()
	return true
}
