package tables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A Dir is a crawl directory whose archive becomes rows.
type Dir struct {
	warc.Place
	// Segment is the value of the column warc_segment.
	Segment string
}

// DirOf returns the Dir of a place. Its segment is the name of the directory.
func DirOf(p warc.Place) Dir {
	d := Dir{Place: p, Segment: filepath.Base(p.Dir)}
	if abs, err := filepath.Abs(p.Dir); err == nil {
		d.Segment = filepath.Base(abs)
	}
	return d
}

// Config says what Write writes. Out, Crawl and Dirs are required.
type Config struct {
	// FS is the filesystem. Nil means the machine's.
	FS disk.FS
	// Out is the folder of the tables. It may have those of other crawls.
	Out string
	// Crawl is the name of the crawl: the value of the partition "crawl". ValidName says which names can be one.
	Crawl string
	// Dirs are the crawl directories, one of each agent. The column warc_filename has the files as Dirs name them.
	Dirs []Dir
	// Overwrite replaces the tables of this crawl.
	Overwrite bool
	// FileBytes is the size at which a file ends, in bytes. Zero means 512 MiB.
	FileBytes int64
	// GroupBytes is the size of the values of a row group before compression. Zero means 64 MiB.
	GroupBytes int64
	// Progress is told how far Write is. Nil drops it.
	Progress Progress

	segment string           // the rows are of a segment, whose name is in those of the files; see WriteSegment
	rowsOf  map[string]int64 // of files
	pace    *clock.Pace      // nil: no rest
}

// Progress is told how far Write is.
type Progress interface {
	// Step is called now and then with what is done, in words. An error ends Write.
	Step(text string) error
}

// A Table tells what Write has written of one table.
type Table struct {
	Name    string           `json:"name"`
	Path    string           `json:"path"` // below Out
	Rows    int64            `json:"rows"`
	Files   int64            `json:"files"`
	Bytes   int64            `json:"bytes"`
	Subsets map[string]int64 `json:"rows_by_subset,omitempty"`
	// Without are the directories and stores that have no reports/hosts.csv, if this is the table of the hosts.
	Without []string `json:"without,omitempty"`
}

// LeftOut tells how many lines are no rows, for one reason.
type LeftOut struct {
	Reason string `json:"reason"`
	Lines  int64  `json:"lines"`
	First  string `json:"first"` // where the first one is
}

// A Result tells what Write has written.
type Result struct {
	Type    string    `json:"type"` // "tables"
	Out     string    `json:"out"`
	Crawl   string    `json:"crawl"`
	Tables  []Table   `json:"tables"`
	Renewed int64     `json:"warc_files_read"` // files that were read because their index lines are of an older version
	LeftOut []LeftOut `json:"left_out"`
}

// Lines returns how many lines are no rows.
func (r *Result) Lines() (n int64) {
	for _, l := range r.LeftOut {
		n += l.Lines
	}
	return n
}

var (
	// ErrThere means that Out has tables of this crawl already.
	ErrThere = errors.New("the crawl has tables there already")
	// ErrNothing means that there is no row: the crawl has no capture, and its log no line.
	ErrNothing = errors.New("the crawl has neither pages nor a log")
	// ErrPlace means that a directory is given twice, or that Out is where a crawl has its own files. Its text says
	// which.
	ErrPlace = errors.New("wrong place")
	// ErrName means that a crawl cannot have this name.
	ErrName = errors.New("not a name of letters, digits, '.', '_' and '-'")
)

// ValidName returns ErrName if a crawl cannot have this name in tables.
func ValidName(name string) error {
	if !validName(name) {
		return fmt.Errorf("%q: %w", name, ErrName)
	}
	return nil
}

// indexPath is the folder of the table of the index, below Config.Out. Common Crawl has the same one.
const indexPath = "cc-index/table/cc-main/warc"

// A writer makes the tables of one call of Write.
type writer struct {
	cfg    Config
	fs     disk.FS
	work   *disk.Work
	result Result
	faults map[string]*LeftOut
	done   int64 // bytes of lines that were read

	repeats bool // a killed call has begun to install the tables of this crawl
	keep    bool // the work folder has a plan that is not carried out
}

func (w *writer) read(n int) { w.done += int64(n) }

