package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// Private returns an FS like base whose new files and directories only the user of
// the process can read: it takes the permissions of group and others away.
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

// MakePrivate takes an existing directory away from group and others, if everybody
// on the machine may read or enter it. A directory that is open to a group alone
// stays as it is: its owner has said so.
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
