package main

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// asNobody calls fn without the rights of root on files. It returns false if that is not possible.
// The calling thread loses the rights, so fn must not do its work on other goroutines.
func asNobody(fn func()) bool {
	if os.Getuid() != 0 {
		fn()
		return true
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const nobody = 65534
	if _, err := unix.SetfsuidRetUid(nobody); err != nil {
		return false
	}
	defer unix.SetfsuidRetUid(0)
	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != nobody {
		return false
	}
	fn()
	return true
}
