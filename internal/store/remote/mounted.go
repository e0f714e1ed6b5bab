package remote

import (
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Mounted is a file system in which stores are folders. Add all stores before the first use; then it is safe for
// concurrent use.
type Mounted struct {
	disk.FS // has all other files
	stores  []*FS
}

// NewMounted returns a Mounted without stores.
func NewMounted(other disk.FS) *Mounted { return &Mounted{FS: other} }

// Add shows a store at its root.
func (m *Mounted) Add(f *FS) { m.stores = append(m.stores, f) }

// Store returns the store that has a file; nil if none has.
func (m *Mounted) Store(name string) *FS {
	name = filepath.Clean(name)
	for _, f := range m.stores {
		if rest, ok := strings.CutPrefix(name, f.root); ok && (rest == "" || rest[0] == filepath.Separator) {
			return f
		}
	}
	return nil
}

// Root returns the name of the store's beginning.
func (f *FS) Root() string { return f.root }

// of returns the file system that has a file.
func (m *Mounted) of(name string) disk.FS {
	if f := m.Store(name); f != nil {
		return f
	}
	return m.FS
}

// OpenFile opens a file of a store or another one.
func (m *Mounted) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	return m.of(name).OpenFile(name, flag, perm)
}

// OpenRange implements disk.Ranger.
func (m *Mounted) OpenRange(name string, offset, length int64) (disk.File, error) {
	return disk.OpenRange(m.of(name), name, offset, length)
}

// Rename renames a file that is in no store.
func (m *Mounted) Rename(from, to string) error {
	if f := m.Store(to); f != nil {
		return f.fault("rename", to, ErrReadOnly)
	}
	return m.of(from).Rename(from, to)
}

// Remove asks the file system that has the file, as all that follow do.
func (m *Mounted) Remove(name string) error                    { return m.of(name).Remove(name) }
func (m *Mounted) RemoveAll(name string) error                 { return m.of(name).RemoveAll(name) }
func (m *Mounted) Mkdir(dir string, perm fs.FileMode) error    { return m.of(dir).Mkdir(dir, perm) }
func (m *Mounted) MkdirAll(dir string, perm fs.FileMode) error { return m.of(dir).MkdirAll(dir, perm) }
func (m *Mounted) ReadDir(dir string) ([]fs.DirEntry, error)   { return m.of(dir).ReadDir(dir) }
func (m *Mounted) Stat(name string) (fs.FileInfo, error)       { return m.of(name).Stat(name) }
func (m *Mounted) SyncDir(dir string) error                    { return m.of(dir).SyncDir(dir) }
func (m *Mounted) Chmod(name string, perm fs.FileMode) error   { return m.of(name).Chmod(name, perm) }
func (m *Mounted) Lock(name string) (io.Closer, error)         { return m.of(name).Lock(name) }
