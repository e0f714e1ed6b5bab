package disk

import "os"

// A Ranger is an FS that opens a file with less work if it knows what is read of it.
type Ranger interface {
	// OpenRange opens a file for reading about length bytes from an offset. The file may be missing although it was
	// opened: then the first read says so.
	OpenRange(name string, offset, length int64) (File, error)
}

// OpenRange opens a file for reading about length bytes from an offset. If the FS is no Ranger, it is OpenFile.
func OpenRange(fsys FS, name string, offset, length int64) (File, error) {
	if r, ok := fsys.(Ranger); ok {
		return r.OpenRange(name, offset, length)
	}
	return fsys.OpenFile(name, os.O_RDONLY, 0)
}
