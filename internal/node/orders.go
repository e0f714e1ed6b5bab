package node

import (
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/shares"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/standing"
)

// ordersFile holds the operators' orders.
const ordersFile = "state/orders"

// A noter is Config.Note, which may be nil.
type noter func(text string)

func (n noter) Note(text string) {
	if n != nil {
		n(text)
	}
}

// loadOrders reads the operators' orders of earlier runs.
func (a *Agent) loadOrders() (err error) {
	cfg := standing.Config{FS: a.fs, File: a.dir(ordersFile), Name: "crawl", Clock: a.cfg.Clock,
		Events: a.parts.Events, Notes: noter(a.cfg.Note), Sheets: &a.sheets, Scope: a.cfg.Scope,
		Blacklist: a.cfg.Blacklist}
	_, cfg.Walks = a.parts.Strategy.(*strategy.Walk)
	if c := a.membership; c != nil {
		cfg.Name, cfg.Members = c.members.Self.Name, c.members
	}
	if a.orders, err = standing.Load(cfg); err != nil {
		return err
	}
	a.cfg.Crawl.WhyPaused, a.cfg.Crawl.WhyRate = a.orders.WhyPaused, a.whyRate
	return nil
}

// Barred says what keeps the links from being fetched that a crawl leaves.
type Barred struct {
	// ByOrders reports that orders block hosts or exclude patterns. Blacklist is the name of the file that does so, or
	// empty.
	ByOrders  bool
	Blacklist string
}

// leftBy returns which agents continue after a stop, and what keeps links from being fetched.
func (a *Agent) leftBy(stop crawl.Stop) (others []string, b Barred) {
	switch stop {
	case crawl.Finished:
	case crawl.OnlyBlocked:
		b.ByOrders, b.Blacklist = a.orders.Bars()
	default:
		others = a.staying
	}
	return others, b
}

// openRates makes the limiter of the crawl's rate.
func (a *Agent) openRates() {
	cfg := shares.Config{Clock: a.cfg.Clock, Schedule: a.cfg.Rate, Events: a.parts.Events}
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

// whyRate says, for people, which rate of the whole crawl holds now, and this agent's share of it.
func (a *Agent) whyRate() string {
	s := rateState(a.rates, a.now())
	if s == nil {
		return "none"
	}
	text := s.Limit
	if s.Schedule != s.Limit {
		text += " now, by the schedule " + s.Schedule
	}
	if s.Share > 0 && s.Share < 1 {
		text += fmt.Sprintf(" (this agent's share: %.0f %%)", 100*s.Share)
	}
	return text
}
