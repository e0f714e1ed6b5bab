package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// CtlDelayCmd implements "ctl delay".
type CtlDelayCmd struct {
	Args     []string `arg:"" name:"host-and-delay" help:"${ctl_delay}"`
	JSONFlag `embed:""`
	WhyFlag  `embed:""`
}

// Help explains what an order of delay does.
func (CtlDelayCmd) Help() string {
	return `The crawl waits this long after a response before the next request to the same
host. Without a host or a domain, the order holds for all hosts.

  orbweaver ctl delay www.example.org 10s --why "a complaint"
  orbweaver ctl delay '*.example.org' 10s 8-18 mon-fri, else 2s
  orbweaver ctl delay 5s

Times of day are in UTC, unless a time zone such as Europe/Berlin is behind
them. Days are mon, mon-fri, weekdays or weekend. Of several orders and settings
for a host, the most specific one holds. The delay may be shorter than --delay,
but not shorter than the Crawl-delay in robots.txt.
"orbweaver ctl explain HOST" says which delay holds, and why. "orbweaver ctl
take-back ID" takes the order back.`
}

// Run gives the order.
func (d CtlDelayCmd) Run(c *commands, out io.Writer) error {
	about, delay := "", d.Args
	if _, err := time.ParseDuration(delay[0]); err != nil && delay[0] != "0" {
		about, delay = delay[0], delay[1:]
	}
	if len(delay) == 0 {
		return bad("%s: no delay; give one such as 10s after the host", about)
	}
	about, err := operate.DelayOf(about)
	if err != nil {
		return bad("%v", err)
	}
	plan, err := operate.ParseDelay(strings.Join(delay, " "))
	if err != nil {
		return bad("%v", err)
	}
	return c.Ctl.call(func(ctx context.Context, o operator) error {
		res, err := o.Delay(ctx, &pb.DelayRequest{About: about, Delay: plan.String(), Why: d.Why})
		if err != nil {
			return err
		}
		hosts := "all hosts"
		if about != "" {
			hosts = inCell(about)
		}
		name, obeys := heard(res.Answers, "obeys", "obey")
		return d.ordered(out, res.Order, res.Answers, fmt.Sprintf("%s: delay %s; %s %s", hosts, plan, name, obeys))
	})
}
