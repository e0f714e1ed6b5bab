package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/readout"
)

// CtlOrdersCmd implements "ctl orders".
type CtlOrdersCmd struct {
	Past      bool `help:"Also list orders that stand no more."`
	ShowFlags `embed:""`
}

// Help explains what an order is.
func (CtlOrdersCmd) Help() string {
	return `An order holds for all agents, also after restarts and for agents that join
later, until it is taken back. "orbweaver ctl pause" gives one.

  ID      for ctl take-back; begins with the name of the agent that was told
  WHEN    in UTC
  BY      who gave it, as the caller says (--by), or the caller's address;
          --json has long names whole
  STANDS  with --past: whether the order is in force
  ORDER   what to do, and about what; "off" takes back the order before it

The line below an order has the reason that was given with --why.

  orbweaver ctl orders --past`
}

// Run prints the orders.
func (l CtlOrdersCmd) Run(c *commands, out io.Writer, errs cli.ErrorOutput) error {
	return l.show(c, out, errs, watchEvery, func(ctx context.Context, o operator) (content, error) {
		res, err := o.Orders(ctx, &pb.OrdersRequest{Past: l.Past})
		if err != nil {
			return content{}, err
		}
		return content{message: res, text: ordersTable(res.Orders, l.Past)}, nil
	})
}

// byMost bounds the characters of a giver in the table.
const byMost = 24

// ordersTable returns orders as a table. The reason of an order is on a line of its own, so that the table fits into 80
// columns.
func ordersTable(orders []*pb.Order, past bool) string {
	switch {
	case len(orders) == 0 && past:
		return "No order was given.\n"
	case len(orders) == 0:
		return "No order stands.\n"
	}
	rows := [][]string{{"ID", "WHEN", "BY", "STANDS", "ORDER"}}
	for _, o := range orders {
		when, by, stands := "-", "-", "no"
		if o.At.IsValid() {
			when = o.At.AsTime().Format("2006-01-02 15:04")
		}
		if o.By != "" {
			by = readout.Shorten(readout.Cell(o.By), byMost)
		}
		if o.Stands {
			stands = "yes"
		}
		rows = append(rows, []string{readout.Cell(o.Id), when, by, stands, readout.Cell(o.Text)})
	}
	if !past {
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 3, 4)
		}
	}
	var text strings.Builder
	n := -1 // the line of the header
	for line := range strings.Lines(readout.Table(rows)) {
		text.WriteString(line)
		if n >= 0 && orders[n].Why != "" {
			text.WriteString("  " + readout.Cell(orders[n].Why) + "\n")
		}
		n++
	}
	return text.String()
}

// CtlTakeBackCmd implements "ctl take-back".
type CtlTakeBackCmd struct {
	ID       string `arg:"" help:"Take back the order of this id, which \"orbweaver ctl orders\" prints."`
	JSONFlag `embed:""`
	WhyFlag  `embed:""`
}

// Run takes back the order.
func (t CtlTakeBackCmd) Run(c *commands, out io.Writer) error {
	return c.Ctl.call(func(ctx context.Context, o operator) error {
		res, err := o.TakeBack(ctx, &pb.TakeBackRequest{Id: t.ID, Why: t.Why})
		if err != nil {
			return err
		}
		if t.JSON {
			err = writeMessage(out, res)
		} else {
			what := readout.Cell(res.GetOrder().GetVerb())
			if about := res.GetOrder().GetAbout(); about != "" {
				what += " " + readout.Cell(about)
			}
			name, obeys := heard(res.Answers, "does", "do")
			_, err = fmt.Fprintf(out, "taken back: %s; %s %s not obey order %s any more\n", what, name, obeys,
				readout.Cell(t.ID))
			err = cmp.Or(err, printWaits(out, res.Answers))
		}
		return cmp.Or(err, ignorant(res.Answers, "it"))
	})
}
