package crawls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/output/moved"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/remote"
	"github.com/orbweaver/orbweaver/internal/store/stores"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A Stores opens the store of a URL. It asks the store nothing.
type Stores interface {
	OpenStore(url string) (remote.Store, error)
}

// Opener is the Stores of a user. Its URL does not count. A request that fails for the moment is made some times.
type Opener stores.Place

// OpenStore implements Stores.
func (o Opener) OpenStore(url string) (remote.Store, error) {
	o.URL = url
	return stores.Open(disk.OS, stores.Place(o), object.Config{Tries: 6})
}

// An FS is a file system in which stores are folders, and complete segments are directories of a crawl. Call Dir for
// all arguments before the first use by several goroutines.
type FS struct {
	*remote.Mounted
	ctx    context.Context // ends the requests to stores
	opener Stores
	views  []*view
}

// New returns an FS over another one, which is mostly that of the machine. Requests to stores end with ctx. With an
// Opener, files that a crawl has removed because its store has them are read in that store.
func New(ctx context.Context, other disk.FS, o Stores) *FS {
	if user, ok := o.(Opener); ok {
		other = moved.New(ctx, other, moved.Config{Place: stores.Place(user), Memory: 64 << 20, Wait: 2 * time.Minute})
	}
	return &FS{Mounted: remote.NewMounted(other), ctx: ctx, opener: o}
}

// ErrNothing means that a store or a folder has no crawl.
var ErrNothing = errors.New("there is no crawl")

// IsStore reports whether an argument is the URL of a store.
func IsStore(arg string) bool {
	return strings.HasPrefix(arg, "s3://") || strings.HasPrefix(arg, "file://")
}

// endings are those of files that are no crawl.
var endings = []string{".warc", ".warc.gz", ".open", ".wacz", ".cdx", ".cdxj", ".cdx.gz", ".cdxj.gz"}

func isFile(name string) bool {
	return slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(strings.ToLower(name), e) })
}

// Dir returns the directory in f that an argument names. An argument that names no crawl is returned as it is, unless
// it is in a store: then the error wraps ErrNothing. So it does if the argument is a folder of segments of which none
// is complete.
func (f *FS) Dir(arg string) (dir string, err error) {
	far := IsStore(arg)
	if far {
		if dir, err = f.mount(arg); err != nil {
			return "", err
		}
	} else {
		dir = arg
	}
	if isFile(dir) || f.viewOf(dir) != nil {
		return dir, nil
	}
	if is, err := f.holds(dir, "archive"); is || err != nil && !far {
		return dir, nil // the command says what is wrong with it
	} else if err != nil {
		return "", err
	}
	v, err := look(f, filepath.Clean(dir))
	switch {
	case err != nil && !far && !errors.Is(err, ErrNothing):
		return dir, nil // the command says what is wrong with it
	case err != nil:
		return "", err
	case v != nil:
		f.views = append(f.views, v)
	case far:
		return "", fmt.Errorf("%s: %w: name a store or a folder that has %s/CRAWL/segments/", arg, ErrNothing,
			warc.CrawlData)
	}
	return dir, nil
}

// Locate returns the names of arguments in f. It shows stores, and nothing as the directory of a crawl.
func (f *FS) Locate(args []string) (names []string, err error) {
	for _, arg := range args {
		if IsStore(arg) {
			if arg, err = f.mount(arg); err != nil {
				return nil, err
			}
		}
		names = append(names, arg)
	}
	return names, nil
}

// mount shows the store of a URL, and returns the name of what the URL names in it.
func (f *FS) mount(arg string) (dir string, err error) {
	u, err := url.Parse(arg)
	if err != nil {
		return "", fmt.Errorf("%q names no store: give s3://bucket/prefix or file:///directory", arg)
	}
	if u.Scheme == "file" {
		if u.Host != "" || u.User != nil || u.RawQuery != "" || !strings.HasPrefix(u.Path, "/") {
			return "", fmt.Errorf("%q: give an absolute path, such as file:///mnt/archive", u.Redacted())
		}
		return filepath.Clean(filepath.FromSlash(u.Path)), nil
	}
	below := path.Clean("/" + u.Path)
	u.Path, u.RawPath = "", ""
	root := filepath.Clean(u.Scheme + ":/" + u.Host)
	if f.Store(root) == nil {
		s, err := f.opener.OpenStore(u.String())
		if err != nil {
			return "", err
		}
		f.Add(remote.New(f.ctx, s, root, remote.Config{}))
	}
	return filepath.Join(root, filepath.FromSlash(below)), nil
}

