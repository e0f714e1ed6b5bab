package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
)

// A Store is what an FS reads. *object.Store is one. Safe for concurrent use.
type Store interface {
	// ReadTagged reads a range of the object that has a tag, of any object if the tag is empty.
	ReadTagged(ctx context.Context, key, tag string, offset, length int64) ([]byte, error)
	List(ctx context.Context, prefix, after string, max int) (object.Page, error)
	Stat(ctx context.Context, key string) (object.Info, error)
	// Location returns the URL of an object, without credentials.
	Location(key string) string
}

// Config tunes an FS. The zero Config is safe.
type Config struct {
	// Memory bounds the blocks that are kept, in bytes. Zero means 64 MiB.
	Memory int64
	// Wait is how long a request may take, with all its repetitions. Zero means 2 minutes.
	Wait time.Duration
}

var (
	// ErrReadOnly means that an operation would write to a store.
	ErrReadOnly = errors.New("a store is only read here; name a directory of this machine for what is written")
	// ErrReplaced means that the store has another object of this name than it had when the file was opened.
	ErrReplaced = errors.New("another process has replaced the object while it was read; run the command again")
	// ErrTooMany means that a folder has more entries than an FS lists.
	ErrTooMany = errors.New("the folder has too many entries")
)

// An FS reads a store. Safe for concurrent use. An open File belongs to its opener, as in package disk.
type FS struct {
	ctx   context.Context // ends all requests: disk.FS has none
	store Store
	root  string // the name of the store's beginning
	wait  time.Duration
	room  int64

	mu     sync.Mutex // guards all below
	cache  blocks
	spans  []*span // what lists have said, the latest last
	known  int     // objects in spans
	opened int64   // files
	made   Requests
}

// Requests counts the requests of an FS, without repetitions.
type Requests struct {
	Lists, Reads, Stats int
	Bytes               int64 // that Reads have brought
}

// New returns an FS for a store. The beginning of the store has the name root: the object "a/b" is the file root/a/b.
// All requests end with ctx.
func New(ctx context.Context, s Store, root string, c Config) *FS {
	f := &FS{ctx: ctx, store: s, root: filepath.Clean(root), wait: cmp.Or(c.Wait, 2*time.Minute),
		room: cmp.Or(c.Memory, 64<<20)}
	f.cache.init(f.room)
	return f
}

// Requests returns how many requests were made so far.
func (f *FS) Requests() Requests {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.made
}

// key returns the key of a file, "" for the root. ok is false if no object can have this name.
func (f *FS) key(name string) (key string, ok bool) {
	name = filepath.Clean(name)
	switch {
	case name == f.root:
		return "", true
	case f.root != ".":
		if name, ok = strings.CutPrefix(name, f.root+string(filepath.Separator)); !ok {
			return "", false
		}
	}
	key = filepath.ToSlash(name)
	return key, object.ValidKey(key)
}

// fault is an error about a file, with its URL.
func (f *FS) fault(op, name string, err error) error {
	at := name
	if key, ok := f.key(name); ok {
		at = f.store.Location(key)
	}
	switch {
	case errors.Is(err, object.ErrNotFound):
		err = fs.ErrNotExist
	case errors.Is(err, object.ErrChanged):
		err = ErrReplaced
	}
	return &fs.PathError{Op: op, Path: at, Err: err}
}

