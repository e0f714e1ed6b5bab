package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/output/crawls"
	"github.com/orbweaver/orbweaver/internal/output/segment"
	"github.com/orbweaver/orbweaver/internal/output/wacz"
	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// WarcCmd implements "warc": commands for WARC files of any origin.
type WarcCmd struct {
	Ls      WarcLsCmd      `cmd:"" help:"List the records of WARC files."`
	Verify  WarcVerifyCmd  `cmd:"" help:"Check WARC files from end to end: structure, lengths, compression, digests."`
	Index   WarcIndexCmd   `cmd:"" help:"Write a CDXJ index of WARC files, in the format of pywb."`
	Extract WarcExtractCmd `cmd:"" help:"Print one record of a WARC file, or the capture of a URL in a crawl."`
	Merge   WarcMergeCmd   `cmd:"" help:"Merge the small segments of a crawl."`
}

// WarcLsCmd implements "warc ls".
type WarcLsCmd struct {
	JSON  bool     `help:"Print one JSON object per record instead of a table."`
	Files []string `arg:"" optional:"" name:"file" help:"${warc_ls_files}"`
}

// Help explains the columns.
func (WarcLsCmd) Help() string {
	return `OFFSET and LENGTH are the record's place in the file, in bytes: give OFFSET to
"warc extract --offset". TYPE is the WARC-Type. STATUS and MIME are those of the
HTTP message in the record. A dash means that the record has no such field.

If a crawl has archived nothing, the command says so on standard error and ends
with exit code 0. It passes over damaged places, names them on standard error,
and ends with exit code 1.

  orbweaver warc ls crawl/archive/*.warc.gz
  orbweaver warc ls --json crawl | jq -r 'select(.status=="404").url'`
}

// Run lists the records.
func (c *WarcLsCmd) Run(out io.Writer, errs cli.ErrorOutput, given *elsewhere) error {
	c.Files = given.dirs(c.Files)
	return untilSignal(func(ctx context.Context) error { return c.list(ctx, out, errs) })
}

func (c *WarcLsCmd) list(ctx context.Context, out, errs io.Writer) error {
	from, err := openInputs(ctx, c.Files)
	if err != nil {
		return err
	}
	in, err := openWARCs(ctx, errs, from, c.Files)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	defer w.Flush()
	flaws := flawList{errs: errs}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, file := range in.files {
		if !c.JSON {
			if len(in.files) > 1 {
				fmt.Fprintf(w, "%s\n", warcCell(crawls.Name(file)))
			}
			fmt.Fprintf(w, "%11s %9s  %-8s  %6s  %-24s  %-24s  %s\n",
				"OFFSET", "LENGTH", "TYPE", "STATUS", "MIME", "DATE", "URL")
		}
		shared := int64(0)
		err := withWARC(in, file, func(f disk.File) error {
			return warc.List(f, func(r warc.Row) error {
				if r.Length == 0 {
					shared++
				}
				if c.JSON {
					return enc.Encode(struct {
						File string `json:"file"`
						warc.Row
					}{crawls.Name(file), r})
				}
				_, err := fmt.Fprintf(w, "%11d %9d  %-8s  %6s  %-24s  %-24s  %s\n", r.Offset, r.Length,
					warcCell(r.Type), warcCell(r.Status), warcCell(r.MIME), warcCell(r.Date), warcCell(r.URL))
				return err
			})
		})
		if shared > 0 {
			fmt.Fprintf(errs, "orbweaver: warning: %s: %s with a LENGTH of 0 in gzip members with others, where no "+
				"reader can start; \"warcio recompress\" gives each its own\n", report.OneLine(file),
				plural(shared, "record"))
		}
		if err := flaws.take(file, err); err != nil {
			return err
		}
	}
	return errors.Join(w.Flush(), flaws.err())
}

// WarcVerifyCmd implements "warc verify".
type WarcVerifyCmd struct {
	Warnings bool     `help:"Print warnings, too, not only errors."`
	JSON     bool     `help:"Print one JSON object per file."`
	Files    []string `arg:"" optional:"" name:"file" help:"${warc_verify_files}"`

	checked, wrong int // files
}

