//go:build unix

package report

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"syscall"
)

// PeakMemory returns the largest amount of memory that the process has used at once, in bytes; 0 if unknown.
func PeakMemory() int64 {
	if b, err := os.ReadFile("/proc/self/status"); err == nil {
		if n := vmHWM(b); n > 0 {
			return n
		}
	}
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return int64(u.Maxrss)
	}
	return int64(u.Maxrss) * 1024
}

// vmHWM returns the value of the line "VmHWM:    1234 kB" of /proc/self/status (proc(5)) in bytes; 0 if it is missing.
func vmHWM(status []byte) int64 {
	_, rest, ok := bytes.Cut(status, []byte("\nVmHWM:"))
	if !ok {
		return 0
	}
	f := bytes.Fields(rest)
	if len(f) < 2 {
		return 0
	}
	n, err := strconv.ParseInt(string(f[0]), 10, 64)
	if err != nil || n < 0 || n > 1<<50 {
		return 0
	}
	return n * 1024
}
