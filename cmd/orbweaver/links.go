package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
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
an error. A URL that robots.txt forbids is not broken. The sort takes 64 MB of
memory; the rest is in temporary files in $TMPDIR.

  orbweaver links crawl --broken
  orbweaver links crawl --to https://example.org/ --json | jq -r .source
  orbweaver links agent1 agent2 agent3`
}

// Run prints the links.
func (c *LinksCmd) Run(out io.Writer, errs cli.ErrorOutput, given *elsewhere) (err error) {
	c.Dirs = given.dirs(c.Dirs)
	var q linklog.Query
	if q.To, err = bothSchemes("--to", c.To); err != nil {
		return err
	}
	if q.From, err = bothSchemes("--from", c.From); err != nil {
		return err
	}
	for _, dir := range c.Dirs {
		if err := hasLinkLog(dir); err != nil {
			return err
		}
	}
	return untilSignal(func(ctx context.Context) error { return c.print(ctx, out, errs, q) })
}

// print prints the links that q selects, until ctx ends.
func (c *LinksCmd) print(ctx context.Context, out, errs io.Writer, q linklog.Query) error {
	tmp, err := temporary("orbweaver-links-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	w := bufio.NewWriter(out)
	put := printJSON(w)
	if !c.JSON {
		put = printTable(w)
	}
	sort := extsort.Config{Prefix: filepath.Join(tmp, "sort-"), Stop: ctx}
	found := false
	d, err := linklog.Join(reading(ctx, errs), c.Dirs, sort, q, func(j *linklog.Joined) error {
		found = true
		if c.Broken && !(j.Known && report.IsBroken(j.Status, j.Error)) {
			return nil
		}
		return put(j)
	})
	if err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if chosen := slices.Concat(q.To, q.From); !found && len(chosen) > 0 {
		fmt.Fprintf(errs, "orbweaver: the link log has no such link: %s; \"orbweaver links %s\" lists all\n",
			strings.Join(chosen, " "), strings.Join(c.Dirs, " "))
	}
	if d.Any() {
		fmt.Fprintf(errs, "orbweaver: the link log is damaged: %s and %s could not be read to their end; "+
			"the first: %s\n", plural(int64(d.Lines), "line"), plural(int64(d.Files), "file"),
			report.OneLine(d.First))
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
func hasLinkLog(dir string) error {
	files, err := linklog.Files(disk.OS, dir)
	if err != nil {
		return unreadable(dir, dir, err, "name the directory of a crawl with --links")
	}
	if len(files) > 0 {
		return nil
	}
	if _, err := os.Stat(dir); err != nil {
		return unreadable(dir, dir, err, "name the directory of a crawl with --links")
	}
	if !isCrawlDir(dir) {
		return bad("%s is not a crawl directory; name the directory of a crawl with --links", dir)
	}
	return bad("the crawl in %s has no link log; crawl with --links", dir)
}

// printTable prints a header, and returns a function that prints a link as a line with tabs.
func printTable(w io.Writer) func(j *linklog.Joined) error {
	fmt.Fprintln(w, "STATUS\tTARGET\tSOURCE\tKIND\tREL\tANCHOR")
	var line []byte
	return func(j *linklog.Joined) error {
		status := ""
		if j.Known {
			status = strconv.Itoa(j.Status)
		}
		line = line[:0]
		for i, s := range [...]string{status, j.Target, j.Source, j.Kind, j.Rel, j.Anchor} {
			if i > 0 {
				line = append(line, '\t')
			}
			line = append(line, warcCell(s)...)
		}
		_, err := w.Write(append(line, '\n'))
		return err
	}
}

// printJSON returns a function that prints a link as a line of JSON.
func printJSON(w io.Writer) func(j *linklog.Joined) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return func(j *linklog.Joined) error {
		return enc.Encode(struct {
			Target string `json:"target"`
			Source string `json:"source"`
			Kind   string `json:"kind"`
			Rel    string `json:"rel,omitempty"`
			Anchor string `json:"anchor,omitempty"`
			Status int    `json:"status,omitempty"`
			Error  string `json:"error,omitempty"`
		}{j.Target, j.Source, j.Kind, j.Rel, j.Anchor, j.Status, j.Error})
	}
}
