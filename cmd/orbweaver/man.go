package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node"
)

// ManCmd implements "man".
type ManCmd struct {
	Out     string   `help:"${man_out}" placeholder:"DIR"`
	Command []string `arg:"" optional:"" help:"${man_command}"`
}

// Help says how to read the pages.
func (ManCmd) Help() string {
	return `Read a page, or install all of them for your user:

  orbweaver man crawl | man -l -
  orbweaver man --out ~/.local/share/man/man1

The Debian package installs the pages.`
}

// Run prints a page, or writes all of them.
func (c ManCmd) Run(k *kong.Context, out io.Writer) error {
	m := manual(k.Model)
	if c.Out == "" {
		page, ok := m.Page(strings.Join(append([]string{k.Model.Name}, c.Command...), "-"))
		if !ok {
			return bad("man %s: there is no such page; name a command of \"orbweaver --help\"",
				strings.Join(c.Command, " "))
		}
		_, err := io.WriteString(cli.Exact(out), page)
		return err
	}
	if len(c.Command) > 0 {
		return bad("man --out %s writes all pages; leave %q out", c.Out, strings.Join(c.Command, " "))
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return refused("--out "+c.Out, c.Out, err)
	}
	for _, name := range m.Pages() {
		page, _ := m.Page(name)
		if err := os.WriteFile(filepath.Join(c.Out, name+".1"), []byte(page), 0o644); err != nil {
			return refused("--out "+c.Out, c.Out, err)
		}
	}
	_, err := fmt.Fprintf(out, "%s  %s\n", c.Out, plural(int64(len(m.Pages())), "page"))
	return err
}

// manual returns the manual of the program.
func manual(app *kong.Application) cli.Manual {
	bi, _ := debug.ReadBuildInfo()
	date, _, _ := strings.Cut(node.BuildOf(bi).Date, "T")
	codes := cli.Section{Title: "EXIT STATUS"}
	for _, e := range exitCodes {
		// The tables of the documents are in Markdown; its links lead nowhere from here.
		meaning := strings.ReplaceAll(e.meaning+" "+e.todo, "`", "")
		meaning, _, _ = strings.Cut(meaning, " More: [")
		codes.Entries = append(codes.Entries, [2]string{fmt.Sprint(e.code), meaning})
	}
	environment := cli.Section{Title: "ENVIRONMENT", Entries: [][2]string{
		{envPrefix + "NAME", "Set the flag of orbweaver crawl with this name: " + envName("page-limit") +
			" sets --page-limit. Flags override the environment, and the environment overrides files."},
		{envName("dir"), "Set the crawl directory of orbweaver ctl, too."},
		{"NO_COLOR", "If it is not empty, print no colours."},
	}}
	files := cli.Section{Title: "FILES", Text: "The directory of a crawl (--dir) holds:", Entries: [][2]string{
		{"archive/", "WARC files. The name of a file that is being written ends in .open."},
		{"indexes/index.cdxj", "The index of the archive."},
		{"logs/", "crawl.log has a line for each fetch, and crawl.jsonl the same as JSON; events.jsonl has what " +
			"happened to the crawl."},
		{"reports/", "The summary, tables, and the links that were not followed."},
		{"state/", "What --resume needs."},
		{"crawl.yaml", "The settings in force."},
	}}
	m := cli.Manual{App: app, Version: node.Version, Date: date, Sections: map[string][]cli.Section{}}
	for _, page := range m.Pages() {
		m.Sections[page] = []cli.Section{codes}
		switch strings.TrimPrefix(page, app.Name) {
		case "", "-crawl":
			m.Sections[page] = append(m.Sections[page], environment, files)
		}
	}
	return m
}
