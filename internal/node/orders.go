package node

import (
	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/node/local"
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
		Blacklist: a.cfg.ExcludeFile, Rate: a.cfg.Rate}
	_, cfg.Walks = a.parts.Strategy.(*strategy.Walk)
	if c := a.membership; c != nil {
		cfg.Name, cfg.Members, cfg.Grantor = c.Members.Self.Name, c.Members, c.Division
	}
	if a.orders, err = standing.Load(cfg); err != nil {
		return err
	}
	a.parts.Rate = a.orders.Limiter
	a.cfg.Crawl.Reasons = reasons{a.orders, a.cfg.Clock}
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

// reasons are the crawl.Reasons of an agent.
type reasons struct {
	*standing.Orders
	clock clock.Clock
}

func (r reasons) WhyRate() string { return local.WhyRate(r.Rates, r.clock.Now()) }
