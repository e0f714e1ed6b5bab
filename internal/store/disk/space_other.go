//go:build !linux && !darwin && !freebsd

package disk

// Space returns how many bytes a user without privileges can still write to the file system of the directory, and its
// size in bytes. Both are 0 if the system does not say.
func Space(string) (free, size uint64) { return 0, 0 }