// ask makes a request that ends after some time.
func (f *FS) ask(request func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(f.ctx, f.wait)
	defer cancel()
	err := request(ctx)
	if err == nil {
		return nil
	}
	if inner := errors.Unwrap(err); inner != nil {
		err = inner // the outer one names the object, which fault does
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok && ctx.Err() != nil {
		err = joined.Unwrap()[0] // the other one is of the context
	}
	switch {
	case f.ctx.Err() != nil:
		return f.ctx.Err()
	case ctx.Err() != nil:
		return fmt.Errorf("no answer in %v: %w", f.wait, err)
	}
	return err
}

// OpenFile opens an object for reading. The only flag is os.O_RDONLY.
func (f *FS) OpenFile(name string, flag int, _ fs.FileMode) (disk.File, error) {
	if flag != os.O_RDONLY {
		return nil, f.fault("open", name, ErrReadOnly)
	}
	info, folder, err := f.find(name)
	switch {
	case err != nil:
		return nil, f.fault("open", name, err)
	case folder:
		return nil, f.fault("open", name, syscall.EISDIR)
	}
	return f.open(name, info), nil
}

// OpenRange implements disk.Ranger. It makes no request: if there is no such object, the first read says so. The first
// read brings the whole range, up to 16 MiB.
func (f *FS) OpenRange(name string, offset, length int64) (disk.File, error) {
	key, ok := f.key(name)
	if !ok || key == "" || offset < 0 || length < 0 {
		return nil, f.fault("open", name, fs.ErrNotExist)
	}
	info := object.Info{Key: key, Size: -1}
	f.mu.Lock()
	if s := f.covering(key); s != nil {
		i, there := s.find(key)
		if !there {
			f.mu.Unlock()
			return nil, f.fault("open", name, fs.ErrNotExist)
		}
		info = s.objects[i]
	}
	f.mu.Unlock()
	file := f.open(name, info)
	file.expect = expected{offset, min(length, f.room/4, maxExpected)}
	return file, nil
}

func (f *FS) open(name string, info object.Info) *file {
	f.mu.Lock()
	f.opened++
	f.mu.Unlock()
	return &file{fs: f, name: name, info: info, fresh: true}
}

// Stat describes an object or a folder.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	info, folder, err := f.find(name)
	if err != nil {
		return nil, f.fault("stat", name, err)
	}
	return entry{path.Base(filepath.ToSlash(filepath.Clean(name))), info, folder}, nil
}

// find looks an object up, or a folder.
func (f *FS) find(name string) (i object.Info, folder bool, err error) {
	key, ok := f.key(name)
	switch {
	case !ok:
		return i, false, fs.ErrNotExist
	case key == "":
		return i, true, nil
	}
	return f.lookUp(key)
}

// An entry describes an object or a folder.
type entry struct {
	name   string
	info   object.Info
	folder bool
}

func (e entry) Name() string               { return e.name }
func (e entry) Size() int64                { return e.info.Size }
func (e entry) ModTime() time.Time         { return e.info.Modified }
func (e entry) IsDir() bool                { return e.folder }
func (e entry) Sys() any                   { return nil }
func (e entry) Type() fs.FileMode          { return e.Mode().Type() }
func (e entry) Info() (fs.FileInfo, error) { return e, nil }

// Mode is that of a file or a folder which nobody may write.
func (e entry) Mode() fs.FileMode {
	if e.folder {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

// Rename is refused, as all that follow are.
func (f *FS) Rename(from, _ string) error              { return f.fault("rename", from, ErrReadOnly) }
func (f *FS) Remove(name string) error                 { return f.fault("remove", name, ErrReadOnly) }
func (f *FS) RemoveAll(name string) error              { return f.fault("remove", name, ErrReadOnly) }
func (f *FS) Mkdir(dir string, _ fs.FileMode) error    { return f.fault("mkdir", dir, ErrReadOnly) }
func (f *FS) MkdirAll(dir string, _ fs.FileMode) error { return f.fault("mkdir", dir, ErrReadOnly) }
func (f *FS) SyncDir(dir string) error                 { return f.fault("sync", dir, ErrReadOnly) }
func (f *FS) Chmod(name string, _ fs.FileMode) error   { return f.fault("chmod", name, ErrReadOnly) }
func (f *FS) Lock(name string) (io.Closer, error)      { return nil, f.fault("lock", name, ErrReadOnly) }

var _ disk.FS = (*FS)(nil)
