package segment

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/lines"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A Folder is the folder of a segment.
type Folder struct {
	Path string
	// Root is the crawl directory, or a copy of it that has the segment at the same place; "" if there is none.
	Root string
}

// Manifest returns the path of the manifest.
func (f Folder) Manifest() string { return filepath.Join(f.Path, ManifestName) }

// Find returns the folders of segments that dir holds: dir is a crawl directory, its folder crawl-data or a copy of it,
// the folder of a crawl there, or that of a segment. Segments of a crawl directory that have no _SUCCESS are left out:
// a crawl may be writing them. named reports that dir is one of the others.
func Find(fsys disk.FS, dir string) (found []Folder, named bool, err error) {
	has := func(name string) bool {
		_, err := fsys.Stat(filepath.Join(dir, name))
		return err == nil
	}
	var crawls []string // folders that have a folder "segments"
	switch {
	case has(ManifestName) || has(SuccessName):
		return []Folder{{dir, rootOf(dir)}}, true, nil
	case has(warc.CrawlData):
		crawls, err = below(fsys, filepath.Join(dir, warc.CrawlData))
	case has("segments"):
		crawls, named = []string{dir}, true
	default:
		crawls, _ = below(fsys, dir) // what reads the directory next tells the error
		crawls = slices.DeleteFunc(crawls, func(c string) bool {
			_, err := fsys.Stat(filepath.Join(c, "segments"))
			return err != nil
		})
		named = len(crawls) > 0
	}
	for _, c := range crawls {
		segments, bad := below(fsys, filepath.Join(c, "segments"))
		err = errors.Join(err, bad)
		for _, s := range segments {
			if committed(fsys, s) {
				found = append(found, Folder{s, rootOf(s)})
			}
		}
	}
	return found, named, err
}

// Arguments are what a user has named, sorted by what it is.
type Arguments struct {
	Folders []Folder
	WARCs   []string // of folders of segments that are not in a crawl directory that was named
	Others  []string // all but what is a folder of segments alone
}

// Among finds the segments in the files and directories that a user names.
func Among(fsys disk.FS, names []string) (a Arguments, err error) {
	for _, name := range names {
		if info, err := fsys.Stat(name); err != nil || !info.IsDir() {
			a.Others = append(a.Others, name)
			continue
		}
		found, named, err := Find(fsys, name)
		if err != nil {
			return a, err
		}
		a.Folders = append(a.Folders, found...)
		if !named {
			a.Others = append(a.Others, name)
			continue
		}
		files, err := warcsOf(fsys, found)
		if err != nil {
			return a, err
		}
		a.WARCs = append(a.WARCs, files...)
	}
	return a, nil
}

// below returns the folders in a folder.
func below(fsys disk.FS, dir string) (dirs []string, err error) {
	entries, err := fsys.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() || e.Type()&fs.ModeSymlink != 0 {
			dirs = append(dirs, filepath.Join(dir, e.Name()))
		}
	}
	return dirs, err
}

// rootOf returns the directory that has crawl-data/CRAWL/segments/SEGMENT; "" if the path of a segment has another
// form.
func rootOf(folder string) string {
	root, ok := warc.CrawlDir(filepath.Join(folder, warc.Folders[0], "x"))
	if !ok {
		return ""
	}
	return root
}

// warcsOf returns the paths of the WARC files of the folders.
func warcsOf(fsys disk.FS, folders []Folder) (paths []string, err error) {
	for _, f := range folders {
		files, err := warc.SegmentFiles(fsys, f.Path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			paths = append(paths, file.Path)
		}
	}
	return paths, nil
}

// Verify checks a segment against its manifest: that it is complete, and that each file has its size, its digest, its
// records with their times, and its lines. The index must be sorted, and have the records of the WARC files and no
// others. The folder may be of a stranger: no name leads out of it, and the memory is bounded. An error means that
// the disk failed.
func Verify(fsys disk.FS, folder Folder) (*warc.Report, error) {
	v := &verifier{fs: fsys, Folder: folder, rep: &warc.Report{Types: map[string]int64{}}, seed: maphash.MakeSeed(),
		known: map[string]bool{ManifestName: true, SuccessName: true, StoredName: true}}
	return v.rep, v.verify()
}

