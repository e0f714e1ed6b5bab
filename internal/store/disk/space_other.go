//go:build !linux && !darwin && !freebsd

package disk

// Space returns the room of the file system now.
func (v Volume) Space() Space { return Space{} }
