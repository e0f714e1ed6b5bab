package verbs

import (
	"context"
	"errors"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// A Crawl is what orders change. Its methods put all of a kind in force, in place of what they got before.
type Crawl interface {
	Amend(a scope.Amendment) error
	Exclude(ctx context.Context, list []crawl.Exclusion) error
	Pause(ctx context.Context, on bool) error
	Bar(ctx context.Context, list []crawl.Bar) error
	// HeedBars lets the links go that bars of earlier runs have held, and no bar does now.
	HeedBars()
	// Redelay applies new delays to the hosts that rest. was returns the delay for which a host rests.
	Redelay(ctx context.Context, was func(host string) (d time.Duration, ok bool)) error
	// Repace tells which domains have a rate.
	Repace(ctx context.Context, domains []string) error
	SetApplications(apps []visit.Application) error
}

// Settings are what the orders of an agent's crawl depend on.
type Settings struct {
	Clock  clock.Clock
	Sheets *sheet.Live  // the settings of parts of the web
	Scope  scope.Config // of the crawl: applications stay within its exclusions
	Walks  bool         // the strategy is a walk, which has no applications
	Rates  Rates
}

// Rates keep the rate of the whole crawl.
type Rates interface {
	// Order puts the schedule of an order in force; nil: there is no order.
	Order(*rate.Schedule)
}

// A Force puts the orders of all verbs in force at an agent.
type Force struct {
	// Delays, Paces and Applications are in force.
	Delays       *Delays
	Paces        *Paces
	Applications *Applications

	Crawl Crawl
	// OtherBars and OtherExclusions hold besides those of orders.
	OtherBars       []crawl.Bar
	OtherExclusions []crawl.Exclusion

	settings  Settings
	limited   []string  // the orders whose page limits are in force
	amendment Amendment // by the orders of this Apply: scope and exclude share it, because patterns are large
}

// NewForce returns a Force whose delays and paces are in force: they hold for hosts that rest since an earlier run.
// Crawl must be set before Apply.
func NewForce(s Settings, standing []orders.Order) *Force {
	return &Force{settings: s, Delays: newDelays(s.Sheets, s.Clock, standing), Paces: newPaces(s.Clock, standing),
		Applications: &Applications{crawlScope: s.Scope, walks: s.Walks}}
}

// Apply puts the orders that stand in force, in place of those of the call before. After an error, some of them may be
// in force, and the caller calls it again. Calls do not overlap.
func (f *Force) Apply(ctx context.Context, standing []orders.Order) error {
	f.amendment = Amendments(standing)
	var errs []error
	for _, v := range All {
		errs = append(errs, v.rules.apply(ctx, f, standing))
	}
	return errors.Join(errs...)
}
