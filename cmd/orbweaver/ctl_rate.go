package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/rate"
)

// CtlRateCmd implements "ctl rate".
type CtlRateCmd struct {
	Rate     []string `arg:"" sep:"none" help:"${ctl_rate}"`
	JSONFlag `embed:""`
	WhyFlag  `embed:""`
}

// Help explains the argument.
func (CtlRateCmd) Help() string {
	return `The limit holds for all agents together, in place of --rate, until another
"ctl rate" or until "ctl take-back" of the order. A rate is one of:

  40/s      requests a second, those for robots.txt and retries included
  200Mbit   bits a second of responses, as read from the connections; kbit and
            Gbit, too
  none      no limit; "orbweaver ctl pause" stops all requests

With a registered domain before it, the rate is the requests a second to this
domain and all hosts below it. It holds besides --rate and all delays.

Times of day follow the rate, and parts are separated by commas. The first part
whose time has come holds; the last one must hold at all other times. The times
are in UTC unless one of the parts names a time zone:

  orbweaver ctl rate 40/s --why "a complaint"
  orbweaver ctl rate 40/s 8-18 mon-fri, else 300/s
  orbweaver ctl rate example.org 5/s
  orbweaver ctl rate 20Mbit 8-17 mon-fri Europe/Berlin, 90Mbit sat sun, none`
}

// domain returns the domain before a rate, and the rate; domain is "" without one. A domain has a dot and is not a rate
// itself, such as 0.5/s.
func (r CtlRateCmd) domain() (domain, text string) {
	first := r.Rate[0]
	if _, err := rate.Parse(first); err != nil && strings.ContainsAny(first, ".:") && !strings.HasSuffix(first, "/s") {
		return first, strings.Join(r.Rate[1:], " ")
	}
	return "", strings.Join(r.Rate, " ")
}

// Run gives the order.
func (r CtlRateCmd) Run(c *commands, out io.Writer) error {
	domain, text := r.domain()
	if domain != "" {
		return r.runDomain(c, domain, text, out)
	}
	s, err := operate.ParseRate(text)
	if err != nil {
		return bad("%v", err)
	}
	return c.Ctl.call(func(ctx context.Context, o operator) error {
		res, err := o.Rate(ctx, &pb.RateRequest{Rate: s.String(), Why: r.Why})
		if err != nil {
			return err
		}
		name, obeys := heard(res.Answers, "obeys", "obey")
		return r.ordered(out, res.Order, res.Answers,
			fmt.Sprintf("rate %s; %s %s", inCell(res.GetOrder().GetValue()), name, obeys))
	})
}

// runDomain gives the order for a domain.
func (r CtlRateCmd) runDomain(c *commands, domain, text string, out io.Writer) error {
	if text == "" {
		return bad("%s: no rate; give one such as 5/s after the domain", domain)
	}
	domain, err := operate.DomainOf(domain)
	if err != nil {
		return bad("%v", err)
	}
	plan, err := operate.ParseDomainRate(text)
	if err == nil {
		_, err = operate.ParseRate(text)
	}
	if err != nil {
		return bad("%v", err)
	}
	return c.Ctl.call(func(ctx context.Context, o operator) error {
		res, err := o.RateDomain(ctx, &pb.RateDomainRequest{Domain: domain, Rate: plan.String(), Why: r.Why})
		if err != nil {
			return err
		}
		name, obeys := heard(res.Answers, "obeys", "obey")
		return r.ordered(out, res.Order, res.Answers,
			fmt.Sprintf("%s: rate %s; %s %s", inCell(domain), plan, name, obeys))
	})
}

// rateLines says which limits the agents know: that of the crawl, then those of domains.
func rateLines(agents []*pb.AgentStatus) string {
	var subjects []string
	lines := map[string][]string{} // by what they are about
	by := map[string][]string{}    // agents, by line
	add := func(subject, limit, schedule, agent string) {
		line := subject + ": " + inCell(limit)
		if schedule != limit {
			line += " now, by " + inCell(schedule)
		}
		if lines[subject] == nil {
			subjects = append(subjects, subject)
		}
		if by[line] == nil {
			lines[subject] = append(lines[subject], line)
		}
		by[line] = append(by[line], inCell(agent))
	}
	for _, a := range agents {
		if s := a.GetRate(); s != nil {
			add("rate", s.Limit, s.Schedule, a.Agent)
		}
	}
	for _, a := range agents {
		for _, d := range a.GetDomainRates() {
			add("rate of "+inCell(d.Domain), d.Limit, d.Schedule, a.Agent)
		}
	}
	var text strings.Builder
	for _, subject := range subjects {
		for _, line := range lines[subject] {
			text.WriteString(line)
			if len(lines[subject]) > 1 {
				text.WriteString(" (" + strings.Join(by[line], ", ") + ")")
			}
			text.WriteByte('\n')
		}
	}
	return text.String()
}
