package wacz

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/output/captures"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// An Archive reads the captures of crawl directories, and of WACZ files as if they were crawl directories.
type Archive = captures.Archive

// An FS is another file system, in which WACZ files are crawl directories. Add all of them before the first use;
// then it is safe for concurrent use.
type FS struct {
	disk.FS
	files  map[string]*File
	opened []io.Closer
}

// NewFS returns an FS over another one, without a WACZ.
func NewFS(other disk.FS) *FS { return &FS{FS: other, files: map[string]*File{}} }

// Archive returns the archive of places of this file system.
func (f *FS) Archive(places, originals []warc.Place) *Archive {
	return captures.New(f, places, originals)
}

// Is reports whether an argument names a WACZ: by its ending, or as a URL.
func Is(path string) bool {
	return IsURL(path) || strings.EqualFold(filepath.Ext(path), ".wacz")
}

// IsURL reports whether an argument is a URL of a WACZ.
func IsURL(path string) bool {
	return strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://")
}

// Add opens a WACZ, a file or a URL, whose requests end with ctx. It returns the place where it is in f. If it has no
// index, or a damaged one, Add makes one of its WARC files in the directory that tmp returns. The WACZ of a URL must
// have one, which is not checked.
func (f *FS) Add(ctx context.Context, name string, tmp func() (string, error)) (warc.Place, *File, error) {
	p, w, err := f.mount(ctx, name)
	if err != nil {
		return p, nil, err
	}
	if w.indexed && !IsURL(name) {
		if w.Renewed, err = w.damagedIndex(ctx); err != nil {
			return p, nil, err
		}
	}
	if w.Renewed {
		w.dropIndex()
	}
	switch {
	case w.indexed && !w.Renewed:
	case IsURL(name):
		return p, nil, fmt.Errorf("%w: it has no index that can be used, so download it: an index is then made of its "+
			"WARC files", ErrNoWACZ)
	default:
		p.Extra, err = f.makeIndex(p.Dir, w, tmp)
	}
	return p, w, err
}

// IndexOf opens a WACZ as Add does, and returns the name in f of its index. It makes none.
func (f *FS) IndexOf(ctx context.Context, name string) (index string, err error) {
	p, w, err := f.mount(ctx, name)
	if err != nil {
		return "", err
	}
	damaged, err := w.damagedIndex(ctx)
	if err != nil {
		return "", err
	}
	if !w.indexed || damaged {
		return "", fmt.Errorf("%w: its index is missing, damaged or not the only one; unpack the WACZ, and run "+
			"\"orbweaver warc index\" for its WARC files", ErrNoWACZ)
	}
	for _, entry := range []string{"indexes/index.cdx.gz", "indexes/index.cdxj"} {
		if w.entries[entry] != nil {
			index = filepath.Join(p.Dir, filepath.FromSlash(entry))
		}
	}
	return index, nil
}

// mount opens a WACZ, and shows it at a place.
func (f *FS) mount(ctx context.Context, name string) (p warc.Place, w *File, err error) {
	p.Dir = filepath.Clean(WithoutPassword(name))
	in, size, err := f.source(ctx, name)
	if err == nil {
		w, err = Open(in, size)
	}
	if err == nil {
		f.files[p.Dir] = w
	}
	return p, w, err
}

