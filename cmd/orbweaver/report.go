package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"golang.org/x/term"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/output/crawls"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/report/review"
	"github.com/orbweaver/orbweaver/internal/report/view"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// reportHelp holds the help texts of "report".
var reportHelp = cli.Texts{
	"report_dirs": "Report on the crawls in these directories or stores; several are added up (default: ./crawl).",
	"report_out": "Write the HTML page to FILE; - is standard output (default: reports/report.html of the first " +
		"directory; of a store, or with --json, --section or --fail-on: no page).",
	"report_top":     "List N entries in each table, 1 to 1000 (default: 10; 25 on the page and with --json).",
	"report_section": "Print only these sections.",
	"report_fail_on": "Exit with code 1 if the crawl found WHAT, which is broken (broken links), or if it fetched " +
		"nothing. Print a line for each broken link and linking page instead of tables.",
}

// ReportCmd implements "report".
type ReportCmd struct {
	Dirs    []string `arg:"" optional:"" name:"dir" help:"${report_dirs}"`
	Out     string   `placeholder:"FILE" help:"${report_out}"`
	JSON    bool     `help:"Print one JSON object instead of tables."`
	Top     *int     `placeholder:"N" help:"${report_top}"`
	Section []string `placeholder:"NAME" help:"${report_section}"`
	FailOn  string   `placeholder:"WHAT" help:"${report_fail_on}"`
}

// The length of lists without --top, on the page and in tables, and the greatest length, which bounds
// memory and page.
const (
	pageTop = 25
	textTop = 10
	maxTop  = 1000
)

// Help explains the output.
func (ReportCmd) Help() string {
	return `The command reads the logs and reports of a crawl that has ended, was killed, or
still runs. It prints tables and writes an HTML page, which is one file and loads
nothing from elsewhere. It adds up several directories, such as those of the
agents of a cluster.

  orbweaver report crawl
  orbweaver report --section broken,times crawl
  orbweaver report --out report.html a1 a2 a3
  orbweaver report --fail-on broken crawl

The sections are ` + strings.Join(view.Names[:8], ", ") + `,
` + strings.Join(view.Names[8:], ", ") + `.

Exit codes: 0 if the report is made, 1 if --fail-on applies or the report leaves
out damaged lines, 4 if a flag or a directory is wrong.`
}

// errFailOn means that the crawl has what --fail-on names.
func errFailOn(format string, a ...any) error {
	return &exitError{exitOther, fmt.Sprintf(format, a...)}
}

// Run makes the report.
func (c *ReportCmd) Run(out io.Writer, errs cli.ErrorOutput, given *elsewhere) error {
	c.Dirs = given.dirs(c.Dirs)
	ctx := context.Background()
	names := slices.Clone(c.Dirs)
	in, err := openInputs(ctx, c.Dirs)
	if err == nil {
		err = c.check(in)
	}
	if err != nil {
		return err
	}
	if c.Out == "" && !c.JSON && len(c.Section) == 0 && c.FailOn == "" && !in.Shown(c.Dirs[0]) {
		c.Out = filepath.Join(c.Dirs[0], "reports", "report.html")
	}
	cfg := review.Config{FS: in, Top: c.top(pageTop), Progress: newReading(errs.Writer)}
	if c.FailOn != "" && !c.JSON {
		cfg.OnBroken = func(b review.Broken) error { return view.PrintBroken(out, b) }
	}
	r, err := review.Read(ctx, c.Dirs, cfg)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return unreadable("report", "", err, "")
		}
		return fmt.Errorf("report: %w", err)
	}
	for i := range r.Dirs {
		r.Dirs[i].Path = names[i]
		if in.Shown(c.Dirs[i]) {
			fmt.Fprintf(errs, "orbweaver: %s: segments have no summary and no events, so the report does not tell "+
				"how the crawl ended\n", report.OneLine(names[i]))
		}
	}
	if err := c.write(out, r); err != nil {
		return err
	}
	switch {
	case c.JSON:
		js, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("report: %w", err)
		}
		if _, err := out.Write(append(js, '\n')); err != nil {
			return err
		}
	case c.Out == "-" || c.FailOn != "":
	default:
		sections := view.Sections(r, c.top(textTop), c.Section...)
		columns := 0
		if t := cli.Terminal(out); t != nil {
			columns, _, _ = term.GetSize(int(t.Fd())) // 0 if it is not known
		}
		if err := view.Text(out, sections, columns); err != nil {
			return err
		}
		if c.Out != "" {
			fmt.Fprintf(out, "\nThe page  %s\n", report.OneLine(c.Out))
		}
	}
	lacking := c.lacking(r)
	if c.FailOn == "" {
		return lacking
	}
	if lacking != nil {
		fmt.Fprintf(errs, "orbweaver: %v\n", lacking)
	}
	if r.BrokenCount > 0 {
		return errFailOn("%s %s broken", plural(r.BrokenCount, "link"),
			english.PluralWord(int(r.BrokenCount), "is", "are"))
	}
	if r.Fetched == 0 {
		return errFailOn("the crawl fetched nothing, so no link was checked; see %s",
			filepath.Join(c.Dirs[0], "logs", "crawl.log"))
	}
	if lacking != nil {
		return &exitError{code: exitOther}
	}
	return nil
}

