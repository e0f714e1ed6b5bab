package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/readout"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// CtlQueueCmd implements "ctl queue".
type CtlQueueCmd struct {
	What      string `arg:"" optional:"" help:"Only links of this host, or links that this regular expression matches."`
	Limit     int32  `help:"Print at most N links, up to 1000." default:"100" placeholder:"N"`
	Token     string `help:"Print the page after the one that ended with this token." placeholder:"TOKEN"`
	Export    string `help:"Write the URLs of all links to this file; - is the standard output." placeholder:"FILE"`
	AgentFlag `embed:""`
	ShowFlags `embed:""`
}

// Help explains the columns.
func (CtlQueueCmd) Help() string {
	return `The links that wait, agent by agent, in the order in which the agent would fetch
them if no host had to be waited for: by priority, then by the time at which they
were found. The pages of an agent show its queue of one moment.

  URL    what to fetch
  DEPTH  links from its seed
  STATE  fetching, ready, resting, paused (after failures), retry, excluded,
         blocked, resolving, or pooled: in no host's queue yet
  DUE    not before this time, in UTC, as far as it is known
  FROM   the page that links to it; nothing for a seed

An argument of letters, digits, dots and dashes is a host; any other one is a
regular expression. "orbweaver crawl --seeds" and "orbweaver ctl seed --file" read
a file of --export.

  orbweaver ctl queue www.example.org
  orbweaver ctl queue '\.pdf$' --limit 10
  orbweaver ctl queue --export queue.txt`
}

// request returns the first request.
func (q CtlQueueCmd) request() (*pb.QueueRequest, error) {
	r := &pb.QueueRequest{Agent: q.Agent, Limit: q.Limit, Token: q.Token}
	if q.What == "" {
		return r, nil
	}
	if !input.LooksLikeHost(q.What) {
		if err := sheet.CheckPattern(q.What); err != nil {
			return nil, bad("the argument %.100q is neither a host nor a regular expression: %v", q.What, err)
		}
		r.Pattern = q.What
		return r, nil
	}
	host, err := input.Host(q.What)
	if err != nil {
		return nil, err
	}
	r.Host = host
	return r, nil
}

// Run prints a page, or exports the queue.
func (q CtlQueueCmd) Run(c *commands, out io.Writer, errs cli.ErrorOutput) error {
	r, err := q.request()
	switch {
	case err != nil:
		return err
	case q.Export != "" && (q.Token != "" || q.JSON || q.Watch):
		return bad("--export writes the whole queue as text; leave --token, --json and --watch out")
	case q.Token != "" && q.Watch:
		return bad("--token names a page of one moment; leave --watch out, or --token")
	case q.Export != "":
		return c.Ctl.call(func(ctx context.Context, o operator) error { return q.export(ctx, o, r, out) })
	}
	return q.show(c, out, errs, watchQueueEvery, func(ctx context.Context, o operator) (content, error) {
		page, err := pageOf(ctx, o, proto.CloneOf(r))
		if err != nil {
			return content{}, err
		}
		v := content{message: page, text: pageText(page, c.Ctl.Dir, q.What)}
		if silent := silentOnes(page.Agents); len(silent) > 0 {
			v.err = &exitError{exitOther, strings.Join(silent, "\n")}
		}
		return v, nil
	})
}

// export writes the URLs of all links to the file.
func (q CtlQueueCmd) export(ctx context.Context, o operator, r *pb.QueueRequest, out io.Writer) error {
	if q.Export == "-" {
		return export(ctx, o, r, out)
	}
	var silent error
	err := disk.WriteStream(disk.OS, q.Export, func(w io.Writer) error {
		err := export(ctx, o, r, w)
		if e, ok := errors.AsType[*exitError](err); ok { // the others' links are there
			silent, err = e, nil
		}
		return err
	})
	return errors.Join(err, silent)
}

// pageOf returns a page of the queue. It asks again until an agent has read its queue.
func pageOf(ctx context.Context, o operator, r *pb.QueueRequest) (*pb.QueueResponse, error) {
	page := &pb.QueueResponse{}
	for {
		next, err := o.Queue(ctx, r)
		if err != nil {
			return nil, err
		}
		next.Agents = append(page.Agents, next.Agents...)
		if page = next; len(page.Links) > 0 || page.Token == "" {
			return page, nil
		}
		r.Token, page.Agents = page.Token, finished(page.Agents)
	}
}

// finished returns the counts that are complete.
func finished(agents []*pb.QueueCount) (all []*pb.QueueCount) {
	for _, a := range agents {
		if !a.Reading {
			all = append(all, a)
		}
	}
	return all
}

// export writes all links that wait. The error is an *exitError if agents do not answer.
func export(ctx context.Context, o operator, q *pb.QueueRequest, out io.Writer) error {
	w := bufio.NewWriter(out)
	q.Limit, q.Brief = 1000, true
	var silent []string
	for {
		r, err := o.Queue(ctx, q)
		if err != nil {
			return err
		}
		for _, l := range r.Links {
			if _, err := fmt.Fprintln(w, readout.Line(l.Url)); err != nil {
				return err
			}
		}
		silent = append(silent, silentOnes(r.Agents)...)
		if q.Token = r.Token; q.Token == "" {
			break
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(silent) > 0 {
		return &exitError{exitOther, strings.Join(silent, "\n")}
	}
	return nil
}

// silentOnes returns a line for each agent whose links are missing.
func silentOnes(agents []*pb.QueueCount) (lines []string) {
	for _, a := range agents {
		if a.Error != "" {
			lines = append(lines, fmt.Sprintf("agent %s answers: %s; its links are missing", readout.Cell(a.Agent),
				readout.Line(a.Error)))
		}
	}
	return lines
}

// pageText returns a page of the queue for people.
func pageText(r *pb.QueueResponse, dir, what string) string {
	var text strings.Builder
	for _, a := range r.Agents {
		if a.Error != "" {
			continue
		}
		name := ""
		if a.Agent != "" {
			name = "agent " + readout.Cell(a.Agent) + ": "
		}
		asked := ""
		if what != "" {
			asked = fmt.Sprintf(", %s of them asked for", humanize.Comma(a.Matched))
		}
		wait := "links wait"
		if a.Waiting == 1 {
			wait = "link waits"
		}
		fmt.Fprintf(&text, "%s%s %s%s\n", name, humanize.Comma(a.Waiting), wait, asked)
	}
	if len(r.Links) > 0 {
		rows := [][]string{{"URL", "DEPTH", "STATE", "DUE", "FROM"}}
		for _, l := range r.Links {
			due := "-"
			if l.Due.IsValid() {
				due = l.Due.AsTime().Format(time.RFC3339)
			}
			rows = append(rows, []string{readout.Line(l.Url), fmt.Sprint(l.Depth), readout.Cell(l.State), due,
				readout.Cell(l.Via)})
		}
		text.WriteString(readout.Table(rows))
	}
	if r.Token != "" {
		fmt.Fprintf(&text, "Next page: orbweaver ctl%s queue --token %s\n", dirFlag(dir), readout.Line(r.Token))
	}
	return text.String()
}
