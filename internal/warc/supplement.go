package warc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
)

// A Place is a crawl directory whose archive is read.
type Place struct {
	Dir string
	// Extra is a file with the index lines that the index of Dir lacks (see WriteSupplement). Empty: there is none.
	Extra string
	// Parts are sorted index files in place of that of Dir, such as those of segments. Empty: Dir has its own index.
	Parts []string
	// Merged are index files that have the lines of Parts, in fewer files: a MergedIndex, and what it lacks. They are
	// read in place of Parts unless they are damaged. Empty: there is none.
	Merged []string
	// Live is the Writer of Dir's crawl, which runs in this process. FindLines and Lookup then also know what it has
	// written up to now. Nil: no crawl writes.
	Live *Writer
}

// Places returns crawl directories without extra lines.
func Places(dirs ...string) (places []Place) {
	for _, dir := range dirs {
		places = append(places, Place{Dir: dir})
	}
	return places
}

// Indexes returns the files with the index lines of p. They may be missing. A line may be in both.
func (p Place) Indexes() []string {
	paths := slices.Clone(p.Parts)
	if len(paths) == 0 {
		paths = []string{indexPath(p.Dir)}
	}
	if p.Extra != "" {
		paths = append(paths, p.Extra)
	}
	return paths
}

// A Supplement holds the index lines that the index of a crawl directory lacks, because the crawl was killed or still
// runs, or because another program put WARC files there.
type Supplement struct {
	Path  string // the file with the lines; empty if the index lacks nothing
	WARCs int    // how many WARC files the index lacks
	// Flaws are of WARC files that the index lacks. The lines of their other records are there. A record that is
	// incomplete at the end of an unfinished file is no damage.
	Flaws Flaws
}

// WriteSupplement writes the index lines of all WARC files of the crawl directory dir that its index lacks, finished or
// still being written. It changes nothing in dir. If there is no index, or one that lacks something, it calls tmp for
// the name of an empty directory for the lines and temporary files, which the caller removes. Its memory is bounded. It
// reads the records of which no sorted run tells: progress is called meanwhile with the bytes that were read, and that
// will be read in all. An error of progress ends WriteSupplement. A nil fsys means the machine's filesystem.
func WriteSupplement(fsys disk.FS, dir string, tmp func() (string, error),
	progress func(done, total int64) error) (s Supplement, err error) {
	fsys = cmp.Or(fsys, disk.OS)
	if s, err = writeSupplement(fsys, filepath.Clean(dir), tmp, progress); err != nil {
		return s, fmt.Errorf("index of %s: %w", dir, err)
	}
	return s, nil
}

func writeSupplement(fsys disk.FS, dir string, tmpDir func() (string, error),
	progress func(done, total int64) error) (s Supplement, err error) {
	files, err := unindexed(fsys, dir, &s)
	if err != nil {
		return s, err
	}
	if _, err := fsys.Stat(indexPath(dir)); len(files) == 0 && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	s.WARCs = len(files)
	tmp, err := tmpDir()
	if err != nil {
		return s, err
	}
	have, err := runsByWARC(fsys, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	q := sorting(fsys, tmp)
	defer q.Close() // the caller removes the files
	var inputs []string
	var unread []rest
	meter := meter{report: progress}
	for _, f := range files {
		base := runBase(f.Name)
		if !f.Open && slices.Contains(have[base], base+cdxjExt) {
			for _, run := range have[base] {
				inputs = append(inputs, filepath.Join(runsDir(dir), run))
			}
			continue
		}
		p := rest{file: f}
		if f.Open {
			var number int
			if number, p.from, err = covered(fsys, dir, base); err != nil {
				return s, err
			}
			for n := range number {
				inputs = append(inputs, filepath.Join(runsDir(dir), runName(base, n)))
			}
		}
		unread = append(unread, p)
		if info, err := fsys.Stat(f.Path); err == nil {
			meter.total += max(0, info.Size()-p.from)
		}
	}
	for _, p := range unread {
		if err := p.index(fsys, dir, q, &meter, &s); err != nil {
			return s, err
		}
	}
	if err := pushRuns(q, fsys, inputs, nil); err != nil {
		return s, err
	}
	s.Path = filepath.Join(tmp, "supplement")
	return s, disk.WriteStream(fsys, s.Path, func(w io.Writer) error { return writeLines(q, w) })
}

// unindexed returns the WARC files of dir that its index lacks: an index has all lines of a file, or none.
// A damaged file of which nothing can be indexed is only noted.
func unindexed(fsys disk.FS, dir string, s *Supplement) (lacking []File, err error) {
	files, err := Files(fsys, dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		first, err := firstLine(fsys, f.Path, f.Name)
		if errors.Is(err, fs.ErrNotExist) { // the crawl has finished the file meanwhile, and gave it its final name
			first, err = firstLine(fsys, strings.TrimSuffix(f.Path, openSuffix), f.Name)
		}
		if err = s.damaged(f, err); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(f.Path), err)
		}
		if first == nil {
			continue // nothing to index
		}
		there, err := indexed(fsys, dir, first)
		if err != nil {
			return nil, err
		}
		if !there {
			lacking = append(lacking, f)
		}
	}
	return lacking, nil
}

// damaged notes the flaws of a file, unless a kill explains them. It returns other errors.
func (s *Supplement) damaged(f File, err error) error {
	if errors.Is(err, ErrDamaged) && f.Open {
		return nil
	}
	return s.Flaws.take(filepath.Base(f.Path), err)
}

// firstLine returns the first index line of the WARC file name; nil if it has none.
func firstLine(fsys disk.FS, path, name string) (line []byte, err error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	err = Index(f, name, func(l []byte) error {
		line = bytes.Clone(l)
		return io.EOF
	})
	if err == io.EOF {
		err = nil
	}
	return line, err
}

// indexed reports whether the index of dir has a line.
func indexed(fsys disk.FS, dir string, line []byte) (bool, error) {
	want, err := ParseLine(line)
	if err != nil {
		return false, err
	}
	for l, err := range merged(fsys, []string{indexPath(dir)}, want.SURT+" "+want.Time) {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return false, nil
		case err != nil:
			return false, err
		case l.SURT != want.SURT || l.Time != want.Time:
			return false, nil
		case l.File == want.File && l.Offset == want.Offset:
			return true, nil
		}
	}
	return false, nil
}

// A rest is what follows in a WARC file on the records of its runs. A record begins at from.
type rest struct {
	file File
	from int64
}

// index adds the lines of the rest. The line of its first record may be in a run as well.
func (p rest) index(fsys disk.FS, dir string, q *extsort.Queue, m *meter, s *Supplement) error {
	f, err := OpenWARC(fsys, dir, p.file.Name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(p.from, io.SeekStart); err != nil {
		return err
	}
	m.r = f
	return s.damaged(p.file, indexFrom(m, p.from, p.file.Name, nil, pushTo(q)))
}

// A meter reports how much has been read.
type meter struct {
	r           io.ReadSeeker
	done, total int64
	report      func(done, total int64) error
}

func (m *meter) Read(p []byte) (int, error) {
	if err := m.report(m.done, max(m.done, m.total)); err != nil {
		return 0, err
	}
	n, err := m.r.Read(p)
	m.done += int64(n)
	return n, err
}

// Seek lets a Reader look for records again in what it has passed (Reader.Skip).
func (m *meter) Seek(offset int64, whence int) (int64, error) { return m.r.Seek(offset, whence) }
