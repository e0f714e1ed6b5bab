package verbs

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// limit limits the requests or bits a second of the whole crawl; with a domain, the requests a second to that domain.
// The value is a rate.Schedule.
var limit = Verb{
	Name: verbRate, Role: Operator, Done: "given a rate by an order",
	Brief: "Limit the requests or bits a second of the whole crawl.",
	Words: "rate",
	About: "Limit the crawl, or the requests to a registered domain that precedes it, to this rate, such as 40/s; " +
		"none is no limit.",
	Help: `The limit holds for all agents together, in place of --rate, until another
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
  orbweaver ctl rate 20Mbit 8-17 mon-fri Europe/Berlin, 90Mbit sat sun, none`,
	Note: "The rate of all agents together holds until it is taken back.", Example: "40/s",
	rules:  rateRules{},
	Valued: true,
}

// rateRules are the rules of rates.
type rateRules struct{ usual }

// split takes the first word for a domain if it has a dot and is not a rate itself, such as 0.5/s.
func (rateRules) split(words []string) (about, value string) {
	if _, err := rate.Parse(words[0]); err != nil && strings.ContainsAny(words[0], ".:") &&
		!strings.HasSuffix(words[0], "/s") {
		return words[0], strings.Join(words[1:], " ")
	}
	return "", strings.Join(words, " ")
}

func (rateRules) subject(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	return domainOf(text)
}

func (rateRules) plan(about, text string) (string, error) {
	if text == "" && about != "" {
		return "", fmt.Errorf("%s: no rate; give one such as 5/s after the domain", about)
	}
	plan, err := parseRate(text)
	if err == nil && about != "" {
		plan, err = parseDomainRate(text)
	}
	return plan.String(), err
}

func (rateRules) check(at Agent, _ []orders.Order, about string) error {
	if about == "" {
		return nil
	}
	return at.CanRateDomain()
}

func (rateRules) describe(o orders.Order, _ []orders.Order) string { return sets(o, "rate") }

func (rateRules) apply(ctx context.Context, f *Force, standing []orders.Order) error {
	f.settings.Rates.Order(Rate(standing))
	return f.Paces.set(ctx, f.Crawl, standing)
}

const verbRate = "rate"

// Rate returns the schedule of the order that stands, or nil if there is none. An order that this version cannot read
// counts as none.
func Rate(standing []orders.Order) *rate.Schedule {
	for _, o := range standing {
		if o.Verb != verbRate || o.About != "" {
			continue
		}
		if s, err := rate.Parse(o.Value); err == nil {
			return &s
		}
	}
	return nil
}

// zeroRate finds a rate of zero in the text of a schedule: at its start or after a comma, perhaps after "else".
var zeroRate = regexp.MustCompile(`(?:^|,)\s*(?:else\s+)?(0+(?:\.0*)?(?:/s|[kMG]?bit)?)(?:[\s,]|$)`)

// parseRate reads the rate of an order. It refuses a rate of zero, which rate.Parse reads as no limit. The error is
// for people.
func parseRate(text string) (rate.Schedule, error) {
	if m := zeroRate.FindStringSubmatch(text); m != nil {
		return rate.Schedule{}, fmt.Errorf("%.80q: a rate of zero is not possible; write none for no limit, or stop "+
			"all requests with \"orbweaver ctl pause\"", m[1])
	}
	return rate.Parse(text)
}

// A DomainRate is an order that stands and limits the requests to a registered domain.
type DomainRate struct {
	Domain string // such as example.org: all hosts whose weburl.Site it is
	Plan   rate.Schedule
	Order  orders.Order
}

// domainOf returns the canonical name of a registered domain. Before it may be "*.". The error is for people.
func domainOf(s string) (domain string, err error) {
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

// parseDomainRate reads the rate of a domain, such as "5/s" or "1/s 8-18, else 5/s". The error is for people.
func parseDomainRate(s string) (rate.Schedule, error) {
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
		if plan, err := parseDomainRate(o.Value); err == nil {
			rates = append(rates, DomainRate{o.About, plan, o})
		}
	}
	slices.SortFunc(rates, func(a, b DomainRate) int { return strings.Compare(a.Domain, b.Domain) })
	return rates
}

// paces are orders of rates of domains, by domain. They never change.
type paces map[string]DomainRate

func pacesOf(standing []orders.Order) *paces {
	ps := paces{}
	for _, r := range DomainRates(standing) {
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

func newPaces(clock clock.Clock, standing []orders.Order) *Paces {
	ps := &Paces{clock: clock}
	ps.now.Store(pacesOf(standing))
	return ps
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
	now := pacesOf(standing)
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