// Write writes the tables of the crawl in cfg.Dirs. If ctx ends, the tables are as before. A kill while Overwrite
// replaces them, or an error of the disk then, may leave some of the new ones, some of the old ones, and at most one of
// neither; the next call of Write for Out first completes the new ones.
func Write(ctx context.Context, cfg Config) (Result, error) {
	w := &writer{cfg: cfg, fs: cmp.Or(cfg.FS, disk.OS), faults: map[string]*LeftOut{}}
	w.cfg.Out = filepath.Clean(cfg.Out)
	w.cfg.FileBytes = cmp.Or(cfg.FileBytes, defaultFileBytes)
	w.cfg.GroupBytes = cmp.Or(cfg.GroupBytes, defaultGroupBytes)
	w.cfg.Progress = cmp.Or[Progress](cfg.Progress, silent{})
	w.result = Result{Type: "tables", Out: w.cfg.Out, Crawl: cfg.Crawl, Tables: []Table{}, LeftOut: []LeftOut{}}
	err := w.write(ctx)
	for _, reason := range slices.Sorted(maps.Keys(w.faults)) {
		w.result.LeftOut = append(w.result.LeftOut, *w.faults[reason])
	}
	return w.result, err
}

func (w *writer) write(ctx context.Context) (err error) {
	if err := ValidName(w.cfg.Crawl); err != nil {
		return err
	}
	if err := w.places(); err != nil {
		return err
	}
	_, err = w.fs.Stat(w.cfg.Out)
	isNew := errors.Is(err, fs.ErrNotExist)
	if err := w.fs.MkdirAll(w.cfg.Out, 0o777); err != nil {
		return err
	}
	if w.work, err = disk.ReopenWork(w.fs, w.unfinished(), w.recover); err != nil {
		return err
	}
	defer func() {
		if w.keep {
			err = errors.Join(err, w.work.Leave())
			return
		}
		if err = errors.Join(err, w.work.Close()); err != nil && isNew {
			_ = w.fs.Remove(w.cfg.Out) // if it is empty
		}
	}()
	if err := w.check(); err != nil {
		return err
	}
	if err := w.index(ctx); err != nil {
		return err
	}
	if err := w.others(ctx); err != nil {
		return err
	}
	rows := int64(0)
	for _, t := range w.result.Tables {
		rows += t.Rows
	}
	if rows == 0 {
		return ErrNothing
	}
	return w.install()
}

// A placeError is an ErrPlace.
type placeError string

func (e placeError) Error() string { return string(e) }

func (placeError) Is(target error) bool { return target == ErrPlace }

// ownFolders are the folders of a crawl directory in which only the crawl writes, and the directory itself.
var ownFolders = []string{".", "archive", "copies", SegmentTables, warc.CrawlData, "indexes", "links", "logs",
	"reports", "state"}

// places returns an ErrPlace if the rows of a directory would come twice, or if the tables would be among the files of
// a crawl.
func (w *writer) places() error {
	out := resolved(w.cfg.Out)
	have := map[string]bool{}
	for _, d := range w.cfg.Dirs {
		dir := resolved(d.Dir)
		if have[dir] {
			return placeError(d.Dir + " is given twice; each of its rows would come twice")
		}
		have[dir] = true
		below, err := filepath.Rel(dir, out)
		first, _, _ := strings.Cut(filepath.ToSlash(below), "/")
		if err == nil && filepath.IsLocal(below) && slices.Contains(ownFolders, first) {
			return placeError(w.cfg.Out + " is among the files of the crawl " + d.Dir + "; choose another folder, " +
				"such as " + filepath.Join(d.Dir, "tables"))
		}
	}
	return nil
}

// resolved returns the absolute path without symbolic links, as far as it exists.
func resolved(path string) string {
	path, _ = filepath.Abs(path)
	for at, rest := path, ""; ; at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
		if found, err := filepath.EvalSymlinks(at); err == nil || at == filepath.Dir(at) {
			return filepath.Join(found, rest)
		}
	}
}

// fault counts a line that is no row.
func (w *writer) fault(where string, err error) {
	reason := reasonOf(err)
	l := w.faults[reason]
	if l == nil {
		l = &LeftOut{Reason: reason, First: where}
		w.faults[reason] = l
	}
	l.Lines++
}

// reasonOf returns the reason of a fault without what differs from line to line.
func reasonOf(err error) string {
	for _, known := range []error{errUTF8, errTime, errNoURL, errOffset, errOrder, errLong, errCut, errLogLine,
		errHostLine, errLinkLog} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "not a line of a CDXJ index"
}

