package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/output/crawls"
	"github.com/orbweaver/orbweaver/internal/output/mirror"
	"github.com/orbweaver/orbweaver/internal/output/wacz"
	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// ExportCmd implements "export".
type ExportCmd struct {
	Mirror    string            `required:"" xor:"form" placeholder:"OUT" help:"${export_mirror}"`
	WACZ      string            `required:"" xor:"form" name:"wacz" placeholder:"OUT.wacz" help:"${export_wacz}"`
	WACZSize  quantity.ByteSize `name:"wacz-size" placeholder:"BYTES" help:"${export_wacz_size}"`
	Logs      bool              `help:"With --wacz: put crawl.log into the WACZ, too."`
	At        string            `placeholder:"TIME" help:"${export_at}"`
	Overwrite bool              `help:"${export_overwrite}"`
	Originals []string          `placeholder:"DIR" help:"${replay_originals}"`
	JSON      bool              `name:"json" help:"Print what was written as one JSON object."`
	Dirs      []string          `arg:"" optional:"" name:"path" help:"${export_paths}"`
}

// Help explains the files.
func (ExportCmd) Help() string {
	return `With --mirror, the archived pages become files with relative links, one directory a host, for reading
without a server. Open OUT/index.html in a browser. With --wacz, the WARC files, an index and a list of the pages
become one file, for ReplayWeb.page and other viewers, and for "orbweaver replay".

  orbweaver export --mirror out crawl
  orbweaver export --mirror out --at 20260131 crawl
  orbweaver export --wacz site.wacz crawl

In a mirror, links to pages that the archive lacks lead to the live web. Redirects have no file: links lead to their
targets. Pages keep their encoding. Names end in .html or .css where the URL does not; what file systems refuse is
escaped or, like names that collide, replaced by a hash.

If a WARC file is damaged or missing, its pages say so, the command names the
file, and the exit code is 1.

Scripts of the pages run when you open a file, and can contact other servers.
"orbweaver replay" keeps them on this machine.`
}

// Run writes the mirror.
func (c *ExportCmd) Run(out io.Writer, errs cli.ErrorOutput, given *elsewhere) error {
	c.Dirs = given.dirs(c.Dirs)
	return untilSignal(func(ctx context.Context) error {
		in, err := openInputs(ctx, c.Dirs, c.Originals)
		switch {
		case err != nil:
			return err
		case c.WACZ != "":
			return c.pack(ctx, in, out, errs)
		}
		return c.write(ctx, in, out, errs)
	})
}

