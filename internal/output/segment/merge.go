package segment

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/output/tables"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// mergingFolder is beside the folder segments while segments are merged. It has the new segment until that is whole,
// and then the old ones until they are removed.
const mergingFolder = "merging"

// maxMerged bounds how many segments become one at a time.
const maxMerged = 200

// MergeIn merges the segments of each crawl in a crawl directory: see Merge. If a crawl runs there, the error is
// disk.ErrLocked. A nil fsys means the machine's filesystem.
func MergeIn(ctx context.Context, fsys disk.FS, dir, software string, least int64) (done []Merged, err error) {
	fsys = cmp.Or(fsys, disk.OS)
	state := filepath.Join(dir, "state")
	if _, err := fsys.Stat(state); err == nil {
		lock, err := disk.Lock(fsys, state)
		if err != nil {
			return nil, err
		}
		defer lock.Close()
	}
	crawls, err := warc.Crawls(fsys, dir)
	for _, crawl := range crawls {
		m, bad := (&Committer{FS: fsys, Dir: dir, Crawl: crawl, Software: software, Idle: true}).Merge(ctx, least)
		if done = append(done, m); bad != nil {
			return done, bad
		}
	}
	return done, err
}

// A Merged tells what Merge has done.
type Merged struct {
	Crawl  string
	From   int // how many segments there were
	To     int // how many segments they became
	Stored int // segments that a store has, which stay as they are
}

// String tells it to people.
func (m Merged) String() string {
	s := fmt.Sprintf("%s: %d segments became %d", m.Crawl, m.From, m.To)
	if m.From == 0 {
		s = m.Crawl + ": nothing to merge"
	}
	if m.Stored > 0 {
		s += fmt.Sprintf("; %d stay, because a store has them", m.Stored)
	}
	return s
}

// Merge merges neighbouring committed segments of a crawl until each has about least bytes. WARC files keep their
// names. A segment that a store has stays as it is. No crawl may write meanwhile; readers may read. After a kill, the
// next Merge or FinishMerges ends what was begun: no record is lost, and none is there twice.
func (c *Committer) Merge(ctx context.Context, least int64) (done Merged, err error) {
	w := c.work()
	done.Crawl = c.Crawl
	if err := c.FinishMerges(); err != nil {
		return done, err
	}
	for {
		group, stored, err := w.group(least)
		done.Stored = stored
		if err != nil || len(group) == 0 {
			return done, errors.Join(err, c.FinishMerges(), c.WriteLists())
		}
		if err := w.merge(ctx, group); err != nil {
			return done, fmt.Errorf("merge segment %s and %d more: %w", group[0].Segment, len(group)-1, err)
		}
		done.From, done.To = done.From+len(group), done.To+1
		if err := errors.Join(c.WriteLists(), c.FinishMerges()); err != nil {
			return done, err
		}
	}
}

// group returns the manifests of the first neighbours that are to become one segment.
func (w *work) group(least int64) (group []Manifest, stored int, err error) {
	names, err := warc.SegmentNames(w.fs, w.Dir, w.Crawl)
	if err != nil {
		return nil, 0, err
	}
	var found []Manifest
	size := int64(0)
	end := func() {
		if len(found) == 0 && len(group) > 1 {
			found = group
		}
		group, size = nil, 0
	}
	for _, name := range names {
		folder := w.path(name)
		if _, err := w.fs.Stat(filepath.Join(folder, StoredName)); err == nil {
			stored++
			end()
			continue
		}
		if !committed(w.fs, folder) {
			end()
			continue
		}
		m, err := ReadManifest(w.fs, folder)
		if err != nil {
			return nil, 0, err
		}
		if m.Segment != name {
			return nil, 0, &manifestError{filepath.Join(folder, ManifestName), "it is of another segment"}
		}
		if m.Bytes >= least || len(group) == maxMerged {
			end()
		}
		if m.Bytes >= least {
			continue
		}
		if group, size = append(group, m), size+m.Bytes; size >= least {
			end()
		}
	}
	end()
	return found, stored, nil
}

// mergedName matches the name of a merged segment. Group 2 is how many segments it was made of.
var mergedName = regexp.MustCompile(`^(.*)-m(\d{1,9})$`)

