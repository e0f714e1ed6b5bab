package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// WarcCmd looks into WARC files: ours and other people's.
type WarcCmd struct {
	Ls      WarcLsCmd      `cmd:"" help:"List the records of WARC files."`
	Verify  WarcVerifyCmd  `cmd:"" help:"Check WARC files from end to end: structure, lengths, compression, digests."`
	Index   WarcIndexCmd   `cmd:"" help:"Write the CDXJ index of WARC files, as pywb wants it."`
	Extract WarcExtractCmd `cmd:"" help:"Take one record out of a WARC file, or the capture of a URL out of a crawl."`
}

// A WarcLsCmd is "warc ls".
type WarcLsCmd struct {
	JSON  bool     `help:"One JSON object a record instead of a table."`
	Files []string `arg:"" name:"file" help:"WARC files (.warc or .warc.gz, also .open), or crawl directories."`
}

// Help teaches the columns.
func (WarcLsCmd) Help() string {
	return `OFFSET and LENGTH are the record's place in the file: give OFFSET to
"warc extract --offset". TYPE is the WARC-Type; STATUS and MIME are those of
the HTTP message inside; a dash is what a record does not have.

  orbweaver warc ls crawl/archive/*.warc.gz
  orbweaver warc ls --json crawl | jq -r 'select(.status=="404").url'`
}

