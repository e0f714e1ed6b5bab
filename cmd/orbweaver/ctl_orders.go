package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// CtlOrdersCmd implements "ctl orders".
type CtlOrdersCmd struct {
	Past bool `help:"Also list orders that stand no more."`
	JSON bool `name:"json" help:"Print the orders as one JSON object."`
}

// Help explains what an order is.
func (CtlOrdersCmd) Help() string {
	return `An order holds for all agents, also after restarts and for agents that join
later, until it is taken back. "orbweaver ctl pause" gives one.

  ID     for ctl take-back
  WHEN   in UTC
  AGENT  that was told
  VERB   what to do; "off" takes back the order before it
  STANDS with --past: whether the order is in force

  orbweaver ctl orders --past`
}

// Run prints the orders.
func (l CtlOrdersCmd) Run(c *commands, out io.Writer) error {
	return c.Ctl.call(func(ctx context.Context, o operator) error {
		res, err := o.Orders(ctx, &pb.OrdersRequest{Past: l.Past})
		if err != nil {
			return err
		}
		text := ordersTable(res.Orders, l.Past)
		if l.JSON {
			if text, err = asJSON(res); err != nil {
				return err
			}
		}
		_, err = io.WriteString(out, text)
		return err
	})
}

// ordersTable returns orders as a table.
func ordersTable(orders []*pb.Order, past bool) string {
	switch {
	case len(orders) == 0 && past:
		return "No order was given.\n"
	case len(orders) == 0:
		return "No order stands.\n"
	}
	rows := [][]string{{"ID", "WHEN", "AGENT", "VERB", "ABOUT", "STANDS", "WHY"}}
	for _, o := range orders {
		when := "-"
		if o.At.IsValid() {
			when = o.At.AsTime().Format(time.RFC3339)
		}
		about, stands := "everything", "no"
		if o.About != "" {
			about = inCell(o.About)
		}
		if o.Verb == "scope" { // about a part of the scope
			about = inCell(strings.TrimSpace(o.About + " " + o.Value))
		}
		verb := orderVerb(o)
		if app, ok := operate.OrderedApplication(o); ok {
			verb, about = inCell(o.Verb), about+": "+describeApp(app)
		}
		if o.Stands {
			stands = "yes"
		}
		rows = append(rows, []string{inCell(o.Id), when, inCell(o.Agent), verb, about, stands, inCell(o.Why)})
	}
	if !past {
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 5, 6)
		}
	}
	return textTable(rows)
}

// orderVerb returns what an order says to do.
func orderVerb(o *pb.Order) string {
	verb := o.Verb
	if o.Value != "" && verb != "scope" {
		verb += " " + o.Value
	}
	if o.Off {
		verb += " off"
	}
	return inCell(verb)
}

// CtlTakeBackCmd implements "ctl take-back".
type CtlTakeBackCmd struct {
	ID      string `arg:"" help:"Take back the order of this id, which \"orbweaver ctl orders\" prints."`
	WhyFlag `embed:""`
}

// Run takes back the order.
func (t CtlTakeBackCmd) Run(c *commands, out io.Writer) error {
	return c.Ctl.call(func(ctx context.Context, o operator) error {
		res, err := o.TakeBack(ctx, &pb.TakeBackRequest{Id: t.ID, Why: t.Why})
		if err != nil {
			return err
		}
		what := inCell(res.GetOrder().GetVerb())
		if about := res.GetOrder().GetAbout(); about != "" {
			what += " " + inCell(about)
		}
		name, obeys := heard(res.Answers, "does", "do")
		fmt.Fprintf(out, "taken back: %s; %s %s not obey order %s any more\n", what, name, obeys, inCell(t.ID))
		return unheard(out, res.Answers)
	})
}
