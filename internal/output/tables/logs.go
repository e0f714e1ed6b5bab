package tables

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base32"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/klauspost/compress/gzip"
	"github.com/parquet-go/parquet-go"

	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/lines"
)

// The tables besides that of the index, by their folders below Config.Out.
const (
	logPath      = "log"
	failuresPath = "failures"
	linksPath    = "links"
	hostsPath    = "hosts"
)

var otherPaths = []string{logPath, failuresPath, linksPath, hostsPath}

// logColumns are those of crawl.log, and of the failures among its lines.
var logColumns = []column{
	{name: "time", node: millis()},
	{name: "status", node: number(), repeats: true},
	{name: "error", node: text(), optional: true, repeats: true},
	{name: "size", node: long(), optional: true},
	{name: "url", node: text()},
	{name: "host", node: text(), repeats: true},
	{name: "hops", node: text(), repeats: true},
	{name: "referrer", node: text(), optional: true, repeats: true},
	{name: "mime_type", node: text(), optional: true, repeats: true},
	{name: "fetch_time", node: millis(), optional: true},
	{name: "took_ms", node: long(), optional: true},
	{name: "digest", node: text(), optional: true},
	{name: "source_tag", node: text(), optional: true, repeats: true},
	{name: "segment", node: text(), repeats: true},
	{name: "annotations", node: parquet.List(text())},
}

var linksColumns = []column{
	{name: "source", node: text(), repeats: true},
	{name: "target", node: text()},
	{name: "kind", node: text(), optional: true, repeats: true},
	{name: "rel", node: text(), optional: true, repeats: true},
	{name: "text", node: text(), optional: true, repeats: true},
	{name: "time", node: millis(), repeats: true},
	{name: "source_status", node: number(), repeats: true},
	{name: "source_host", node: text(), repeats: true},
	{name: "target_host", node: text(), repeats: true},
	{name: "segment", node: text(), repeats: true},
}

// hostsCounts are the columns of reports/hosts.csv behind the host.
var hostsCounts = []string{"pages", "files", "urls", "bytes", "errors", "robots_denied", "duplicates", "robots_txt"}

func hostsColumns() []column {
	columns := []column{{name: "host", node: text()}}
	for _, name := range hostsCounts {
		columns = append(columns, column{name: name, node: long()})
	}
	return append(columns, column{name: "segment", node: text(), repeats: true})
}

// maxLogLine is the longest line of crawl.log or hosts.csv that is read, in bytes.
const maxLogLine = 1 << 20

var (
	errLogLine  = errors.New("not a line of crawl.log")
	errHostLine = errors.New("not a line of hosts.csv")
	errLinkLog  = errors.New("damage in a link log")
)

// others writes the tables besides that of the index.
func (w *writer) others(ctx context.Context) (err error) {
	sinks := map[string]*sink{}
	for path, columns := range map[string][]column{
		logPath: logColumns, failuresPath: logColumns, linksPath: linksColumns, hostsPath: hostsColumns(),
	} {
		dir := filepath.Join(w.work.Dir, partition(path, w.cfg.Crawl))
		sinks[path] = newSink(w.fs, dir, w.cfg.Crawl+" "+path, columns, "", &w.cfg)
	}
	defer func() {
		for _, s := range sinks {
			err = errors.Join(err, s.abort())
		}
	}()
	var hostless []string
	for _, d := range w.cfg.Dirs {
		if err := w.log(ctx, d, sinks[logPath], sinks[failuresPath]); err != nil {
			return err
		}
		if err := w.links(ctx, d, sinks[linksPath]); err != nil {
			return err
		}
		found, err := w.hosts(ctx, d, sinks[hostsPath])
		if err != nil {
			return err
		}
		if !found {
			hostless = append(hostless, d.Place.Dir)
		}
	}
	if failures := sinks[failuresPath]; sinks[logPath].rows > 0 && failures.rows == 0 {
		// A query that names the table must find a file, also if nothing failed.
		if err := failures.open(); err != nil {
			return err
		}
	}
	for _, path := range otherPaths {
		s := sinks[path]
		if err := s.end(); err != nil {
			return err
		}
		if s.files > 0 {
			t := Table{Name: path, Path: path, Rows: s.rows, Files: int64(s.files), Bytes: s.bytes}
			if path == hostsPath {
				t.Without = hostless
			}
			w.result.Tables = append(w.result.Tables, t)
		}
	}
	return nil
}

// eachLine calls fn with each line of a file, which may be missing. A line for which fn returns false is a fault.
func (w *writer) eachLine(ctx context.Context, name string, fault error, fn func(line string) (bool, error)) error {
	f, err := w.fs.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) && w.cfg.segment != "" {
		f, err = w.fs.OpenFile(name+".gz", os.O_RDONLY, 0)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var text io.Reader = f
	if strings.HasSuffix(f.Name(), ".gz") {
		if text, err = gzip.NewReader(f); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	in, done, told := lines.NewReader(text, readBuffer, maxLogLine), int64(0), int64(0)
	for n := 1; ; n++ {
		line, err := in.Next()
		ok := false
		switch {
		case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF): // the crawl may be writing the last line
			return nil
		case errors.Is(err, bufio.ErrTooLong):
		case err != nil:
			return err
		default:
			done += int64(len(line)) + 1
			if ok, err = fn(string(line)); err != nil {
				return err
			}
		}
		if done-told > 1<<20 {
			told = done
			step := "has written the rows of " + humanize.Bytes(uint64(done)) + " of " + filepath.Base(name)
			if err := w.cfg.Progress.Step(step); err != nil {
				return err
			}
		}
		if !ok {
			w.fault(name+", line "+strconv.Itoa(n), fault)
		}
		if err := w.rest(ctx); err != nil || n%1000 == 0 && ctx.Err() != nil {
			return cmp.Or(err, ctx.Err())
		}
	}
}

