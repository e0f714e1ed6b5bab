package main

import (
	"context"
	"io"
	"strconv"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/readout"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
)

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
	return s.change(c, out)
}

// change gives an order for each flag. It checks all of them before it gives one.
func (s CtlScopeCmd) change(c *commands, out io.Writer) error {
	g := giver(verbs.VerbScope, false, s.JSON, s.WhyFlag)
	var depth []string
	if s.Depth != "" {
		depth = []string{s.Depth}
	}
	var list []verbs.Order
	for _, f := range []struct {
		name   string
		values []string
	}{{"include", s.Include}, {"host", s.Host}, {"domain", s.Domain}, {verbs.AboutDepth, depth}} {
		for _, v := range f.values {
			about, value := f.name+" "+v, ""
			if f.name == verbs.AboutDepth {
				about, value = f.name, v
			}
			order, err := g.verb.Order(about, value, false)
			if err != nil {
				return bad("--%s: %v", f.name, err)
			}
			list = append(list, order)
		}
	}
	return g.giveAll(c, out, list)
}

// scopeText returns the scope for people.
func scopeText(r *pb.ScopeResponse) string {
	limit := func(n int32) string {
		if n < 0 {
			return "no limit"
		}
		return strconv.Itoa(int(n))
	}
	rows := [][]string{{"scope", readout.Cell(r.Kind)}}
	add := func(name string, values []string) {
		for _, v := range values {
			rows = append(rows, []string{name, readout.Line(v)})
			name = ""
		}
	}
	add("seeds", r.Seeds)
	rows = append(rows, []string{"depth", limit(r.Depth)}, []string{"host depth", limit(r.HostDepth)})
	add("include", r.Include)
	add("exclude", r.Exclude)
	text := readout.Table(rows)
	if len(r.Changes) == 0 {
		return text
	}
	rows = [][]string{{"ORDER", "CHANGE", "WHY"}}
	for _, c := range r.Changes {
		rows = append(rows, []string{readout.Cell(c.Order), readout.Cell(c.Text), readout.Cell(c.Why)})
	}
	return text + "\n" + readout.Table(rows)
}
