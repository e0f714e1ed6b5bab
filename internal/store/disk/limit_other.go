//go:build !unix

package disk

// MaxOpen returns how many file descriptors the process may have open at once, or 0 if the limit is unknown.
func MaxOpen() int { return 0 }
