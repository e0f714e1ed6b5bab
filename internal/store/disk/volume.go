package disk

// A Volume is the file system of a directory, which its value names.
type Volume string

// A Space is the room of a file system in bytes. Both numbers are 0 if the system does not say.
type Space struct {
	Free uint64 `json:"free_bytes"` // what a user without privileges can still write
	Size uint64 `json:"size_bytes"`
}

// IsScarce reports that nine tenths are in use.
func (s Space) IsScarce() bool { return s.Free < s.Size/10 }
