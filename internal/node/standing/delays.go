package standing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// delays are orders of delays. They never change. A nil one has no order.
type delays struct {
	about map[string]*verbs.Delay // by host, by "*." and domain, or "" for all hosts
	ids   []string
}

func delaysOf(standing []orders.Order) *delays {
	ds := &delays{about: map[string]*verbs.Delay{}}
	for _, d := range verbs.Delays(standing) {
		ds.about[d.About] = &d
		ds.ids = append(ds.ids, d.Order.ID())
	}
	return ds
}

// A reason is an order or a setting that a host's delay comes from. Both are nil for the delay of all hosts.
type reason struct {
	order *verbs.Delay
	rule  *sheet.Rule
}

func (r reason) String() string {
	switch {
	case r.order != nil && r.order.About == "":
		return fmt.Sprintf("order %s, all hosts, %s", r.order.Order.ID(), r.order.Plan)
	case r.order != nil:
		return fmt.Sprintf("order %s, %s, %s", r.order.Order.ID(), r.order.About, r.order.Plan)
	case r.rule != nil:
		return "setting of " + r.rule.Text
	}
	return "setting of all hosts"
}

// of returns the delay of a host at now, and its reason. The most specific order or setting holds; of an order and a
// setting for the same, the order holds. ok is false if neither has a delay of the host.
func (ds *delays) of(host string, t *sheet.Table, now time.Time) (d time.Duration, why reason, ok bool) {
	var rule *sheet.Rule
	set := t.Host(host).Delay
	if ds == nil || len(ds.about) == 0 {
		if set == nil {
			return 0, reason{}, false
		}
		return *set, reason{}, true
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
		return *set, reason{rule: rule}, true
	}
	if try("") {
		return d, why, true
	}
	return 0, reason{}, false
}

// Delays tell which delay each host has, by the orders that stand and by the settings of parts of the web. Of and Why
// are safe for concurrent use.
type Delays struct {
	sheets *sheet.Live
	clock  clock.Clock
	now    atomic.Pointer[delays]
	rested *delays // for which the hosts rest that rest; Orders.turn guards it
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
