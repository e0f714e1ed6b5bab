package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// Private returns an FS like base that creates files and directories without permissions for group and others.
func Private(base FS) FS { return private{base} }

type private struct{ FS }

func (p private) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	return p.FS.OpenFile(name, flag, perm&^0o077)
}

func (p private) MkdirAll(dir string, perm fs.FileMode) error {
	return p.FS.MkdirAll(dir, perm&^0o077)
}

func (p private) lock(name string) (io.Closer, error)       { return lock(p.FS, name) }
func (p private) chmod(name string, perm fs.FileMode) error { return chmod(p.FS, name, perm) }

// MakePrivate removes the permissions of group and others from dir if others (everybody on the machine) have any.
// If only a group has access, dir stays as it is: its owner chose that.
func MakePrivate(fsys FS, dir string) error {
	info, err := fsys.Stat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o007 == 0 {
		return nil
	}
	if err := chmod(fsys, dir, info.Mode().Perm()&^0o077); err != nil {
		return fmt.Errorf("make %s private: %w", dir, err)
	}
	return nil
}

// A chmodder is an FS that can change permissions.
type chmodder interface {
	chmod(name string, perm fs.FileMode) error
}

func chmod(fsys FS, name string, perm fs.FileMode) error {
	if c, ok := fsys.(chmodder); ok {
		return c.chmod(name, perm)
	}
	return errors.ErrUnsupported
}