// Run lists.
func (c *WarcLsCmd) Run(out io.Writer) error {
	files, err := warcFiles(c.Files)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	defer w.Flush()
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, file := range files {
		if !c.JSON {
			if len(files) > 1 {
				fmt.Fprintf(w, "%s\n", warcCell(file))
			}
			fmt.Fprintf(w, "%11s %9s  %-8s  %6s  %-24s  %-24s  %s\n", "OFFSET", "LENGTH", "TYPE", "STATUS", "MIME",
				"DATE", "URL")
		}
		err := withWARC(file, func(f *os.File) error {
			return warc.List(f, func(r warc.Row) error {
				if c.JSON {
					return enc.Encode(struct {
						File string `json:"file"`
						warc.Row
					}{file, r})
				}
				_, err := fmt.Fprintf(w, "%11d %9d  %-8s  %6s  %-24s  %-24s  %s\n", r.Offset, r.Length,
					warcCell(r.Type), warcCell(r.Status), warcCell(r.MIME), warcCell(r.Date), warcCell(r.URL))
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	return w.Flush()
}

// warcCell keeps a cell in its column: other people's archives hold any bytes.
func warcCell(s string) string {
	if s == "" {
		return "-"
	}
	return report.OneLine(s)
}

// A WarcVerifyCmd is "warc verify".
type WarcVerifyCmd struct {
	Warnings bool     `help:"Name warnings too, not only errors."`
	JSON     bool     `help:"One JSON object a file."`
	Files    []string `arg:"" name:"file" help:"WARC files, or crawl directories."`
}

// Help teaches what is checked.
func (WarcVerifyCmd) Help() string {
	return `A file is right if it consists of records from end to end, each as long as it
says, each in a gzip member of its own, with the fields that ISO 28500 demands
and with content that matches its digests. A warning is what readers can live with:
segment fields that contradict the record's type, a record ID that another
record of these files has, and more. Behind a damage the check goes on with the next record that it finds, and
SKIPPED says how many bytes that cost.

One line a file, then what is wrong with it. The exit code is 1 if any file has
an error.

  orbweaver warc verify crawl
  orbweaver warc verify --warnings *.warc.gz`
}

// errVerify is a file that is not right; what is wrong was printed.
var errVerify = errors.New("not every WARC file is right")

// Run verifies.
func (c *WarcVerifyCmd) Run(out io.Writer) error {
	files, err := warcFiles(c.Files)
	if err != nil {
		return err
	}
	bad := 0
	var v warc.Verifier
	if !c.JSON {
		fmt.Fprintf(out, "%9s %14s %7s %9s %9s  %s\n", "RECORDS", "BYTES", "ERRORS", "WARNINGS", "SKIPPED", "FILE")
	}
	for _, file := range files {
		var rep *warc.Report
		err := withWARC(file, func(f *os.File) (err error) {
			rep, err = v.Verify(f)
			return err
		})
		if err != nil {
			return err
		}
		if !rep.OK() {
			bad++
		}
		if err := c.print(out, file, rep); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%w: %d of %d", errVerify, bad, len(files))
	}
	return nil
}

func (c *WarcVerifyCmd) print(out io.Writer, file string, rep *warc.Report) error {
	if c.JSON {
		type problem struct {
			Offset  int64  `json:"offset"`
			ID      string `json:"id,omitempty"`
			Text    string `json:"text"`
			Warning bool   `json:"warning,omitempty"`
		}
		v := struct {
			File     string           `json:"file"`
			Records  int64            `json:"records"`
			Bytes    int64            `json:"bytes"`
			Errors   int64            `json:"errors"`
			Warnings int64            `json:"warnings"`
			Skipped  int64            `json:"skipped"`
			Types    map[string]int64 `json:"types"`
			Problems []problem        `json:"problems,omitempty"`
		}{file, rep.Records, rep.Bytes, rep.Errors, rep.Warnings, rep.Skipped, rep.Types, nil}
		for _, p := range rep.Problems {
			v.Problems = append(v.Problems, problem(p))
		}
		return json.NewEncoder(out).Encode(v)
	}
	_, err := fmt.Fprintf(out, "%9d %14d %7d %9d %9d  %s\n",
		rep.Records, rep.Bytes, rep.Errors, rep.Warnings, rep.Skipped, warcCell(file))
	for _, p := range rep.Problems {
		if err == nil && (c.Warnings || !p.Warning) {
			_, err = fmt.Fprintf(out, "    %s\n", warcCell(p.String()))
		}
	}
	if named := int64(len(rep.Problems)); err == nil && named < rep.Errors+rep.Warnings {
		_, err = fmt.Fprintf(out, "    and %d more\n", rep.Errors+rep.Warnings-named)
	}
	return err
}

// A WarcIndexCmd is "warc index".
type WarcIndexCmd struct {
	Files []string `arg:"" name:"file" help:"WARC files, or one crawl directory: then its indexes/index.cdxj is written anew."`
}

// Help teaches the format.
func (WarcIndexCmd) Help() string {
	return `A line is one capture: its URL as a sort key (SURT), the time in 14 digits, and
the rest as JSON. The lines of files go to the output, sorted bytewise.

  orbweaver warc index *.warc.gz > index.cdxj
  orbweaver warc index crawl`
}

// Run indexes.
func (c *WarcIndexCmd) Run(out io.Writer) error {
	if len(c.Files) == 1 && isCrawlDir(c.Files[0]) {
		return warc.BuildIndex(nil, c.Files[0])
	}
	files, err := warcFiles(c.Files)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "orbweaver-index-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	return warc.SortedIndex(nil, files, tmp, cli.Exact(out))
}

// A WarcExtractCmd is "warc extract".
type WarcExtractCmd struct {
	File    string `arg:"" help:"A WARC file, or a crawl directory (with --url: found by its index)."`
	Offset  *int64 `help:"Where the record begins, as ls says." xor:"which"`
	URL     string `name:"url" help:"The first capture of this URL; in a crawl directory, all are listed if there are several." xor:"which"`
	At      string `placeholder:"TIME" help:"With --url in a crawl directory: the capture whose 14-digit time begins so."`
	Payload bool   `help:"Only the body, without transfer coding and content coding." xor:"part"`
	Headers bool   `help:"Only the record's header and the HTTP header." xor:"part"`
	// Originals are other agents' directories.
	Originals []string `placeholder:"DIR" help:"${warc_originals}"`
}

// Help teaches what comes out.
func (WarcExtractCmd) Help() string {
	return `Without --payload or --headers the record comes as it is: WARC header, content.

  orbweaver warc extract crawl --url https://example.com/ --payload
  orbweaver warc extract crawl/archive/X.warc.gz --offset 1834 --headers

The bytes are exact, unless they go to a terminal: then control characters are
escaped.

A revisit record has no body of its own. With --payload its original is looked
for: in the crawl directory of the file, then in --originals, and for a file
outside of a crawl directory in the file itself. In a cluster the original may
be in the archive of another agent.`
}

// Run extracts.
func (c *WarcExtractCmd) Run(out io.Writer) error {
	if c.Offset == nil && c.URL == "" {
		return &node.ConfigError{Text: "extract: --offset or --url must say which record"}
	}
	for _, dir := range c.Originals {
		if err := checkOriginals(dir); err != nil {
			return err
		}
	}
	out = cli.Exact(out)
	if isCrawlDir(c.File) {
		return c.fromCrawl(out)
	}
	return withWARC(c.File, func(f *os.File) error {
		if c.URL == "" {
			return c.at(out, f, *c.Offset)
		}
		rec, err := warc.Find(f, c.URL)
		if err != nil {
			return err
		}
		if rec == nil {
			return fmt.Errorf("no capture of %s", c.URL)
		}
		return c.write(out, f, rec)
	})
}

// checkOriginals refuses a directory in which no original can be found.
func checkOriginals(dir string) error {
	if !isCrawlDir(dir) {
		text := fmt.Sprintf("--originals %s: not a crawl directory; give one that has a directory archive", dir)
		return &node.ConfigError{Text: text}
	}
	if _, err := os.Stat(filepath.Join(dir, "indexes", "index.cdxj")); err != nil {
		text := fmt.Sprintf("--originals %s: it has no index; write it with: orbweaver warc index %[1]s", dir)
		return &node.ConfigError{Text: text}
	}
	return nil
}

func (c *WarcExtractCmd) at(out io.Writer, f archiveFile, offset int64) error {
	rec, err := warc.At(f, offset)
	if err != nil {
		return err
	}
	return c.write(out, f, rec)
}

// An archiveFile is an open WARC file.
type archiveFile interface {
	io.ReadSeeker
	Name() string
}

// original opens the record that holds the payload of a revisit in f.
func (c *WarcExtractCmd) original(f archiveFile, rec *warc.Record) (*warc.Record, io.Closer, error) {
	ref := rec.Reference()
	dirs := c.Originals
	path, err := filepath.Abs(f.Name())
	if err != nil {
		return nil, nil, err
	}
	own := filepath.Dir(filepath.Dir(path))
	if filepath.Base(filepath.Dir(path)) == "archive" && isCrawlDir(own) {
		dirs = append([]string{own}, dirs...)
	}
	found, file, err := warc.OpenOriginal(nil, dirs, ref)
	if errors.Is(err, warc.ErrNoOriginal) { // a crawl that runs, or was killed, has no index of the file
		if found, err = warc.FindOriginal(f, ref); err == nil {
			return found, io.NopCloser(nil), nil
		}
	}
	if errors.Is(err, warc.ErrNoOriginal) {
		return nil, nil, fmt.Errorf("the record at %d is a revisit and its original is not here: %s; "+
			"name the crawl directories of other agents with --originals", rec.Offset, warcCell(ref.String()))
	}
	return found, file, err
}

// fromCrawl finds the capture in a crawl directory's index.
func (c *WarcExtractCmd) fromCrawl(out io.Writer) error {
	if c.URL == "" {
		return &node.ConfigError{Text: fmt.Sprintf("%s: a crawl directory needs --url; --offset needs one of its files",
			c.File)}
	}
	captures, err := warc.Lookup(nil, c.File, c.URL)
	if err != nil {
		return err
	}
	captures = slices.DeleteFunc(captures, func(l warc.Line) bool { return !strings.HasPrefix(l.Time, c.At) })
	if len(captures) == 0 {
		return fmt.Errorf("no capture of %s in %s", c.URL, c.File)
	}
	if len(captures) > 1 && c.At == "" {
		var b strings.Builder
		t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
		for _, l := range captures {
			fmt.Fprintf(t, "  --at %s\t%s\t%s\t%s\n", l.Time, warcCell(l.Status), warcCell(l.MIME), warcCell(l.URL))
		}
		t.Flush()
		return fmt.Errorf("%d captures of %s; say which:\n%s", len(captures), c.URL,
			strings.TrimRight(b.String(), "\n"))
	}
	f, err := warc.OpenWARC(nil, c.File, captures[0].File)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := c.at(out, f, captures[0].Offset); err != nil {
		return fmt.Errorf("%s: %w", captures[0].File, err)
	}
	return nil
}

// write prints the part of the record that is wanted. rec is a record of f.
func (c *WarcExtractCmd) write(out io.Writer, f archiveFile, rec *warc.Record) error {
	if c.Payload {
		if rec.Type() == "revisit" {
			found, file, err := c.original(f, rec)
			if err != nil {
				return err
			}
			defer file.Close()
			rec = found
		}
		body, err := rec.Payload()
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

// isCrawlDir says whether path is a directory with an archive in it.
func isCrawlDir(path string) bool {
	info, err := os.Stat(filepath.Join(path, "archive"))
	return err == nil && info.IsDir()
}

// warcFiles puts the files of crawl directories, and of plain directories, in
// their place.
func warcFiles(args []string) (files []string, err error) {
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, arg)
			continue
		}
		dir := arg
		if isCrawlDir(arg) {
			dir = filepath.Join(arg, "archive")
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		n := len(files)
		for _, e := range entries {
			name := strings.TrimSuffix(e.Name(), ".open")
			if strings.HasSuffix(name, ".warc.gz") || strings.HasSuffix(name, ".warc") {
				files = append(files, filepath.Join(dir, e.Name()))
			}
		}
		if len(files) == n {
			return nil, errors.New("no WARC file in " + strconv.Quote(dir))
		}
	}
	return files, nil
}

// withWARC opens a file for f; the error names it.
func withWARC(path string, f func(*os.File) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := f(file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
