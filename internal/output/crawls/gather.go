package crawls

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/warc"
)

// gathered is the name of the directory that Gather shows.
const gathered = "WARC files of the command line"

// Gather shows WARC files as the archive of a directory of a crawl, which has no index. A file that is not compressed
// gets the name of one that is, and a name that is there already a number. An error is an *fs.PathError.
func (f *FS) Gather(files []string) (dir string, err error) {
	v := &view{fs: f.Mounted, dir: gathered, scanned: true, segments: []folder{}, files: map[string]string{},
		entries: map[string][]fs.DirEntry{}}
	have := map[string]int{} // files by the name that they have when they are finished
	for _, file := range files {
		i, err := f.Stat(file)
		if err == nil && !i.Mode().IsRegular() {
			err = &fs.PathError{Op: "open", Path: file, Err: errors.New("not a regular file")}
		}
		if err != nil {
			return "", err
		}
		stem, open := strings.CutSuffix(filepath.Base(file), ".open")
		stem = strings.TrimSuffix(strings.TrimSuffix(stem, ".gz"), ".warc")
		unique := stem
		for have[unique] > 0 {
			have[stem]++
			unique = fmt.Sprintf("%s~%d", stem, have[stem])
		}
		have[unique]++
		name := unique + ".warc.gz" // also if it is not compressed
		if open {
			name += ".open"
		}
		v.files["archive/"+name] = file
		v.entries["archive"] = append(v.entries["archive"], fs.FileInfoToDirEntry(info{name, 0o444, i.Size()}))
	}
	slices.SortFunc(v.entries["archive"], func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	f.views = append(f.views, v)
	return gathered, nil
}

// Real returns the name of the file that is shown as name.
func (f *FS) Real(name string) string {
	if file, log, err := f.real(name); err == nil && log == nil {
		return file
	}
	return name
}

// WARCs returns the WARC files of a directory of a crawl, or of another folder. If it returns none, there is none.
func (f *FS) WARCs(dir string) (files []string, err error) {
	folder := dir
	if is, err := f.IsCrawlDir(dir); err != nil && !errors.Is(err, fs.ErrPermission) { // ReadDir names dir itself
		return nil, err
	} else if is {
		folder = filepath.Join(dir, "archive")
		if f.viewOf(dir) == nil {
			if files, err = warc.SegmentWARCs(f, dir); err != nil {
				return nil, err
			}
		}
	}
	entries, err := f.ReadDir(folder)
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".open"); strings.HasSuffix(name, ".warc.gz") ||
			strings.HasSuffix(name, ".warc") {
			files = append(files, f.Real(filepath.Join(folder, e.Name())))
		}
	}
	return files, err
}
