package warc

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Remember returns an FS like base that remembers which segments the crawl directories have. OpenRecord and OpenWARC
// then do not list them for each file that an index names without its segment. If a file is in no known segment, they
// list the segments again: the crawl may have begun one, and "warc merge" may have moved the file. The FS is safe for
// concurrent use if base is.
func Remember(base disk.FS) disk.FS {
	if r, ok := base.(*remembering); ok {
		return r
	}
	return &remembering{FS: base, known: map[string]segmentLists{}}
}

type remembering struct {
	disk.FS

	mu    sync.Mutex
	known map[string]segmentLists // by crawl directory; guarded by mu
}

// OpenRange implements disk.Ranger, as far as the base does.
func (r *remembering) OpenRange(name string, offset, length int64) (disk.File, error) {
	return disk.OpenRange(r.FS, name, offset, length)
}

func (r *remembering) segments(dir string) segmentLists {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[dir]
}

func (r *remembering) remember(dir string, s segmentLists) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[dir] = s
}

// segmentLists has the sorted names of the segments of each crawl. It is not changed.
type segmentLists map[string][]string

func listSegments(fsys disk.FS, dir string) (segmentLists, error) {
	crawls, err := Crawls(fsys, dir)
	if err != nil {
		return nil, err
	}
	s := segmentLists{}
	for _, crawl := range crawls {
		if s[crawl], err = SegmentNames(fsys, dir, crawl); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// open opens a WARC file of the segments. If none has it, the error is fs.ErrNotExist.
func (s segmentLists) open(fsys disk.FS, dir, name string) (disk.File, error) {
	for _, crawl := range slices.Sorted(maps.Keys(s)) {
		for _, segment := range likely(s[crawl], name) {
			for _, part := range Folders {
				f, err := openIn(fsys, filepath.Join(SegmentsDir(dir, crawl), segment, part), name)
				if !errors.Is(err, fs.ErrNotExist) {
					return f, err
				}
			}
		}
	}
	return nil, fs.ErrNotExist
}

// openFile opens a WARC file by its final name, finished or not, wherever it is.
func openFile(fsys disk.FS, dir, name string) (disk.File, error) {
	f, absent := openIn(fsys, archiveDir(dir), name)
	if !errors.Is(absent, fs.ErrNotExist) {
		return f, absent
	}
	var known segmentLists
	r, remembers := fsys.(*remembering)
	if remembers {
		known = r.segments(dir)
		if f, err := known.open(fsys, dir, name); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	listed, err := listSegments(fsys, dir)
	if err != nil {
		return nil, err
	}
	if remembers {
		if maps.EqualFunc(listed, known, slices.Equal[[]string]) {
			return nil, absent
		}
		r.remember(dir, listed)
	}
	if f, err = listed.open(fsys, dir, name); errors.Is(err, fs.ErrNotExist) {
		err = absent
	}
	return f, err
}