// Unread adds the error of a file that could not be read to its report, which may be nil: other files can be read. It
// returns err if reading was stopped, or if the store may answer later.
func Unread(rep *warc.Report, err error) (*warc.Report, error) {
	if err == nil || errors.Is(err, context.Canceled) || object.Temporary(err) {
		return rep, err
	}
	if rep == nil {
		rep = &warc.Report{Types: map[string]int64{}}
	}
	rep.Add(warc.Problem{Offset: warc.NoOffset, Text: "the file cannot be read: " + err.Error()})
	return rep, nil
}

// A verifier is the work of one Verify.
type verifier struct {
	Folder
	fs    disk.FS
	rep   *warc.Report
	seed  maphash.Seed
	known map[string]bool // names that the folder may have
	// found and listed are of the lines that the WARC files should have, and of those of the index.
	found, listed lineSum
}

// A lineSum tells sets of lines apart.
type lineSum struct{ lines, sum, square uint64 }

func (s *lineSum) add(seed maphash.Seed, line []byte) {
	h := maphash.Bytes(seed, line)
	s.lines, s.sum, s.square = s.lines+1, s.sum+h, s.square+h*h
}

// wrong adds an error of the segment.
func (v *verifier) wrong(format string, args ...any) {
	v.rep.Add(warc.Problem{Offset: warc.NoOffset, Text: fmt.Sprintf(format, args...)})
}

func (v *verifier) verify() error {
	if !committed(v.fs, v.Path) {
		v.wrong("the segment is not complete: it has no %s", SuccessName)
	}
	m, err := ReadManifest(v.fs, v.Path)
	if errors.Is(err, warc.ErrDamaged) {
		v.wrong("%s", strings.TrimPrefix(err.Error(), v.Manifest()+": "))
		return nil
	}
	if err != nil {
		return err
	}
	if name := filepath.Base(v.Path); m.Segment != name {
		v.wrong("the manifest is of the segment %.80q, and the folder is %.80q", m.Segment, name)
	}
	var sum Manifest
	for i := range m.Files {
		f := &m.Files[i]
		if v.known[f.Name] {
			v.wrong("the manifest names %.80q twice", f.Name)
			continue
		}
		v.known[f.Name] = true
		if err := v.file(f); err != nil {
			return err
		}
		sum.Bytes, sum.Records = plus(sum.Bytes, f.Bytes), plus(sum.Records, f.Records)
		sum.First, sum.Last = span(sum.First, sum.Last, f.First, f.Last)
	}
	for _, t := range m.Tables {
		sum.Bytes = plus(sum.Bytes, t.Bytes)
		if v.Root == "" {
			continue
		}
		if _, err := v.sum(v.Root, t.Name, t.Bytes, t.SHA256); err != nil {
			return err
		}
	}
	if !v.known[IndexName] {
		v.wrong("the manifest names no %s", IndexName)
	}
	if sum.Bytes != m.Bytes || sum.Records != m.Records || sum.First != m.First || sum.Last != m.Last {
		v.wrong("the manifest has %d bytes and %d records from %q to %q; its files have %d and %d from %q to %q",
			m.Bytes, m.Records, m.First, m.Last, sum.Bytes, sum.Records, sum.First, sum.Last)
	}
	if v.found != v.listed {
		v.wrong("%s does not have the lines of the records: it has %d, the WARC files have %d", IndexName,
			v.listed.lines, v.found.lines)
	}
	v.rep.Records = int64(v.found.lines)
	return v.others("")
}

// plus adds two numbers of a manifest, which may be absurd.
func plus(a, b int64) int64 {
	if b < 0 || a > math.MaxInt64-b {
		return -1
	}
	return a + b
}

