package tables

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// The tables of segments are below the crawl directory, beside crawl-data, as Common Crawl has them. Its table of the
// index has its own place there, and the others are next to it.
const (
	// SegmentTables is the folder of all tables of segments.
	SegmentTables = "cc-index"
	// IndexPath is the folder of the table of the index.
	IndexPath   = indexPath
	segmentBase = "cc-index/table/orbweaver"
	unfinished  = "unfinished"
)

// segmentGroupBytes is the size of the values of a row group. It is small, because a crawl runs beside it.
const segmentGroupBytes = 8 << 20

// SegmentConfig says which tables WriteSegment writes. All fields but FS are required.
type SegmentConfig struct {
	FS disk.FS
	// Root is the crawl directory, Folder the folder of the segment with its index and its lines of logs.
	Root, Folder   string
	Crawl, Segment string
	Logs           bool        // the tables of the logs, too, and not that of the index alone
	Pace           *clock.Pace // nil: no rest
}

// A SegmentFile is a file of a table that has rows of one segment.
type SegmentFile struct {
	Name string // below Root, with slashes
	Rows int64
}

// WriteSegment writes the tables of a segment. Each file has the name of the segment in its own, and is whole or
// absent. Files of this segment that were there before are replaced or removed. left has the lines that are no rows.
func WriteSegment(ctx context.Context, cfg SegmentConfig) (files []SegmentFile, left []LeftOut, err error) {
	fsys := cmp.Or(cfg.FS, disk.OS)
	base := filepath.Join(cfg.Root, SegmentTables, unfinished)
	work := filepath.Join(base, cfg.Segment)
	defer func() {
		err = errors.Join(err, fsys.RemoveAll(work))
		_ = fsys.Remove(base) // if no other segment is there
	}()
	w := &writer{fs: fsys, faults: map[string]*LeftOut{}, work: &disk.Work{Dir: work}}
	w.cfg = Config{FS: fsys, Out: work, Crawl: cfg.Crawl, FileBytes: defaultFileBytes, GroupBytes: segmentGroupBytes,
		Progress: silent{}, segment: cfg.Segment, rowsOf: map[string]int64{}, pace: cfg.Pace,
		Dirs: []Dir{{Place: warc.Place{Dir: cfg.Folder}, Segment: cfg.Segment}}}
	if err := RemoveSegment(fsys, cfg.Root, cfg.Crawl, cfg.Segment); err != nil {
		return nil, nil, err
	}
	if err := fsys.MkdirAll(work, 0o755); err != nil {
		return nil, nil, err
	}
	if err := w.index(ctx); err != nil {
		return nil, nil, err
	}
	if cfg.Logs {
		if err := w.others(ctx); err != nil {
			return nil, nil, err
		}
	}
	for _, table := range append(slices.Clone(otherPaths), indexPath) {
		more, err := w.installSegment(cfg.Root, table)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, more...)
	}
	for _, l := range w.faults {
		left = append(left, *l)
	}
	slices.SortFunc(left, func(a, b LeftOut) int { return strings.Compare(a.Reason, b.Reason) })
	return files, left, nil
}

// segmentTable returns the folder of a table of segments, with slashes.
func segmentTable(table, crawl string) string {
	if table != indexPath {
		table = path.Join(segmentBase, table)
	}
	return path.Join(table, "crawl="+crawl)
}

// folders returns the folders with the files of a table for a crawl, with slashes.
func folders(table, crawl string) (dirs []string) {
	dir := segmentTable(table, crawl)
	if table != indexPath {
		return []string{dir}
	}
	for _, s := range subsets {
		dirs = append(dirs, path.Join(dir, "subset="+s))
	}
	return dirs
}

// SegmentOf returns the segment of a file of a table by its name; ok is false if the name has another form.
func SegmentOf(name string) (segment string, ok bool) {
	base, ok := strings.CutSuffix(path.Base(name), fileSuffix)
	rest, is := strings.CutPrefix(base, "part-")
	_, segment, cut := strings.Cut(rest, "-")
	return segment, ok && is && cut && segment != ""
}

// RemoveSegment removes the files of tables that have the rows of a segment, and unfinished ones.
func RemoveSegment(fsys disk.FS, root, crawl, segment string) error {
	base := filepath.Join(root, SegmentTables, unfinished)
	if err := fsys.RemoveAll(filepath.Join(base, segment)); err != nil {
		return err
	}
	_ = fsys.Remove(base) // if no other segment is there
	for _, table := range append(slices.Clone(otherPaths), indexPath) {
		for _, dir := range folders(table, crawl) {
			dir = filepath.Join(root, filepath.FromSlash(dir))
			entries, err := fsys.ReadDir(dir)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			removed := false
			for _, e := range entries {
				if of, ok := SegmentOf(e.Name()); ok && of == segment {
					err = errors.Join(err, fsys.Remove(filepath.Join(dir, e.Name())))
					removed = true
				}
			}
			if err == nil && removed {
				err = fsys.SyncDir(dir)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// installSegment moves the files of a table to their places.
func (w *writer) installSegment(root, table string) (files []SegmentFile, err error) {
	from := filepath.Join(w.work.Dir, partition(table, w.cfg.Crawl))
	for _, below := range folders(table, w.cfg.Crawl) {
		dir := from
		if table == indexPath {
			dir = filepath.Join(from, path.Base(below))
		}
		entries, err := w.fs.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		to := filepath.Join(root, filepath.FromSlash(below))
		if err := warc.MakeDirs(w.fs, root, to); err != nil {
			return nil, err
		}
		for _, e := range entries {
			if err := w.fs.Rename(filepath.Join(dir, e.Name()), filepath.Join(to, e.Name())); err != nil {
				return nil, err
			}
			files = append(files, SegmentFile{path.Join(below, e.Name()), w.cfg.rowsOf[filepath.Join(dir, e.Name())]})
		}
		if err := w.fs.SyncDir(to); err != nil {
			return nil, err
		}
	}
	return files, nil
}
