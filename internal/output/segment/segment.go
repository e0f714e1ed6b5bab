package segment

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// Format is the format of a manifest. A later format has another number.
const Format = "orbweaver-segment-1"

// RunField is the name of Manifest.Run in the file.
const RunField = "run"

// The names of files in the folder of a segment.
const (
	IndexName    = "index.cdxj"
	ManifestName = "manifest.json"
	SuccessName  = "_SUCCESS"
)

// A Manifest describes a committed segment.
type Manifest struct {
	Format   string `json:"format"`
	Crawl    string `json:"crawl"`
	Segment  string `json:"segment"`
	Software string `json:"software,omitempty"`
	// Run is the identity of the cluster's crawl. Its place is before all fields that are no texts.
	Run string `json:"run,omitempty"`
	// Records, First and Last are of the response, revisit and resource records: how many, and the times of the first
	// and the last fetch, to the second. A segment without such records has no times.
	Records int64  `json:"records"`
	First   string `json:"first,omitempty"`
	Last    string `json:"last,omitempty"`
	Bytes   int64  `json:"bytes"` // of all files
	Files   []File `json:"files"` // sorted by name
	// Logs says which lines of the crawl's logs the segment has. Each line is in one committed segment at most.
	Logs []Range `json:"logs,omitempty"`
	// Tables are the Parquet files with the rows of the segment, sorted by name. LeftOut is how many lines of the index
	// and of the logs could not be rows.
	Tables  []Table `json:"tables,omitempty"`
	LeftOut int64   `json:"left_out,omitempty"`
	// Merged are the names of the segments that this one was made of. They count no more, if they are still there.
	Merged []string `json:"merged,omitempty"`
}

// A File is a file of a segment.
type File struct {
	Name   string `json:"name"` // below the folder of the segment, with slashes
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // hexadecimal
	// Records, First and Last are as in Manifest, and of WARC files alone.
	Records int64  `json:"records"`
	First   string `json:"first,omitempty"`
	Last    string `json:"last,omitempty"`
	// Lines is how many lines a log has.
	Lines int64 `json:"lines,omitempty"`
}

// A Committer commits the segments of a crawl.
type Committer struct {
	// Dir is the crawl directory, Crawl the name of the crawl below crawl-data.
	Dir, Crawl string
	// Software is the program that writes the manifests, such as Orbweaver/0.1.0.
	Software string
	// Run is the identity of the cluster's crawl; "": the agent crawls alone.
	Run string
	// Agent is in the names of segments that CommitLogs makes. Empty means "agent".
	Agent string
	// Tables says which Parquet tables a segment gets: one of TableKinds. Empty means NoTables.
	Tables string
	FS     disk.FS     // nil: the machine's
	Clock  clock.Clock // nil: the machine's
	// Idle means that no crawl writes. Then a segment without a WARC file is removed.
	Idle bool
	// Share is the greatest part of the time that Commit works, above 0. It rests in between. Zero means 1: no rest.
	Share float64
}

// ErrUnfinished means that a WARC file of a segment is still being written.
var ErrUnfinished = errors.New("the segment has a WARC file that is not finished")

// Waiting returns the names of the segments that are not committed, oldest first.
func (c *Committer) Waiting() (names []string, err error) {
	fsys := cmp.Or(c.FS, disk.OS)
	all, err := warc.SegmentNames(fsys, c.Dir, c.Crawl)
	for _, name := range all {
		if !committed(fsys, c.path(name)) {
			names = append(names, name)
		}
	}
	return names, err
}

func (c *Committer) path(name string) string {
	return filepath.Join(warc.SegmentsDir(c.Dir, c.Crawl), name)
}

func committed(fsys disk.FS, folder string) bool {
	_, err := fsys.Stat(filepath.Join(folder, SuccessName))
	return err == nil
}

// Commit completes a segment whose WARC files are finished. A committed segment stays as it is. If a segment has no
// WARC file, ok is false. If ctx ends, its error is returned, and the segment is not committed. An
// error is ErrUnfinished, of the disk, or wraps warc.ErrDamaged.
func (c *Committer) Commit(ctx context.Context, name string) (m Manifest, ok bool, err error) {
	fsys := cmp.Or(c.FS, disk.OS)
	if committed(fsys, c.path(name)) {
		m, err = ReadManifest(fsys, c.path(name))
		return m, err == nil, err
	}
	m, ok, err = c.work().commit(ctx, name)
	if err != nil {
		err = fmt.Errorf("commit segment %s: %w", name, err)
	}
	return m, ok, err
}

