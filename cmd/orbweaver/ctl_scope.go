package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// CtlExcludeCmd implements "ctl exclude".
type CtlExcludeCmd struct {
	Pattern  string `arg:"" help:"Exclude URLs that this regular expression matches, as with --exclude."`
	Preview  bool   `help:"Only print how many links that wait would be excluded."`
	Examples int32  `help:"With --preview: print N examples of each agent, at most 100." default:"5" placeholder:"N"`
	JSON     bool   `name:"json" help:"Print one JSON object."`
	WhyFlag  `embed:""`
}

// Help explains what becomes of links.
func (CtlExcludeCmd) Help() string {
	return `No agent begins a visit of a URL that matches, also after a restart, and neither do
agents that join later. Links that match are set aside, those that wait and those
that are found later. None is lost: "orbweaver ctl take-back ID" returns them to
the queue.

  orbweaver ctl exclude '/calendar/' --preview
  orbweaver ctl exclude '/calendar/' --why "a trap"`
}

// Run excludes the pattern.
func (e CtlExcludeCmd) Run(c *commands, out io.Writer) error {
	return c.Ctl.call(func(ctx context.Context, o operator) error {
		if e.Preview {
			return e.preview(ctx, o, out)
		}
		r, err := o.Exclude(ctx, &pb.ExcludeRequest{Pattern: e.Pattern, Why: e.Why})
		if err != nil {
			return err
		}
		names, obeys := knowers(r.Told, "obeys", "obey")
		return told(out, e.JSON, r, r.Told, fmt.Sprintf("excluded: %s; %s %s order %s", inCell(e.Pattern), names, obeys,
			inCell(r.Order)))
	})
}

func (e CtlExcludeCmd) preview(ctx context.Context, o operator, out io.Writer) error {
	q := &pb.ExcludePreviewRequest{Pattern: e.Pattern, Examples: e.Examples}
	for {
		r, err := o.ExcludePreview(ctx, q)
		if err != nil {
			return err
		}
		if q.Token = r.Token; q.Token != "" {
			continue
		}
		if e.JSON {
			return writeMessage(out, r)
		}
		return printPreview(out, r.Agents)
	}
}

// printPreview prints how many links of each agent would be excluded.
func printPreview(out io.Writer, agents []*pb.QueueCount) error {
	rows := [][]string{{"AGENT", "WAITING", "EXCLUDED"}}
	var examples, silent []string
	total := &pb.QueueCount{}
	for _, a := range agents {
		if a.Error != "" {
			silent = append(silent, fmt.Sprintf("agent %s answers: %s", inCell(a.Agent), inLine(a.Error)))
			continue
		}
		total.Waiting, total.Matched = total.Waiting+a.Waiting, total.Matched+a.Matched
		rows = append(rows, []string{inCell(a.Agent), humanize.Comma(a.Waiting), humanize.Comma(a.Matched)})
		for _, u := range a.Examples {
			examples = append(examples, "  "+inLine(u)+"\n")
		}
	}
	if len(rows) != 2 || len(silent) > 0 || agents[0].Agent != "" {
		rows = append(rows, []string{"total", humanize.Comma(total.Waiting), humanize.Comma(total.Matched)})
	} else {
		for i := range rows {
			rows[i] = rows[i][1:]
		}
	}
	text := textTable(rows)
	if len(examples) > 0 {
		text += "for example:\n" + strings.Join(examples, "")
	}
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	if len(silent) > 0 {
		return &exitError{exitOther, strings.Join(silent, "\n")}
	}
	return nil
}

// CtlScopeCmd implements "ctl scope".
type CtlScopeCmd struct {
	Depth     string   `help:"Follow at most N links from a seed; none is no limit." placeholder:"N"`
	Host      []string `help:"Also follow links to this host; repeat it for several." placeholder:"HOST" sep:"none"`
	Domain    []string `help:"Also follow links to this domain and all hosts below it." placeholder:"DOMAIN" sep:"none"`
	Include   []string `help:"Also follow links that match, in a crawl with --include." placeholder:"RE" sep:"none"`
	ShowFlags `embed:""`
	WhyFlag   `embed:""`
}

