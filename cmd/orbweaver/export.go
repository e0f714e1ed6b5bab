package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/output/captures"
	"github.com/orbweaver/orbweaver/internal/output/mirror"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// ExportCmd implements "export".
type ExportCmd struct {
	Mirror    string   `required:"" placeholder:"OUT" help:"${export_mirror}"`
	At        string   `placeholder:"TIME" help:"${export_at}"`
	Overwrite bool     `help:"Replace the mirror in OUT. A directory with other files is refused."`
	Originals []string `placeholder:"DIR" help:"${replay_originals}"`
	JSON      bool     `name:"json" help:"Print what was written as one JSON object."`
	Dirs      []string `arg:"" name:"dir" help:"Export the archives of these crawl directories as one."`
}

// Help explains the files.
func (ExportCmd) Help() string {
	return `The archived pages become files with relative links, one directory a host, for
reading without a server. Open OUT/index.html in a browser.

  orbweaver export --mirror out crawl
  orbweaver export --mirror out --at 20260131 crawl

Links to pages that the archive lacks lead to the live web. Redirects have no
file: links lead to their targets. Pages keep their encoding. Names end in .html
or .css where the URL does not; what file systems refuse is escaped or, like
names that collide, replaced by a hash.

Scripts of the pages run when you open a file, and can contact other servers.
"orbweaver replay" keeps them on this machine.`
}

// Run writes the mirror.
func (c *ExportCmd) Run(out io.Writer) error {
	archive, err := openArchive(c.Dirs, c.Originals)
	if err != nil {
		return err
	}
	cfg := mirror.Config{Archive: archive, Dir: c.Mirror, Overwrite: c.Overwrite}
	if c.At != "" {
		if cfg.At, err = parseTime(c.At); err != nil {
			return err
		}
	}
	for _, dir := range c.Dirs {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o007 == 0 {
			cfg.FS = disk.Private(disk.OS) // others may not read the crawl, so nor its pages
		}
		if inside(dir, c.Mirror) {
			return bad("--mirror %s: the directory is inside of the crawl directory %s; choose another one",
				c.Mirror, dir)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	res, err := mirror.Write(ctx, cfg)
	switch {
	case errors.Is(err, mirror.ErrNotEmpty):
		return bad("--mirror %s: the directory is not empty; choose another one, or replace a mirror with --overwrite",
			c.Mirror)
	case errors.Is(err, mirror.ErrNoMirror):
		return bad("--mirror %s: the directory holds other files than a mirror; choose another one", c.Mirror)
	case errors.Is(err, context.Canceled):
		return &exitError{exitSignal, "stopped; nothing was written to " + c.Mirror}
	case err != nil:
		return err
	case c.JSON:
		return json.NewEncoder(out).Encode(res)
	}
	for _, row := range []struct {
		name string
		n    int64
		note string
	}{
		{"files", res.Files, fmt.Sprintf(" (%s) in %s", humanize.Bytes(uint64(res.Bytes)), c.Mirror)},
		{"pages", res.Pages, ""},
		{"hosts", res.Hosts, ""},
		{"redirects", res.Redirects, "; links lead to their targets"},
		{"left out", res.LeftOut, "; the archive has only errors, or not their content (see --originals)"},
		{"incomplete", res.Incomplete, "; the archive has only a part of them"},
		{"too long", res.TooLong, "; the links of these pages are unchanged"},
	} {
		if row.n > 0 {
			fmt.Fprintf(out, "%-11s %s%s\n", row.name, humanize.Comma(row.n), row.note)
		}
	}
	fmt.Fprintf(out, "Open %s in a browser.\n", filepath.Join(c.Mirror, "index.html"))
	return nil
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
		if t, err := time.Parse(captures.TimeFormat, s+lowest[len(s):]); err == nil {
			return t, nil
		}
	}
	return time.Time{}, bad("--at %s: not a time of up to 14 digits, such as 20260131 or 20260131235959", s)
}