// index writes the table of the index.
func (w *writer) index(ctx context.Context) (err error) {
	var total int64
	m := &merger{judge: w}
	defer func() { err = errors.Join(err, m.close()) }()
	told := int64(0)
	var files []func() error
	for i, d := range w.cfg.Dirs {
		s, names, err := w.source(i, d)
		if err != nil {
			return err
		}
		for _, name := range names {
			if info, err := w.fs.Stat(name); name != "" && err == nil {
				total += info.Size()
				files = append(files, func() error { return m.add(w.fs, s, name) })
			}
		}
	}
	for _, open := range files {
		if err := open(); err != nil {
			return err
		}
	}
	sinks := map[string]*sink{}
	defer func() {
		for _, s := range sinks {
			err = errors.Join(err, s.abort())
		}
	}()
	dir := filepath.Join(w.work.Dir, partition(indexPath, w.cfg.Crawl))
	for _, subset := range subsets {
		sinks[subset] = newSink(w.fs, filepath.Join(dir, "subset="+subset), w.cfg.Crawl+" "+subset, indexColumns,
			"url_surtkey", &w.cfg)
	}
	r := &row{columns: indexColumns}
	err = m.each(ctx, func(c *capture) error {
		if err := w.rest(ctx); err != nil {
			return err
		}
		subset, err := c.fill(r)
		if err != nil {
			w.fault(c.describe(err), err)
			return nil
		}
		if w.done-told > 1<<20 {
			told = w.done
			if err := w.cfg.Progress.Step("has written the rows of " + sizeOf(w.done, total)); err != nil {
				return err
			}
		}
		return sinks[subset].add(r)
	})
	if err != nil {
		return err
	}
	t := Table{Name: "index", Path: indexPath, Subsets: map[string]int64{}}
	for _, subset := range subsets {
		s := sinks[subset]
		if err := s.end(); err != nil {
			return err
		}
		t.Rows, t.Files, t.Bytes = t.Rows+s.rows, t.Files+int64(s.files), t.Bytes+s.bytes
		t.Subsets[subset] = s.rows
	}
	w.result.Tables = append(w.result.Tables, t)
	return nil
}

// source returns a directory, and the files with its index lines. One without a name is missing.
func (w *writer) source(i int, d Dir) (s *source, names []string, err error) {
	if w.cfg.segment != "" {
		s = &source{Place: d.Place, segment: d.Segment, told: true}
		return s, []string{filepath.Join(d.Place.Dir, "index.cdxj")}, nil
	}
	if s, err = newSource(w.fs, d); err != nil {
		return nil, nil, err
	}
	s.renewed, err = w.renew(i, d)
	if err != nil {
		return nil, nil, err
	}
	return s, append(d.Indexes(), s.renewed.Path), nil
}

// rest rests, if the tables are written beside a crawl.
func (w *writer) rest(ctx context.Context) error {
	if w.cfg.pace == nil {
		return nil
	}
	return w.cfg.pace.Rest(ctx)
}

// renew reads WARC files whose index lines are of an older version.
func (w *writer) renew(i int, d Dir) (*warc.Renewal, error) {
	r, err := warc.Renew(w.fs, d.Place, func() (string, error) {
		tmp := filepath.Join(w.work.Dir, fmt.Sprintf("renewed%d", i))
		return tmp, w.fs.Mkdir(tmp, 0o700)
	}, func(done, total int64) error {
		return w.cfg.Progress.Step(d.Place.Dir + ": reading the archive, because its index is of an older version: " +
			sizeOf(done, total))
	})
	if err == nil {
		w.result.Renewed += int64(r.Read)
	}
	return r, err
}

// silent is the Progress of a Config without one.
type silent struct{}

func (silent) Step(string) error { return nil }

func sizeOf(done, total int64) string {
	return humanize.Bytes(uint64(done)) + " of " + humanize.Bytes(uint64(total))
}

// Name replaces the names of directories and files by those for people, which name returns.
func (r *Result) Name(name func(string) string) {
	for _, t := range r.Tables {
		for i, dir := range t.Without {
			t.Without[i] = name(dir)
		}
	}
	for i, l := range r.LeftOut {
		r.LeftOut[i].First = name(l.First)
	}
}

// Print prints what was written, a line for each table, and below it the directories that the table does not cover.
func (r *Result) Print(out io.Writer) {
	for _, t := range r.Tables {
		fmt.Fprintf(out, "%-9s %s, %s (%s) in %s\n", t.Name, count(t.Rows, "row"), count(t.Files, "file"),
			humanize.Bytes(uint64(t.Bytes)), filepath.Join(r.Out, t.Path))
		for _, dir := range t.Without {
			fmt.Fprintf(out, "%-9s without those of %s: it has no reports/hosts.csv\n", "", report.OneLine(dir))
		}
	}
}

// String says what is left out, why, and where the first line is.
func (l LeftOut) String() string {
	return fmt.Sprintf("%s: %s; the first: %s", count(l.Lines, "line"), l.Reason, report.OneLine(l.First))
}

func count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return humanize.Comma(n) + " " + what
}
