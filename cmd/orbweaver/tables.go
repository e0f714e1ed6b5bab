package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/output/crawls"
	"github.com/orbweaver/orbweaver/internal/output/tables"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// TablesCmd implements "tables".
type TablesCmd struct {
	Out       string   `placeholder:"OUT" help:"${tables_out}"`
	Crawl     string   `placeholder:"NAME" help:"${tables_crawl}"`
	Overwrite bool     `help:"Replace the tables that OUT has of this crawl."`
	JSON      bool     `name:"json" help:"Print what was written as one JSON object."`
	Dirs      []string `arg:"" optional:"" name:"dir" help:"${tables_dirs}"`
}

// Help explains the tables.
func (TablesCmd) Help() string {
	return `The index of the archive becomes Parquet files with the columns and folders of
Common Crawl's table, and columns of our own. Other tables have the crawl log,
its failures, the links and the hosts. DuckDB, Spark and Iceberg read them:

  orbweaver tables crawl
  orbweaver tables --out tables --crawl 2026-12 agent1 agent2 agent3
  OUT/cc-index/table/cc-main/warc/crawl=NAME/subset=warc/part-....gz.parquet
  OUT/log/crawl=NAME/... and so on: failures, links, hosts

The column warc_filename has the WARC files as the command line names their
directories. If the index is of an older version, the command reads the archive.
Lines that cannot be rows are left out and named; the exit code is then 1. The
command takes about 250 MB. After a kill the next call completes the tables.`
}

// Run writes the tables.
func (c *TablesCmd) Run(out io.Writer, errs cli.ErrorOutput, given *elsewhere) error {
	c.Dirs = given.dirs(c.Dirs)
	return untilSignal(func(ctx context.Context) error { return c.write(ctx, out, errs) })
}

func (c *TablesCmd) write(ctx context.Context, out, errs io.Writer) (err error) {
	const remedy = "give one that contains the directory archive"
	cfg := tables.Config{Out: c.Out, Crawl: c.Crawl, Overwrite: c.Overwrite, Progress: tableSteps{ctx, newSteps(errs)}}
	if len(c.Dirs) > 1 && (c.Out == "" || c.Crawl == "") {
		return bad("several directories need --out for the folder of the tables, and --crawl for the crawl's name")
	}
	if c.Out == "" {
		cfg.Out = filepath.Join(c.Dirs[0], "tables")
	}
	in, err := openInputs(ctx, c.Dirs)
	if err != nil {
		return err
	}
	cfg.FS = in
	for _, dir := range c.Dirs {
		if is, err := in.IsCrawlDir(dir); err != nil {
			return unreadable(dir, dir, err, remedy)
		} else if !is {
			return bad("%s: not a crawl directory; "+remedy, report.OneLine(dir))
		}
		if disk.AsPrivateAs(dir) != nil {
			cfg.FS = disk.Private(in)
		}
		if in.Shown(dir) && (c.Out == "" || c.Crawl == "") {
			return bad("a store or a folder of segments needs --out for the folder of the tables, and --crawl for " +
				"the crawl's name")
		}
	}
	archive, err := openArchive(ctx, errs, in, c.Dirs, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	for _, p := range archive.places {
		cfg.Dirs = append(cfg.Dirs, tables.DirOf(p))
	}
	if c.Crawl == "" {
		cfg.Crawl = cfg.Dirs[0].Segment
	}
	res, err := tables.Write(ctx, cfg)
	res.Name(crawls.Name)
	switch {
	case errors.Is(err, tables.ErrPlace):
		return bad("%v", err)
	case errors.Is(err, tables.ErrName):
		return bad("the crawl's name %v; give another one with --crawl", err)
	case errors.Is(err, tables.ErrThere):
		return bad("--out %s: it has tables of the crawl %s; replace them with --overwrite, or give the crawl another "+
			"name with --crawl", cfg.Out, cfg.Crawl)
	case errors.Is(err, context.Canceled):
		return &exitError{exitSignal, "stopped; the tables in " + cfg.Out + " are as before"}
	case errors.Is(err, tables.ErrNothing):
		err = &exitError{exitOther, fmt.Sprintf("%s: %v\nSee \"orbweaver report %[1]s\".", c.Dirs[0], err)}
	case err != nil:
		return refused("tables --out "+cfg.Out, cfg.Out, err)
	case c.JSON:
		err = json.NewEncoder(out).Encode(res)
	default:
		res.Print(out)
	}
	for _, l := range res.LeftOut {
		fmt.Fprintf(errs, "orbweaver: warning: left out %s\n", l)
	}
	if err == nil && (len(res.LeftOut) > 0 || archive.flaws.n > 0) {
		err = &exitError{exitOther, "the tables in " + cfg.Out + " lack what these files do not give"}
	}
	return err
}

// tableSteps is a tables.Progress, which prints, and ends the work when ctx ends.
type tableSteps struct {
	ctx context.Context
	*steps
}

func (s tableSteps) Step(text string) error {
	s.say("%s", text)
	return s.ctx.Err()
}
