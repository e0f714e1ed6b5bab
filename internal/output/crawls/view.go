package crawls

import (
	"bufio"
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

	"github.com/klauspost/compress/gzip"

	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/output/segment"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/zipnum"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A view shows complete segments as the directory of a crawl.
type view struct {
	fs     disk.FS // without views
	dir    string
	crawls []crawl

	mu       sync.Mutex // guards all below
	segments []folder   // nil as long as nobody has asked
	scanned  bool
	files    map[string]string        // what is shown, below dir and with slashes, and where it is
	entries  map[string][]fs.DirEntry // of the folders that are shown
	logs     []string                 // compressed crawl logs, oldest first
}

// A crawl is where the segments of a crawl are.
type crawl struct {
	name string
	// segments is the folder of all segments, or, if only is not empty, that of this segment.
	segments, only string
}

// A folder is a complete segment.
type folder struct{ crawl, name, path string }

// look finds the crawls of a directory, or the segment that it is. The view is nil if there is none.
func look(f *FS, dir string) (*view, error) {
	v := &view{fs: f.Mounted, dir: dir}
	switch is, err := f.holds(dir, warc.CrawlData); {
	case err != nil:
		return nil, err
	case is:
		if err := v.add(filepath.Join(dir, warc.CrawlData), false); err != nil {
			return nil, err
		}
	case filepath.Base(dir) == warc.CrawlData:
		if err := v.add(dir, false); err != nil {
			return nil, err
		}
	default:
		if err := v.inside(f); err != nil {
			return nil, err
		}
	}
	if len(v.crawls) == 0 {
		return nil, nil
	}
	if parts, err := v.indexes(); err != nil || len(parts) == 0 {
		if err == nil {
			err = fmt.Errorf("%s: %w with a complete segment: one that has the file %s", dir, ErrNothing,
				segment.SuccessName)
		}
		return nil, err
	}
	return v, nil
}

// inside finds out whether a directory is that of one crawl, of its segments, or of one segment.
func (v *view) inside(f *FS) error {
	if is, err := f.holds(v.dir, "segments"); is || err != nil {
		v.crawls = append(v.crawls, crawl{filepath.Base(v.dir), filepath.Join(v.dir, "segments"), ""})
		return err
	}
	if filepath.Base(v.dir) == "segments" {
		v.crawls = append(v.crawls, crawl{filepath.Base(filepath.Dir(v.dir)), v.dir, ""})
		return nil
	}
	for _, name := range []string{segment.SuccessName, segment.ManifestName} {
		_, err := f.Mounted.Stat(filepath.Join(v.dir, name))
		if err == nil {
			v.crawls = append(v.crawls, crawl{filepath.Base(filepath.Dir(filepath.Dir(v.dir))), v.dir,
				filepath.Base(v.dir)})
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return v.add(v.dir, true) // a copy of crawl-data with another name
}

// add adds the crawls of a folder crawl-data. With sure, these are the folders that have segments.
func (v *view) add(data string, sure bool) error {
	entries, err := v.fs.ReadDir(data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if !e.IsDir() && e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		name := filepath.Join(data, e.Name())
		if sure {
			name = filepath.Join(name, "segments")
		}
		if info, bad := v.fs.Stat(name); bad == nil && info.IsDir() {
			v.crawls = append(v.crawls, crawl{e.Name(), filepath.Join(data, e.Name(), "segments"), ""})
		}
	}
	return err
}

// complete returns the complete segments, those of each crawl in the order of their beginnings.
func (v *view) complete() ([]folder, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.segments != nil {
		return v.segments, nil
	}
	all := []folder{}
	for _, c := range v.crawls {
		names := []string{c.only}
		if c.only == "" {
			entries, err := v.fs.ReadDir(c.segments)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			names = nil
			for _, e := range entries {
				names = append(names, e.Name())
			}
		}
		for _, name := range names {
			s := folder{c.name, name, filepath.Join(c.segments, name)}
			if c.only != "" {
				s.path = c.segments
			}
			_, err := v.fs.Stat(filepath.Join(s.path, segment.SuccessName))
			if err == nil {
				all = append(all, s)
			} else if info, bad := v.fs.Stat(s.path); !errors.Is(err, fs.ErrNotExist) && (bad != nil || info.IsDir()) {
				return nil, err
			}
		}
	}
	v.segments = all
	return all, nil
}

// indexes returns the index files of the complete segments.
func (v *view) indexes() (paths []string, err error) {
	segments, err := v.complete()
	for _, s := range segments {
		paths = append(paths, filepath.Join(s.path, segment.IndexName))
	}
	return paths, err
}

// merged returns files with the lines of the indexes: the merged index of each crawl, and the indexes of segments that
// it lacks. It returns none if no crawl has a merged index that can be used.
func (v *view) merged() (paths []string, err error) {
	segments, err := v.complete()
	if err != nil {
		return nil, err
	}
	left := map[string]bool{} // the segments that no merged index has, by their paths
	for _, s := range segments {
		left[s.path] = true
	}
	for _, c := range v.crawls {
		if c.only != "" || c.segments == v.dir { // the merged index is outside
			continue
		}
		name := filepath.Join(filepath.Dir(c.segments), warc.MergedIndex)
		m, err := warc.ReadMerged(v.fs, name)
		if errors.Is(err, zipnum.ErrDamaged) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		gone := func(segment string) bool { return !left[filepath.Join(c.segments, segment)] }
		if slices.ContainsFunc(m.Segments, gone) { // its lines would name files that are not there
			continue
		}
		paths = append(paths, name)
		for _, segment := range m.Segments {
			delete(left, filepath.Join(c.segments, segment))
		}
	}
	if len(paths) == 0 {
		return nil, nil
	}
	for _, s := range segments {
		if left[s.path] {
			paths = append(paths, filepath.Join(s.path, segment.IndexName))
		}
	}
	return paths, nil
}

// inSegment returns where a file of a segment is, by its path from the crawl directory. name is where it is if the view
// is that of a whole tree.
func (v *view) inSegment(rest, name string) string {
	parts := strings.SplitN(rest, "/", 5)
	for _, c := range v.crawls {
		switch {
		case len(parts) < 5 || parts[2] != "segments" || c.only != "" && parts[3] != c.only:
		case c.only != "": // a copied segment no longer knows its crawl
			return filepath.Join(c.segments, filepath.FromSlash(parts[4]))
		case parts[1] == c.name || len(v.crawls) == 1:
			return filepath.Join(c.segments, parts[3], filepath.FromSlash(parts[4]))
		}
	}
	return name
}

// scan finds the files of all segments.
func (v *view) scan() error {
	segments, err := v.complete()
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.scanned {
		return nil
	}
	files, entries, logs := map[string]string{}, map[string][]fs.DirEntry{}, []string(nil)
	show := func(from, as string, wanted func(name string) bool) error {
		list, err := v.fs.ReadDir(from)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		for _, e := range list {
			shown := path.Join(as, e.Name())
			if wanted(e.Name()) && !e.IsDir() && files[shown] == "" {
				files[shown] = filepath.Join(from, e.Name())
				entries[as] = append(entries[as], e)
			}
		}
		return err
	}
	for _, s := range segments {
		for _, part := range warc.Folders {
			if err := show(filepath.Join(s.path, part), "archive", isWARC); err != nil {
				return err
			}
		}
		if err := show(filepath.Join(s.path, linklog.Folder), linklog.Folder, isLinkLog); err != nil {
			return err
		}
		log := path.Join("logs", s.crawl, s.name)
		if err := show(filepath.Join(s.path, "logs"), log, isCrawlLog); err != nil {
			return err
		}
		if log := files[log+"/crawl.log.gz"]; log != "" {
			logs = append(logs, log)
		}
	}
	if len(logs) > 0 {
		entries["logs"] = []fs.DirEntry{fs.FileInfoToDirEntry(info{"crawl.log", 0o444, -1})}
	}
	for _, list := range entries {
		slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	}
	v.files, v.entries, v.logs, v.scanned = files, entries, logs, true
	return nil
}

func isWARC(name string) bool     { return strings.HasSuffix(name, ".warc.gz") }
func isLinkLog(name string) bool  { return strings.HasSuffix(name, ".jsonl.gz") }
func isCrawlLog(name string) bool { return name == "crawl.log.gz" }

// info describes a file or a folder of a view. Its size is -1 if it is not known.
type info struct {
	name string
	mode fs.FileMode
	size int64
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }

// A logFile has the lines of several compressed files, one after the other.
type logFile struct {
	fs   disk.FS
	name string
	left []string
	at   string    // the file that is read
	file disk.File // nil: none
	gz   *gzip.Reader
}

// Name returns the name in the FS.
func (l *logFile) Name() string { return l.name }

// Stat describes the file. Its size is not known.
func (l *logFile) Stat() (fs.FileInfo, error) { return info{path.Base(l.name), 0o444, -1}, nil }

// Read reads on.
func (l *logFile) Read(p []byte) (n int, err error) {
	for n == 0 && err == nil && len(p) > 0 {
		if l.file == nil {
			if len(l.left) == 0 {
				return 0, io.EOF
			}
			l.at, l.left = l.left[0], l.left[1:]
			if l.file, err = l.fs.OpenFile(l.at, os.O_RDONLY, 0); err != nil {
				return 0, err
			}
			if l.gz, err = gzip.NewReader(bufio.NewReaderSize(l.file, 256<<10)); err != nil {
				return 0, refuse("unpack", l.at, err)
			}
		}
		n, err = l.gz.Read(p)
		switch {
		case err == io.EOF:
			err = l.Close()
		case err != nil:
			if _, disk := errors.AsType[*fs.PathError](err); !disk {
				err = refuse("unpack", l.at, err)
			}
		}
	}
	return n, err
}

// Close closes the file that is read.
func (l *logFile) Close() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// ReadAt is refused, as all that follow are.
func (l *logFile) ReadAt([]byte, int64) (int, error) { return 0, refuse("read", l.name, errSequence) }
func (l *logFile) Seek(int64, int) (int64, error)    { return 0, refuse("seek", l.name, errSequence) }
func (l *logFile) Write([]byte) (int, error)         { return 0, refuse("write", l.name, errSequence) }
func (l *logFile) Sync() error                       { return refuse("sync", l.name, errSequence) }
func (l *logFile) Truncate(int64) error              { return refuse("truncate", l.name, errSequence) }
