package disk

import (
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// Op names an operation of an FS or of one of its Files.
type Op string

// The operations that a Faulty can see.
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

// Changes says whether op alters the disk or makes an alteration durable.
func (op Op) Changes() bool {
	switch op {
	case OpCreate, OpWrite, OpTruncate, OpSync, OpRename, OpRemove, OpRemoveAll, OpMkdir, OpSyncDir:
		return true
	}
	return false
}

// Grows says whether op can fail for want of room.
func (op Op) Grows() bool {
	switch op {
	case OpCreate, OpWrite, OpSync, OpRename, OpMkdir:
		return true
	}
	return false
}

// A Call is an operation that is about to happen.
type Call struct {
	Op   Op
	Name string // the file; of a rename the old name
	// N counts all calls and Change those with Op.Changes, from 1; Change is
	// 0 for the others.
	N, Change int64
	Bytes     int // of a read or a write
}

// A Fault is what happens instead: the error, nil for none, after Short bytes
// of a write have reached the disk.
type Fault struct {
	Err   error
	Short int
}

// Faulty passes calls on to another FS unless its hook wants them to fail.
// It counts them, so that a test can fail each one in turn.
type Faulty struct {
	fs FS

	mu         sync.Mutex // guards what follows; held while the hook runs, never across I/O
	hook       func(Call) Fault
	n, changes int64
}

// NewFaulty wraps fs. The hook is called by one goroutine at a time; nil lets
// everything pass.
func NewFaulty(fs FS, hook func(Call) Fault) *Faulty { return &Faulty{fs: fs, hook: hook} }

// Break sets another hook.
func (f *Faulty) Break(hook func(Call) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// Heal lets everything pass from now on: room was made.
func (f *Faulty) Heal() { f.Break(nil) }

// Calls returns how many calls there were, and how many of them change the disk.
func (f *Faulty) Calls() (all, changes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n, f.changes
}

// FailAt fails the n-th call that changes the disk, and only that one. Half of
// a write reaches the disk.
func FailAt(n int64, err error) func(Call) Fault {
	return func(c Call) Fault {
		if c.Change != n {
			return Fault{}
		}
		return Fault{err, c.Bytes / 2}
	}
}

// FailFrom fails every call that changes the disk from the n-th on.
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

// FullAfter is a disk with room for so many more bytes: the write that passes
// the limit is cut short with ENOSPC, and nothing can be written or created
// from then on. Files can still be synced, renamed and removed.
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

// OpenFile implements FS.
func (f *Faulty) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
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

// Rename implements FS.
func (f *Faulty) Rename(from, to string) error {
	if _, err := f.call(OpRename, from, 0); err != nil {
		return err
	}
	return f.fs.Rename(from, to)
}

// Remove implements FS.
func (f *Faulty) Remove(name string) error {
	if _, err := f.call(OpRemove, name, 0); err != nil {
		return err
	}
	return f.fs.Remove(name)
}

// RemoveAll implements FS.
func (f *Faulty) RemoveAll(name string) error {
	if _, err := f.call(OpRemoveAll, name, 0); err != nil {
		return err
	}
	return f.fs.RemoveAll(name)
}

// MkdirAll implements FS.
func (f *Faulty) MkdirAll(dir string, perm fs.FileMode) error {
	if _, err := f.call(OpMkdir, dir, 0); err != nil {
		return err
	}
	return f.fs.MkdirAll(dir, perm)
}

// ReadDir implements FS.
func (f *Faulty) ReadDir(dir string) ([]fs.DirEntry, error) {
	if _, err := f.call(OpReadDir, dir, 0); err != nil {
		return nil, err
	}
	return f.fs.ReadDir(dir)
}

// Stat implements FS.
func (f *Faulty) Stat(name string) (fs.FileInfo, error) {
	if _, err := f.call(OpStat, name, 0); err != nil {
		return nil, err
	}
	return f.fs.Stat(name)
}

// SyncDir implements FS.
func (f *Faulty) SyncDir(dir string) error {
	if _, err := f.call(OpSyncDir, dir, 0); err != nil {
		return err
	}
	return f.fs.SyncDir(dir)
}

func (f *Faulty) lock(name string) (io.Closer, error)       { return lock(f.fs, name) }
func (f *Faulty) chmod(name string, perm fs.FileMode) error { return chmod(f.fs, name, perm) }

type faultyFile struct {
	File
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

// Close closes the file beneath even when it reports a fault.
func (f *faultyFile) Close() error {
	_, err := f.fs.call(OpClose, f.Name(), 0)
	if cerr := f.File.Close(); err == nil {
		err = cerr
	}
	return err
}