func (c *Committer) work() *work {
	return &work{Committer: c, fs: cmp.Or(c.FS, disk.OS), pace: clock.Pace{Clock: clock.Or(c.Clock), Share: c.Share}}
}

// A work is the commit of one segment.
type work struct {
	*Committer
	fs   disk.FS
	pace clock.Pace
}

func (w *work) commit(ctx context.Context, name string) (m Manifest, ok bool, err error) {
	folder := w.path(name)
	warcs, err := warc.SegmentFiles(w.fs, folder)
	if err != nil {
		return m, false, err
	}
	if len(warcs) == 0 && !w.Idle {
		return m, false, nil
	}
	if len(warcs) == 0 {
		return m, false, w.removeEmpty(folder, name)
	}
	if slices.ContainsFunc(warcs, func(f warc.File) bool { return f.Open }) {
		return m, false, ErrUnfinished
	}
	return w.complete(ctx, name, warcs)
}

// CommitLogs commits a segment of its own that has the lines of the logs which no segment has. It is for the end of a
// run: a crawl may have fetched nothing since its last segment, and have logged that. If there are no such lines, ok is
// false.
func (c *Committer) CommitLogs(ctx context.Context) (m Manifest, ok bool, err error) {
	w := c.work()
	n, err := w.countLogs(ctx)
	if err != nil || n == 0 {
		return m, false, err
	}
	stamp := strings.Replace(clock.Or(c.Clock).Now().UTC().Format("20060102150405.000"), ".", "", 1)
	name := stamp + "-logs-" + disk.SafeName(cmp.Or(c.Agent, "agent"))
	if err := warc.MakeDirs(w.fs, w.Dir, w.path(name)); err != nil {
		return m, false, err
	}
	m, ok, err = w.complete(ctx, name, nil)
	if err != nil {
		err = fmt.Errorf("commit segment %s: %w", name, err)
	}
	return m, ok, err
}

// complete writes everything but the WARC files, the manifest and then _SUCCESS last.
func (w *work) complete(ctx context.Context, name string, warcs []warc.File) (m Manifest, ok bool, err error) {
	folder := w.path(name)
	m = Manifest{Format: Format, Crawl: w.Crawl, Segment: name, Software: w.Software, Run: w.Run}
	counts, err := w.index(ctx, folder, warcs)
	if err != nil {
		return m, false, err
	}
	for i, f := range warcs {
		dir := filepath.Dir(f.Path)
		if i == 0 || dir != filepath.Dir(warcs[i-1].Path) { // a kill may have come before the last name was synced
			if err := w.fs.SyncDir(dir); err != nil {
				return m, false, err
			}
		}
		entry := counts[f.Name]
		entry.Name = filepath.Base(dir) + "/" + f.Name
		m.Files = append(m.Files, *entry)
	}
	m.Files = append(m.Files, File{Name: IndexName})
	ranges, logs, err := w.logs(ctx, folder, name)
	if err != nil {
		return m, false, err
	}
	m.Logs, m.Files = ranges, append(m.Files, logs...)
	if err := w.tables(ctx, folder, &m); err != nil {
		return m, false, err
	}
	err = w.seal(ctx, folder, &m)
	return m, err == nil, err
}

