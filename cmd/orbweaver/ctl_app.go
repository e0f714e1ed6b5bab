package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/readout"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// CtlAppCmd implements "ctl app".
type CtlAppCmd struct {
	Name     string   `arg:"" help:"Name this application; a name has the characters a-z, 0-9 and -."`
	URLs     []string `arg:"" optional:"" name:"url" help:"Give these URLs to it."`
	File     string   `help:"Give it the URLs of this file, one on each line; - is the standard input." placeholder:"FILE"`
	Share    *float64 `help:"Give it N times the requests of the crawl's own links, if both wait; default: 1." placeholder:"N"`
	Scope    *string  `help:"Follow links this far from its URLs, as crawl --scope: page to any; default: host." placeholder:"KIND"`
	Include  []string `help:"Follow only links that match; repeat it for several. Empty: all." placeholder:"RE" sep:"none"`
	Exclude  []string `help:"Fetch no URL for it that matches; repeat it for several. Empty: none." placeholder:"RE" sep:"none"`
	Depth    string   `help:"Follow at most N links from its URLs; none is no limit, the default." placeholder:"N"`
	Strategy *string  `help:"Follow links (follow, the default), or fetch only its URLs (list)." placeholder:"NAME"`
	Pages    *bool    `help:"Keep its pages until a process has collected them, and do not end the crawl before it is removed."`
	Remove   bool     `help:"Remove it, with its waiting URLs and the pages that were not collected."`
	JSON     bool     `name:"json" help:"Print the application, then what becomes of each URL, as JSON objects."`
	WhyFlag  `embed:""`
}

// Help explains applications.
func (CtlAppCmd) Help() string {
	return `The command defines an application of the running crawl, or changes it. What no
flag names stays as it is. A new application follows links on the hosts of its
URLs, and has the same share as the crawl's own links. A page that several
applications want is fetched once.

It is an order for all agents, which also holds after a restart. When the command
answers, the URLs are on the disk; "orbweaver ctl seed --help" explains the answers.
Programs give URLs and collect pages over the API: see docs/applications.md.

  orbweaver ctl app news --share 3 --depth 2 https://www.example.org/
  orbweaver ctl app news --file more.txt
  orbweaver ctl app shop --strategy list --pages
  orbweaver ctl app shop --remove`
}

// Run defines, changes or removes the application.
func (a CtlAppCmd) Run(c *commands, out io.Writer) error {
	if err := verbs.CheckApplicationName(a.Name); err != nil {
		return bad("%v", err)
	}
	if a.Remove {
		return a.remove(c, out)
	}
	q, err := a.request()
	if err != nil {
		return err
	}
	return c.Ctl.call(func(ctx context.Context, o operator) error {
		r, err := o.SetApplication(ctx, q)
		if err != nil {
			return err
		}
		if a.JSON {
			err = writeMessage(out, r.Application)
		} else {
			err = a.print(out, r)
		}
		switch {
		case err != nil:
			return err
		case len(a.URLs) == 0 && a.File == "":
			return ignorant(r.Told, "it")
		}
		return seedAll(ctx, &seeding{out: out, json: a.JSON, dir: c.Ctl.Dir, noun: "URL",
			what: "the application", told: r.Told,
			give: func(ctx context.Context, urls []string) (*pb.AddSeedsResponse, error) {
				q := &pb.FeedRequest{Application: a.Name}
				for _, u := range urls {
					q.Urls = append(q.Urls, &pb.FeedURL{Url: u})
				}
				r, err := o.Feed(ctx, q)
				return &pb.AddSeedsResponse{Seeds: r.GetUrls()}, err
			}}, a.URLs, a.File)
	})
}

// request returns what the flags say.
func (a CtlAppCmd) request() (*pb.SetApplicationRequest, error) {
	q := &pb.SetApplicationRequest{Name: a.Name, Share: a.Share, Scope: a.Scope, Strategy: a.Strategy, Pages: a.Pages,
		Include: patternsOf(a.Include), Exclude: patternsOf(a.Exclude), Why: a.Why}
	if a.Scope != nil {
		if _, err := scope.ParseKind(*a.Scope); err != nil {
			return nil, bad("--scope %v", err)
		}
	}
	if s := a.Strategy; s != nil && *s != verbs.StrategyFollow && *s != verbs.StrategyList {
		return nil, bad("--strategy %q is unknown; use follow, or list for only the URLs that it is given", *s)
	}
	if a.Share != nil {
		if err := verbs.CheckShare(*a.Share); err != nil {
			return nil, bad("--%v", err)
		}
	}
	if a.Depth != "" {
		depth := int32(-1)
		if n, err := strconv.ParseUint(a.Depth, 10, 16); err == nil {
			depth = int32(n)
		} else if a.Depth != "none" {
			return nil, bad("--depth %q: give a number of links from 0 to 65535, or none for no limit", a.Depth)
		}
		q.Depth = &depth
	}
	return q, nil
}

