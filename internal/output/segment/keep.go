package segment

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A Held is what a segment takes on this disk: its files and its tables without the index, which always stays.
type Held struct {
	Bytes     int64
	Committed bool
	Store     string // the URL of the store that has the segment; "" if none has
}

// Held tells what a segment takes here. FS must be that of the disk alone.
func (c *Committer) Held(name string) (h Held, err error) {
	fsys := cmp.Or(c.FS, disk.OS)
	var files []string
	if h.Committed = committed(fsys, c.path(name)); h.Committed {
		if h.Store, err = StoreOf(fsys, c.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return h, err
		}
		if files, err = c.large(fsys, name); err != nil {
			return h, err
		}
	} else {
		found, err := warc.SegmentFiles(fsys, c.path(name))
		if err != nil {
			return h, err
		}
		for _, f := range found {
			files = append(files, f.Path)
		}
	}
	for _, f := range files {
		info, err := fsys.Stat(f)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return h, err
		}
		if err == nil {
			h.Bytes += info.Size()
		}
	}
	return h, nil
}

// large returns the paths of the files of a committed segment that need not stay: all but its index.
func (c *Committer) large(fsys disk.FS, name string) (files []string, err error) {
	m, err := ReadManifest(fsys, c.path(name))
	for _, f := range m.Files {
		if f.Name != IndexName {
			files = append(files, filepath.Join(c.path(name), filepath.FromSlash(f.Name)))
		}
	}
	for _, t := range m.Tables {
		files = append(files, filepath.Join(c.Dir, filepath.FromSlash(t.Name)))
	}
	return files, err
}

// errHere means that no store has a segment.
var errHere = errors.New("no store has the segment")

// RemoveStored removes the files and the tables of a segment that a store has, as _STORED tells. Its index, its
// manifest and the files that mark it stay. A kill may leave some of the others. FS must be that of the disk alone.
func (c *Committer) RemoveStored(name string) error {
	fsys := cmp.Or(c.FS, disk.OS)
	h, err := c.Held(name)
	if err == nil && h.Store == "" {
		err = errHere
	}
	if err == nil { // a kill may have come before _STORED was synced, and a power failure may lose it then
		err = fsys.SyncDir(c.path(name))
	}
	if err != nil {
		return err
	}
	files, err := c.large(fsys, name)
	for _, f := range files {
		if err := fsys.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}