// Help explains what is checked.
func (WarcVerifyCmd) Help() string {
	return `A file is valid if it consists of records from end to end. Each record must have
the length in its header, its own gzip member, the fields that ISO 28500
requires, and content that matches its digests. Readers tolerate what causes a
warning: segment fields that contradict the record's type, the record ID of
another record in these files, and more. After damage, the check continues with
the next record that it finds; SKIPPED counts the bytes between.

Of a crawl with segments, of its folder crawl-data or a copy of it, and of the
folder of a segment it also checks the manifests: each file must have its size,
SHA-256, records and times, and the index the records of the WARC files.

Of a WACZ file it also checks that the files in it have the sizes and the SHA-256
that datapackage.json lists; RECORDS then counts these files.

The command prints one line per file, then its errors. The exit code is 1 if any
file has an error. An empty archive of a crawl has none: the exit code is 0, and
standard error says that the archive is empty.

  orbweaver warc verify crawl
  orbweaver warc verify --warnings *.warc.gz`
}

// errVerify says that files have errors, which have been printed.
var errVerify = errors.New("files with errors, which are listed above")

// Run checks the files.
func (c *WarcVerifyCmd) Run(out io.Writer, errs cli.ErrorOutput, given *elsewhere) error {
	c.Files = given.dirs(c.Files)
	return untilSignal(func(ctx context.Context) error { return c.verify(ctx, out, errs) })
}

func (c *WarcVerifyCmd) verify(ctx context.Context, out, errs io.Writer) error {
	from := crawls.New(ctx, disk.OS, crawls.Opener(placeOf("")))
	names, err := from.Locate(c.Files)
	if err != nil {
		return bad("%v", err)
	}
	args, err := segment.Among(from.Mounted, names)
	if err != nil {
		return noWARC(strings.Join(c.Files, " "), err)
	}
	if err := showInputs(from, args.Others); err != nil {
		return err
	}
	in, err := openWARCs(ctx, errs, from, append(args.Others, args.WARCs...))
	if err != nil {
		return err
	}
	if len(in.files)+len(args.Folders) == 0 {
		return nil // the archives are empty
	}
	var v warc.Verifier
	if !c.JSON {
		fmt.Fprintf(out, "%9s %14s %7s %9s %9s  %s\n", "RECORDS", "BYTES", "ERRORS", "WARNINGS", "SKIPPED", "FILE")
	}
	for _, file := range in.files {
		var rep *warc.Report
		err := withWARC(in, file, func(f disk.File) (err error) {
			rep, err = v.Verify(f)
			return err
		})
		if flaws, ok := errors.AsType[*warc.Flaws](err); ok {
			rep, err = flaws.Report(), nil
		}
		if err := c.print(out, file, rep, err); err != nil {
			return err
		}
	}
	for _, folder := range args.Folders {
		rep, err := segment.Verify(in, folder)
		if err := c.print(out, folder.Manifest(), rep, err); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.packs)) {
		rep, err := in.packs[name].Verify(ctx)
		if err := c.print(out, filepath.Join(name, "datapackage.json"), rep, err); err != nil {
			return err
		}
	}
	if c.wrong > 0 {
		return fmt.Errorf("%w: %d of %d", errVerify, c.wrong, c.checked)
	}
	return nil
}

// print prints the result for one file. A file that could not be read has an error more. print returns err if that says
// that no file can be read.
func (c *WarcVerifyCmd) print(out io.Writer, file string, rep *warc.Report, err error) error {
	if rep, err = segment.Unread(rep, err); err != nil {
		return err
	}
	c.checked++
	if !rep.OK() {
		c.wrong++
	}
	file = crawls.Name(file)
	if c.JSON {
		return json.NewEncoder(out).Encode(struct {
			File string `json:"file"`
			*warc.Report
		}{file, rep})
	}
	_, err = fmt.Fprintf(out, "%9d %14d %7d %9d %9d  %s\n",
		rep.Records, rep.Bytes, rep.Errors, rep.Warnings, rep.Skipped, warcCell(file))
	more := rep.Errors
	if c.Warnings {
		more += rep.Warnings
	}
	for _, p := range rep.Problems {
		if err == nil && (c.Warnings || !p.Warning) {
			more--
			_, err = fmt.Fprintf(out, "    %s\n", warcCell(p.String()))
		}
	}
	if err == nil && more > 0 {
		_, err = fmt.Fprintf(out, "    and %d more\n", more)
	}
	return err
}

// WarcMergeCmd implements "warc merge".
type WarcMergeCmd struct {
	Size quantity.ByteSize `default:"1GB" placeholder:"BYTES" help:"Merge neighbours until a segment has BYTES."`
	Dir  string            `arg:"" optional:"" default:"crawl" help:"Crawl directory with segments (default: ./crawl)."`
}