// write writes the mirror until ctx ends.
func (c *ExportCmd) write(ctx context.Context, in *crawls.FS, out, errs io.Writer) (err error) {
	switch {
	case c.WACZSize > 0 || c.Logs:
		return bad("--wacz-size and --logs have no effect without --wacz OUT.wacz")
	case c.Mirror == "":
		return bad("--mirror is empty; name a directory for the command to create")
	case inside(c.Mirror, "."):
		return bad("--mirror %s: this is the current directory or one above it; name a directory for the command "+
			"to create", c.Mirror)
	}
	cfg := mirror.Config{Dir: c.Mirror, Overwrite: c.Overwrite}
	if c.At != "" {
		if cfg.At, err = parseTime(c.At); err != nil {
			return err
		}
	}
	for _, dir := range c.Dirs {
		cfg.FS = cmp.Or(cfg.FS, disk.AsPrivateAs(dir))
		if inside(dir, c.Mirror) {
			return bad("--mirror %s: the directory is inside of the crawl directory %s; choose another one",
				c.Mirror, dir)
		}
	}
	archive, err := openArchive(ctx, errs, in, c.Dirs, c.Originals)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	if err := archive.pages(ctx); err != nil {
		return err
	}
	cfg.Archive = archive.Archive
	progress := newSteps(errs)
	cfg.Step = func(done, total int64) {
		if total == 0 {
			progress.say("has chosen captures of %s", plural(done, "URL"))
			return
		}
		progress.say("has written %s of %s", humanize.Comma(done), plural(total, "URL"))
	}
	res, err := mirror.Write(ctx, cfg)
	for i := range res.Faults {
		res.Faults[i].File = in.Real(res.Faults[i].File)
	}
	switch {
	case errors.Is(err, mirror.ErrNotEmpty):
		return bad("--mirror %s: the directory is not empty; choose another one, or replace a mirror with --overwrite",
			c.Mirror)
	case errors.Is(err, mirror.ErrNoMirror):
		return bad("--mirror %s: the directory holds other files than a mirror; choose another one", c.Mirror)
	case errors.Is(err, disk.ErrForeign):
		return bad("--mirror %s: the files are made in %s.partial, but that is there, and not of this command; "+
			"move it away, or name another directory", c.Mirror, c.Mirror)
	case errors.Is(err, context.Canceled):
		return &exitError{exitSignal, "stopped; nothing was written to " + c.Mirror}
	case errors.Is(err, mirror.ErrNothing):
		printMirror(errs, c.Mirror, res)
		printFaults(errs, res)
		return fmt.Errorf("%w; nothing was written to %s", err, c.Mirror)
	case err != nil:
		return refused("export --mirror "+c.Mirror, c.Mirror, err)
	case c.JSON:
		err = json.NewEncoder(out).Encode(res)
	default:
		printMirror(out, c.Mirror, res)
		_, err = fmt.Fprintf(out, "Open %s in a browser.\n", filepath.Join(c.Mirror, "index.html"))
	}
	if err != nil || len(res.Faults) == 0 && archive.flaws.n == 0 {
		return err
	}
	printFaults(errs, res)
	return &exitError{exitOther, "the mirror in " + c.Mirror + " lacks what these WARC files do not give"}
}

// pack writes a WACZ until ctx ends.
func (c *ExportCmd) pack(ctx context.Context, in *crawls.FS, out, errs io.Writer) error {
	if c.At != "" || len(c.Originals) > 0 {
		return bad("--at and --originals have no effect with --wacz, which takes whole WARC files")
	}
	if !strings.HasSuffix(c.WACZ, ".wacz") {
		return bad("--wacz %s: the name must end in .wacz, or no viewer opens the file", c.WACZ)
	}
	cfg := wacz.Config{Out: c.WACZ, Size: int64(c.WACZSize), Overwrite: c.Overwrite, In: reading(ctx, errs, in),
		Software: "orbweaver " + node.Version}
	var err error
	if cfg.WARCs, err = warcFiles(in, errs, c.Dirs); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, name := range cfg.WARCs {
		if name = filepath.Clean(name); names[name] {
			return bad("%s would be packed twice; name each crawl and each file once", crawls.Name(name))
		}
		names[name] = true
	}
	if c.Logs {
		cfg.Logs = wacz.CrawlLogs(in, c.Dirs)
	}
	for _, path := range c.Dirs {
		cfg.FS = cmp.Or(cfg.FS, disk.AsPrivateAs(path))
		if wacz.Is(path) && slices.Contains(cfg.WARCs, path) {
			return bad("%s: a WACZ is not packed into another one; unpack it, and name its WARC files", path)
		}
		if inside(filepath.Join(path, "archive"), c.WACZ) {
			return bad("--wacz %s: this is inside of the archive of %s; choose another place", c.WACZ, path)
		}
	}
	res, err := wacz.Write(ctx, cfg)
	flaws := flawList{errs: errs}
	if len(res.Flaws.Places) > 0 {
		_ = flaws.take("", &res.Flaws) // it is one of flaws
	}
	switch {
	case errors.Is(err, wacz.ErrExists):
		return bad("--wacz %v; choose another name, or replace a file with --overwrite", err)
	case errors.Is(err, disk.ErrForeign):
		return bad("--wacz %s: the file is made in %[1]s.partial, but that is there, and not of this command; move it "+
			"away, or choose another name", c.WACZ)
	case errors.Is(err, context.Canceled):
		return &exitError{exitSignal, "stopped; nothing was written to " + c.WACZ}
	case errors.Is(err, wacz.ErrNothing):
		return fmt.Errorf("%w; nothing was written to %s", err, c.WACZ)
	case err != nil:
		return refused("export --wacz "+c.WACZ, c.WACZ, err)
	case c.JSON:
		err = json.NewEncoder(out).Encode(res)
	default:
		for _, row := range []struct {
			name string
			text string
		}{
			{"files", fmt.Sprintf("%s (%s) in %s", humanize.Comma(int64(len(res.Files))),
				humanize.Bytes(uint64(res.Bytes)), cmp.Or(res.List, c.WACZ))},
			{"WARC files", humanize.Comma(res.WARCs)},
			{"captures", humanize.Comma(res.Lines)},
			{"pages", fmt.Sprintf("%s, seeds among them: %s", humanize.Comma(res.Seeds+res.Extra),
				humanize.Comma(res.Seeds))},
		} {
			fmt.Fprintf(out, "%-11s %s\n", row.name, row.text)
		}
		fmt.Fprintf(out, "Open %s with \"orbweaver replay\" or at replayweb.page.\n", res.Files[0])
	}
	return cmp.Or(err, flaws.err())
}

