package moved

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
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/output/segment"
	"github.com/orbweaver/orbweaver/internal/output/tables"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/remote"
	"github.com/orbweaver/orbweaver/internal/store/stores"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// Config says how stores are read.
type Config struct {
	// Place has the environment, the options and the backend for all stores. Its URL has no effect: a segment names its
	// store.
	Place stores.Place
	// Memory bounds the blocks of a store that are kept, in bytes. Zero means 16 MiB.
	Memory int64
	// Wait is how long one request may take, with its repetitions. Zero means 20 s.
	Wait time.Duration
}

const (
	maxKnown  = 1024 // segments whose manifests are kept
	maxStores = 8    // stores that are open, each for one crawl directory
)

// An Unavailable means that a file was moved to a store, and cannot be read there now.
type Unavailable struct {
	Name string // of the file, on this machine
	At   string // the URL of the object or of the store
	Err  error
}

func (e *Unavailable) Error() string {
	return fmt.Sprintf("%s was moved to %s and cannot be read there now: %v", e.Name, e.At, e.Err)
}

// unavailable returns an Unavailable. at is the URL of the store.
func unavailable(name, at string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		at, err = p.Path, p.Err
	}
	return &Unavailable{name, at, err}
}

// Unwrap hides that a store has no such object: the file is lost, and was there.
func (e *Unavailable) Unwrap() error {
	if errors.Is(e.Err, fs.ErrNotExist) {
		return nil
	}
	return e.Err
}

// An FS shows the files of segments that were moved to stores. Safe for concurrent use.
type FS struct {
	disk.FS // of this machine
	ctx     context.Context
	cfg     Config

	mu     sync.Mutex                  // guards all below
	known  map[string]map[string]int64 // by the folder of a segment: the sizes of its files and tables
	stores map[storeName]disk.FS
}

type storeName struct{ url, root string }

// New returns an FS over the files of this machine. ctx ends all requests.
func New(ctx context.Context, here disk.FS, c Config) *FS {
	c.Memory, c.Wait = cmp.Or(c.Memory, 16<<20), cmp.Or(c.Wait, 20*time.Second)
	return &FS{FS: here, ctx: ctx, cfg: c, known: map[string]map[string]int64{}, stores: map[storeName]disk.FS{}}
}

// Here returns the file system of this machine: without the files that are in stores.
func Here(fsys disk.FS) disk.FS {
	if f, ok := fsys.(*FS); ok {
		return f.FS
	}
	return fsys
}

// A place is a path in a segment.
type place struct {
	root   string // the crawl directory
	folder string // of the segment
	file   string // below the folder, with slashes; "" is the folder itself
}

// placeOf divides a path. ok is false if it is not in a segment.
func placeOf(name string) (p place, ok bool) {
	name = filepath.Clean(name)
	parts := strings.Split(filepath.ToSlash(name), "/")
	for i := len(parts) - 4; i >= 0; i-- {
		if parts[i] != warc.CrawlData || parts[i+2] != "segments" {
			continue
		}
		p.file = strings.Join(parts[i+4:], "/")
		p.folder = filepath.Clean(strings.TrimSuffix(name, filepath.FromSlash(p.file)))
		p.root = filepath.Clean(filepath.Join(p.folder, "..", "..", "..", ".."))
		return p, true
	}
	return place{}, false
}

// tableOf returns the place of a table of a segment: its folder is that of the segment, and its file the path below the
// crawl directory.
func (f *FS) tableOf(name string) (p place, ok bool) {
	name = filepath.ToSlash(filepath.Clean(name))
	i := strings.LastIndex("/"+name, "/"+tables.SegmentTables+"/")
	if i < 0 {
		return p, false
	}
	p.root, p.file = filepath.Clean(filepath.FromSlash(name[:i])), name[i:]
	segment, ok := tables.SegmentOf(p.file)
	crawls, err := warc.Crawls(f.FS, p.root)
	if !ok || err != nil {
		return p, false
	}
	for _, crawl := range crawls {
		p.folder = filepath.Join(warc.SegmentsDir(p.root, crawl), segment)
		if _, err := f.FS.Stat(p.folder); err == nil {
			return p, true
		}
	}
	return p, false
}

// moved returns the sizes of the files of a segment that is in a store. It is nil if the segment is in none.
func (f *FS) moved(p place) (sizes map[string]int64, err error) {
	if _, err := f.FS.Stat(filepath.Join(p.folder, segment.StoredName)); err != nil {
		return nil, nil // an error of the disk shows itself elsewhere
	}
	f.mu.Lock()
	sizes = f.known[p.folder]
	f.mu.Unlock()
	if sizes != nil {
		return sizes, nil
	}
	m, err := segment.ReadManifest(f.FS, p.folder)
	if err != nil {
		return nil, err
	}
	sizes = map[string]int64{}
	for _, file := range m.Files {
		sizes[file.Name] = file.Bytes
	}
	for _, t := range m.Tables {
		sizes[t.Name] = t.Bytes
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) >= maxKnown {
		clear(f.known)
	}
	f.known[p.folder] = sizes
	return sizes, nil
}