// Help explains what is merged.
func (WarcMergeCmd) Help() string {
	return `The WARC files keep their names and move into the new segment. Index, logs and
tables of the segments become one of each. No crawl may run in the directory;
readers may. Segments that a store has stay as they are. After a kill, the next
call or the next run of the crawl ends what was begun.

  orbweaver warc merge --size 1GB crawl`
}

// Run merges the segments.
func (c *WarcMergeCmd) Run(out io.Writer) error {
	return untilSignal(func(ctx context.Context) error {
		done, err := segment.MergeIn(ctx, disk.AsPrivateAs(c.Dir), c.Dir, "Orbweaver/"+node.Version, int64(c.Size))
		for _, m := range done {
			fmt.Fprintln(out, m)
		}
		switch {
		case errors.Is(err, disk.ErrLocked):
			return bad("%s is being crawled; merge its segments when the crawl has ended", c.Dir)
		case err != nil:
			return refused(c.Dir, c.Dir, err)
		case len(done) == 0:
			return bad("%s: no crawl directory with segments, which \"orbweaver crawl --segment\" makes", c.Dir)
		}
		return nil
	})
}

// WarcIndexCmd implements "warc index".
type WarcIndexCmd struct {
	ZipNum string   `name:"zipnum" placeholder:"DIR" help:"${warc_index_zipnum}"`
	Files  []string `arg:"" optional:"" name:"file" help:"${warc_index_files}"`
}

// Help explains the format.
func (WarcIndexCmd) Help() string {
	return `Each line is one capture: its URL as a sort key (SURT), the time in 14 digits, and
the other fields as JSON. The lines of WARC files go to standard output, sorted
by bytes. Those of a crawl directory go to its indexes/index.cdxj. A crawl writes
that file at its end; after a kill, this command does.

The command passes over damaged places and records that can have no index line,
names them on standard error, and ends with exit code 1. All other records are in
the index.

With --zipnum, the indexes of crawl directories, stores and WACZ files, such as
those of the agents of a cluster, become one compressed index (ZipNum), with
bounded memory. WARC files that have no index are read. A file that exists is
not replaced.

  orbweaver warc index *.warc.gz > index.cdxj
  orbweaver warc index crawl
  orbweaver warc index --zipnum merged crawl-a1 crawl-a2`
}

// Run writes the index.
func (c *WarcIndexCmd) Run(out io.Writer, errs cli.ErrorOutput, given *elsewhere) error {
	c.Files = given.dirs(c.Files)
	return untilSignal(func(ctx context.Context) error { return c.index(ctx, out, errs) })
}

func (c *WarcIndexCmd) index(ctx context.Context, out, errs io.Writer) error {
	flaws := flawList{errs: errs}
	from, err := openInputs(ctx, c.Files)
	if err != nil {
		return err
	}
	if c.ZipNum != "" {
		return c.merge(ctx, from, out, errs)
	}
	if is, err := from.IsCrawlDir(c.Files[0]); len(c.Files) == 1 && is && err == nil && !from.Shown(c.Files[0]) {
		if pid, err := crawldir.CrawledBy(c.Files[0]); err == nil && pid != 0 {
			return bad("%s is being crawled by process %d, which writes the index when it ends; replay, export and "+
				"warc extract need none", c.Files[0], pid)
		}
		flaws.unsupported(from, filepath.Join(c.Files[0], "archive"), true)
		if err := flaws.take("", warc.BuildIndex(reading(ctx, errs, from), c.Files[0])); err != nil {
			return refused(c.Files[0], c.Files[0], err)
		}
		return flaws.err()
	}
	in, err := openWARCs(ctx, errs, from, c.Files)
	if err != nil {
		return err
	}
	tmp, err := temporary("orbweaver-index-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := flaws.take("", warc.SortedIndex(in, in.files, tmp, cli.Exact(out))); err != nil {
		return err
	}
	return flaws.err()
}

