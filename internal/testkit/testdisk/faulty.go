package testdisk

import (
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// An Op names an operation of a disk.FS or of one of its Files.
type Op string

// The operations that the hook of a Faulty sees.
const (
	OpOpen      Op = "open"   // without O_CREATE and O_TRUNC
	OpCreate    Op = "create" // OpenFile with O_CREATE or O_TRUNC
	OpRead      Op = "read"   // Read and ReadAt
	OpWrite     Op = "write"
	OpTruncate  Op = "truncate"
	OpSync      Op = "sync"
	OpClose     Op = "close"
	OpStat      Op = "stat"
	OpRename    Op = "rename"
	OpRemove    Op = "remove"
	OpRemoveAll Op = "removeall"
	OpMkdir     Op = "mkdir"
	OpReadDir   Op = "readdir"
	OpSyncDir   Op = "syncdir"
)

// Changes reports whether op changes the disk or makes a change durable.
func (op Op) Changes() bool {
	switch op {
	case OpCreate, OpWrite, OpTruncate, OpSync, OpRename, OpRemove, OpRemoveAll, OpMkdir, OpSyncDir:
		return true
	}
	return false
}

// Grows reports whether op can fail because the disk is full.
func (op Op) Grows() bool {
	switch op {
	case OpCreate, OpWrite, OpSync, OpRename, OpMkdir:
		return true
	}
	return false
}

// A Call describes an operation that is about to run.
type Call struct {
	Op   Op
	Name string // the file; for a rename, the old name
	// N numbers all calls, from 1. Change numbers the calls whose Op.Changes is true, from 1; it is 0 for the others.
	N, Change int64
	Bytes     int // length of a read or a write, otherwise 0
}

// A Fault replaces the result of a call. With Err nil the call runs normally. Otherwise it returns Err; a write first
// stores its first Short bytes.
type Fault struct {
	Err   error
	Short int
}

// Faulty is a disk.FS that passes calls on to another disk.FS, unless its hook makes them fail. It counts the calls,
// so that a test can fail each of them in turn.
type Faulty struct {
	fs disk.FS

	mu         sync.Mutex // guards the fields below; held while the hook runs, never across I/O
	hook       func(Call) Fault
	n, changes int64
}

// NewFaulty returns a Faulty around fs. It calls hook before every operation, one call at a time. A nil hook lets all
// operations pass.
func NewFaulty(fs disk.FS, hook func(Call) Fault) *Faulty { return &Faulty{fs: fs, hook: hook} }

// Break replaces the hook.
func (f *Faulty) Break(hook func(Call) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// Heal removes the hook: from now on all operations pass.
func (f *Faulty) Heal() { f.Break(nil) }

// Calls returns the number of calls so far, and how many of them change the disk (Op.Changes).
func (f *Faulty) Calls() (all, changes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n, f.changes
}

// FailAt returns a hook that fails only the n-th call that changes the disk. If that call is a write, half of its
// bytes are stored.
func FailAt(n int64, err error) func(Call) Fault {
	return func(c Call) Fault {
		if c.Change != n {
			return Fault{}
		}
		return Fault{err, c.Bytes / 2}
	}
}

// FailFrom returns a hook that fails the n-th call that changes the disk and all later ones. If the n-th call is a
// write, half of its bytes are stored.
func FailFrom(n int64, err error) func(Call) Fault {
	return func(c Call) Fault {
		switch {
		case c.Change < n:
			return Fault{}
		case c.Change == n:
			return Fault{err, c.Bytes / 2}
		}
		return Fault{Err: err}
	}
}

// FullAfter returns a hook for a disk that has room for so many more bytes. The write that exceeds the limit is cut
// short with ENOSPC. From then on no file can be written or created and no directory can be made. Files can still be
// synced, renamed and removed.
func FullAfter(bytes int64) func(Call) Fault {
	return func(c Call) Fault {
		switch {
		case c.Op == OpWrite && int64(c.Bytes) > bytes:
			short := int(bytes)
			bytes = 0
			return Fault{syscall.ENOSPC, short}
		case c.Op == OpWrite:
			bytes -= int64(c.Bytes)
		case (c.Op == OpCreate || c.Op == OpMkdir) && bytes == 0:
			return Fault{Err: syscall.ENOSPC}
		}
		return Fault{}
	}
}

func (f *Faulty) call(op Op, name string, bytes int) (short int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	c := Call{Op: op, Name: name, N: f.n, Bytes: bytes}
	if op.Changes() {
		f.changes++
		c.Change = f.changes
	}
	if f.hook == nil {
		return 0, nil
	}
	fault := f.hook(c)
	return min(max(fault.Short, 0), bytes), pathError(string(op), name, fault.Err)
}

func (f *Faulty) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	op := OpOpen
	if flag&(os.O_CREATE|os.O_TRUNC) != 0 {
		op = OpCreate
	}
	if _, err := f.call(op, name, 0); err != nil {
		return nil, err
	}
	file, err := f.fs.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &faultyFile{file, f}, nil
}

func (f *Faulty) Rename(from, to string) error {
	if _, err := f.call(OpRename, from, 0); err != nil {
		return err
	}
	return f.fs.Rename(from, to)
}

func (f *Faulty) Remove(name string) error {
	if _, err := f.call(OpRemove, name, 0); err != nil {
		return err
	}
	return f.fs.Remove(name)
}

func (f *Faulty) RemoveAll(name string) error {
	if _, err := f.call(OpRemoveAll, name, 0); err != nil {
		return err
	}
	return f.fs.RemoveAll(name)
}

func (f *Faulty) Mkdir(dir string, perm fs.FileMode) error {
	if _, err := f.call(OpMkdir, dir, 0); err != nil {
		return err
	}
	return f.fs.Mkdir(dir, perm)
}

func (f *Faulty) MkdirAll(dir string, perm fs.FileMode) error {
	if _, err := f.call(OpMkdir, dir, 0); err != nil {
		return err
	}
	return f.fs.MkdirAll(dir, perm)
}

func (f *Faulty) ReadDir(dir string) ([]fs.DirEntry, error) {
	if _, err := f.call(OpReadDir, dir, 0); err != nil {
		return nil, err
	}
	return f.fs.ReadDir(dir)
}

func (f *Faulty) Stat(name string) (fs.FileInfo, error) {
	if _, err := f.call(OpStat, name, 0); err != nil {
		return nil, err
	}
	return f.fs.Stat(name)
}

func (f *Faulty) SyncDir(dir string) error {
	if _, err := f.call(OpSyncDir, dir, 0); err != nil {
		return err
	}
	return f.fs.SyncDir(dir)
}

// Lock implements FS. No hook sees it.
func (f *Faulty) Lock(name string) (io.Closer, error) { return f.fs.Lock(name) }

// Chmod implements FS. No hook sees it.
func (f *Faulty) Chmod(name string, perm fs.FileMode) error { return f.fs.Chmod(name, perm) }

type faultyFile struct {
	disk.File
	fs *Faulty
}

func (f *faultyFile) Read(p []byte) (int, error) {
	if _, err := f.fs.call(OpRead, f.Name(), len(p)); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if _, err := f.fs.call(OpRead, f.Name(), len(p)); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *faultyFile) Write(p []byte) (int, error) {
	short, err := f.fs.call(OpWrite, f.Name(), len(p))
	if err == nil {
		return f.File.Write(p)
	}
	n := 0
	if short > 0 {
		if k, werr := f.File.Write(p[:short]); werr == nil {
			n = k
		}
	}
	return n, err
}

func (f *faultyFile) Truncate(size int64) error {
	if _, err := f.fs.call(OpTruncate, f.Name(), 0); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultyFile) Sync() error {
	if _, err := f.fs.call(OpSync, f.Name(), 0); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultyFile) Stat() (fs.FileInfo, error) {
	if _, err := f.fs.call(OpStat, f.Name(), 0); err != nil {
		return nil, err
	}
	return f.File.Stat()
}

// Close closes the underlying file even if it reports a fault.
func (f *faultyFile) Close() error {
	_, err := f.fs.call(OpClose, f.Name(), 0)
	if cerr := f.File.Close(); err == nil {
		err = cerr
	}
	return err
}