// holds reports whether a directory has a folder.
func (f *FS) holds(dir, name string) (bool, error) {
	info, err := f.Mounted.Stat(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}

// IsCrawlDir reports whether a directory is one of a crawl, or is shown as one.
func (f *FS) IsCrawlDir(dir string) (bool, error) {
	if f.viewOf(dir) != nil {
		return true, nil
	}
	return f.holds(dir, "archive")
}

// Name returns the name of a file for people: the URL of what is in a store.
func Name(name string) string {
	if rest, ok := strings.CutPrefix(filepath.ToSlash(name), "s3:/"); ok && !strings.HasPrefix(rest, "/") {
		return "s3://" + rest
	}
	return name
}

// Shown reports whether a directory is shown as one of a crawl, and is none: nothing is written there, and no crawl
// runs there.
func (f *FS) Shown(dir string) bool { return f.viewOf(dir) != nil || f.Store(dir) != nil }

// Place returns where the index lines of a directory of a crawl are.
func (f *FS) Place(dir string) (p warc.Place, err error) {
	p.Dir = dir
	if v := f.viewOf(dir); v != nil {
		if p.Parts, err = v.indexes(); err == nil {
			p.Merged, err = v.merged()
		}
	}
	return p, err
}

// viewOf returns the view of a directory, or nil.
func (f *FS) viewOf(dir string) *view {
	dir = filepath.Clean(dir)
	for _, v := range f.views {
		if v.dir == dir {
			return v
		}
	}
	return nil
}

// in returns the view that has a file, and the name below its directory, with slashes.
func (f *FS) in(name string) (v *view, rest string) {
	name = filepath.Clean(name)
	for _, v := range f.views {
		if rest, ok := strings.CutPrefix(name, strings.TrimSuffix(v.dir, "/")+string(filepath.Separator)); ok {
			return v, filepath.ToSlash(rest)
		}
	}
	return nil, ""
}

// real returns the name of a file without the views. log is the view whose crawl log it is, or nil.
func (f *FS) real(name string) (file string, log *view, err error) {
	v, rest := f.in(name)
	if v == nil {
		return name, nil, nil
	}
	switch first, _, _ := strings.Cut(rest, "/"); first {
	case "archive", linklog.Folder:
		if err := v.scan(); err != nil {
			return "", nil, err
		}
		if file := v.files[rest]; file != "" {
			return file, nil, nil
		}
	case warc.CrawlData:
		return v.inSegment(rest, name), nil, nil
	case "logs":
		if rest == "logs/crawl.log" {
			return "", v, v.scan()
		}
	}
	return name, nil, nil
}

// OpenFile opens a file.
func (f *FS) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	file, log, err := f.real(name)
	switch {
	case err != nil:
		return nil, err
	case log != nil && flag != os.O_RDONLY:
		return nil, &fs.PathError{Op: "open", Path: name, Err: remote.ErrReadOnly}
	case log != nil && len(log.logs) == 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case log != nil:
		return &logFile{fs: f.Mounted, name: name, left: log.logs}, nil
	}
	return f.Mounted.OpenFile(file, flag, perm)
}

// OpenRange implements disk.Ranger.
func (f *FS) OpenRange(name string, offset, length int64) (disk.File, error) {
	file, log, err := f.real(name)
	if err != nil || log != nil {
		return nil, cmp.Or(err, error(&fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}))
	}
	return f.Mounted.OpenRange(file, offset, length)
}

// Stat describes a file.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	v, rest := f.in(name)
	if v != nil && slices.Contains([]string{"archive", linklog.Folder, "logs"}, rest) {
		if err := v.scan(); err != nil {
			return nil, err
		}
		if len(v.entries[rest]) > 0 || rest == "archive" {
			return info{rest, fs.ModeDir | 0o555, 0}, nil
		}
	}
	file, log, err := f.real(name)
	switch {
	case err != nil:
		return nil, err
	case log != nil && len(log.logs) == 0:
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	case log != nil:
		return info{"crawl.log", 0o444, -1}, nil
	}
	return f.Mounted.Stat(file)
}

// ReadDir lists a folder.
func (f *FS) ReadDir(dir string) ([]fs.DirEntry, error) {
	v, rest := f.in(dir)
	if v != nil && rest == warc.CrawlData { // its files are shown in archive
		return nil, &fs.PathError{Op: "open", Path: dir, Err: fs.ErrNotExist}
	}
	if v != nil && slices.Contains([]string{"archive", linklog.Folder, "logs"}, rest) {
		if err := v.scan(); err != nil {
			return nil, err
		}
		if len(v.entries[rest]) > 0 || rest == "archive" {
			return v.entries[rest], nil
		}
	}
	return f.Mounted.ReadDir(dir)
}

var errSequence = errors.New("the file is read from its beginning to its end")

// refuse is the error of what a file of a view cannot do.
func refuse(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

var _ interface {
	disk.FS
	disk.Ranger
} = (*FS)(nil)
