package segment

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/gzip"

	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/lines"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// The folders of a segment with the lines of logs, and the log of the crawl there.
const (
	LogsFolder  = "logs"
	LinksFolder = linklog.Folder
	crawlLog    = "logs/crawl.log"
	CrawlLogGz  = crawlLog + ".gz"
)

// A Range says which lines of a log a segment has.
type Range struct {
	// Log is a file of the crawl directory. That of a link log is NAME.jsonl, whether it is compressed or not.
	Log string `json:"log"`
	// ID tells a crawl.log from the one that was there before. It is the beginning of the digest of the first line.
	ID    string `json:"id,omitempty"`
	From  int64  `json:"from"` // byte of the log before compression
	To    int64  `json:"to"`
	Lines int64  `json:"lines"`
	// End means that the log had no more lines, and gets none.
	End bool `json:"end,omitempty"`
	// Damaged means that the log could not be read from To on.
	Damaged bool `json:"damaged,omitempty"`
}

// maxFirst bounds the first line of crawl.log as far as it is read for Range.ID, in bytes.
const maxFirst = 4 << 10

// taken are the ranges that committed segments have.
type taken []Range

// takenBefore returns the ranges of all committed segments of all crawls in the directory. A segment with a damaged
// manifest does not count: it must be committed again.
func (w *work) takenBefore() (t taken, err error) {
	crawls, err := warc.Crawls(w.fs, w.Dir)
	for _, crawl := range crawls {
		names, err := warc.SegmentNames(w.fs, w.Dir, crawl)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			folder := filepath.Join(warc.SegmentsDir(w.Dir, crawl), name)
			if !committed(w.fs, folder) {
				continue
			}
			m, err := ReadManifest(w.fs, folder)
			if err != nil && !errors.Is(err, warc.ErrDamaged) {
				return nil, err
			}
			t = append(t, m.Logs...)
		}
	}
	return t, err
}

// of returns the ranges of a log, sorted, and whether they reach to its end.
func (t taken) of(log, id string) (have []Range, all bool) {
	for _, r := range t {
		if r.Log == log && r.ID == id && r.To > r.From || r.Log == log && r.End {
			have = append(have, r)
		}
	}
	slices.SortFunc(have, func(a, b Range) int { return cmp.Compare(a.From, b.From) })
	at := int64(0)
	for _, r := range have {
		if r.From <= at {
			at = max(at, r.To)
			all = all || r.End && r.To == at
		}
	}
	return have, all
}

// logs writes the lines of the logs that no segment has. It returns what it has taken, with the files. A commit that
// was not completed may have left files, which it replaces or removes.
func (w *work) logs(ctx context.Context, folder, name string) (ranges []Range, files []File, err error) {
	left, err := w.left()
	if err != nil {
		return nil, nil, err
	}
	for _, to := range []struct {
		name string
		take func(context.Context, *copier) error
	}{
		{CrawlLogGz, left.crawlLog}, {path.Join(LinksFolder, name+".jsonl.gz"), left.linkLog},
	} {
		took, err := w.take(ctx, folder, to.name, to.take)
		if err != nil {
			return nil, nil, err
		}
		f := File{Name: to.name}
		for _, r := range took {
			f.Lines += r.Lines
		}
		if ranges = append(ranges, took...); f.Lines > 0 {
			files = append(files, f)
		}
	}
	return ranges, files, nil
}

// countLogs returns how many lines of the logs no segment has.
func (w *work) countLogs(ctx context.Context) (n int64, err error) {
	left, err := w.left()
	if err != nil {
		return 0, err
	}
	c := &copier{work: w, out: io.Discard}
	err = errors.Join(left.crawlLog(ctx, c), left.linkLog(ctx, c))
	for _, r := range c.took {
		n += r.Lines
	}
	return n, err
}

// left are the logs, and what committed segments have of them.
type left struct {
	links  []string // files of the link log
	before taken
}

func (w *work) left() (l left, err error) {
	if l.before, err = w.takenBefore(); err == nil {
		l.links, err = linklog.Files(w.fs, w.Dir)
	}
	return l, err
}

// take writes one file of lines, unless there are none.
func (w *work) take(
	ctx context.Context, folder, name string, take func(context.Context, *copier) error,
) (took []Range, err error) {
	file := filepath.Join(folder, filepath.FromSlash(name))
	if err := warc.MakeDirs(w.fs, folder, filepath.Dir(file)); err != nil {
		return nil, err
	}
	n := int64(0)
	err = disk.WriteStream(w.fs, file, func(out io.Writer) error {
		z, err := gzip.NewWriterLevel(out, logLevel)
		if err != nil {
			return err
		}
		c := &copier{work: w, out: z}
		err = errors.Join(take(ctx, c), z.Close())
		for _, r := range c.took {
			n += r.Lines
		}
		took = c.took
		return err
	})
	if err == nil && n == 0 {
		err = errors.Join(w.fs.Remove(file), w.fs.Remove(filepath.Dir(file)), w.fs.SyncDir(folder))
	}
	return took, err
}