// nameOf returns the name of the segment that a group becomes: that of the first one, and how many it was made of.
func nameOf(group []Manifest) string {
	first, n := group[0].Segment, 0
	for i, m := range group {
		many := 1
		if p := mergedName.FindStringSubmatch(m.Segment); p != nil {
			many, _ = strconv.Atoi(p[2])
			if i == 0 {
				first = p[1]
			}
		}
		n += many
	}
	return first + "-m" + strconv.Itoa(n)
}

func (w *work) merging() string {
	return filepath.Join(filepath.Dir(warc.SegmentsDir(w.Dir, w.Crawl)), mergingFolder)
}

// merge makes one segment of a group, and commits it. The old ones are still there afterwards.
func (w *work) merge(ctx context.Context, group []Manifest) error {
	m := Manifest{Format: Format, Crawl: w.Crawl, Segment: nameOf(group), Software: w.Software, Run: group[0].Run}
	folder := filepath.Join(w.merging(), m.Segment)
	if err := warc.MakeDirs(w.fs, w.Dir, folder); err != nil {
		return err
	}
	for i := range group {
		g := &group[i]
		m.Merged = append(m.Merged, g.Segment)
		m.Logs = append(m.Logs, g.Logs...)
		if g.Run != m.Run { // a segment of several crawls is of none
			m.Run = ""
		}
		for _, f := range g.Files {
			if !slices.Contains(warc.Folders[:], path.Dir(f.Name)) {
				continue
			}
			if err := w.copyFile(ctx, w.path(g.Segment), folder, f); err != nil {
				return err
			}
			m.Files = append(m.Files, f)
		}
	}
	m.Logs = joined(m.Logs)
	logs, err := w.joinLogs(ctx, group, folder, m.Segment)
	if err == nil {
		err = w.joinIndexes(ctx, group, folder, m.Segment)
	}
	if err != nil {
		return err
	}
	m.Files = append(m.Files, logs...)
	m.Files = append(m.Files, File{Name: IndexName})
	if w.Tables = tablesOf(group); w.Tables != NoTables {
		if err := w.tables(ctx, folder, &m); err != nil {
			return err
		}
	}
	if err := w.seal(ctx, folder, &m); err != nil {
		return err
	}
	to := w.path(m.Segment)
	return errors.Join(w.fs.Rename(folder, to), w.fs.SyncDir(filepath.Dir(to)), w.fs.SyncDir(w.merging()))
}

// tablesOf returns which tables the segments of a group have.
func tablesOf(group []Manifest) (kind string) {
	kind = NoTables
	for _, m := range group {
		for _, t := range m.Tables {
			if !strings.HasPrefix(t.Name, tables.IndexPath+"/") {
				return AllTables
			}
			kind = IndexOnly
		}
	}
	return kind
}

