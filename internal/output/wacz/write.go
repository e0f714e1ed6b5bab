package wacz

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/store/zipnum"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A Config describes one WACZ, or several of a bounded size.
type Config struct {
	// WARCs are the names of WARC files, plain or gzip. Of a file that a crawl has not finished (.open), the complete
	// records are taken.
	WARCs []string
	// Logs are the names of logs, by the names that they get in the WACZ.
	Logs map[string]string
	// Out is the name of the WACZ. With Size it is the pattern of the names: OUT-00000.wacz, and so on.
	Out string
	// Size is how many bytes of WARC files a WACZ has at most, unless a single file has more. Zero: any number.
	Size int64
	// Overwrite replaces what has the name.
	Overwrite bool
	// Title is the title of the collection. Empty: that of the first seed.
	Title string
	// Software names the program that writes the WACZ.
	Software string
	// In is the file system of WARCs and Logs, and FS that of Out. Nil means the machine's.
	In, FS disk.FS
}

// A Result says what was written.
type Result struct {
	Type   string   `json:"type"` // "wacz"
	Files  []string `json:"wacz_files"`
	Bytes  int64    `json:"bytes"`
	WARCs  int64    `json:"warcs"`
	Lines  int64    `json:"index_lines"`
	Seeds  int64    `json:"seeds"` // in pages.jsonl
	Extra  int64    `json:"extra_pages"`
	Titled int64    `json:"titled_pages"`
	// List is the name of the file that lists the WACZ files, if there are several.
	List string `json:"list_file,omitempty"`
	// Flaws are the damaged places of the WARC files.
	Flaws warc.Flaws `json:"-"`
}

// CrawlLogs returns the logs of crawl directories, for Config.Logs. Those of several directories get the names of the
// directories.
func CrawlLogs(fsys disk.FS, dirs []string) map[string]string {
	logs := map[string]string{}
	for i, dir := range dirs {
		name := "crawl.log"
		if len(dirs) > 1 {
			name = fmt.Sprintf("%s-%s", filepath.Base(dir), name)
		}
		if _, taken := logs[name]; taken {
			name = fmt.Sprintf("%d-%s", i, name)
		}
		file := filepath.Join(dir, "logs", "crawl.log")
		if info, err := fsys.Stat(file); err == nil && info.Mode().IsRegular() {
			logs[name] = file
		}
	}
	return logs
}

// Errors of Write that the user can avoid.
var (
	ErrExists  = errors.New("the file exists")
	ErrNothing = errors.New("the WARC files hold no capture")
)

const (
	// smallIndex is how many bytes an index without compression has at most.
	smallIndex = 50_000
	sortMemory = 16 << 20 // bytes, of each of three sorts
)

// A resource is an entry as datapackage.json lists it.
type resource struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Hash  string `json:"hash"`
	Bytes int64  `json:"bytes"`
}

// A writer makes the WACZ files of a Config.
type writer struct {
	Config
	work   string
	result Result
	parts  []resource
	latest time.Time // of the records of all parts
}

// Write writes the WACZ. All files appear after each of them is complete and durable: after a kill, none is there, or
// each that is there is whole. The list of several files comes last. A folder OUT.partial has what is not complete; a
// kill leaves it, and the next Write empties it. If the WARC files are damaged, the WACZ has them as they are, its
// index has their other records, and Result.Flaws names the places.
func Write(ctx context.Context, cfg Config) (res Result, err error) {
	cfg.In, cfg.FS = cmp.Or(cfg.In, disk.OS), cmp.Or(cfg.FS, disk.OS)
	w := &writer{Config: cfg, result: Result{Type: "wacz"}}
	if err := w.check(); err != nil {
		return res, err
	}
	work, err := disk.OpenWork(w.FS, w.Out+".partial")
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, work.Close()) }()
	w.work = work.Dir
	groups, err := w.groups()
	if err != nil {
		return res, err
	}
	for i, group := range groups {
		name := w.Out
		if w.Size > 0 {
			name = w.numbered(i)
		}
		if err := w.part(ctx, name, group); err != nil {
			return w.result, err
		}
	}
	if w.result.Lines == 0 {
		return w.result, ErrNothing
	}
	return w.result, w.install()
}