// seal completes a manifest whose files are written, and writes it and _SUCCESS.
func (w *work) seal(ctx context.Context, folder string, m *Manifest) (err error) {
	slices.SortFunc(m.Files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	for i := range m.Files {
		f := &m.Files[i]
		if f.Bytes, f.SHA256, err = w.sum(ctx, filepath.Join(folder, filepath.FromSlash(f.Name))); err != nil {
			return err
		}
		m.Bytes += f.Bytes
		m.Records += f.Records
		m.First, m.Last = span(m.First, m.Last, f.First, f.Last)
	}
	err = disk.WriteStream(w.fs, filepath.Join(folder, ManifestName), func(out io.Writer) error {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(m)
	})
	if err == nil {
		err = disk.WriteFile(w.fs, filepath.Join(folder, SuccessName), nil)
	}
	return err
}

// removeEmpty removes the folder of a segment and those of its parts, but none that has a file or another folder. It
// removes the files of a commit without WARC files that was not completed: the lines are still in the logs.
func (w *work) removeEmpty(folder, name string) error {
	own := []string{CrawlLogGz, path.Join(LinksFolder, name+".jsonl.gz"), IndexName, ManifestName, SuccessName}
	for _, file := range own {
		file = filepath.Join(folder, filepath.FromSlash(file))
		for _, name := range []string{file, file + ".tmp"} {
			if err := w.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	for _, part := range append(warc.Folders[:], LogsFolder, LinksFolder, "") {
		dir := filepath.Join(folder, part)
		entries, err := w.fs.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) > 0 {
			continue
		}
		if err == nil {
			err = w.fs.Remove(dir)
		}
		if err != nil {
			return err
		}
	}
	return w.fs.SyncDir(filepath.Dir(folder))
}

// index writes the index of the WARC files, and counts the lines of each file.
func (w *work) index(ctx context.Context, folder string, warcs []warc.File) (counts map[string]*File, err error) {
	counts = map[string]*File{}
	paths := map[string]string{}
	for _, f := range warcs {
		below, err := filepath.Rel(w.Dir, f.Path)
		if err != nil {
			return nil, err
		}
		counts[f.Name], paths[f.Name] = &File{}, filepath.ToSlash(below)
	}
	name := filepath.Join(folder, IndexName)
	if len(warcs) == 0 {
		return counts, disk.WriteFile(w.fs, name, nil)
	}
	tmp := name + ".work"
	if err := errors.Join(w.fs.RemoveAll(tmp), w.fs.MkdirAll(tmp, 0o755)); err != nil {
		return nil, err
	}
	err = disk.WriteStream(w.fs, name, func(out io.Writer) error {
		rest := func() error { return w.pace.Rest(ctx) }
		return warc.MergeIndex(w.fs, w.Dir, warcs, tmp, rest, func(line []byte) error {
			l, err := warc.ParseLine(line)
			if err != nil {
				return err
			}
			c := counts[l.File]
			if c == nil {
				return fmt.Errorf("the index names the file %.80q: %w", l.File, warc.ErrDamaged)
			}
			c.Records++
			at := stampOf(&l)
			c.First, c.Last = span(c.First, c.Last, at, at)
			_, err = out.Write(renamed(line, l.File, paths[l.File]))
			return cmp.Or(err, rest())
		})
	})
	return counts, errors.Join(err, w.fs.RemoveAll(tmp))
}

// renamed returns an index line with another file name, and a line feed.
func renamed(line []byte, from, to string) []byte {
	const key = `"filename": "`
	i := bytes.LastIndex(line, []byte(key+from+`"`))
	if i < 0 {
		return append(bytes.Clone(line), '\n')
	}
	i += len(key)
	return slices.Concat(line[:i], []byte(to), line[i+len(from):], []byte{'\n'})
}

// stampOf returns the time of an index line as RFC 3339 writes it; "" if it is none.
func stampOf(l *warc.Line) string {
	t, err := l.Taken()
	if err != nil {
		return ""
	}
	return t.Format(time.RFC3339)
}

// span returns the first and the last of two spans of time; an empty one does not count.
func span(first, last, from, to string) (string, string) {
	if first == "" || from != "" && from < first {
		first = from
	}
	return first, max(last, to)
}

// sum returns the size and the digest of a file.
func (w *work) sum(ctx context.Context, name string) (size int64, digest string, err error) {
	f, err := w.fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	size, err = copyAll(h, f, func() error { return w.pace.Rest(ctx) })
	return size, hexOf(h), err
}

// copyAll copies in. It calls rest after each MiB, and ends with its error.
func copyAll(out io.Writer, in io.Reader, rest func() error) (size int64, err error) {
	for {
		n, err := io.CopyN(out, in, 1<<20)
		size += n
		if err == io.EOF {
			return size, nil
		}
		if err = cmp.Or(err, rest()); err != nil {
			return size, err
		}
	}
}

func hexOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// maxManifest bounds a manifest, in bytes.
const maxManifest = 64 << 20

// A manifestError says what is wrong with a manifest. It wraps warc.ErrDamaged.
type manifestError struct{ name, what string }

func (e *manifestError) Error() string {
	return e.name + ": " + e.what + "; remove it and " + SuccessName + ", and the next run completes the segment again"
}

func (e *manifestError) Unwrap() error { return warc.ErrDamaged }

// ReadManifest reads the manifest in the folder of a segment. A name that leads out of the folder is an error. If the
// manifest is damaged, the error wraps warc.ErrDamaged.
func ReadManifest(fsys disk.FS, folder string) (m Manifest, err error) {
	name := filepath.Join(folder, ManifestName)
	b, err := disk.ReadFile(fsys, name, maxManifest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m, &manifestError{name, "the file is missing"}
	case errors.Is(err, disk.ErrTooLarge):
		return m, &manifestError{name, fmt.Sprintf("the file is over %d bytes", maxManifest)}
	case err != nil:
		return m, fmt.Errorf("%s: %w", name, err)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, &manifestError{name, err.Error()}
	}
	if m.Format != Format {
		return m, &manifestError{name, fmt.Sprintf("the format is %.40q; this program reads %s", m.Format, Format)}
	}
	for _, f := range m.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) || path.Clean(f.Name) != f.Name {
			return m, &manifestError{name, fmt.Sprintf("%.80q is not a file of the segment", f.Name)}
		}
	}
	for _, t := range m.Tables {
		if !filepath.IsLocal(filepath.FromSlash(t.Name)) || path.Clean(t.Name) != t.Name || !m.isTable(t.Name) {
			return m, &manifestError{name, fmt.Sprintf("%.80q is not a table of the segment", t.Name)}
		}
	}
	return m, nil
}

