// Package folder answers: how does a mounted directory keep objects?
//
// An object is a file: its key is the path below the directory. A file is written beside its place and renamed, so that
// it is whole or absent. A write with a condition looks and renames under the lock of the directory. Its checksum is
// computed anew from the file each time.
package folder

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
)

// A Backend is a directory. It implements object.Backend and object.Whole.
type Backend struct {
	fs  disk.FS
	dir string
}

// Open returns the store in a directory, which must be there: one that is missing may be a disk that is not mounted.
func Open(fsys disk.FS, dir string) (*Backend, error) {
	if i, err := fsys.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w; create the directory, or mount its disk", dir, fs.ErrNotExist)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	} else if !i.IsDir() {
		return nil, fmt.Errorf("%s is no directory; name one", dir)
	}
	return &Backend{fsys, filepath.Clean(dir)}, nil
}

// Base returns the URL of the store.
func (b *Backend) Base() string {
	return "file://" + strings.TrimSuffix(filepath.ToSlash(b.dir), "/") + "/"
}

// Whole implements object.Whole.
func (b *Backend) Whole() {}

// suffix ends the names of files that are being written: NAME.RANDOM.orbweaver-tmp.
const suffix = ".orbweaver-tmp"

// lockName is the file whose lock a writer with a condition has.
const lockName = ".orbweaver-store-lock"

func (b *Backend) file(key string) string { return filepath.Join(b.dir, filepath.FromSlash(key)) }

// explain returns an error that wraps one of package object.
func (b *Backend) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist) && b.gone():
		return fmt.Errorf("%w (%s)", object.ErrUnmounted, b.dir)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w (%w)", object.ErrNotFound, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w (%w)", object.ErrDenied, err)
	case disk.IsFull(err):
		return object.ErrFull
	case errors.Is(err, disk.ErrLocked):
		return fmt.Errorf("%w (another process has the lock of the directory)", object.ErrConflict)
	case errors.Is(err, errors.ErrUnsupported):
		return fmt.Errorf("%w (%w)", object.ErrUnsupported, err)
	}
	return fmt.Errorf("%w (%w)", object.ErrRefused, err)
}

// gone reports that the directory of the store is no longer there: then a missing file tells nothing of an object.
func (b *Backend) gone() bool {
	_, err := b.fs.Stat(b.dir)
	return errors.Is(err, fs.ErrNotExist)
}

// Put implements object.Backend.
func (b *Backend) Put(ctx context.Context, key string, c object.Content, sum object.Sum, when object.Condition) error {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	name := b.file(key)
	tmp := name + "." + hex.EncodeToString(random[:]) + suffix
	err := b.makeParents(path.Dir(key))
	if err == nil {
		err = b.write(ctx, tmp, c, sum)
	}
	if err == nil {
		err = b.place(ctx, tmp, key, when)
	}
	if err != nil {
		_ = b.fs.Remove(tmp) // best effort: Abort finds it later
	}
	return err
}

// makeParents makes the directories of an object, durably.
func (b *Backend) makeParents(dir string) error {
	if dir == "." {
		return nil
	}
	if i, err := b.fs.Stat(b.file(dir)); err == nil && i.IsDir() {
		return nil
	}
	if err := b.makeParents(path.Dir(dir)); err != nil {
		return err
	}
	if err := b.fs.Mkdir(b.file(dir), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return b.explain(err)
	}
	return b.explain(b.fs.SyncDir(filepath.Dir(b.file(dir))))
}

// write writes a content to a new file, durably.
func (b *Backend) write(ctx context.Context, tmp string, c object.Content, sum object.Sum) error {
	f, err := b.fs.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return b.explain(err)
	}
	crc := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	_, err = io.CopyBuffer(io.MultiWriter(f, crc), reader{ctx, io.NewSectionReader(c, 0, c.Size())},
		make([]byte, 1<<20))
	if err == nil {
		err = f.Sync()
	}
	if err == nil && sum.CRC32C != "" && object.CRC32C(crc.Sum32()) != sum.CRC32C {
		err = object.ErrDigest
	}
	if err = cmp.Or(err, f.Close()); err != nil && !errors.Is(err, object.ErrDigest) && ctx.Err() == nil {
		err = b.explain(err)
	}
	return err
}