// source opens the bytes of a WACZ.
func (f *FS) source(ctx context.Context, name string) (io.ReaderAt, int64, error) {
	if IsURL(name) {
		r, err := openRemote(ctx, name)
		if err != nil {
			return nil, 0, err
		}
		return r, r.size, nil
	}
	file, err := f.FS.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, 0, err
	}
	f.opened = append(f.opened, file)
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	if err != nil {
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// makeIndex makes the index of a WACZ that has none. Damaged places are left out.
func (f *FS) makeIndex(dir string, w *File, tmp func() (string, error)) (string, error) {
	to, err := tmp()
	if err != nil {
		return "", err
	}
	var warcs []string
	for name := range w.entries {
		if strings.HasPrefix(name, "archive/") {
			warcs = append(warcs, filepath.Join(dir, name))
		}
	}
	slices.Sort(warcs)
	extra := filepath.Join(to, "supplement")
	err = disk.WriteStream(f.FS, extra, func(out io.Writer) error {
		err := warc.SortedIndex(f, warcs, to, out)
		if _, damaged := errors.AsType[*warc.Flaws](err); damaged {
			return nil
		}
		return err
	})
	return extra, err
}

// Close closes the WACZ files.
func (f *FS) Close() error {
	var errs []error
	for _, c := range f.opened {
		errs = append(errs, c.Close())
	}
	f.opened = nil
	return errors.Join(errs...)
}

// find returns the WACZ that has a name, and the name in it. w is nil if none has.
func (f *FS) find(name string) (w *File, rest string) {
	for dir, w := range f.files {
		if rest, ok := strings.CutPrefix(filepath.Clean(name), dir+string(filepath.Separator)); ok {
			return w, filepath.ToSlash(rest)
		}
	}
	return nil, ""
}

// OpenFile opens an entry of a WACZ for reading, or another file.
func (f *FS) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	w, rest := f.find(name)
	if w == nil {
		return f.FS.OpenFile(name, flag, perm)
	}
	e, err := w.entries[rest], error(nil)
	switch {
	case e == nil:
		err = fs.ErrNotExist
	case flag != os.O_RDONLY:
		err = fs.ErrPermission
	default:
		r, size, err := w.open(e)
		if _, far := w.in.(*remote); err == nil && far && strings.HasSuffix(rest, ".idx") && size <= maxFetch {
			_, err = r.ReadAt(make([]byte, size), 0) // one request in place of those of a binary search
		}
		if err == nil {
			return &entry{io.NewSectionReader(r, 0, size), name}, nil
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: err}
}

// OpenRange implements disk.Ranger.
func (f *FS) OpenRange(name string, offset, length int64) (disk.File, error) {
	if w, _ := f.find(name); w != nil {
		return f.OpenFile(name, os.O_RDONLY, 0)
	}
	return disk.OpenRange(f.FS, name, offset, length)
}

// Stat describes an entry of a WACZ, or another file.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	w, rest := f.find(name)
	if w == nil {
		return f.FS.Stat(name)
	}
	if e := w.entries[rest]; e != nil {
		return info{path.Base(rest), int64(e.UncompressedSize64)}, nil
	}
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

// ReadDir lists a directory that is not in a WACZ. The entries of a WACZ are known by its index.
func (f *FS) ReadDir(dir string) ([]fs.DirEntry, error) {
	if w, _ := f.find(dir); w != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: fs.ErrNotExist}
	}
	return f.FS.ReadDir(dir)
}

// An entry is an open entry of a WACZ.
type entry struct {
	*io.SectionReader
	name string
}

// Name returns the name in the FS.
func (e *entry) Name() string { return e.name }

// Stat describes the entry.
func (e *entry) Stat() (fs.FileInfo, error) { return info{filepath.Base(e.name), e.Size()}, nil }

// Close has nothing to close.
func (e *entry) Close() error { return nil }

// Write is refused.
func (e *entry) Write([]byte) (int, error) { return 0, e.refuse("write") }

// Sync is refused.
func (e *entry) Sync() error { return e.refuse("sync") }

// Truncate is refused.
func (e *entry) Truncate(int64) error { return e.refuse("truncate") }

func (e *entry) refuse(op string) error {
	return &fs.PathError{Op: op, Path: e.name, Err: fs.ErrPermission}
}

// info describes an entry.
type info struct {
	name string
	size int64
}

func (i info) Name() string     { return i.name }
func (i info) Size() int64      { return i.size }
func (info) Mode() fs.FileMode  { return 0o444 }
func (info) ModTime() time.Time { return time.Time{} }
func (info) IsDir() bool        { return false }
func (info) Sys() any           { return nil }