// logLevel is the level of compression: that of the link log itself.
const logLevel = 4

// A copier copies lines of logs.
type copier struct {
	*work
	out  io.Writer
	took []Range
}

// crawlLog copies the lines of crawl.log.
func (l left) crawlLog(ctx context.Context, c *copier) error {
	f, err := c.fs.OpenFile(filepath.Join(c.Dir, filepath.FromSlash(crawlLog)), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	end, err := lines.Durable(f)
	if err != nil || end == 0 {
		return err
	}
	first := make([]byte, min(end, maxFirst))
	if _, err := f.ReadAt(first, 0); err != nil && err != io.EOF {
		return err
	}
	first, _, _ = bytes.Cut(first, []byte("\n"))
	sum := sha256.Sum256(first)
	id := hex.EncodeToString(sum[:8])
	have, _ := l.before.of(crawlLog, id)
	return c.copy(ctx, Range{Log: crawlLog, ID: id}, io.NewSectionReader(f, 0, end), have)
}

// linkLog copies the lines of the files of the link log.
func (l left) linkLog(ctx context.Context, c *copier) error {
	for _, name := range l.links {
		log := path.Join(linklog.Folder, linklog.LogName(name))
		have, all := l.before.of(log, "")
		if all {
			continue
		}
		raw, err := linklog.OpenRaw(c.fs, name)
		if linklog.IsDamage(err) {
			c.took = append(c.took, Range{Log: log, End: true, Damaged: true})
			continue
		}
		if err != nil {
			return err
		}
		err = errors.Join(c.copy(ctx, Range{Log: log, End: raw.Finished}, raw, have), raw.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

// copy copies the lines of a log that are in none of the ranges. as has the fields of what it takes.
func (c *copier) copy(ctx context.Context, as Range, in io.Reader, have []Range) error {
	end := as.End
	as.End = false
	at := int64(0)
	for _, h := range have {
		if h.From > at {
			n, err := c.part(ctx, as, at, h.From, in)
			if err != nil || n < h.From {
				return err
			}
			at = n
		}
		if h.To > at {
			n, err := c.skip(ctx, in, h.To-at)
			if at += n; err != nil || at < h.To {
				return err
			}
		}
	}
	as.End = end
	_, err := c.part(ctx, as, at, 1<<62, in)
	return err
}

// skip reads n bytes, or less if there are no more.
func (c *copier) skip(ctx context.Context, in io.Reader, n int64) (skipped int64, err error) {
	if s, ok := in.(io.Seeker); ok {
		_, err = s.Seek(n, io.SeekCurrent)
		return n, err
	}
	for skipped < n {
		k, err := io.CopyN(io.Discard, in, min(n-skipped, 1<<20))
		skipped += k
		if err == io.EOF || linklog.IsDamage(err) {
			return skipped, nil
		}
		if err = cmp.Or(err, c.pace.Rest(ctx)); err != nil {
			return skipped, err
		}
	}
	return skipped, nil
}

// maxHeld bounds the beginning of a line that part holds, in bytes. The longest lines of our own have 5 MiB.
const maxHeld = 8 << 20

// part copies the complete lines of in, which stands at from, up to to. It returns where they end.
func (c *copier) part(ctx context.Context, as Range, from, to int64, in io.Reader) (end int64, err error) {
	as.From, as.To = from, from
	in = io.LimitReader(in, to-from)
	buf, held := make([]byte, 64<<10), []byte(nil)
	for {
		n, err := in.Read(buf)
		if i := bytes.LastIndexByte(buf[:n], '\n'); i < 0 {
			held = append(held, buf[:n]...)
		} else {
			line := append(held, buf[:i+1]...)
			if _, err := c.out.Write(line); err != nil {
				return 0, err
			}
			as.To += int64(len(line))
			as.Lines += int64(bytes.Count(line, []byte("\n")))
			held = append(held[:0], buf[i+1:n]...)
		}
		if linklog.IsDamage(err) || len(held) > maxHeld {
			as.Damaged, err = true, io.EOF
		}
		if err == io.EOF {
			if as.To > as.From || as.End || as.Damaged {
				c.took = append(c.took, as)
			}
			return as.To, nil
		}
		if err = cmp.Or(err, c.pace.Rest(ctx)); err != nil {
			return 0, fmt.Errorf("%s: %w", as.Log, err)
		}
	}
}
