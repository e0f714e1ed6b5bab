package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/cluster/shares"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// paces are the operators' orders of rates of domains, by domain. They never change.
type paces map[string]operate.DomainRate

func newPaces(standing []orders.Order) *paces {
	ps := paces{}
	for _, r := range operate.DomainRates(standing) {
		ps[r.Domain] = r
	}
	return &ps
}

func (ps paces) domains() []string { return slices.Sorted(maps.Keys(ps)) }

// gap returns the least time between two requests to a domain at now; 0: there is no limit.
func (ps paces) gap(domain string, now time.Time) time.Duration {
	if limit := ps[domain].Plan.At(now); limit.Requests > 0 {
		return time.Duration(float64(time.Second) / limit.Requests)
	}
	return 0
}

// paceOf returns the least time between two requests to a domain by the orders that stand.
func (a *Agent) paceOf(domain string) time.Duration { return a.paces.Load().gap(domain, a.now()) }

// CanRateDomain implements operate.Agent. If each agent may contact each host, a lease of each host keeps its pauses.
// Without a delay of domains, no lease covers all hosts of one.
func (o local) CanRateDomain() error {
	if a := o.a; a.cluster != nil && a.byPages() && a.cfg.Frontier.SiteDelay <= 0 {
		return errors.New("if agents divide pages and not hosts, the rate of a domain needs a --site-delay")
	}
	return nil
}

// whyPace says, for people, which rate of the domain of a host holds, and why. It is empty if there is none.
func (a *Agent) whyPace(host string) string {
	r, ok := (*a.paces.Load())[weburl.Site(host)]
	if !ok {
		return ""
	}
	return fmt.Sprintf("at most %s for %s and all hosts below it, order %s, %s", r.Plan.At(a.now()), r.Domain,
		r.Order.ID(), r.Plan)
}

// setPaces puts the orders of rates of domains in force.
func (a *Agent) setPaces(ctx context.Context, standing []orders.Order) error {
	ps := newPaces(standing)
	a.paces.Store(ps)
	return a.crawler.Repace(ctx, ps.domains())
}

// domainRates returns the rates of domains for the status.
func (a *Agent) domainRates() (rates []*pb.DomainRate) {
	ps := *a.paces.Load()
	for _, domain := range ps.domains() {
		r := ps[domain]
		rates = append(rates, &pb.DomainRate{Domain: domain, Schedule: r.Plan.String(),
			Limit: r.Plan.At(a.now()).String(), Order: r.Order.ID()})
	}
	return rates
}

// openRates makes the limiter of the crawl's rate.
func (a *Agent) openRates() {
	cfg := shares.Config{Now: a.now, Schedule: a.cfg.Rate, Events: a.parts.Events}
	if c := a.membership; c != nil {
		cfg.Members, cfg.Grantor = c.members, c
	}
	a.rates, a.parts.Rate = shares.New(cfg)
}

// rateState returns the limit of the rate for the status, or nil if there is none at any time.
func rateState(r *shares.Rates, now time.Time) *pb.RateState {
	schedule, share := r.State()
	if schedule.None() {
		return nil
	}
	return &pb.RateState{Schedule: schedule.String(), Limit: schedule.At(now).String(), Share: share}
}