// copyFile copies a file of a segment, and compares its digest.
func (w *work) copyFile(ctx context.Context, from, to string, f File) error {
	name := filepath.FromSlash(f.Name)
	if err := warc.MakeDirs(w.fs, to, filepath.Dir(filepath.Join(to, name))); err != nil {
		return err
	}
	in, err := w.fs.OpenFile(filepath.Join(from, name), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	h := sha256.New()
	err = disk.WriteStream(w.fs, filepath.Join(to, name), func(out io.Writer) error {
		_, err := copyAll(io.MultiWriter(out, h), in, ctx.Err)
		return err
	})
	if err == nil && hexOf(h) != f.SHA256 {
		err = fmt.Errorf("%s: the SHA-256 is not that of the manifest: %w", filepath.Join(from, name), warc.ErrDamaged)
	}
	return err
}

// joined returns ranges with those that follow each other as one.
func joined(ranges []Range) (all []Range) {
	slices.SortFunc(ranges, func(a, b Range) int {
		return cmp.Or(cmp.Compare(a.Log, b.Log), cmp.Compare(a.ID, b.ID), cmp.Compare(a.From, b.From),
			cmp.Compare(a.To, b.To))
	})
	for _, r := range ranges {
		if n := len(all); n > 0 && all[n-1].Log == r.Log && all[n-1].ID == r.ID && all[n-1].To == r.From {
			last := &all[n-1]
			last.To, last.Lines = r.To, last.Lines+r.Lines
			last.End, last.Damaged = last.End || r.End, last.Damaged || r.Damaged
			continue
		}
		all = append(all, r)
	}
	return all
}

// joinLogs writes the logs of a group, one behind the other. Compressed files may follow each other.
func (w *work) joinLogs(ctx context.Context, group []Manifest, folder, name string) (files []File, err error) {
	for dir, to := range map[string]string{
		LogsFolder: CrawlLogGz, LinksFolder: path.Join(LinksFolder, name+".jsonl.gz"),
	} {
		file := File{Name: to}
		var from []string
		for _, m := range group {
			for _, f := range m.Files {
				if path.Dir(f.Name) == dir {
					from = append(from, filepath.Join(w.path(m.Segment), filepath.FromSlash(f.Name)))
					file.Lines += f.Lines
				}
			}
		}
		if len(from) == 0 {
			continue
		}
		target := filepath.Join(folder, filepath.FromSlash(to))
		if err := warc.MakeDirs(w.fs, folder, filepath.Dir(target)); err != nil {
			return nil, err
		}
		err := disk.WriteStream(w.fs, target, func(out io.Writer) error {
			for _, name := range from {
				in, err := w.fs.OpenFile(name, os.O_RDONLY, 0)
				if err != nil {
					return err
				}
				_, err = copyAll(out, in, ctx.Err)
				if err = errors.Join(err, in.Close()); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// joinIndexes merges the indexes of a group.
func (w *work) joinIndexes(ctx context.Context, group []Manifest, folder, name string) error {
	target, to := filepath.Join(folder, IndexName), path.Join(w.prefix(), name)
	tmp := target + ".work"
	if err := w.fs.MkdirAll(tmp, 0o755); err != nil {
		return err
	}
	q := extsort.New(w.fs, filepath.Join(tmp, "sort"), sortMemory, nil)
	defer q.Close() // the files are removed below
	for _, m := range group {
		f, err := w.fs.OpenFile(filepath.Join(w.path(m.Segment), IndexName), os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		err = pushLines(ctx, q, f, func(line []byte) ([]byte, error) {
			l, err := warc.ParseLine(line)
			part, file := path.Split(l.File)
			return renamed(line, l.File, path.Join(to, path.Base(part), file)), err
		})
		if f.Close(); err != nil { // it was only read
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	err := disk.WriteStream(w.fs, target, func(out io.Writer) error {
		return q.Each(func(line []byte) error {
			_, err := out.Write(line)
			return cmp.Or(err, ctx.Err())
		})
	})
	return errors.Join(err, w.fs.RemoveAll(tmp))
}

// FinishMerges ends merges that a kill has interrupted: it removes segments that a committed one was made of, and new
// segments that were not committed. No Merge may run meanwhile.
func (c *Committer) FinishMerges() error {
	w := c.work()
	entries, err := w.fs.ReadDir(w.merging())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	gone, err := w.superseded()
	if err != nil {
		return err
	}
	for name := range gone {
		if _, err := w.fs.Stat(w.path(name)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := tables.RemoveSegment(w.fs, w.Dir, w.Crawl, name); err != nil {
			return err
		}
		if err := w.fs.Rename(w.path(name), filepath.Join(w.merging(), name)); err != nil {
			return err
		}
	}
	if err := w.fs.SyncDir(warc.SegmentsDir(w.Dir, w.Crawl)); err != nil {
		return err
	}
	for _, e := range entries {
		if _, err := w.fs.Stat(w.path(e.Name())); gone[e.Name()] || err == nil {
			continue // an old segment, or the name of a committed one
		}
		if err := tables.RemoveSegment(w.fs, w.Dir, w.Crawl, e.Name()); err != nil {
			return err
		}
	}
	return errors.Join(w.fs.RemoveAll(w.merging()), w.fs.SyncDir(filepath.Dir(w.merging())))
}

// superseded returns the names of the segments that committed ones were made of.
func (w *work) superseded() (gone map[string]bool, err error) {
	names, err := warc.SegmentNames(w.fs, w.Dir, w.Crawl)
	if err != nil {
		return nil, err
	}
	gone = map[string]bool{}
	for _, name := range names {
		if !committed(w.fs, w.path(name)) {
			continue
		}
		m, err := ReadManifest(w.fs, w.path(name))
		if err != nil && !errors.Is(err, warc.ErrDamaged) {
			return nil, err
		}
		for _, old := range m.Merged {
			if old != name && filepath.IsLocal(old) && filepath.Base(old) == old {
				gone[old] = true
			}
		}
	}
	return gone, nil
}
