//go:build !unix

package report

// PeakMemory returns the largest amount of memory that the process has used at once, in bytes; 0 if unknown.
func PeakMemory() int64 { return 0 }
