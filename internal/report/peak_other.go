//go:build !unix

package report

// PeakMemory is the most memory that the process has had in use at once, in
// bytes; 0 if that is not known.
func PeakMemory() int64 { return 0 }