// Help explains what a change does.
func (CtlScopeCmd) Help() string {
	return `Without flags, the command prints the scope and the orders that have changed it.

Each flag gives an order for all agents, also for those that join later.
"orbweaver ctl take-back ID" takes it back. Pages that were fetched before are not
searched again for links that a larger scope lets in. With a smaller depth, deeper
links are set aside, and return when the order is taken back.

  orbweaver ctl scope
  orbweaver ctl scope --depth 3 --why "the site is larger than we thought"`
}

// Run prints or changes the scope.
func (s CtlScopeCmd) Run(c *commands, out io.Writer, errs cli.ErrorOutput) error {
	if s.Depth == "" && len(s.Host)+len(s.Domain)+len(s.Include) == 0 {
		switch {
		case s.Why != "":
			return bad("--why has no effect without a change")
		case s.By != "":
			return bad("--by has no effect without a change")
		}
		return s.show(c, out, errs, watchEvery, func(ctx context.Context, o operator) (content, error) {
			r, err := o.Scope(ctx, &pb.ScopeRequest{})
			if err != nil {
				return content{}, err
			}
			return content{message: r, text: scopeText(r)}, nil
		})
	}
	if s.Watch {
		return bad("--watch has no effect on a change; leave it out")
	}
	return c.Ctl.call(func(ctx context.Context, o operator) error {
		r, err := o.ChangeScope(ctx, &pb.ChangeScopeRequest{Hosts: s.Host, Domains: s.Domain, Include: s.Include,
			Depth: s.Depth, Why: s.Why})
		if err != nil {
			return err
		}
		names, obeys := knowers(r.Told, "obeys", "obey")
		return told(out, s.JSON, r, r.Told, fmt.Sprintf("changed; %s %s %s", names, obeys,
			inLine(strings.Join(r.Orders, ", "))))
	})
}

// scopeText returns the scope for people.
func scopeText(r *pb.ScopeResponse) string {
	limit := func(n int32) string {
		if n < 0 {
			return "no limit"
		}
		return strconv.Itoa(int(n))
	}
	rows := [][]string{{"scope", inCell(r.Kind)}}
	add := func(name string, values []string) {
		for _, v := range values {
			rows = append(rows, []string{name, inLine(v)})
			name = ""
		}
	}
	add("seeds", r.Seeds)
	rows = append(rows, []string{"depth", limit(r.Depth)}, []string{"host depth", limit(r.HostDepth)})
	add("include", r.Include)
	add("exclude", r.Exclude)
	text := textTable(rows)
	if len(r.Changes) == 0 {
		return text
	}
	rows = [][]string{{"ORDER", "CHANGE", "WHY"}}
	for _, c := range r.Changes {
		rows = append(rows, []string{inCell(c.Order), inCell(c.Text), inCell(c.Why)})
	}
	return text + "\n" + textTable(rows)
}

// knowers names the agents that have an order, with the verb that fits.
func knowers(told []*pb.Told, one, several string) (names, verb string) {
	return heard(answersOf(told), one, several)
}

// told prints the response to an order: as a text, or with json as the message. The error is that of ignorant.
func told(out io.Writer, json bool, response proto.Message, told []*pb.Told, text string) (err error) {
	if json {
		err = writeMessage(out, response)
	} else {
		_, err = fmt.Fprintln(out, text)
	}
	if err != nil {
		return err
	}
	return ignorant(answersOf(told), "it")
}

func answersOf(told []*pb.Told) (answers []*pb.Answer) {
	for _, t := range told {
		answers = append(answers, &pb.Answer{Agent: t.Agent, Error: t.Error})
	}
	return answers
}