// check refuses to replace a file without being asked.
func (w *writer) check() error {
	names := []string{w.Out}
	if w.Size > 0 {
		old, err := w.series()
		if err != nil {
			return err
		}
		names = append(old, w.list(), w.numbered(0))
	}
	for _, name := range names {
		info, err := w.FS.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case !info.Mode().IsRegular() || !w.Overwrite:
			return fmt.Errorf("%s: %w", name, ErrExists)
		}
	}
	return w.FS.MkdirAll(filepath.Dir(w.Out), 0o777)
}

// A source is a WARC file, and its name in the WACZ.
type source struct {
	path, name string
	open       bool // a crawl has not finished it
	size       int64
	cut        bool // a record that is not whole follows
}

// groups divides the WARC files among WACZ files, in the order of their names.
func (w *writer) groups() (groups [][]source, err error) {
	var all []source
	taken := map[string]bool{}
	for _, file := range w.WARCs {
		info, err := w.In.Stat(file)
		if errors.Is(err, fs.ErrNotExist) { // the crawl has finished it meanwhile
			file = strings.TrimSuffix(file, ".open")
			info, err = w.In.Stat(file)
		}
		if err != nil {
			return nil, err
		}
		s := source{path: file, size: info.Size()}
		s.name, s.open = strings.CutSuffix(filepath.Base(file), ".open")
		stem, ext := s.name, ""
		for _, e := range []string{".gz", ".warc"} {
			if cut, ok := strings.CutSuffix(stem, e); ok {
				stem, ext = cut, e+ext
			}
		}
		for n := 1; taken[s.name]; n++ {
			s.name = fmt.Sprintf("%s~%d%s", stem, n, ext)
		}
		taken[s.name] = true
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b source) int { return strings.Compare(a.name, b.name) })
	left := int64(0)
	for _, s := range all {
		if groups == nil || w.Size > 0 && left < s.size {
			groups, left = append(groups, nil), w.Size
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], s)
		left -= s.size
	}
	return groups, nil
}

// install gives the finished files their names. A list of old files goes first, and old files that are left go last.
func (w *writer) install() error {
	dir := filepath.Dir(w.Out)
	if w.Size > 0 {
		if err := w.remove(w.list()); err != nil {
			return err
		}
	}
	for _, p := range w.parts {
		name := filepath.Join(dir, p.Path)
		if err := w.FS.Rename(filepath.Join(w.work, p.Path), name); err != nil {
			return err
		}
		w.result.Files = append(w.result.Files, name)
		w.result.Bytes += p.Bytes
	}
	if err := w.FS.SyncDir(dir); err != nil || w.Size == 0 {
		return err
	}
	w.result.List = w.list()
	b, err := json.MarshalIndent(struct {
		Profile   string     `json:"profile"`
		Title     string     `json:"title"`
		Created   string     `json:"created"`
		Software  string     `json:"software"`
		Resources []resource `json:"resources"`
	}{"multi-wacz-package", w.Title, stamp(w.latest), w.Software, w.parts}, "", "  ")
	if err == nil {
		err = disk.WriteFile(w.FS, w.list(), append(b, '\n'))
	}
	for i := len(w.parts); err == nil; i++ {
		if _, gone := w.FS.Stat(w.numbered(i)); gone != nil {
			break
		}
		err = w.remove(w.numbered(i))
	}
	return err
}

