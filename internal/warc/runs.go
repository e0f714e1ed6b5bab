package warc

import (
	"bufio"
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
	"github.com/orbweaver/orbweaver/internal/store/lines"
)

const (
	runBytes  = 4 << 20  // of lines that are held in memory before they are sorted and written
	runSpan   = 64 << 20 // of a WARC file, after which a run ends; Open reads at most so much of an unfinished file
	mergeBuf  = 64 << 10
	lineLimit = 8 << 20 // bytes; a longer line means that the index is damaged
	cdxjExt   = ".cdxj"
)

// A runs collects the index lines of one WARC file after the other and writes them in sorted runs (first phase of an
// external merge sort): NAME.cdxj.0000, NAME.cdxj.0001, …. The last run is NAME.cdxj; it also marks that all runs
// exist. The records of a run are synced before it is written (see covered).
type runs struct {
	fs    disk.FS
	dir   string
	buf   []byte
	count int
	spare chan []byte // holds a buffer for reuse; nil: buffers are not reused
}

// A run is a set of index lines and the file to write them to. An empty name means that there is nothing to write.
type run struct {
	name  string
	lines []byte
}

func runBase(warc string) string { return strings.TrimSuffix(warc, warcSuffix) }

// runName returns the name of the nth run of warc, if it is not the last. Earlier programs wrote numbers of one or two
// digits.
func runName(warc string, n int) string { return fmt.Sprintf("%s%s.%04d", runBase(warc), cdxjExt, n) }

// add collects a line. full means that the caller should take the run with next.
func (r *runs) add(line []byte) (full bool) {
	if r.buf == nil {
		select {
		case r.buf = <-r.spare:
		default:
		}
	}
	r.buf = append(r.buf, line...)
	return len(r.buf) >= runBytes
}

// next takes the collected lines as a run of warc that is not the last.
func (r *runs) next(warc string) run {
	n := run{runName(warc, r.count), r.buf}
	r.buf = nil
	r.count++
	return n
}

// last takes the collected lines as the last run of warc.
func (r *runs) last(warc string) run {
	l := run{runBase(warc) + cdxjExt, r.buf}
	r.buf, r.count = nil, 0
	return l
}

// put collects a line. If the run is full, put writes it.
func (r *runs) put(warc string, line []byte) error {
	if r.add(line) {
		return r.write(r.next(warc))
	}
	return nil
}

// finish writes the last run of warc.
func (r *runs) finish(warc string) error { return r.write(r.last(warc)) }

// write sorts a run and writes its file. It may run while another goroutine calls add.
func (r *runs) write(n run) error {
	err := r.store(n)
	r.recycle(n)
	return err
}

// store is write without recycle.
func (r *runs) store(n run) error {
	if n.name == "" {
		return nil
	}
	sorted := sortLines(n.lines)
	err := disk.WriteStream(r.fs, filepath.Join(r.dir, n.name), func(w io.Writer) error {
		for _, l := range sorted {
			if _, err := w.Write(l); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index %s: %w", n.name, err)
	}
	return nil
}

// recycle gives the memory of a run back, which nothing reads any more.
func (r *runs) recycle(n run) {
	if n.name != "" && cap(n.lines) <= 2*runBytes {
		select {
		case r.spare <- n.lines[:0]:
		default:
		}
	}
}

// discard removes the lines collected so far, and the runs of warc but for the first ones of the given number, after
// which the next run comes.
func (r *runs) discard(warc string, but int) error {
	r.buf, r.count = nil, but
	keep := map[string]bool{}
	for n := range but {
		keep[runName(warc, n)] = true
	}
	entries, err := r.fs.ReadDir(r.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if runOf(e.Name()) == runBase(warc) && !keep[e.Name()] {
			if err := r.fs.Remove(filepath.Join(r.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// runOf returns the name of the WARC file, without its suffix, to which a run belongs; "" if file is not a run.
func runOf(file string) string {
	if base, ok := strings.CutSuffix(file, cdxjExt); ok {
		return base
	}
	i := strings.LastIndex(file, cdxjExt+".")
	if i < 0 || strings.Trim(file[i+len(cdxjExt)+1:], "0123456789") != "" {
		return ""
	}
	return file[:i]
}

func sortLines(buf []byte) [][]byte {
	lines := bytes.SplitAfter(buf, []byte{'\n'})
	lines = lines[:len(lines)-1] // buf ends with a line feed
	slices.SortFunc(lines, compareLines)
	return lines
}

// compareLines compares lines without their line feed: the order of `LC_ALL=C sort`, which pywb's binary search needs.
func compareLines(a, b []byte) int {
	return bytes.Compare(bytes.TrimSuffix(a, []byte{'\n'}), bytes.TrimSuffix(b, []byte{'\n'}))
}

// BuildIndex merges the runs of every WARC file below the crawl directory dir into indexes/index.cdxj. It replaces the
// old index in one step. Its memory does not grow with the index. A WARC file without runs, which another program put
// there, is indexed first, and so are the complete records of a file that a killed crawl has not finished. No crawl may
// run in dir meanwhile. If group and others may not read one of the WARC files, they may not read the index either. A
// nil fsys means the machine's filesystem. If a WARC file without runs is damaged, the index has its other records, and
// the error is Flaws; it comes again with each BuildIndex.
func BuildIndex(fsys disk.FS, dir string) error {
	fsys = cmp.Or(fsys, disk.OS)
	var flaws Flaws
	if err := buildIndex(fsys, filepath.Clean(dir), &flaws); err != nil {
		return fmt.Errorf("index %s: %w", indexPath(dir), err)
	}
	return flaws.err()
}

func buildIndex(fsys disk.FS, dir string, flaws *Flaws) error {
	if err := MakeDirs(fsys, dir, archiveDir(dir), runsDir(dir), filepath.Dir(indexPath(dir))); err != nil {
		return err
	}
	have, err := runsByWARC(fsys, dir)
	if err != nil {
		return err
	}
	warcs, err := Files(fsys, dir)
	if err != nil {
		return err
	}
	for _, f := range warcs {
		if info, err := fsys.Stat(f.Path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 == 0 {
			fsys = disk.Private(fsys)
			break
		}
	}
	var inputs []string
	indexed := false
	for _, f := range warcs {
		if base := runBase(f.Name); f.Open || !slices.Contains(have[base], base+cdxjExt) {
			if err = flaws.take(f.Path, indexWARC(fsys, dir, f)); err != nil {
				return err
			}
			indexed = true
		}
	}
	if indexed {
		if have, err = runsByWARC(fsys, dir); err != nil {
			return err
		}
	}
	for _, f := range warcs {
		for _, run := range have[runBase(f.Name)] {
			inputs = append(inputs, filepath.Join(runsDir(dir), run))
		}
	}
	q := sorting(fsys, runsDir(dir))
	err = pushRuns(q, fsys, inputs, nil)
	if err == nil {
		err = disk.WriteStream(fsys, indexPath(dir), func(w io.Writer) error { return writeLines(q, w) })
	}
	return errors.Join(err, q.Close(), sweep(fsys, runsDir(dir)))
}

// archived returns the name of a WARC file without its suffix. open means that the file is not finished. ok is false if
// file is not a WARC file in a crawl directory.
func archived(file string) (base string, open, ok bool) {
	file, open = strings.CutSuffix(file, openSuffix)
	base, ok = strings.CutSuffix(file, warcSuffix)
	return base, open, ok
}

// runsByWARC maps each WARC file, without its suffix, to its run files, sorted.
func runsByWARC(fsys disk.FS, dir string) (map[string][]string, error) {
	entries, err := fsys.ReadDir(runsDir(dir))
	if err != nil {
		return nil, err
	}
	m := make(map[string][]string)
	for _, e := range entries {
		if base := runOf(e.Name()); base != "" {
			m[base] = append(m[base], e.Name())
		}
	}
	return m, nil
}

// indexWARC writes the runs of a WARC file in the archive folder. Of a file that is not finished, the end may be
// incomplete. If the file is damaged, the error is Flaws, and its last run is missing, so that it is read again.
func indexWARC(fsys disk.FS, dir string, file File) error {
	r := runs{fs: fsys, dir: runsDir(dir)}
	final := file.Name
	if err := r.discard(final, 0); err != nil {
		return err
	}
	f, err := fsys.OpenFile(file.Path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	err = indexFile(f, final, final, &r)
	switch {
	case err == nil || file.Open && errors.Is(err, ErrDamaged):
		return r.finish(final)
	case errors.Is(err, ErrDamaged):
		if err := r.write(r.next(final)); err != nil {
			return err
		}
	}
	return err
}

// indexFile collects the index lines of the WARC file f as runs with the name run. The lines name the file `name`. The
// caller finishes the runs, also if the error is Flaws.
func indexFile(f io.Reader, name, run string, r *runs) error {
	err := Index(f, name, func(line []byte) error { return r.put(run, line) })
	if err != nil && !errors.Is(err, ErrDamaged) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return err
}

// SortedIndex writes the merged CDXJ lines of the WARC files to out, in bounded memory. tmp is an empty directory for
// temporary files; the caller removes it. The lines name the files without their directory. A nil fsys means the
// machine's filesystem. If files are damaged, the output has their other records, and the error is Flaws.
func SortedIndex(fsys disk.FS, warcs []string, tmp string, out io.Writer) error {
	fsys = cmp.Or(fsys, disk.OS)
	q := sorting(fsys, tmp)
	defer q.Close() // the caller removes the files
	var flaws Flaws
	one := func(path string) error {
		f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
		if err != nil {
			return flaws.take(path, Refused(path, err))
		}
		defer f.Close()
		return flaws.take(path, Index(f, filepath.Base(path), pushTo(q)))
	}
	for _, path := range warcs {
		if err := one(path); err != nil {
			return fmt.Errorf("index %s: %w", path, err)
		}
	}
	w := bufio.NewWriterSize(out, mergeBuf)
	if err := errors.Join(writeLines(q, w), w.Flush()); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	return flaws.err()
}

// sortFiles is the beginning of the names of a sort's temporary files.
const sortFiles = "merge.part"

// sorting returns a sort of index lines, without their line feeds, with its temporary files in dir.
func sorting(fsys disk.FS, dir string) *extsort.Queue {
	return extsort.New(fsys, filepath.Join(dir, sortFiles), 16<<20, nil)
}

// pushTo returns a function that adds a line.
func pushTo(q *extsort.Queue) func(line []byte) error {
	return func(line []byte) error { return q.Push(bytes.TrimSuffix(line, []byte{'\n'})) }
}

// pushRuns adds the lines of files. It calls step for each line, unless that is nil.
func pushRuns(q *extsort.Queue, fsys disk.FS, names []string, step func() error) error {
	for _, name := range names {
		f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		s := source(f, name)
		for err = s.next(); err == nil; err = s.next() {
			err := q.Push(s.line)
			if err == nil && step != nil {
				err = step()
			}
			if err != nil {
				return errors.Join(err, f.Close())
			}
		}
		if f.Close(); err != io.EOF { // it was only read
			return err
		}
	}
	return nil
}

// writeLines writes the lines of eachLine, with line feeds.
func writeLines(q *extsort.Queue, w io.Writer) error {
	var out []byte
	return eachLine(q, func(line []byte) error {
		out = append(append(out[:0], line...), '\n')
		_, err := w.Write(out)
		return err
	})
}

// eachLine calls each with all lines of a sort. A line that is in two files comes only once; this happens if a WARC
// file was indexed twice.
func eachLine(q *extsort.Queue, each func(line []byte) error) error {
	var last []byte
	return q.Each(func(line []byte) error {
		if last != nil && bytes.Equal(line, last) {
			return nil
		}
		last = append(last[:0], line...)
		return each(last)
	})
}

// A lineSource reads the lines of one sorted file.
type lineSource struct {
	r    *lines.Reader
	name string
	line []byte // the current line, without its line feed
	path string // of the file, if several are merged
}

var errLongLine = fmt.Errorf("a line has more than %d bytes", lineLimit)

func source(r io.Reader, name string) *lineSource {
	s := &lineSource{r: lines.NewReader(r, mergeBuf, lineLimit), name: name}
	s.r.Strict = true
	return s
}

func (s *lineSource) next() (err error) {
	switch s.line, err = s.r.Next(); err {
	case nil, io.EOF:
		return err
	case bufio.ErrTooLong:
		err = errLongLine
	}
	return fmt.Errorf("%s: %w", s.name, err)
}

// Remove removes a finished WARC file of the crawl directory dir, and its index lines that are not merged yet. If there
// is no such file, the error wraps fs.ErrNotExist.
func Remove(fsys disk.FS, dir, name string) error {
	if err := fsys.Remove(filepath.Join(archiveDir(dir), name)); err != nil {
		return err
	}
	lines := runs{fs: fsys, dir: runsDir(dir)}
	return lines.discard(name, 0)
}

// MergeIndex calls each with the index lines of finished WARC files of the crawl directory dir, sorted, without their
// line feeds; a line is valid until each returns. The lines come from the files' sorted runs. A file without runs,
// which another program put there, is read. tmp is an empty directory for temporary files; the caller removes it.
// MergeIndex calls step for each line that it reads, too: a caller can rest there. It returns the first error of step
// or each. Its memory is bounded.
func MergeIndex(fsys disk.FS, dir string, files []File, tmp string, step func() error,
	each func(line []byte) error) error {
	have, err := runsByWARC(fsys, dir)
	if err != nil {
		return err
	}
	q := sorting(fsys, tmp)
	defer q.Close() // the caller removes the files
	var inputs []string
	for _, file := range files {
		base := runBase(file.Name)
		if slices.Contains(have[base], base+cdxjExt) {
			for _, run := range have[base] {
				inputs = append(inputs, filepath.Join(runsDir(dir), run))
			}
			continue
		}
		f, err := fsys.OpenFile(file.Path, os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		push := pushTo(q)
		err = Index(f, file.Name, func(line []byte) error { return cmp.Or(step(), push(line)) })
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", file.Path, err)
		}
	}
	if err := pushRuns(q, fsys, inputs, step); err != nil {
		return err
	}
	return eachLine(q, each)
}