// parts are the names of the lists of paths, and the part of the manifest's files that each of them has.
var parts = map[string]string{
	"warc.paths.gz": "warc", "robotstxt.paths.gz": "robotstxt", "crawldiagnostics.paths.gz": "crawldiagnostics",
	"cdxj.paths.gz": ".", "logs.paths.gz": LogsFolder, "links.paths.gz": LinksFolder,
}

// WriteLists writes the lists of the files of all committed segments. If manifests are damaged, it leaves out their
// segments, and the error wraps warc.ErrDamaged.
func (c *Committer) WriteLists() error {
	fsys := cmp.Or(c.FS, disk.OS)
	names, err := warc.SegmentNames(fsys, c.Dir, c.Crawl)
	if err != nil || len(names) == 0 {
		return err
	}
	found := map[string][]string{"segment.paths.gz": nil, tablesList: nil}
	for list := range parts {
		found[list] = nil // an empty list is a list too
	}
	gone, err := c.work().superseded()
	if err != nil {
		return err
	}
	var flaws error
	base := path.Join(warc.CrawlData, c.Crawl, "segments")
	for _, name := range names {
		if !committed(fsys, c.path(name)) || gone[name] {
			continue
		}
		m, err := ReadManifest(fsys, c.path(name))
		switch {
		case errors.Is(err, warc.ErrDamaged):
			flaws = errors.Join(flaws, err)
			continue
		case err != nil:
			return err
		}
		found["segment.paths.gz"] = append(found["segment.paths.gz"], path.Join(base, name))
		for _, t := range m.Tables {
			if strings.HasPrefix(t.Name, indexTable(c.Crawl)) {
				found[tablesList] = append(found[tablesList], t.Name)
			}
		}
		for list, part := range parts {
			for _, f := range m.Files {
				if path.Dir(f.Name) == part {
					found[list] = append(found[list], path.Join(base, name, f.Name))
				}
			}
		}
	}
	for list, paths := range found {
		err := disk.WriteStream(fsys, filepath.Join(filepath.Dir(warc.SegmentsDir(c.Dir, c.Crawl)), list),
			func(out io.Writer) error {
				z := gzip.NewWriter(out)
				for _, p := range paths {
					if _, err := io.WriteString(z, p+"\n"); err != nil {
						return err
					}
				}
				return z.Close()
			})
		if err != nil {
			return fmt.Errorf("list %s: %w", list, err)
		}
	}
	return flaws
}
