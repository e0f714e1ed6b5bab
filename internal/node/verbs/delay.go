package verbs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/hours"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// delay sets the delay of a host, of a domain, or of all hosts. The value is a DelayPlan.
var delay = Verb{
	Name: verbDelay, Role: Operator, Done: "given a delay by an order",
	Brief: "Set the delay of a host, of a domain or of all hosts, also after a restart.",
	Words: "host-and-delay",
	About: "Name a host, or a domain such as \"*.example.org\", or neither for all hosts; then the delay, such as " +
		"10s, perhaps with times of day: 10s 8-18 mon-fri, else 2s.",
	Help: `The crawl waits this long after a response before the next request to the same
host. Without a host or a domain, the order holds for all hosts.

  orbweaver ctl delay www.example.org 10s --why "a complaint"
  orbweaver ctl delay '*.example.org' 10s 8-18 mon-fri, else 2s
  orbweaver ctl delay 5s

Times of day are in UTC, unless a time zone such as Europe/Berlin is behind
them. Days are mon, mon-fri, weekdays or weekend. Of several orders and settings
for a host, the most specific one holds. The delay may be shorter than --delay,
but not shorter than the Crawl-delay in robots.txt.
"orbweaver ctl explain HOST" says which delay holds, and why. "orbweaver ctl
take-back ID" takes the order back.`,
	Note: "The delay between requests to the same host holds until it is taken back.", Example: "www.example.org 10s",
	rules:  delayRules{},
	Valued: true,
}

// delayRules are the rules of delays.
type delayRules struct{ usual }

func (delayRules) split(words []string) (about, value string) {
	if _, err := time.ParseDuration(words[0]); err == nil || words[0] == "0" {
		return "", strings.Join(words, " ")
	}
	return words[0], strings.Join(words[1:], " ")
}

func (delayRules) subject(text string) (string, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return "", nil
	}
	about, wide, err := input.About(text)
	if err == nil && wide && !strings.HasPrefix(about, "*.") {
		err = fmt.Errorf("%s: a delay is for a host or a domain; give one such as www.example.org or *.example.org",
			about)
	}
	return about, err
}

func (delayRules) plan(about, text string) (string, error) {
	if text == "" && about != "" {
		return "", fmt.Errorf("%s: no delay; give one such as 10s after the host", about)
	}
	plan, err := ParseDelay(text)
	return plan.String(), err
}

func (delayRules) describe(o orders.Order, _ []orders.Order) string {
	if o.About == "" {
		return "all hosts: " + sets(o, "delay")
	}
	return sets(o, "delay")
}

func (delayRules) apply(ctx context.Context, f *Force, standing []orders.Order) error {
	return f.Delays.set(ctx, f.Crawl, standing)
}

const verbDelay = "delay"

// maxDelay is the longest delay of an order, the same as of a setting of hosts.
const maxDelay = 24 * time.Hour

// A DelayPlan says which delay holds at which time.
type DelayPlan = hours.Plan[time.Duration]

// ParseDelay reads a plan of delays, such as "10s 8-18 mon-fri, else 2s". The error is for people.
func ParseDelay(s string) (DelayPlan, error) {
	return hours.Parse(s, func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if s == "0" {
			d, err = 0, nil
		}
		if err != nil || d < 0 || d > maxDelay {
			return 0, fmt.Errorf("%.100q is not a delay from 0s to 24h; give one such as 10s, or \"10s 8-18 mon-fri, "+
				"else 2s\"", s)
		}
		return d, nil
	})
}

// A Delay is an order that stands and sets delays.
type Delay struct {
	About string // a host, a domain (*.example.org), or "" for all hosts
	Plan  DelayPlan
	Order orders.Order
}

// DelayOrders returns the delays among the orders that stand.
func DelayOrders(standing []orders.Order) (delays []Delay) {
	for _, o := range standing {
		if o.Verb != verbDelay {
			continue
		}
		if plan, err := ParseDelay(o.Value); err == nil { // otherwise another version has given it
			delays = append(delays, Delay{o.About, plan, o})
		}
	}
	return delays
}

