package testdisk

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// A memFile is an open file of a Mem. It stays readable and writable after the file is removed.
type memFile struct {
	m    *Mem
	n    *node
	name string
	flag int

	pos    int64 // guarded by m.mu, as is closed
	closed bool
}

// use locks the file system for one call on f. change tells that the call writes. The caller must call unlock.
func (f *memFile) use(op string, change bool) (unlock func(), err error) {
	f.m.mu.Lock()
	switch {
	case f.closed:
		err = fs.ErrClosed
	case change && f.flag&(os.O_WRONLY|os.O_RDWR) == 0, !change && op == "read" && f.flag&os.O_WRONLY != 0:
		err = syscall.EBADF
	}
	if err != nil {
		f.m.mu.Unlock()
		return nil, pathError(op, f.name, err)
	}
	return f.m.mu.Unlock, nil
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) Read(p []byte) (int, error) {
	unlock, err := f.use("read", false)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if len(p) == 0 {
		return 0, nil
	}
	if f.pos >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	k := copy(p, f.n.data[f.pos:])
	f.pos += int64(k)
	return k, nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	unlock, err := f.use("read", false)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if off < 0 {
		return 0, pathError("readat", f.name, syscall.EINVAL)
	}
	if off >= int64(len(f.n.data)) {
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	k := copy(p, f.n.data[off:])
	if k < len(p) {
		return k, io.EOF
	}
	return k, nil
}

func (f *memFile) Write(p []byte) (int, error) {
	unlock, err := f.use("write", true)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if len(p) == 0 {
		return 0, nil
	}
	if f.flag&os.O_APPEND != 0 {
		f.pos = int64(len(f.n.data))
	}
	f.n.change(f.m, change{f.pos, slices.Clone(p)})
	f.pos += int64(len(p))
	return len(p), nil
}

func (f *memFile) Seek(off int64, whence int) (int64, error) {
	unlock, err := f.use("seek", false)
	if err != nil {
		return 0, err
	}
	defer unlock()
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		off += f.pos
	case io.SeekEnd:
		off += int64(len(f.n.data))
	default:
		return 0, pathError("seek", f.name, syscall.EINVAL)
	}
	if off < 0 {
		return 0, pathError("seek", f.name, syscall.EINVAL)
	}
	f.pos = off
	return off, nil
}

func (f *memFile) Truncate(size int64) error {
	unlock, err := f.use("truncate", true)
	if err != nil {
		return err
	}
	defer unlock()
	if size < 0 {
		return pathError("truncate", f.name, syscall.EINVAL)
	}
	f.n.change(f.m, change{off: size})
	return nil
}

func (f *memFile) Sync() error {
	unlock, err := f.use("sync", false)
	if err != nil {
		return err
	}
	defer unlock()
	for _, c := range f.n.pending {
		f.n.synced = c.apply(f.n.synced)
	}
	f.n.pending = nil
	return nil
}

func (f *memFile) Stat() (fs.FileInfo, error) {
	unlock, err := f.use("stat", false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return f.n.info(filepath.Base(f.name)), nil
}

func (f *memFile) Close() error {
	unlock, err := f.use("close", false)
	if err != nil {
		return err
	}
	defer unlock()
	f.closed = true
	return nil
}

func (n *node) info(name string) fs.FileInfo {
	return memInfo{name, int64(len(n.data)), n.mode, time.Unix(0, n.mod*int64(time.Millisecond))}
}

type memInfo struct {
	name string
	size int64
	mode fs.FileMode
	mod  time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.mod }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }
