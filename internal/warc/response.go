package warc

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// A Writer finds what it has archived, also of earlier runs. Most index lines are in the files of runs, each of which
// has a filter in RAM; those of the last records are in RAM. Nothing of this is there before the first Find.
type finder struct {
	mu      sync.Mutex
	last    [parts]lineMap // lines that are not in a run yet
	waiting []lineMap      // of the runs that are not written yet, in their order
	files   []runFile      // oldest first
	room    int            // bytes that filters may still take
}

// A lineMap has index lines by their sort keys, in the order in which they were added.
type lineMap map[string][]string

func (m lineMap) add(line []byte) {
	if key, _, ok := bytes.Cut(line, []byte{' '}); ok {
		m[string(key)] = append(m[string(key)], string(line))
	}
}

// A runFile is a file of sorted lines. A nil filter means that it may have any key.
type runFile struct {
	path   string
	filter filter
}

const (
	// filterBits is the size of a filter for each line. With filterHashes, one of 120 other keys passes it.
	filterBits, filterHashes = 10, 7
	// filterRoom bounds all filters together, in bytes: those of 54 million records. Runs beyond it are searched.
	filterRoom = 64 << 20
)

// A filter tells which keys a run does not have (Bloom, CACM 1970).
type filter []byte

var filterSeed = maphash.MakeSeed()

// places calls fn with the bits of a key until fn returns false.
func (f filter) places(key []byte, fn func(i uint64, bit byte) bool) {
	h := maphash.Bytes(filterSeed, key)
	step := h>>32 | 1
	for range filterHashes {
		if n := h % uint64(8*len(f)); !fn(n/8, 1<<(n%8)) {
			return
		}
		h += step
	}
}

func (f filter) add(key []byte) {
	f.places(key, func(i uint64, bit byte) bool { f[i] |= bit; return true })
}

func (f filter) has(key []byte) bool {
	has := true
	if f != nil {
		f.places(key, func(i uint64, bit byte) bool { has = f[i]&bit != 0; return has })
	}
	return has
}

// newFilter returns an empty filter for n keys; nil if there is no room. The caller holds mu.
func (d *finder) newFilter(n int) filter {
	size := n*filterBits/8 + 8
	if size > d.room {
		return nil
	}
	d.room -= size
	return make(filter, size)
}

// finder returns the Writer's finder, and makes it if there is none. It reads the index once.
func (w *Writer) finder() (*finder, error) {
	w.findMu.Lock()
	defer w.findMu.Unlock()
	w.mu.Lock()
	d := w.found
	w.mu.Unlock()
	if d != nil {
		return d, nil
	}
	d = &finder{room: filterRoom}
	for part := range d.last {
		d.last[part] = lineMap{}
	}
	each := func(m lineMap, lines []byte) {
		for line := range bytes.Lines(lines) {
			m.add(line)
		}
	}
	w.taskMu.Lock() // so that no run is being written
	names, err := w.runFiles()
	w.mu.Lock()
	for _, t := range w.tasks {
		m := lineMap{}
		each(m, t.run.lines)
		d.waiting = append(d.waiting, m)
	}
	for _, s := range w.streams {
		each(d.last[s.part], s.lines.buf)
	}
	if err == nil {
		w.found = d // from now on it gets new lines
	}
	w.mu.Unlock()
	w.taskMu.Unlock()
	var files []runFile
	for _, name := range names {
		f, e := d.load(w, name)
		if err = errors.Join(err, e); err != nil {
			break
		}
		files = append(files, f)
	}
	if err != nil {
		w.mu.Lock()
		w.found = nil // the next Find tries again
		w.mu.Unlock()
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files = append(files, d.files...)
	return d, nil
}

// runFiles returns the names of the files of runs, in the order in which their records were written.
func (w *Writer) runFiles() (names []string, err error) {
	entries, err := w.cfg.FS.ReadDir(runsDir(w.cfg.Dir))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if runOf(e.Name()) != "" {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// load reads the keys of a run.
func (d *finder) load(w *Writer, name string) (f runFile, err error) {
	f.path = filepath.Join(runsDir(w.cfg.Dir), name)
	file, err := w.cfg.FS.OpenFile(f.path, os.O_RDONLY, 0)
	if err != nil {
		return f, err
	}
	defer file.Close()
	b, err := io.ReadAll(file)
	if err != nil {
		return f, err
	}
	d.mu.Lock()
	f.filter = d.newFilter(bytes.Count(b, []byte{'\n'}))
	d.mu.Unlock()
	if f.filter != nil {
		for line := range bytes.Lines(b) {
			if key, _, ok := bytes.Cut(line, []byte{' '}); ok {
				f.filter.add(key)
			}
		}
	}
	return f, nil
}

// note adds the line of a record.
func (d *finder) note(part Part, line []byte) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last[part].add(line)
}

// turn notes that the lines of a part so far are a run, which waits to be written.
func (d *finder) turn(part Part) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting, d.last[part] = append(d.waiting, d.last[part]), lineMap{}
}

// written notes that the first run that waited is in a file.
func (d *finder) written(path string) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) == 0 {
		return
	}
	m := d.waiting[0]
	d.waiting = slices.Delete(d.waiting, 0, 1)
	f := runFile{path, d.newFilter(len(m))}
	if f.filter != nil {
		for key := range m {
			f.filter.add([]byte(key))
		}
	}
	d.files = append(d.files, f)
}

// lines returns the lines with a key, newest last.
func (d *finder) lines(w *Writer, key string) ([]Line, error) {
	d.mu.Lock()
	var paths []string
	for _, f := range d.files {
		if f.filter.has([]byte(key)) {
			paths = append(paths, f.path)
		}
	}
	var late []string
	for _, m := range append(slices.Clone(d.waiting), d.last[:]...) {
		late = append(late, m[key]...)
	}
	d.mu.Unlock()
	var found []Line
	if len(paths) > 0 {
		for l, err := range merged(w.cfg.FS, paths, key+" ") {
			if err != nil {
				return nil, err
			}
			if l.SURT != key || len(found) == maxCaptures {
				break
			}
			found = append(found, l)
		}
	}
	for _, line := range late {
		l, err := ParseLine([]byte(line))
		if err != nil {
			return nil, err
		}
		found = append(found, l)
	}
	slices.SortStableFunc(found, func(a, b Line) int { return strings.Compare(a.Time, b.Time) })
	return found, nil
}

// A Capture is where the archive has a response: the line of its record, and, if that is a revisit record, the line of
// its original.
type Capture []Line

// Find returns the newest HTTP response of a URL that the archive has, nil if it has none. It finds every record that
// Write has returned, and those of earlier runs whose files are still in the archive. The first Find reads the index;
// it blocks for about a second for each gigabyte of it. Later ones read a few blocks of the disk.
func (w *Writer) Find(url string) (Capture, error) {
	c, err := w.findResponse(url)
	if err != nil {
		return nil, fmt.Errorf("find %s in the archive: %w", url, err)
	}
	return c, nil
}

func (w *Writer) findResponse(url string) (Capture, error) {
	d, err := w.finder()
	if err != nil {
		return nil, err
	}
	captures, err := d.lines(w, surt(url))
	uri := lineURI(url)
	captures = slices.DeleteFunc(captures, func(l Line) bool {
		return l.URL != uri || l.MIME != mimeRevisit && l.Status == "" || l.Length <= 0
	})
	if err != nil || len(captures) == 0 {
		return nil, err
	}
	c := Capture{captures[len(captures)-1]}
	if c[0].MIME != mimeRevisit {
		return c, nil
	}
	r, err := w.OpenCapture(c)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	rec, err := NewReader(r).Next()
	if err != nil {
		return nil, err
	}
	ref := rec.Reference()
	if captures, err = d.lines(w, surt(ref.URL)); err != nil {
		return nil, err
	}
	original := ref.best(captures)
	if original == nil || original.Length <= 0 {
		return nil, nil // another agent's archive has it
	}
	return append(c, *original), nil
}

// OpenNewest opens what Find returns of a URL, as OpenCapture does. r is nil if the archive has no response. size is
// the number of bytes of r.
func (w *Writer) OpenNewest(url string) (r io.ReadCloser, size int64, err error) {
	c, err := w.Find(url)
	if err != nil || c == nil {
		return nil, 0, err
	}
	for _, l := range c {
		size += l.Length
	}
	r, err = w.OpenCapture(c)
	return r, size, err
}

// OpenCapture returns the bytes of the records of a Capture, as they are in the archive, for ReadCapture. If a file is
// missing, the error is an UnreadableError.
func (w *Writer) OpenCapture(c Capture) (io.ReadCloser, error) {
	r := &captureReader{}
	for _, l := range c {
		w.mu.Lock()
		var err error
		if w.writing(l.File) != nil {
			err = w.flush()
		}
		w.mu.Unlock()
		if err == nil {
			var f io.Closer
			f, err = r.add(w, l)
			if f != nil {
				r.files = append(r.files, f)
			}
		}
		if err != nil {
			r.Close() // the first error says more
			return nil, Unreadable(filepath.Join(archiveDir(w.cfg.Dir), l.File), err)
		}
	}
	r.Reader = io.MultiReader(r.parts...)
	return r, nil
}

type captureReader struct {
	io.Reader
	parts []io.Reader
	files []io.Closer
}

func (r *captureReader) add(w *Writer, l Line) (io.Closer, error) {
	f, err := OpenWARC(w.cfg.FS, w.cfg.Dir, l.File)
	if err != nil {
		return nil, err
	}
	r.parts = append(r.parts, io.NewSectionReader(f, l.Offset, l.Length))
	return f, nil
}

func (r *captureReader) Close() (err error) {
	for _, f := range r.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// maxHead bounds the HTTP header of a revisit record, in bytes. It is more than a crawl accepts.
const maxHead = 4 << 20

// ReadCapture reads the bytes of OpenCapture. rec is the first record. wire has the response as it crossed the wire, of
// size bytes: if rec is a revisit record, its header and the payload of its original. The error wraps ErrDamaged if the
// bytes are no such records.
func ReadCapture(r io.Reader) (rec *Record, wire io.Reader, size int64, err error) {
	bad := func(text string) error { return fmt.Errorf("%w: %s", ErrDamaged, text) }
	rd := NewReader(r)
	next := func(kind string) (*Record, error) {
		rec, err := rd.Next()
		if err == io.EOF {
			err = bad("no " + kind + " record")
		}
		if err == nil && rec.Type() != kind && kind != "" {
			err = bad("a " + rec.Type() + " record in place of a " + kind + " record")
		}
		return rec, err
	}
	if rec, err = next(""); err != nil {
		return nil, nil, 0, err
	}
	switch rec.Type() {
	case "response":
		return rec, rec, rec.Size, nil
	case "revisit":
	default:
		return nil, nil, 0, bad("a " + rec.Type() + " record")
	}
	head, err := io.ReadAll(io.LimitReader(rec, maxHead+1))
	if err != nil {
		return nil, nil, 0, err
	}
	if len(head) > maxHead {
		return nil, nil, 0, bad("the header is too long")
	}
	original, err := next("response")
	if err != nil {
		return nil, nil, 0, err
	}
	theirs, rest, found, err := readHeadFrom(original)
	if err == nil && !found {
		err = bad("the original has no HTTP header")
	}
	if err != nil {
		return nil, nil, 0, err
	}
	wire = io.MultiReader(bytes.NewReader(head), bytes.NewReader(rest), original)
	return rec, wire, int64(len(head)) + original.Size - int64(len(theirs)), nil
}
