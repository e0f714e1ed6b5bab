package disk

import (
	"fmt"
	"io/fs"
)

// Private returns an FS like base that creates files and directories without permissions for group and others.
func Private(base FS) FS { return private{base} }

type private struct{ FS }

func (p private) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	return p.FS.OpenFile(name, flag, perm&^0o077)
}

func (p private) Mkdir(dir string, perm fs.FileMode) error { return p.FS.Mkdir(dir, perm&^0o077) }

func (p private) MkdirAll(dir string, perm fs.FileMode) error {
	return p.FS.MkdirAll(dir, perm&^0o077)
}

// AsPrivateAs returns a Private FS of the machine for what is made of the content of dir, if others may not read dir.
// Otherwise it returns nil.
func AsPrivateAs(dir string) FS {
	if info, err := OS.Stat(dir); err == nil && info.Mode().Perm()&0o007 == 0 {
		return Private(OS)
	}
	return nil
}

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
	if err := fsys.Chmod(dir, info.Mode().Perm()&^0o077); err != nil {
		return fmt.Errorf("make %s private: %w", dir, err)
	}
	return nil
}