// lacking returns an error if the report lacks what could not be read.
func (c *ReportCmd) lacking(r *review.Review) error {
	if r.Damaged == 0 {
		return nil
	}
	first := ""
	for _, d := range r.Dirs {
		first = cmp.Or(first, d.FirstDamaged)
	}
	return &exitError{exitOther, fmt.Sprintf("%s could not be read, and the report leaves it out; the first: %s",
		plural(r.Damaged, "damaged line"), report.OneLine(crawls.Name(first)))}
}

// top returns the length of lists, or usual without --top.
func (c *ReportCmd) top(usual int) int {
	if c.Top == nil {
		return usual
	}
	return *c.Top
}

// check returns an error if the command line is wrong.
func (c *ReportCmd) check(in *crawls.FS) error {
	if n := c.top(1); n < 1 || n > maxTop {
		return bad("--top %d: write a number from 1 to %d", n, maxTop)
	}
	for _, s := range c.Section {
		if near := cli.Nearest(s, view.Names); near != "" && near != s {
			return bad("--section %s: no such section; did you mean %s?", s, near)
		}
		if !slices.Contains(view.Names, s) {
			return bad("--section %s: no such section; give some of\n  %s,\n  %s", s,
				strings.Join(view.Names[:8], ", "), strings.Join(view.Names[8:], ", "))
		}
	}
	if c.FailOn != "" && c.FailOn != "broken" {
		return bad("--fail-on %s: write --fail-on broken", c.FailOn)
	}
	if c.FailOn != "" && len(c.Section) > 0 {
		return bad("--section has no effect with --fail-on: leave one of them out")
	}
	if c.JSON && len(c.Section) > 0 {
		return bad("--section has no effect with --json: leave one of them out")
	}
	if c.Out == "-" && (c.JSON || c.FailOn != "" || len(c.Section) > 0) {
		return bad("--out -: standard output already has the other output; name a file for the page")
	}
	seen := map[string]string{}
	for _, dir := range c.Dirs {
		info, err := in.Stat(dir)
		switch {
		case err != nil:
			return unreadable("report "+dir, dir, err, "name the directory of a crawl")
		case !info.IsDir():
			return bad("report %s: not a directory; name the directory of a crawl", dir)
		}
		is, err := review.IsCrawl(in, dir)
		if err != nil {
			return unreadable("report "+dir, dir, err, "name the directory of a crawl")
		}
		if !is {
			return bad("report %s: not the directory of a crawl; give one that contains the directory logs", dir)
		}
		same, err := filepath.EvalSymlinks(dir)
		if err != nil {
			same = dir // in a store
		}
		if abs, err := filepath.Abs(same); err == nil {
			same = abs
		}
		if first, twice := seen[same]; twice {
			return bad("report: %s and %s are the same directory; name each crawl once", first, dir)
		}
		seen[same] = dir
	}
	if info, err := os.Stat(c.Out); c.Out != "" && c.Out != "-" && err == nil && !info.Mode().IsRegular() {
		return bad("--out %s: not a regular file; name a file such as report.html", c.Out)
	}
	return nil
}

// write writes the page, if it is asked for.
func (c *ReportCmd) write(out io.Writer, r *review.Review) error {
	sections := view.Sections(r, c.top(pageTop))
	switch c.Out {
	case "":
		return nil
	case "-":
		return view.HTML(cli.Exact(out), r, sections)
	}
	var b bytes.Buffer // bounded by --top
	if err := view.HTML(&b, r, sections); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	to := disk.OS
	for _, dir := range c.Dirs {
		// Other users may not read this crawl, so they may not read a page about it.
		if info, err := os.Stat(filepath.Join(dir, "logs")); err == nil && info.Mode().Perm()&0o077 == 0 {
			to = disk.Private(disk.OS)
		}
	}
	if c.Out == filepath.Join(c.Dirs[0], "reports", "report.html") {
		if err := to.MkdirAll(filepath.Dir(c.Out), 0o755); err != nil {
			return c.notWritten(err)
		}
	}
	err := disk.WriteOutput(to, c.Out, func(w io.Writer) error {
		_, err := b.WriteTo(w)
		return err
	})
	if err != nil {
		return c.notWritten(err)
	}
	return nil
}

func (c *ReportCmd) notWritten(err error) error {
	for _, mistake := range []error{fs.ErrPermission, fs.ErrNotExist, syscall.EROFS, syscall.ENOTDIR} {
		if errors.Is(err, mistake) {
			return bad("report: the page cannot be written to %s: %v; name another file with --out", c.Out, cause(err))
		}
	}
	return fmt.Errorf("report: %w", err)
}

// newReading returns a function that reports on standard error how far a long file is read: each
// second on a terminal, else after three seconds and then each ten.
func newReading(errs io.Writer) func(review.Progress) {
	every := 10 * time.Second
	terminal := cli.Terminal(errs)
	if terminal != nil {
		every = time.Second
	}
	next, shown := time.Now().Add(min(every, 3*time.Second)), false
	return func(p review.Progress) {
		now := time.Now()
		if shown && p.Read >= p.Total && terminal != nil {
			fmt.Fprint(terminal, "\r\x1b[K")
			shown = false
		}
		if now.Before(next) || p.Read >= p.Total {
			return
		}
		next = now.Add(every)
		text := fmt.Sprintf("reading %s: %s of %s", report.OneLine(p.File), humanize.Bytes(uint64(p.Read)),
			humanize.Bytes(uint64(p.Total)))
		if terminal != nil {
			shown = true
			fmt.Fprint(terminal, "\r\x1b[K"+text)
			return
		}
		fmt.Fprintln(errs, text)
	}
}