// file checks a file of the manifest.
func (v *verifier) file(f *File) error {
	there, err := v.sum(v.Path, f.Name, f.Bytes, f.SHA256)
	if err != nil || !there {
		return err
	}
	in, err := v.fs.OpenFile(filepath.Join(v.Path, filepath.FromSlash(f.Name)), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	switch dir := path.Dir(f.Name); {
	case f.Name == IndexName:
		return v.index(in)
	case slices.Contains(warc.Folders[:], dir):
		return v.records(in, f)
	case dir == LogsFolder || dir == LinksFolder:
		return v.lines(in, f)
	}
	return nil
}

// sum checks the size and the digest of a file. there reports that the file can be read.
func (v *verifier) sum(dir, name string, size int64, digest string) (there bool, err error) {
	info, err := v.fs.Stat(filepath.Join(dir, filepath.FromSlash(name)))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		v.wrong("%.200q is missing", name)
		return false, nil
	case err != nil:
		return false, err
	case !info.Mode().IsRegular():
		v.wrong("%.200q is not a file", name)
		return false, nil
	case info.Size() != size:
		v.wrong("%.200q has %d bytes, the manifest says %d", name, info.Size(), size)
	}
	f, err := v.fs.OpenFile(filepath.Join(dir, filepath.FromSlash(name)), os.O_RDONLY, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return false, err
	}
	v.rep.Bytes += n
	if got := hexOf(h); got != digest {
		v.wrong("%.200q has the SHA-256 %s, the manifest says %.80q", name, got, digest)
	}
	return true, nil
}

// records counts the records of a WARC file.
func (v *verifier) records(in io.Reader, f *File) error {
	var got File
	at := f.Name
	if below, err := filepath.Rel(v.Root, v.Path); v.Root != "" && err == nil {
		at = path.Join(filepath.ToSlash(below), f.Name)
	} else { // the lines begin with crawl-data/CRAWL
		at = ""
	}
	err := warc.Index(in, f.Name, func(line []byte) error {
		l, err := warc.ParseLine(line)
		if err != nil {
			return err
		}
		stamp := stampOf(&l)
		got.Records++
		got.First, got.Last = span(got.First, got.Last, stamp, stamp)
		v.found.add(v.seed, bytes.TrimSuffix(renamed(bytes.TrimSuffix(line, []byte("\n")), f.Name,
			cmp.Or(at, path.Base(f.Name))), []byte("\n")))
		return nil
	})
	if errors.Is(err, warc.ErrDamaged) {
		v.wrong("%.200q is damaged", f.Name)
		err = nil
	}
	if got.Records != f.Records || got.First != f.First || got.Last != f.Last {
		v.wrong("%.200q has %d records from %q to %q, the manifest says %d from %q to %q", f.Name, got.Records,
			got.First, got.Last, f.Records, f.First, f.Last)
	}
	return err
}

// index reads the index.
func (v *verifier) index(in io.Reader) error {
	const longest = 8 << 20
	r := lines.NewReader(in, 256<<10, longest)
	var last []byte
	for n := 1; ; n++ {
		line, err := r.Next()
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, bufio.ErrTooLong) || err == io.ErrUnexpectedEOF:
			v.wrong("%s, line %d: it is longer than %d bytes, or has no end", IndexName, n, longest)
			continue
		case err != nil:
			return err
		}
		if bytes.Compare(line, last) < 0 {
			v.wrong("%s, line %d: it is not in the order of the index", IndexName, n)
		}
		last = append(last[:0], line...)
		if v.Root == "" { // the records are known by the names of their files
			if l, err := warc.ParseLine(line); err == nil {
				line = bytes.TrimSuffix(renamed(line, l.File, path.Base(l.File)), []byte("\n"))
			}
		}
		v.listed.add(v.seed, line)
	}
}

// lines counts the lines of a log.
func (v *verifier) lines(in io.Reader, f *File) error {
	n := int64(0)
	z, err := gzip.NewReader(bufio.NewReader(in))
	buf := make([]byte, 64<<10)
	for err == nil && n <= f.Lines { // a file of a stranger may have any number
		var k int
		k, err = z.Read(buf)
		n += int64(bytes.Count(buf[:k], []byte("\n")))
	}
	if _, is := errors.AsType[*fs.PathError](err); is {
		return err
	}
	if err != nil && err != io.EOF || n != f.Lines {
		v.wrong("%.200q has %d lines, the manifest says %d", f.Name, n, f.Lines)
	}
	return nil
}

// others adds what the folder has and the manifest does not name: an error for a file in a folder of WARC files.
func (v *verifier) others(dir string) error {
	entries, err := v.fs.ReadDir(filepath.Join(v.Path, filepath.FromSlash(dir)))
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir() && dir == "":
			err = errors.Join(err, v.others(name))
		case !v.known[name]:
			v.rep.Add(warc.Problem{Offset: warc.NoOffset, Warning: !slices.Contains(warc.Folders[:], dir),
				Text: fmt.Sprintf("the manifest does not name %.200q", name)})
		}
	}
	return err
}
