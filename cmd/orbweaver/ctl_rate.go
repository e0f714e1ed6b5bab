package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/rate"
)

// CtlRateCmd implements "ctl rate".
type CtlRateCmd struct {
	Rate    []string `arg:"" sep:"none" help:"Limit the crawl to this rate, as crawl --rate has it; none is no limit."`
	WhyFlag `embed:""`
}

// Help explains the argument.
func (CtlRateCmd) Help() string {
	return `The limit holds for all agents together, in place of --rate, until another
"ctl rate" or until "ctl take-back" of the order. A rate is one of:

  40/s      requests a second, those for robots.txt and retries included
  200Mbit   bits a second of responses, as read from the connections; kbit and
            Gbit, too
  none      no limit

Times of day follow the rate, and parts are separated by commas. The first part
whose time has come holds; the last one must hold at all other times. The times
are in UTC unless one of the parts names a time zone:

  orbweaver ctl rate 40/s --why "a complaint"
  orbweaver ctl rate 40/s 8-18 mon-fri, else 300/s
  orbweaver ctl rate 20Mbit 8-17 mon-fri Europe/Berlin, 90Mbit sat sun, none`
}

// Run gives the order.
func (r CtlRateCmd) Run(c *commands, out io.Writer) error {
	s, err := rate.Parse(strings.Join(r.Rate, " "))
	if err != nil {
		return bad("%v", err)
	}
	return c.Ctl.call(func(ctx context.Context, o operator) error {
		res, err := o.Rate(ctx, &pb.RateRequest{Rate: s.String(), Why: r.Why})
		if err != nil {
			return err
		}
		name, obeys := heard(res.Answers, "obeys", "obey")
		fmt.Fprintf(out, "rate %s; %s %s\n", inCell(res.GetOrder().GetValue()), name, obeys)
		return unheard(out, res.Answers)
	})
}

// rateLines says which limits the agents know.
func rateLines(agents []*pb.AgentStatus) string {
	var lines []string
	by := map[string][]string{} // agents, by line
	for _, a := range agents {
		s := a.GetRate()
		if s == nil {
			continue
		}
		line := "rate: " + inCell(s.Limit)
		if s.Schedule != s.Limit {
			line += " now, by " + inCell(s.Schedule)
		}
		if by[line] == nil {
			lines = append(lines, line)
		}
		by[line] = append(by[line], inCell(a.Agent))
	}
	text := ""
	for _, line := range lines {
		if len(lines) > 1 {
			line += " (" + strings.Join(by[line], ", ") + ")"
		}
		text += line + "\n"
	}
	return text
}