// merge writes the merged index into a new directory.
func (c *WarcIndexCmd) merge(ctx context.Context, in *crawls.FS, out, errs io.Writer) (err error) {
	archive, err := openArchive(ctx, errs, in, c.Files, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	var fsys disk.FS
	for _, path := range c.Files {
		fsys = cmp.Or(fsys, disk.AsPrivateAs(path))
	}
	n, err := warc.MergeIndexes(ctx, archive.fs, archive.places, cmp.Or(fsys, disk.OS), c.ZipNum)
	switch {
	case errors.Is(err, warc.ErrIndexThere), errors.Is(err, disk.ErrForeign):
		return bad("--zipnum %s: this directory, or %[1]s.partial, is there, and not replaced; name a new one",
			c.ZipNum)
	case errors.Is(err, context.Canceled):
		return &exitError{exitSignal, "stopped; nothing was written to " + c.ZipNum}
	case err != nil:
		return refused("--zipnum "+c.ZipNum, c.ZipNum, err)
	}
	fmt.Fprintf(out, "%s lines in %s\n", humanize.Comma(n), c.ZipNum)
	return archive.flaws.err()
}

// WarcExtractCmd implements "warc extract".
type WarcExtractCmd struct {
	File    string `arg:"" optional:"" help:"${warc_extract_file}"`
	Offset  *int64 `help:"Print the record that begins at this byte; \"warc ls\" lists the offsets." xor:"which"`
	URL     string `name:"url" help:"${warc_url}" xor:"which"`
	At      string `placeholder:"TIME" help:"${warc_at}"`
	Payload bool   `help:"Print only the body, without transfer coding and content coding." xor:"part"`
	Headers bool   `help:"Print only the record's header and the HTTP header." xor:"part"`
	// Originals are crawl directories of other agents.
	Originals []string `placeholder:"DIR" help:"${warc_originals}"`

	archive *openedArchive // of File, if it is a crawl directory, and of Originals
}

// Help explains the output.
func (WarcExtractCmd) Help() string {
	return `Without --payload or --headers the command prints the whole record: WARC header
and content.

  orbweaver warc extract crawl --url https://example.com/ --payload
  orbweaver warc extract crawl/archive/X.warc.gz --offset 1834 --headers

The bytes are exact. Only on a terminal, control characters are escaped.

A revisit record has no body. With --payload the command looks for its original
record in the crawl directory of the file, then in the directories of
--originals. For a file outside of a crawl directory, it also looks in the file
itself. In a cluster, another agent's archive may have the original.`
}

// Run prints the record.
func (c *WarcExtractCmd) Run(out io.Writer, errs cli.ErrorOutput, given *elsewhere) error {
	if c.File == "" && c.Offset != nil {
		return bad("--offset %d is a place in a WARC file; name the file", *c.Offset)
	}
	if c.File == "" {
		c.File = given.dirs(nil)[0]
	}
	return untilSignal(func(ctx context.Context) error { return c.extract(ctx, out, errs) })
}

func (c *WarcExtractCmd) extract(ctx context.Context, out, errs io.Writer) (err error) {
	if c.Offset == nil && c.URL == "" {
		return bad("warc extract: choose a record with --offset N or --url URL")
	}
	if c.Offset != nil && *c.Offset < 0 {
		return bad("--offset %d is negative; \"warc ls\" lists the offsets of the records", *c.Offset)
	}
	if c.At != "" && c.URL == "" {
		return bad("--at %s has no effect without --url URL", c.At)
	}
	if typed, err := input.ParseURL("--url", c.URL); err == nil && typed.Bare {
		c.URL = typed.URL.String() // the index ignores the scheme
	}
	named := []string{c.File}
	in, err := openInputs(ctx, named, c.Originals)
	if err != nil {
		return err
	}
	c.File = named[0]
	if !isArchive(in, c.File) || c.URL == "" {
		named = nil
	}
	c.archive, err = openArchive(ctx, errs, in, named, c.Originals)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.archive.Close()) }()
	out = cli.Exact(out)
	if isArchive(in, c.File) {
		return c.fromCrawl(ctx, out)
	}
	one, err := openWARCs(ctx, errs, in, []string{c.File})
	if err != nil {
		return err
	}
	return withWARC(one, c.File, func(f disk.File) error {
		if c.URL == "" {
			return c.at(ctx, out, f, *c.Offset)
		}
		rec, err := warc.Find(f, c.URL)
		flaws := flawList{errs: errs}
		if err := flaws.take(c.File, err); err != nil {
			return err
		}
		if rec == nil {
			return c.notThere()
		}
		return c.write(ctx, out, f, rec)
	})
}

// notThere is the error of a URL without a capture.
func (c *WarcExtractCmd) notThere() error {
	return &exitError{exitOther, fmt.Sprintf("no capture of %s in %s\nSee \"orbweaver warc ls %[2]s\".", c.URL, c.File)}
}

