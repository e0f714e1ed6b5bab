//go:build !unix

package disk

// MaxOpen returns how many file descriptors the process may have open at once; 0
// means that this is not known.
func MaxOpen() int { return 0 }
