package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// delays are the operators' orders of delays. They never change. A nil one has no order.
type delays struct {
	about map[string]*operate.Delay // by host, by "*." and domain, or "" for all hosts
	ids   []string
}

func newDelays(standing []orders.Order) *delays {
	ds := &delays{about: map[string]*operate.Delay{}}
	for _, d := range operate.Delays(standing) {
		ds.about[d.About] = &d
		ds.ids = append(ds.ids, d.Order.ID())
	}
	return ds
}

// A reason is an order or a setting that a host's delay comes from. Both are nil for the delay of all hosts.
type reason struct {
	order *operate.Delay
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

// delayOf returns the delay of a host that an order or a setting gives a delay of its own.
func (a *Agent) delayOf(host string) (time.Duration, bool) {
	d, _, ok := a.delays.Load().of(host, a.sheets.Table(), a.now())
	return d, ok
}

// whyDelay says, for people, where the delay of a host comes from.
func (a *Agent) whyDelay(host string) string {
	_, why, ok := a.delays.Load().of(host, a.sheets.Table(), a.now())
	if ok && why.order == nil {
		why.rule = a.sheets.Table().DecidesHost(host, "delay")
	}
	return why.String()
}

// setDelays puts the orders of delays in force. After an error, hosts that rest may still rest for the orders before,
// and the next call mends that.
func (s *standing) setDelays(ctx context.Context, standing []orders.Order) error {
	now, before, a := newDelays(standing), s.rested, s.a
	a.delays.Store(now)
	if slices.Equal(before.ids, now.ids) {
		return nil
	}
	if err := a.crawler.Redelay(ctx, func(host string) (time.Duration, bool) {
		d, _, ok := before.of(host, a.sheets.Table(), a.now())
		return d, ok
	}); err != nil {
		return err
	}
	s.rested = now
	return nil
}
