package warc

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A Part is a folder of a segment. Common Crawl divides its segments so.
type Part uint8

// The parts of a segment.
const (
	Pages       Part = iota // responses with status 200
	Robots                  // fetches of robots.txt, whatever the server answered
	Diagnostics             // everything else: redirects, errors, revisits
	parts
)

// Folders has the names of the parts, in their order.
var Folders = [parts]string{"warc", "robotstxt", "crawldiagnostics"}

func (p Part) String() string { return Folders[p] }

// Segments divides an archive into segments: crawl-data/CRAWL/segments/SEGMENT/PART, as Common Crawl does. A segment
// ends when one of the bounds is reached; a bound of zero does not count. The zero Segments means that all WARC files
// are in the folder "archive".
type Segments struct {
	// Crawl is the name of the crawl, as in Config.Prefix. Empty: no segments.
	Crawl string
	// Span is the time from the first record of a segment to its end.
	Span time.Duration
	// Bytes is the size of the WARC files of a segment.
	Bytes int64
}

// Pattern returns the folders of the WARC files below the crawl directory dir, with stars, for people; "" without
// segments.
func (s Segments) Pattern(dir string) string {
	if s.Crawl == "" {
		return ""
	}
	return filepath.Join(SegmentsDir(dir, s.Crawl), "*", "*")
}

// A File is a WARC file of a crawl directory.
type File struct {
	Path string // below the directory that was given
	// Name is the file's final name, without a directory. It is unique in a crawl.
	Name string
	// Open means that the file is not finished. Path then ends in ".open".
	Open bool
}

// CrawlData is the folder of all segments, below a crawl directory.
const CrawlData = "crawl-data"

// SegmentsDir returns the folder of the segments of a crawl, below the crawl directory dir.
func SegmentsDir(dir, crawl string) string { return filepath.Join(dir, CrawlData, crawl, "segments") }

// CrawlDir returns the crawl directory to which a WARC file belongs by its path: it is in the folder "archive" or in a
// segment. ok is false if the path is another one.
func CrawlDir(file string) (dir string, ok bool) {
	part := filepath.Dir(file)
	if filepath.Base(part) == "archive" {
		return filepath.Dir(part), true
	}
	segments := filepath.Dir(filepath.Dir(part))
	data := filepath.Dir(filepath.Dir(segments))
	ok = slices.Contains(Folders[:], filepath.Base(part)) && filepath.Base(segments) == "segments" &&
		filepath.Base(data) == CrawlData
	return filepath.Dir(data), ok
}

// InSegment reports whether a name is the path of a WARC file of a segment, from the crawl directory and with slashes.
func InSegment(name string) bool {
	parts := strings.Split(name, "/")
	return len(parts) == 6 && parts[0] == CrawlData && parts[2] == "segments" &&
		slices.Contains(Folders[:], parts[4]) && strings.HasSuffix(parts[5], warcSuffix) &&
		filepath.IsLocal(filepath.FromSlash(name)) && path.Clean(name) == name
}

// Crawls returns the names of the crawls that have segments in the crawl directory dir.
func Crawls(fsys disk.FS, dir string) ([]string, error) {
	return subfolders(fsys, filepath.Join(dir, CrawlData))
}

// Folder returns the folder with the archive of the crawl directory dir, for people: that of its only crawl with
// segments, or else "archive". A nil fsys means the machine's filesystem.
func Folder(fsys disk.FS, dir string) string {
	if names, err := Crawls(cmp.Or(fsys, disk.OS), dir); err == nil && len(names) == 1 {
		return filepath.Join(dir, CrawlData, names[0])
	}
	return archiveDir(dir)
}