// delays are orders of delays. They never change. A nil one has no order.
type delays struct {
	about map[string]*Delay // by host, by "*." and domain, or "" for all hosts
	ids   []string
}

func delaysOf(standing []orders.Order) *delays {
	ds := &delays{about: map[string]*Delay{}}
	for _, d := range DelayOrders(standing) {
		ds.about[d.About] = &d
		ds.ids = append(ds.ids, d.Order.ID())
	}
	return ds
}

// A cause is an order or a setting that a host's delay comes from. Both are nil for the delay of all hosts.
type cause struct {
	order *Delay
	rule  *sheet.Rule
}

func (c cause) String() string {
	switch {
	case c.order != nil && c.order.About == "":
		return fmt.Sprintf("order %s, all hosts, %s", c.order.Order.ID(), c.order.Plan)
	case c.order != nil:
		return fmt.Sprintf("order %s, %s, %s", c.order.Order.ID(), c.order.About, c.order.Plan)
	case c.rule != nil:
		return "setting of " + c.rule.Text
	}
	return "setting of all hosts"
}

// of returns the delay of a host at now, and its reason. The most specific order or setting holds; of an order and a
// setting for the same, the order holds. ok is false if neither has a delay of the host.
func (ds *delays) of(host string, t *sheet.Table, now time.Time) (d time.Duration, why cause, ok bool) {
	var rule *sheet.Rule
	set := t.Host(host).Delay
	if ds == nil || len(ds.about) == 0 {
		if set == nil {
			return 0, cause{}, false
		}
		return *set, cause{}, true
	}
	try := func(about string) bool {
		if why.order = ds.about[about]; why.order != nil {
			d, ok = why.order.Plan.At(now)
		}
		return ok
	}
	if try(host) {
		return d, why, true
	}
	if set != nil {
		rule = t.DecidesHost(host, "delay")
	}
	for domain, more := host, true; more; _, domain, more = strings.Cut(domain, ".") {
		if rule != nil && (!rule.Prefix.Below || len(domain) < len(rule.Prefix.Host)) {
			break
		}
		if try("*." + domain) {
			return d, why, true
		}
	}
	if set != nil {
		return *set, cause{rule: rule}, true
	}
	if try("") {
		return d, why, true
	}
	return 0, cause{}, false
}

// Delays tell which delay each host has, by the orders that stand and by the settings of parts of the web. Of and Why
// are safe for concurrent use.
type Delays struct {
	sheets *sheet.Live
	clock  clock.Clock
	now    atomic.Pointer[delays]
	rested *delays // for which the hosts rest that rest; only Force.Apply uses it
}

func newDelays(sheets *sheet.Live, clock clock.Clock, standing []orders.Order) *Delays {
	ds := &Delays{sheets: sheets, clock: clock, rested: delaysOf(standing)}
	ds.now.Store(ds.rested)
	return ds
}

// Of returns the delay of a host that an order or a setting gives a delay of its own.
func (ds *Delays) Of(host string) (time.Duration, bool) {
	d, _, ok := ds.now.Load().of(host, ds.sheets.Table(), ds.clock.Now())
	return d, ok
}

// Why says, for people, where the delay of a host comes from.
func (ds *Delays) Why(host string) string {
	_, why, ok := ds.now.Load().of(host, ds.sheets.Table(), ds.clock.Now())
	if ok && why.order == nil {
		why.rule = ds.sheets.Table().DecidesHost(host, "delay")
	}
	return why.String()
}

// set puts the orders of delays in force. After an error, hosts that rest may still rest for the orders before, and the
// next call mends that.
func (ds *Delays) set(ctx context.Context, c Crawl, standing []orders.Order) error {
	now, before := delaysOf(standing), ds.rested
	ds.now.Store(now)
	if slices.Equal(before.ids, now.ids) {
		return nil
	}
	if err := c.Redelay(ctx, func(host string) (time.Duration, bool) {
		d, _, ok := before.of(host, ds.sheets.Table(), ds.clock.Now())
		return d, ok
	}); err != nil {
		return err
	}
	ds.rested = now
	return nil
}