// log writes the rows of a crawl.log.
func (w *writer) log(ctx context.Context, d Dir, all, failures *sink) error {
	r := &row{columns: logColumns}
	name := filepath.Join(d.Place.Dir, "logs", "crawl.log")
	return w.eachLine(ctx, name, errLogLine, func(line string) (bool, error) {
		l, err := report.ReadLine(line)
		if err != nil || l.Code < math.MinInt32 || l.Code > math.MaxInt32 {
			return false, nil
		}
		fillLog(r, &l, d.Segment)
		if err := all.add(r); err != nil {
			return false, err
		}
		if !l.Broken() || l.Replaced() {
			return true, nil
		}
		return true, failures.add(r)
	})
}

func fillLog(r *row, l *report.Line, segment string) {
	r.begin()
	r.time(l.Time)
	r.int32(int32(l.Code))
	r.clean(l.ErrorKind())
	r.longOr(l.Size, l.Size >= 0)
	r.clean(l.URL)
	r.clean(placeOf(l.URL).host)
	r.clean(l.Hops)
	r.clean(l.Via)
	r.clean(l.MIME)
	if l.Began.IsZero() {
		r.null()
		r.null()
	} else {
		r.time(l.Began)
		r.longOr(l.Took.Milliseconds(), true)
	}
	if l.HasDigest {
		r.text(base32.StdEncoding.EncodeToString(l.Digest[:]))
	} else {
		r.null()
	}
	r.clean(l.Seed)
	r.clean(segment)
	r.list(l.Notes)
}

// links writes a row for each link of a link log.
func (w *writer) links(ctx context.Context, d Dir, s *sink) error {
	r, pages := &row{columns: linksColumns}, int64(0)
	damage, err := linklog.Read(w.fs, []string{d.Place.Dir}, func(p *linklog.PageLine) error {
		if p.Status < math.MinInt32 || p.Status > math.MaxInt32 {
			w.fault(d.Place.Dir, errLinkLog)
			return nil
		}
		if pages++; pages%10_000 == 0 {
			if err := w.cfg.Progress.Step("has written the links of " + count(pages, "page")); err != nil {
				return err
			}
		}
		source := placeOf(p.URL).host
		for i := range p.Links {
			l := &p.Links[i]
			r.begin()
			r.clean(p.URL)
			r.clean(l.Target)
			r.clean(l.Kind)
			r.clean(l.Rel)
			r.clean(l.Anchor)
			r.time(p.Time)
			r.int32(int32(p.Status))
			r.clean(source)
			r.clean(placeOf(l.Target).host)
			r.clean(d.Segment)
			if err := s.add(r); err != nil {
				return err
			}
		}
		return cmp.Or(w.rest(ctx), ctx.Err())
	})
	for range damage.Lines + damage.Files {
		w.fault(damage.First, errLinkLog)
	}
	return err
}

// hosts writes the rows of reports/hosts.csv, which a crawl writes at its end. found is false if the directory has no
// such file, or an empty one.
func (w *writer) hosts(ctx context.Context, d Dir, s *sink) (found bool, err error) {
	r, first := &row{columns: hostsColumns()}, true
	err = w.eachLine(ctx, filepath.Join(d.Place.Dir, "reports", "hosts.csv"), errHostLine,
		func(line string) (bool, error) {
			cells, err := csv.NewReader(strings.NewReader(line)).Read()
			if first {
				first = false
				return err == nil && strings.Join(cells, ",") == "host,"+strings.Join(hostsCounts, ","), nil
			}
			if err != nil || len(cells) != len(hostsCounts)+1 {
				return false, nil
			}
			r.begin()
			r.clean(strings.TrimPrefix(cells[0], "'")) // which keeps a spreadsheet from taking it for a formula
			for _, cell := range cells[1:] {
				n, err := strconv.ParseInt(cell, 10, 64)
				if err != nil {
					return false, nil
				}
				r.longOr(n, true)
			}
			r.clean(d.Segment)
			return true, s.add(r)
		})
	return !first, err
}

// clean puts a text of a log, which may have any bytes.
func (r *row) clean(s string) { r.text(strings.ToValidUTF8(s, "\ufffd")) }

func (r *row) longOr(n int64, ok bool) {
	if !ok {
		r.null()
		return
	}
	r.put(parquet.Int64Value(n), 8)
}

// list puts a list of texts. It must be the last column.
func (r *row) list(all []string) {
	if len(all) == 0 {
		r.null()
		return
	}
	for i, s := range all {
		s = strings.ToValidUTF8(s, "\ufffd")
		repeated := min(i, 1)
		r.values = append(r.values, parquet.ByteArrayValue([]byte(s)).Level(repeated, 1, r.at))
		r.size += int64(len(s))
	}
	r.at++
}
