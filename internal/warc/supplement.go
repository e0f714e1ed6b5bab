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

// indexes returns the files with the index lines of p.
func (p Place) indexes() []string {
	if p.Extra == "" {
		return []string{indexPath(p.Dir)}
	}
	return []string{indexPath(p.Dir), p.Extra}
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
	names, err := unindexed(fsys, dir, &s)
	if err != nil {
		return s, err
	}
	if _, err := fsys.Stat(indexPath(dir)); len(names) == 0 && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	s.WARCs = len(names)
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
	var unread []part
	meter := meter{report: progress}
	for _, name := range names {
		base, open, _ := archived(name)
		if !open && slices.Contains(have[base], base+cdxjExt) {
			for _, run := range have[base] {
				inputs = append(inputs, filepath.Join(runsDir(dir), run))
			}
			continue
		}
		p := part{name: name}
		if open {
			var number int
			if number, p.from, err = covered(fsys, dir, base); err != nil {
				return s, err
			}
			for n := range number {
				inputs = append(inputs, filepath.Join(runsDir(dir), runName(base, n)))
			}
		}
		unread = append(unread, p)
		if info, err := fsys.Stat(filepath.Join(archiveDir(dir), name)); err == nil {
			meter.total += max(0, info.Size()-p.from)
		}
	}
	for _, p := range unread {
		if err := p.index(fsys, dir, q, &meter, &s); err != nil {
			return s, err
		}
	}
	if err := pushRuns(q, fsys, inputs); err != nil {
		return s, err
	}
	s.Path = filepath.Join(tmp, "supplement")
	return s, disk.WriteStream(fsys, s.Path, func(w io.Writer) error { return writeLines(q, w) })
}

// unindexed returns the names of the WARC files in dir that its index lacks: an index has all lines of a file, or none.
// A damaged file of which nothing can be indexed is only noted.
func unindexed(fsys disk.FS, dir string, s *Supplement) (names []string, err error) {
	entries, err := fsys.ReadDir(archiveDir(dir))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if _, _, ok := archived(e.Name()); !ok {
			continue
		}
		first, err := firstLine(fsys, dir, e.Name())
		if errors.Is(err, fs.ErrNotExist) { // the crawl has finished the file meanwhile, and gave it its final name
			first, err = firstLine(fsys, dir, strings.TrimSuffix(e.Name(), openSuffix))
		}
		if err = s.damaged(e.Name(), err); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		if first == nil {
			continue // nothing to index
		}
		there, err := indexed(fsys, dir, first)
		if err != nil {
			return nil, err
		}
		if !there {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// damaged notes the flaws of a file, unless a kill explains them. It returns other errors.
func (s *Supplement) damaged(name string, err error) error {
	if errors.Is(err, ErrDamaged) && strings.HasSuffix(name, openSuffix) {
		return nil
	}
	return s.Flaws.take(name, err)
}

// firstLine returns the first index line of a WARC file; nil if it has none.
func firstLine(fsys disk.FS, dir, name string) (line []byte, err error) {
	f, err := fsys.OpenFile(filepath.Join(archiveDir(dir), name), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	err = Index(f, strings.TrimSuffix(name, openSuffix), func(l []byte) error {
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

// A part is the rest of a WARC file of which no run tells. A record begins at from.
type part struct {
	name string
	from int64
}

// index adds the lines of the part. The line of its first record may be in a run as well.
func (p part) index(fsys disk.FS, dir string, q *extsort.Queue, m *meter, s *Supplement) error {
	final := strings.TrimSuffix(p.name, openSuffix)
	f, err := OpenWARC(fsys, dir, final)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(p.from, io.SeekStart); err != nil {
		return err
	}
	m.r = f
	return s.damaged(p.name, indexFrom(m, p.from, final, pushTo(q)))
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