// at prints the record that begins at offset.
func (c *WarcExtractCmd) at(ctx context.Context, out io.Writer, f archiveFile, offset int64) error {
	rec, err := warc.At(f, offset)
	if err != nil {
		return err
	}
	return c.write(ctx, out, f, rec)
}

// An archiveFile is an open WARC file.
type archiveFile interface {
	io.ReadSeeker
	Name() string
}

// original opens the record that holds the payload of the revisit record rec of f. The
// caller closes the closer when it has read the record.
func (c *WarcExtractCmd) original(f archiveFile, rec *warc.Record) (*warc.Record, io.Closer, error) {
	ref := rec.Reference()
	places := slices.Concat(c.archive.places, c.archive.originals)
	path, err := filepath.Abs(f.Name())
	if err != nil {
		return nil, nil, err
	}
	if own, is := warc.CrawlDir(path); is && len(c.archive.places) == 0 && isCrawlDir(own) {
		places = append(warc.Places(own), places...)
	}
	found, file, err := warc.OpenOriginal(c.archive.fs, places, ref)
	if errors.Is(err, warc.ErrNoOriginal) { // the index of a running or killed crawl lacks its last file
		if found, err = warc.FindOriginal(f, ref); err == nil {
			return found, io.NopCloser(nil), nil
		}
	}
	if errors.Is(err, warc.ErrNoOriginal) {
		return nil, nil, fmt.Errorf("the record at %d is a revisit without a body, and its original was not "+
			"found: %s; name the crawl directories of other agents or of earlier crawls with --originals",
			rec.Offset, warcCell(ref.String()))
	}
	return found, file, err
}

// maxChoices is how many captures the error lists that asks to choose one.
const maxChoices = 100

// fromCrawl finds the capture by the index of the crawl directory and prints it.
func (c *WarcExtractCmd) fromCrawl(ctx context.Context, out io.Writer) error {
	if c.URL == "" {
		what := "crawl directory"
		if wacz.Is(c.File) {
			what = "WACZ"
		}
		return bad("%s: a %s needs --url; for --offset, give one of the files in its archive", c.File, what)
	}
	captures, err := warc.Lookup(c.archive.fs, c.archive.places[0], c.URL)
	if err != nil {
		return err
	}
	captures = slices.DeleteFunc(captures, func(l warc.Line) bool { return !strings.HasPrefix(l.Time, c.At) })
	if len(captures) == 0 {
		return c.notThere()
	}
	if len(captures) > 1 && c.At == "" {
		var b strings.Builder
		t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
		for i, l := range captures {
			if i == maxChoices {
				fmt.Fprintf(t, "  and %d more\n", len(captures)-i)
				break
			}
			fmt.Fprintf(t, "  --at %s\t%s\t%s\t%s\n", l.Time, warcCell(l.Status), warcCell(l.MIME), warcCell(l.URL))
		}
		t.Flush()
		return fmt.Errorf("%d captures of %s; choose one:\n%s", len(captures), c.URL,
			strings.TrimRight(b.String(), "\n"))
	}
	rec, f, err := warc.OpenRecord(c.archive.fs, c.archive.places[0].Dir, captures[0])
	if err != nil {
		return withRemedy(err)
	}
	defer f.Close()
	if err = c.write(ctx, out, f, rec); errors.Is(err, warc.ErrDamaged) || warc.Undecodable(err) {
		return withRemedy(warc.Unreadable(f.Name(), err))
	}
	return err
}

// write prints rec, a record of f, or the part that --payload or --headers asks for.
func (c *WarcExtractCmd) write(ctx context.Context, out io.Writer, f archiveFile, rec *warc.Record) error {
	if c.Payload {
		if rec.Type() == "revisit" {
			found, file, err := c.original(f, rec)
			if err != nil {
				return err
			}
			defer file.Close()
			rec = found
		}
		body, err := rec.Payload(ctx)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, body)
		return err
	}
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%s\r\n", rec.Version)
	for _, f := range rec.Header {
		fmt.Fprintf(w, "%s: %s\r\n", f.Name, f.Value)
	}
	w.WriteString("\r\n")
	if c.Headers {
		head, err := rec.HTTPHead()
		if err != nil {
			return err
		}
		w.Write(head)
		return w.Flush()
	}
	if _, err := io.Copy(w, rec); err != nil {
		return err
	}
	w.WriteString("\r\n\r\n")
	return w.Flush()
}