// find returns the place and the size of a file that is missing here. ok is false if no store has it.
func (f *FS) find(name string) (p place, size int64, ok bool, err error) {
	if p, ok = placeOf(name); !ok {
		p, ok = f.tableOf(name)
	}
	if !ok || p.file == "" {
		return p, 0, false, nil
	}
	sizes, err := f.moved(p)
	size, ok = sizes[p.file]
	return p, size, ok, err
}

// store returns the store of a segment, as the files of a crawl directory.
func (f *FS) store(p place) (s disk.FS, url string, err error) {
	if url, err = segment.StoreOf(f.FS, p.folder); err != nil {
		return nil, segment.StoredName, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	name := storeName{url, p.root}
	if s := f.stores[name]; s != nil {
		return s, url, nil
	}
	at := f.cfg.Place
	at.URL = url
	opened, err := stores.Open(f.FS, at, object.Config{})
	if err != nil {
		return nil, url, err
	}
	if len(f.stores) >= maxStores {
		clear(f.stores)
	}
	s = remote.New(f.ctx, opened, p.root, remote.Config{Memory: f.cfg.Memory, Wait: f.cfg.Wait})
	f.stores[name] = s
	return s, url, nil
}

// OpenFile opens a file here or, for reading, in the store to which it was moved.
func (f *FS) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if flag != os.O_RDONLY || !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	return f.open(name, 0, 0, err)
}

// OpenRange implements disk.Ranger.
func (f *FS) OpenRange(name string, offset, length int64) (disk.File, error) {
	file, err := disk.OpenRange(f.FS, name, offset, length)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	return f.open(name, offset, length, err)
}

// open opens a file that is missing here. missing is returned if no store has it.
func (f *FS) open(name string, offset, length int64, missing error) (disk.File, error) {
	p, size, ok, err := f.find(name)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, missing
	}
	s, url, err := f.store(p)
	if err != nil {
		return nil, unavailable(name, url, err)
	}
	file, err := disk.OpenRange(s, name, offset, length) // asks the store nothing
	if err != nil {
		return nil, unavailable(name, url, err)
	}
	return &storedFile{File: file, name: name, url: url, size: size}, nil
}

// Stat describes a file. The size of one that was moved is that of the manifest.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	info, err := f.FS.Stat(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return info, err
	}
	_, size, ok, bad := f.find(name)
	switch {
	case bad != nil:
		return nil, bad
	case !ok:
		return nil, err
	}
	return entry{filepath.Base(name), size}, nil
}

// ReadDir lists a folder, with the files of the segment that were moved from it.
func (f *FS) ReadDir(dir string) ([]fs.DirEntry, error) {
	list, err := f.FS.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return list, err
	}
	p, ok := placeOf(dir)
	if !ok {
		return list, err
	}
	sizes, bad := f.moved(p)
	if bad != nil {
		return nil, bad
	}
	here := map[string]bool{}
	for _, e := range list {
		here[e.Name()] = true
	}
	for name, size := range sizes {
		if folder, file := path.Split(name); strings.TrimSuffix(folder, "/") == p.file && !here[file] {
			list, err = append(list, entry{file, size}), nil
		}
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, err
}

// An entry describes a file that was moved.
type entry struct {
	name string
	size int64
}

func (e entry) Name() string               { return e.name }
func (e entry) Size() int64                { return e.size }
func (e entry) Mode() fs.FileMode          { return 0o444 }
func (e entry) Type() fs.FileMode          { return 0 }
func (e entry) ModTime() time.Time         { return time.Time{} }
func (e entry) IsDir() bool                { return false }
func (e entry) Sys() any                   { return nil }
func (e entry) Info() (fs.FileInfo, error) { return e, nil }

// A storedFile is open in a store. Its size is that of the manifest.
type storedFile struct {
	disk.File
	name, url string
	size      int64
}

func (f *storedFile) Name() string               { return f.name }
func (f *storedFile) Stat() (fs.FileInfo, error) { return entry{filepath.Base(f.name), f.size}, nil }

func (f *storedFile) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekEnd { // without a request
		offset, whence = f.size+offset, io.SeekStart
	}
	return f.File.Seek(offset, whence)
}

func (f *storedFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	return n, f.fault(err)
}

func (f *storedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	return n, f.fault(err)
}

// fault marks an error of the store.
func (f *storedFile) fault(err error) error {
	if err == nil || err == io.EOF || errors.Is(err, fs.ErrClosed) {
		return err
	}
	return unavailable(f.name, f.url, err)
}
