// Package disk answers: where do bytes rest, and what when that fails?
//
// Everything that Orbweaver writes goes through an FS: OS in production, in
// tests Mem, which can lose its power, and Faulty, which can run full. One
// suite of tests holds all of them to the same behaviour. An FS is shared and
// safe for concurrent use; an open File belongs to the one who opened it.
package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// File is an open file. It is used by one goroutine at a time, but ReadAt may
// be called by many, and Sync beside all else but Close.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.Seeker
	io.Closer
	Name() string
	Stat() (fs.FileInfo, error)
	// Sync returns when what was written would survive a power failure.
	Sync() error
	Truncate(size int64) error
}

// FS is the part of a file system that a crawl needs. Safe for concurrent use.
type FS interface {
	// OpenFile opens with the flags of package os.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	RemoveAll(name string) error
	MkdirAll(dir string, perm fs.FileMode) error
	ReadDir(dir string) ([]fs.DirEntry, error)
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the creation, renaming and removal of dir's entries durable.
	SyncDir(dir string) error
}

// IsFull says whether err means that the disk or the quota is full.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// OS is the machine's file system.
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
func (osFS) MkdirAll(dir string, perm fs.FileMode) error { return os.MkdirAll(dir, perm) }
func (osFS) ReadDir(dir string) ([]fs.DirEntry, error)   { return os.ReadDir(dir) }
func (osFS) Stat(name string) (fs.FileInfo, error)       { return os.Stat(name) }
func (osFS) chmod(name string, perm fs.FileMode) error   { return os.Chmod(name, perm) }
func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