// remove removes a file, which need not be there.
func (w *writer) remove(name string) error {
	if err := w.FS.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// stamp spells a time for JSON.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// A part is one WACZ that is being written.
type part struct {
	*writer
	zip       *zip.Writer
	resources []resource
	names     map[string]bool // of resources
	pages     *pages
	lines     *extsort.Queue
	lineBytes int64
	latest    time.Time // of the records
}

// part writes the WACZ `name` into the work folder.
func (w *writer) part(ctx context.Context, name string, group []source) (err error) {
	sorts := extsort.Config{FS: w.FS, Prefix: filepath.Join(w.work, "sort."), Memory: sortMemory, Stop: ctx}
	p := &part{writer: w, names: map[string]bool{}, lines: sorts.Queue("index"), pages: newPages(sorts)}
	defer func() { err = errors.Join(err, p.lines.Close(), p.pages.close()) }()
	temp := filepath.Join(w.work, filepath.Base(name))
	f, err := w.FS.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	sum := &summing{w: f}
	if w.Size > 0 { // the list of the files has it
		sum.hash = sha256.New()
	}
	p.zip = zip.NewWriter(sum)
	err = p.write(ctx, group)
	if err == nil {
		err = p.zip.Close()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	w.latest = later(w.latest, p.latest)
	w.parts = append(w.parts, resource{p.nameOf(filepath.Base(name)), filepath.Base(name), sum.text(), sum.n})
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// write writes the entries.
func (p *part) write(ctx context.Context, group []source) error {
	for _, s := range group {
		if err := p.archive(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
	}
	main, err := p.listPages()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(p.Logs)) {
		if err := p.log(name, p.Logs[name]); err != nil {
			return err
		}
	}
	if err := p.index(); err != nil {
		return err
	}
	return p.describe(main)
}

// archive adds a WARC file: its bytes, its pages and its index lines. The file is read and unpacked once, or twice if a
// crawl has not finished it.
func (p *part) archive(ctx context.Context, s source) error {
	f, err := p.In.OpenFile(s.path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) && s.open { // the crawl has finished it meanwhile
		f, err = p.In.OpenFile(strings.TrimSuffix(s.path, ".open"), os.O_RDONLY, 0)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if s.open {
		if s.size, s.cut, err = wholeRecords(ctx, io.NewSectionReader(f, 0, s.size)); err != nil {
			return err
		}
	}
	if s.size == 0 {
		return nil
	}
	p.result.WARCs++
	return p.add("archive/"+s.name, zip.Store, func(w io.Writer) error {
		in := &copying{file: f, size: s.size, to: w}
		err := p.read(ctx, in, s)
		if err == nil {
			err = in.copyTo(s.size)
		}
		return err
	})
}

// read adds the pages and the index lines of a WARC file.
func (p *part) read(ctx context.Context, in io.Reader, s source) error {
	look := &look{pages: p.pages, ctx: ctx}
	err := warc.IndexWith(in, s.name, look, func(line []byte) error {
		p.lineBytes += int64(len(line))
		p.result.Lines++
		return p.lines.Push(bytes.TrimSuffix(line, []byte{'\n'}))
	})
	p.latest = later(p.latest, look.latest)
	if flaws, ok := errors.AsType[*warc.Flaws](err); ok {
		for _, place := range flaws.Places {
			place.File = s.path
			p.result.Flaws.Places = append(p.result.Flaws.Places, place)
		}
		p.result.Flaws.More += flaws.More
	} else if err != nil {
		return err
	}
	if s.cut { // it may be the record that tells about the last page
		p.pages.last = nil
	}
	return look.end()
}

// wholeRecords returns where the last record ends before which nothing is damaged. cut reports whether more follows.
func wholeRecords(ctx context.Context, file io.Reader) (end int64, cut bool, err error) {
	r := warc.NewReader(file)
	for {
		rec, err := r.Next()
		if err == nil {
			err = cmp.Or(r.Finish(), ctx.Err())
		}
		switch {
		case err == io.EOF:
			return end, false, nil
		case errors.Is(err, warc.ErrDamaged):
			return end, true, nil
		case err != nil:
			return end, false, err
		}
		end = rec.Offset + rec.Length
	}
}

// summing writes to w, and counts and sums what it writes.
type summing struct {
	w    io.Writer
	hash hash.Hash // nil: none
	n    int64
}

// Write writes and sums b.
func (s *summing) Write(b []byte) (int, error) {
	if s.hash != nil {
		s.hash.Write(b)
	}
	n, err := s.w.Write(b)
	s.n += int64(n)
	return n, err
}

// text returns the sum as a resource has it; empty without one.
func (s *summing) text() string {
	if s.hash == nil {
		return ""
	}
	return "sha256:" + hex.EncodeToString(s.hash.Sum(nil))
}

// firstDay is the first time that a ZIP file knows. All entries have it, so that the same crawl gives the same bytes.
var firstDay = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// entry begins an entry that datapackage.json does not list.
func (p *part) entry(name string, method uint16) (io.Writer, error) {
	return p.zip.CreateHeader(&zip.FileHeader{Name: name, Method: method, Modified: firstDay})
}

// add adds an entry.
func (p *part) add(name string, method uint16, write func(w io.Writer) error) error {
	to, err := p.entry(name, method)
	if err != nil {
		return err
	}
	s := &summing{w: to, hash: sha256.New()}
	if err := write(s); err != nil {
		return err
	}
	p.resources = append(p.resources, resource{p.nameOf(path.Base(name)), name, s.text(), s.n})
	return nil
}

// nameOf returns a name for a resource that no other one has: lower case letters, digits and a few signs (Data
// Package).
func (p *part) nameOf(file string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("-._", r) {
			return r
		}
		return '-'
	}, strings.ToLower(file))
	name := clean
	for n := 1; p.names[name]; n++ {
		name = fmt.Sprintf("%s-%d", clean, n)
	}
	p.names[name] = true
	return name
}

// log adds a log, up to its last whole line.
func (p *part) log(name, file string) error {
	f, err := p.In.OpenFile(file, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return p.add("logs/"+name, zip.Deflate, func(w io.Writer) error {
		info, err := f.Stat()
		if err == nil && info.Size() < 0 { // it is read from its beginning to its end
			_, err = io.Copy(w, f)
			return err
		}
		size, err := wholeLines(f)
		if err == nil {
			_, err = io.Copy(w, io.NewSectionReader(f, 0, size))
		}
		return err
	})
}

// wholeLines returns the number of bytes of f up to its last line feed. It looks at the last megabyte.
func wholeLines(f disk.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	from := max(0, info.Size()-1<<20)
	b := make([]byte, info.Size()-from)
	if _, err := f.ReadAt(b, from); err != nil && err != io.EOF {
		return 0, err
	}
	return from + int64(bytes.LastIndexByte(b, '\n')+1), nil
}

// index adds the sorted index lines.
func (p *part) index() error {
	var last []byte
	each := func(fn func(line []byte) error) error {
		return p.lines.Each(func(line []byte) error {
			if last != nil && bytes.Equal(last, line) {
				return nil
			}
			last = append(last[:0], line...)
			return fn(line)
		})
	}
	if p.lineBytes <= smallIndex {
		return p.add("indexes/index.cdx", zip.Store, func(w io.Writer) error {
			return each(func(line []byte) error {
				_, err := w.Write(append(line, '\n'))
				return err
			})
		})
	}
	const blocks = "index.cdx.gz"
	name := filepath.Join(p.work, "index.idx")
	temp, err := p.FS.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	defer temp.Close()
	if err := p.add("indexes/"+blocks, zip.Store, func(w io.Writer) error {
		z := zipnum.NewWriter(w, temp, blocks)
		return errors.Join(each(z.Add), z.Close())
	}); err != nil {
		return err
	}
	if _, err := temp.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return p.add("indexes/index.idx", zip.Store, func(w io.Writer) error {
		_, err := io.Copy(w, temp)
		return err
	})
}

// describe adds datapackage.json and its digest.
func (p *part) describe(main mainPage) error {
	if p.Title == "" {
		p.Title = cmp.Or(main.Title, main.URL, "Web archive")
	}
	if p.latest.IsZero() {
		p.latest = time.Unix(0, 0)
	}
	d := struct {
		Profile  string `json:"profile"`
		Version  string `json:"wacz_version"`
		Created  string `json:"created"`
		Software string `json:"software"`
		Title    string `json:"title"`
		// The specification and the programs in use spell the name differently.
		MainPage  string     `json:"mainPageUrl,omitempty"`
		MainPage2 string     `json:"mainPageURL,omitempty"`
		MainDate  string     `json:"mainPageDate,omitempty"`
		Resources []resource `json:"resources"`
	}{"data-package", "1.1.1", stamp(p.latest), p.Software, p.Title, main.URL, main.URL, main.Time, p.resources}
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	digest := fmt.Appendf(nil, "{\n  \"path\": \"datapackage.json\",\n  \"hash\": \"sha256:%x\"\n}\n", sha256.Sum256(b))
	for _, e := range []struct {
		name string
		text []byte
	}{{"datapackage.json", b}, {"datapackage-digest.json", digest}} {
		to, err := p.entry(e.name, zip.Store)
		if err != nil {
			return err
		}
		if _, err := to.Write(e.text); err != nil {
			return err
		}
	}
	return nil
}
