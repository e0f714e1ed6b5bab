package standing

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// paces are orders of rates of domains, by domain. They never change.
type paces map[string]verbs.DomainRate

func newPaces(standing []orders.Order) *paces {
	ps := paces{}
	for _, r := range verbs.DomainRates(standing) {
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

// Paces tell which rates the orders that stand give to domains. The exported methods are safe for concurrent use.
type Paces struct {
	clock clock.Clock
	now   atomic.Pointer[paces]
}

// Domains returns the domains that have a rate.
func (ps *Paces) Domains() []string { return ps.now.Load().domains() }

// Of returns the least time between two requests to a domain by the orders that stand.
func (ps *Paces) Of(domain string) time.Duration { return ps.now.Load().gap(domain, ps.clock.Now()) }

// Why says, for people, which rate of the domain of a host holds, and why. It is empty if there is none.
func (ps *Paces) Why(host string) string {
	r, ok := (*ps.now.Load())[weburl.Site(host)]
	if !ok {
		return ""
	}
	return fmt.Sprintf("at most %s for %s and all hosts below it, order %s, %s", r.Plan.At(ps.clock.Now()), r.Domain,
		r.Order.ID(), r.Plan)
}

// set puts the orders of rates of domains in force.
func (ps *Paces) set(ctx context.Context, c Crawl, standing []orders.Order) error {
	now := newPaces(standing)
	ps.now.Store(now)
	return c.Repace(ctx, now.domains())
}

// States returns the rates of domains for the status.
func (ps *Paces) States() (rates []*pb.DomainRate) {
	now := *ps.now.Load()
	for _, domain := range now.domains() {
		r := now[domain]
		rates = append(rates, &pb.DomainRate{Domain: domain, Schedule: r.Plan.String(),
			Limit: r.Plan.At(ps.clock.Now()).String(), Order: r.Order.ID()})
	}
	return rates
}
