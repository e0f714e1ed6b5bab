package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A DomainRate is an order that stands and limits the requests to a registered domain.
type DomainRate struct {
	Domain string // such as example.org: all hosts whose weburl.Site it is
	Plan   rate.Schedule
	Order  orders.Order
}

// DomainOf returns the canonical name of a registered domain. Before it may be "*.". The error is for people.
func DomainOf(s string) (domain string, err error) {
	about, wide, err := input.About(s)
	if err != nil {
		return "", err
	}
	domain = strings.TrimPrefix(about, "*.")
	if wide && domain == about {
		return "", fmt.Errorf("%s: a rate is for a registered domain; give one such as example.org", about)
	}
	if site := weburl.Site(domain); site != domain {
		return "", fmt.Errorf("%s is a part of the registered domain %s; give that, or a delay of the host (ctl delay)",
			domain, site)
	}
	return domain, nil
}

// ParseDomainRate reads the rate of a domain, such as "5/s" or "1/s 8-18, else 5/s". The error is for people.
func ParseDomainRate(s string) (rate.Schedule, error) {
	plan, err := rate.Parse(s)
	if err == nil && slices.ContainsFunc(plan.Limits(), func(l rate.Limit) bool { return l.Bits > 0 }) {
		err = fmt.Errorf("%.100q: the rate of a domain counts requests, not bits; give one such as 5/s", s)
	}
	return plan, err
}

// DomainRates returns the rates of domains among the orders that stand, by domain. An order that this version cannot
// read counts as none.
func DomainRates(standing []orders.Order) (rates []DomainRate) {
	for _, o := range standing {
		if o.Verb != verbRate || o.About == "" {
			continue
		}
		if plan, err := ParseDomainRate(o.Value); err == nil {
			rates = append(rates, DomainRate{o.About, plan, o})
		}
	}
	slices.SortFunc(rates, func(a, b DomainRate) int { return strings.Compare(a.Domain, b.Domain) })
	return rates
}

// RateDomain implements pb.OperatorHandler.
func (o *Operator) RateDomain(ctx context.Context, q *pb.RateDomainRequest) (*pb.RateResponse, error) {
	domain, err := DomainOf(q.Domain)
	if err != nil {
		return nil, problem(connect.CodeInvalidArgument, "%v", err)
	}
	plan, err := ParseDomainRate(q.Rate)
	if err == nil {
		_, err = ParseRate(q.Rate)
	}
	if err != nil {
		return nil, problem(connect.CodeInvalidArgument, "rate: %v", err)
	}
	if err := o.agent.CanRateDomain(); err != nil {
		return nil, problem(connect.CodeFailedPrecondition, "%v", err)
	}
	order := orders.Order{Verb: verbRate, About: domain, Value: plan.String(), Why: q.Why}
	given, answers, err := o.give(ctx, order, domain+": rate "+plan.String())
	return &pb.RateResponse{Order: given, Answers: answers}, err
}