// A reader ends with its context.
type reader struct {
	ctx context.Context // of one request; Read has no argument for it
	io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// place gives a file its name, if the condition holds.
func (b *Backend) place(ctx context.Context, tmp, key string, when object.Condition) error {
	if when.IfAbsent || when.IfTag != "" {
		lock, err := b.lock(ctx)
		if err != nil {
			return err
		}
		defer lock.Close()
		i, err := b.Stat(ctx, key)
		switch {
		case errors.Is(err, object.ErrNotFound) && when.IfTag != "":
			return object.ErrPrecondition
		case errors.Is(err, object.ErrNotFound):
		case err != nil:
			return err
		case when.IfAbsent || i.Tag != when.IfTag:
			return object.ErrPrecondition
		}
	}
	name := b.file(key)
	if err := b.fs.Rename(tmp, name); err != nil {
		return b.explain(err)
	}
	return b.explain(b.fs.SyncDir(filepath.Dir(name)))
}

// Writers have the lock for a moment each. lock looks every lockStep, for lockFor at most.
const lockStep, lockFor = 5 * time.Millisecond, 2 * time.Second

// lock takes the lock of the directory.
func (b *Backend) lock(ctx context.Context) (io.Closer, error) {
	for waited := time.Duration(0); ; waited += lockStep {
		lock, err := b.fs.Lock(filepath.Join(b.dir, lockName))
		if !errors.Is(err, disk.ErrLocked) || waited >= lockFor || !clock.Pause(ctx, lockStep) {
			return lock, b.explain(err)
		}
	}
}

// Begin implements object.Backend. A Whole has no uploads in parts; nor have Part and Complete any.
func (b *Backend) Begin(context.Context, string, object.Sum, object.Condition) (string, error) {
	return "", object.ErrUnsupported
}

// Part implements object.Backend.
func (b *Backend) Part(context.Context, string, string, int, object.Content, object.Sum) (object.Part, error) {
	return object.Part{}, object.ErrUnsupported
}

// Complete implements object.Backend.
func (b *Backend) Complete(context.Context, string, string, []object.Part, object.Sum, object.Condition) error {
	return object.ErrUnsupported
}

// Abort implements object.Backend: it removes a file that was being written.
func (b *Backend) Abort(_ context.Context, key, upload string) error {
	if path.Base(upload) != upload || !strings.HasSuffix(upload, suffix) {
		return object.ErrNoUpload
	}
	err := b.fs.Remove(filepath.Join(filepath.Dir(b.file(key)), upload))
	if errors.Is(err, fs.ErrNotExist) && !b.gone() {
		return object.ErrNoUpload
	}
	return b.explain(err)
}

// Uploads implements object.Backend: it lists the files that are being written.
func (b *Backend) Uploads(ctx context.Context, prefix string, _ object.Upload) (page []object.Upload, _ bool,
	err error) {
	err = b.walk(ctx, "", prefix, "", func(key string, i fs.FileInfo) bool {
		if name, ok := strings.CutSuffix(key, suffix); ok && len(name) > 17 {
			page = append(page, object.Upload{Key: name[:len(name)-17], ID: path.Base(key), Begun: i.ModTime()})
		}
		return true
	})
	return page, false, err
}

// Get implements object.Backend.
func (b *Backend) Get(_ context.Context, key string, offset, length int64) (io.ReadCloser, int64, error) {
	f, err := b.fs.OpenFile(b.file(key), os.O_RDONLY, 0)
	if err != nil {
		return nil, 0, b.explain(err)
	}
	i, err := f.Stat()
	if err == nil && !i.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, 0, errors.Join(b.explain(err), f.Close())
	}
	n := min(max(length, 0), max(i.Size()-offset, 0))
	return section{io.NewSectionReader(f, offset, n), f}, n, nil
}

// A section is a part of a file.
type section struct {
	io.Reader
	io.Closer
}

// Stat implements object.Backend.
func (b *Backend) Stat(ctx context.Context, key string) (object.Info, error) {
	f, err := b.fs.OpenFile(b.file(key), os.O_RDONLY, 0)
	if err != nil {
		return object.Info{}, b.explain(err)
	}
	defer f.Close()
	i, err := f.Stat()
	if err == nil && !i.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return object.Info{}, b.explain(err)
	}
	sum, err := object.SumOf(io.NewSectionReader(f, 0, i.Size()))
	if err != nil {
		return object.Info{}, b.explain(err)
	}
	return object.Info{Key: key, Size: i.Size(), Sum: sum, Attested: true, Modified: i.ModTime(),
		Tag: fmt.Sprintf("%s-%d", sum, i.Size())}, ctx.Err()
}

// List implements object.Backend.
func (b *Backend) List(ctx context.Context, prefix, after string, most int) (list []object.Info, more bool, err error) {
	err = b.walk(ctx, "", prefix, after, func(key string, i fs.FileInfo) bool {
		if strings.HasSuffix(key, suffix) || key == lockName || key <= after {
			return true
		}
		if more = len(list) == most; !more {
			list = append(list, object.Info{Key: key, Size: i.Size(), Modified: i.ModTime()})
		}
		return !more
	})
	return list, more, err
}

// maxDepth bounds the directories inside each other.
const maxDepth = 100

// walk visits the files below dir whose keys begin with prefix, in the order of their keys, until visit returns false.
// It leaves out directories all of whose keys come before after.
func (b *Backend) walk(ctx context.Context, dir, prefix, after string, visit func(string, fs.FileInfo) bool) error {
	_, err := b.walkDir(ctx, dir, prefix, after, visit)
	return err
}

func (b *Backend) walkDir(ctx context.Context, dir, prefix, after string, visit func(string, fs.FileInfo) bool) (bool,
	error) {
	if strings.Count(dir, "/") > maxDepth {
		return true, nil
	}
	entries, err := b.fs.ReadDir(b.file(dir))
	if errors.Is(err, fs.ErrNotExist) && dir != "" && !b.gone() {
		return true, nil
	} else if err != nil {
		return false, b.explain(err)
	}
	full := func(e fs.DirEntry) string {
		if e.IsDir() {
			return dir + e.Name() + "/"
		}
		return dir + e.Name()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(full(a), full(b)) })
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		key := full(e)
		if e.IsDir() {
			if !strings.HasPrefix(key, prefix) && !strings.HasPrefix(prefix, key) ||
				key < after && !strings.HasPrefix(after, key) {
				continue
			}
			if on, err := b.walkDir(ctx, key, prefix, after, visit); !on || err != nil {
				return on, err
			}
			continue
		}
		if !e.Type().IsRegular() || !strings.HasPrefix(key, prefix) {
			continue
		}
		i, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile
			continue
		} else if err != nil {
			return false, b.explain(err)
		}
		if !visit(key, i) {
			return false, nil
		}
	}
	return true, nil
}

// Delete implements object.Backend.
func (b *Backend) Delete(_ context.Context, key string) error {
	err := b.fs.Remove(b.file(key))
	if errors.Is(err, fs.ErrNotExist) && !b.gone() {
		return nil
	}
	if err == nil {
		err = b.fs.SyncDir(filepath.Dir(b.file(key)))
	}
	return b.explain(err)
}

var _ interface {
	object.Backend
	object.Whole
} = (*Backend)(nil)
