package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/output/crawls"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/report/weblinks"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
)

// LinksCmd implements "links".
type LinksCmd struct {
	To     string   `help:"Print only the links to this URL; without a scheme it means https and http." placeholder:"URL"`
	From   string   `help:"Print only the links of this page, a URL as with --to." placeholder:"URL"`
	Broken bool     `help:"Print only the links whose target is broken."`
	JSON   bool     `help:"Print one JSON object per link instead of a table."`
	Dirs   []string `arg:"" optional:"" name:"dir" help:"${links_dirs}"`
}

// Help explains the columns.
func (LinksCmd) Help() string {
	return `The crawl must have run with --links. The command prints one line per link, with
tabs between the columns, sorted by target:

  STATUS  of the target: the HTTP status, or a negative code as in crawl.log;
          a dash if the crawl has not visited it
  TARGET  the URL that the page links to
  SOURCE  the page
  KIND    the element and attribute, such as a@href, or redirect
  REL     the link's rel, such as nofollow
  ANCHOR  the text of the link

A target is broken if its last visit ended with a status of 400 or more, or with
an error. A URL that robots.txt forbids is not broken. The command names damage of
the link log, goes on behind it, and ends with exit code 1. The sort takes 64 MB of
memory; the rest is in temporary files in $TMPDIR.

  orbweaver links crawl --broken
  orbweaver links crawl --to https://example.org/ --json | jq -r .source
  orbweaver links agent1 agent2 agent3`
}

// Run prints the links.
func (c *LinksCmd) Run(out io.Writer, errs cli.ErrorOutput, given *elsewhere) (err error) {
	c.Dirs = given.dirs(c.Dirs)
	to, err := bothSchemes("--to", c.To)
	if err != nil {
		return err
	}
	from, err := bothSchemes("--from", c.From)
	if err != nil {
		return err
	}
	return untilSignal(func(ctx context.Context) error { return c.print(ctx, out, errs, to, from) })
}

// print prints the links to and from URLs, until ctx ends.
func (c *LinksCmd) print(ctx context.Context, out, errs io.Writer, to, from []string) error {
	names := strings.Join(c.Dirs, " ")
	in, err := openInputs(ctx, c.Dirs)
	if err != nil {
		return err
	}
	for _, dir := range c.Dirs {
		if err := hasLinkLog(in, dir); err != nil {
			return err
		}
	}
	tmp, err := temporary("orbweaver-links-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	found, d, err := weblinks.Print(out, weblinks.Table{FS: reading(ctx, errs, in), Dirs: c.Dirs, To: to, From: from,
		Broken: c.Broken, JSON: c.JSON, Sort: extsort.Config{Prefix: filepath.Join(tmp, "sort-"), Stop: ctx}})
	if err != nil {
		return err
	}
	if chosen := slices.Concat(to, from); !found && len(chosen) > 0 {
		fmt.Fprintf(errs, "orbweaver: the link log has no such link: %s; \"orbweaver links %s\" lists all\n",
			strings.Join(chosen, " "), names)
	}
	if d.Any() {
		fmt.Fprintf(errs, "orbweaver: the link log is damaged: %s and %s could not be read to their end; "+
			"the first: %s\n", plural(int64(d.Lines), "line"), plural(int64(d.Files), "file"),
			report.OneLine(d.First))
		return &exitError{code: exitOther}
	}
	return nil
}

// bothSchemes returns the canonical form of a URL that a user gave. Without a scheme it may mean https or http. The
// result is empty if the URL is.
func bothSchemes(flag, s string) ([]string, error) {
	if s == "" {
		return nil, nil
	}
	typed, err := input.ParseURL(flag, s)
	if err != nil {
		return nil, err
	}
	urls := []string{typed.URL.String()}
	if typed.Bare {
		urls = append(urls, input.Plain(typed.URL).String())
	}
	return urls, nil
}

// hasLinkLog returns an error unless a directory holds a link log.
func hasLinkLog(in *crawls.FS, dir string) error {
	has, err := weblinks.HasLog(in, dir)
	if has {
		return nil
	}
	is := false
	if err == nil {
		is, err = in.IsCrawlDir(dir)
	}
	if err == nil && !is {
		_, err = in.Stat(dir)
	}
	switch {
	case err != nil:
		return unreadable(dir, dir, err, "name the directory of a crawl with --links")
	case !is:
		return bad("%s is not a crawl directory; name the directory of a crawl with --links", crawls.Name(dir))
	}
	return bad("the crawl in %s has no link log; crawl with --links", crawls.Name(dir))
}