// Files returns the WARC files of the crawl directory dir, sorted by name: those of the folder "archive" and of
// segments. If there is no folder "archive", the error wraps fs.ErrNotExist. A nil fsys means the machine's filesystem.
func Files(fsys disk.FS, dir string) (files []File, err error) {
	fsys = cmp.Or(fsys, disk.OS)
	if files, err = filesIn(fsys, archiveDir(dir)); err != nil {
		return nil, err
	}
	segments, err := segmentDirs(fsys, dir)
	if err != nil {
		return nil, err
	}
	for _, s := range segments {
		more, err := SegmentFiles(fsys, s)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	slices.SortStableFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	// While segments are merged, or after a kill then, a file may be in two of them.
	return slices.CompactFunc(files, func(a, b File) bool { return a.Name == b.Name && !a.Open && !b.Open }), nil
}

// SegmentWARCs returns the paths of the WARC files that the crawl directory dir has in segments.
func SegmentWARCs(fsys disk.FS, dir string) (paths []string, err error) {
	segments, err := segmentDirs(fsys, dir)
	for _, s := range segments {
		files, bad := SegmentFiles(fsys, s)
		for _, f := range files {
			paths = append(paths, f.Path)
		}
		err = errors.Join(err, bad)
	}
	return paths, err
}

// SegmentFiles returns the WARC files of the folder of a segment, by part.
func SegmentFiles(fsys disk.FS, segment string) (files []File, err error) {
	for _, part := range Folders {
		more, err := filesIn(fsys, filepath.Join(segment, part))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		files = append(files, more...)
	}
	return files, nil
}

func filesIn(fsys disk.FS, folder string) (files []File, err error) {
	entries, err := fsys.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if base, open, ok := archived(e.Name()); ok {
			files = append(files, File{filepath.Join(folder, e.Name()), base + warcSuffix, open})
		}
	}
	return files, nil
}

// segmentDirs returns the folders of all segments of the crawl directory dir, of each crawl in the order of their
// beginnings.
func segmentDirs(fsys disk.FS, dir string) (dirs []string, err error) {
	crawls, err := Crawls(fsys, dir)
	if err != nil {
		return nil, err
	}
	for _, c := range crawls {
		names, err := SegmentNames(fsys, dir, c)
		if err != nil {
			return nil, err
		}
		for _, s := range names {
			dirs = append(dirs, filepath.Join(SegmentsDir(dir, c), s))
		}
	}
	return dirs, nil
}

// SegmentNames returns the names of the segments of a crawl, sorted.
func SegmentNames(fsys disk.FS, dir, crawl string) ([]string, error) {
	return subfolders(fsys, SegmentsDir(dir, crawl))
}

// subfolders returns the names of the folders in a folder; none if it does not exist. It follows symbolic links: a part
// of the archive may have been moved to another disk.
func subfolders(fsys disk.FS, folder string) (names []string, err error) {
	entries, err := fsys.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		is := e.IsDir()
		if e.Type()&fs.ModeSymlink != 0 {
			name := filepath.Join(folder, e.Name())
			info, err := fsys.Stat(name)
			if errors.Is(err, fs.ErrNotExist) { // what is behind it would be left out of the index
				return nil, fmt.Errorf("the symbolic link %s leads nowhere; is a disk not mounted?", name)
			}
			if err != nil {
				return nil, err
			}
			is = info.IsDir()
		}
		if is {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

// likely returns the sorted names of segments by how likely they have the file. A segment is named after its first
// file, so the file is in the last one whose name is not above its own, unless the clock was set back. It takes less
// time than a sort: it is called for each record that is read.
func likely(segments []string, name string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		first := len(segments)
		if m := warcName.FindStringSubmatch(name); m != nil {
			after := m[1] + "-" + m[2] + "." // a character after the hyphen that follows the number
			first, _ = slices.BinarySearch(segments, after)
		}
		for i := first - 1; i >= 0; i-- {
			if !yield(i, segments[i]) {
				return
			}
		}
		for i := first; i < len(segments); i++ {
			if !yield(i, segments[i]) {
				return
			}
		}
	}
}

func openIn(fsys disk.FS, folder, name string) (f disk.File, err error) {
	path := filepath.Join(folder, name)
	for _, p := range []string{path, path + openSuffix, path} { // its crawl may rename it meanwhile
		if f, err = fsys.OpenFile(p, os.O_RDONLY, 0); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return f, err
}

// segmentName names the segment that begins with a file of the given serial number.
func segmentName(stamp string, serial int, agent string) string {
	return fmt.Sprintf("%s-%05d-%s", stamp, serial, agent)
}