// printFaults names the WARC files that cannot be read, and what the user can do.
func printFaults(errs io.Writer, res mirror.Result) {
	for _, f := range res.Faults {
		fmt.Fprintf(errs, "%s: unreadable records: %s: %s; %s\n", report.OneLine(f.File), humanize.Comma(f.Records),
			report.OneLine(f.Error), remedyFor(report.OneLine(f.File), f.Missing))
	}
	if res.OtherFaults > 0 {
		fmt.Fprintf(errs, "other WARC files: unreadable records: %s\n", humanize.Comma(res.OtherFaults))
	}
}

// printMirror prints what a mirror in dir has, and has not.
func printMirror(out io.Writer, dir string, res mirror.Result) {
	for _, row := range []struct {
		name string
		n    int64
		note string
	}{
		{"files", res.Files, fmt.Sprintf(" (%s) in %s", humanize.Bytes(uint64(res.Bytes)), dir)},
		{"pages", res.Pages, ""},
		{"hosts", res.Hosts, ""},
		{"redirects", res.Redirects, "; links lead to their targets"},
		{"incomplete", res.Incomplete, "; the archive has only a part of the content"},
		{"unreadable", res.Unreadable, "; the record is damaged, or its WARC file is missing"},
		{"unsupported", res.Unsupported, "; too many content codings: see orbweaver warc extract"},
		{"cut off", res.Cut, "; the content unpacks to more than 256 MiB, and more than 20 times its stored size"},
		{"too long", res.TooLong, "; the links of these pages are unchanged"},
		{"left out", res.Errors, "; only an error (404 and others) or an empty response is archived"},
		{"left out", res.Nowhere, "; a redirect to itself or to no web page"},
		{"left out", res.NoOriginal, "; the content is in the archive of another crawl: name that with --originals"},
		{"left out", res.Damaged, "; the record is damaged, or its WARC file is missing"},
	} {
		if row.n > 0 {
			fmt.Fprintf(out, "%-11s %s%s\n", row.name, humanize.Comma(row.n), row.note)
		}
	}
}

// inside reports whether path is dir or below it.
func inside(dir, path string) bool {
	a, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	b, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(a, b)
	return err == nil && filepath.IsLocal(rel)
}

// parseTime reads the beginning of a 14-digit time, at least a year.
func parseTime(s string) (time.Time, error) {
	const lowest = "00000101000000"
	if len(s) >= 4 && len(s) <= len(lowest) {
		if t, err := time.Parse("20060102150405", s+lowest[len(s):]); err == nil {
			return t, nil
		}
	}
	return time.Time{}, bad("--at %s: not a time of up to 14 digits, such as 20260131 or 20260131235959", s)
}
