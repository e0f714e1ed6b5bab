//go:build linux || darwin || freebsd

package disk

import "golang.org/x/sys/unix"

// Space returns the room of the file system now.
func (v Volume) Space() Space {
	var s unix.Statfs_t
	if unix.Statfs(string(v), &s) != nil {
		return Space{}
	}
	block := uint64(s.Bsize)
	return Space{Free: uint64(max(int64(s.Bavail), 0)) * block, Size: uint64(s.Blocks) * block}
}
