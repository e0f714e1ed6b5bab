// Package disk answers: where does the crawler store its bytes, and what happens if that fails?
//
// All file access of Orbweaver goes through an FS. Production uses OS. Package testdisk has others for tests:
// one simulates power failures, one fails chosen calls. Patient and Private wrap another FS. One conformance suite
// holds all of them to the same behaviour. Several goroutines may share an FS. An open File belongs to its opener.
package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// A File is an open file. One goroutine uses it at a time, with two exceptions: any number of goroutines may call
// ReadAt at once, and Sync may run beside every other method except Close.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.Seeker
	io.Closer
	Name() string
	Stat() (fs.FileInfo, error)
	// Sync blocks until all written bytes would survive a power failure.
	Sync() error
	Truncate(size int64) error
}

// FS is the part of a file system that a crawl needs. Its methods behave like their namesakes in package os and
// return the same errors. Safe for concurrent use.
type FS interface {
	// OpenFile takes the flags of package os (O_RDONLY, O_CREATE and so on).
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	RemoveAll(name string) error
	// Mkdir fails with fs.ErrExist if there is anything under that name, also a symbolic link.
	Mkdir(dir string, perm fs.FileMode) error
	MkdirAll(dir string, perm fs.FileMode) error
	ReadDir(dir string) ([]fs.DirEntry, error)
	Stat(name string) (fs.FileInfo, error)
	// SyncDir blocks until the creation, renaming and removal of dir's entries would survive a power failure.
	SyncDir(dir string) error
	Chmod(name string, perm fs.FileMode) error
	// Lock creates the file name if it is missing and locks it until the result is closed or the process ends. It
	// does not wait: see ErrLocked. On systems without flock(2) the error is errors.ErrUnsupported. Use the function
	// Lock to lock a directory.
	Lock(name string) (io.Closer, error)
}

// IsFull reports whether err means that the disk or the user's quota is full.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// OS is the file system of the machine.
var OS FS = osFS{}

type osFS struct{}

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err // not a typed nil in an interface
	}
	return f, nil
}
func (osFS) Rename(from, to string) error                { return os.Rename(from, to) }
func (osFS) Remove(name string) error                    { return os.Remove(name) }
func (osFS) RemoveAll(name string) error                 { return os.RemoveAll(name) }
func (osFS) Mkdir(dir string, perm fs.FileMode) error    { return os.Mkdir(dir, perm) }
func (osFS) MkdirAll(dir string, perm fs.FileMode) error { return os.MkdirAll(dir, perm) }
func (osFS) ReadDir(dir string) ([]fs.DirEntry, error)   { return os.ReadDir(dir) }
func (osFS) Stat(name string) (fs.FileInfo, error)       { return os.Stat(name) }
func (osFS) Chmod(name string, perm fs.FileMode) error   { return os.Chmod(name, perm) }
func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