// patternsOf returns the patterns of a flag. An empty one stands for no pattern; nil changes nothing.
func patternsOf(list []string) *pb.Patterns {
	switch {
	case len(list) == 0:
		return nil
	case len(list) == 1 && list[0] == "":
		return &pb.Patterns{}
	}
	return &pb.Patterns{Patterns: list}
}

// print prints what the application is.
func (a CtlAppCmd) print(out io.Writer, r *pb.SetApplicationResponse) error {
	text := readout.Cell(a.Name) + ": " + readout.Line(verbs.Describe(r.Application))
	if len(r.Told) == 0 {
		if len(a.URLs) == 0 && a.File == "" {
			text += "; nothing has changed"
		}
		_, err := fmt.Fprintln(out, text)
		return err
	}
	names, obeys := heard(r.Told, "obeys", "obey")
	fmt.Fprintf(out, "%s; %s %s\n", text, names, obeys)
	return printWaits(out, r.Told)
}

// remove removes the application.
func (a CtlAppCmd) remove(c *commands, out io.Writer) error {
	if len(a.URLs)+len(a.Include)+len(a.Exclude) > 0 || a.File != "" || a.Share != nil || a.Scope != nil ||
		a.Depth != "" || a.Strategy != nil || a.Pages != nil {
		return bad("--remove takes no URLs, and no other flags than --why and --json; leave them out")
	}
	return giver(verbs.VerbApp, true, a.JSON, a.WhyFlag).give(c, out, a.Name, "")
}

// CtlAppsCmd implements "ctl apps".
type CtlAppsCmd struct {
	ShowFlags `embed:""`
}

// Help explains the columns.
func (CtlAppsCmd) Help() string {
	return `The table has a row for each application:

  IS       its share, strategy and scope
  QUEUED   its URLs that wait for a visit
  FETCHED  its URLs that are finished
  SHARED   of these, the URLs whose page the crawl had already
  PAGES    pages that its process has not acknowledged
  HELD     yes: so many of them wait that no more of its URLs are fetched now`
}

// Run lists the applications.
func (a CtlAppsCmd) Run(c *commands, out io.Writer, errs cli.ErrorOutput) error {
	return a.show(c, out, errs, watchEvery, func(ctx context.Context, o operator) (content, error) {
		r, err := o.Applications(ctx, &pb.ApplicationsRequest{})
		if err != nil {
			return content{}, err
		}
		return content{message: r, text: appsText(r.Applications, c.Ctl.Dir)}, nil
	})
}

// appsText returns the applications as a table.
func appsText(apps []*pb.Application, dir string) string {
	if len(apps) == 0 {
		return fmt.Sprintf("There is no application. \"orbweaver ctl%s app NAME\" defines one.\n", dirFlag(dir))
	}
	rows := [][]string{{"NAME", "IS", "QUEUED", "FETCHED", "SHARED", "PAGES", "HELD"}}
	var notes []string
	silent := map[string]bool{}
	for _, a := range apps {
		rows = append(rows, readout.AppRow(a.Name, a.State, readout.Line(verbs.Describe(a))))
		if a.Error != "" {
			notes = append(notes, fmt.Sprintf("%s is not in force: %s\n", readout.Cell(a.Name), readout.Line(a.Error)))
		}
		for _, s := range a.Agents {
			if s.Error != "" && !silent[s.Agent] {
				silent[s.Agent] = true
				notes = append(notes, fmt.Sprintf("agent %s answers: %s\n", readout.Cell(s.Agent),
					readout.Line(s.Error)))
			}
		}
	}
	return readout.Table(rows, "QUEUED", "FETCHED", "SHARED", "PAGES") + strings.Join(notes, "")
}
