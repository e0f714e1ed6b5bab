//go:build linux || darwin || freebsd

package disk

import "golang.org/x/sys/unix"

// Space returns how many bytes a user without privileges can still write to the file system of the directory, and its
// size in bytes. Both are 0 if the system does not say.
func Space(dir string) (free, size uint64) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0, 0
	}
	block := uint64(s.Bsize)
	return uint64(max(int64(s.Bavail), 0)) * block, uint64(s.Blocks) * block
}
