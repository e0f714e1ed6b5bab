package node

import (
	"context"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/node/local"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/report"
)

// historyFile holds the counts of the last day and month.
const historyFile = "state/history"

// questions are the parts of the crawl that answer for hosts and links.
type questions struct {
	*crawl.View
	*crawl.Orders
}

// collecting are the parts of the crawl that serve applications.
type collecting struct {
	local.Collected
	*crawl.Intake
}

// running are the parts of the crawl that save and end it.
type running struct {
	*crawl.Orders
	halting
}

// halting ends the run of a crawl loop. See crawl.Crawler.
type halting interface {
	Halt(ctx context.Context, why crawl.Stop) error
}

// openOperator puts the orders in force, and makes the Operator. Its Local also answers when other agents pass commands
// on.
func (a *Agent) openOperator() (err error) {
	if a.NotBlocked, err = a.orders.Open(a.crawler.Orders, a.cfg.Unblock); err != nil {
		return err
	}
	p, clock := &a.parts, a.cfg.Clock
	if a.history, err = local.OpenHistory(a.fs, a.dir(historyFile), clock, p.Events, a.crawler.View); err != nil {
		return err
	}
	r := run{a}
	asked := questions{a.crawler.View, a.crawler.Orders}
	queue, err := local.OpenQueue(a.fs, a.dir("state", "journal"), asked, r, clock, p.Events)
	if err != nil {
		return err
	}
	a.onClose(queue.Close)
	a.archive = local.NewArchive(a.fs, a.dir(), p.Archive, clock)
	logs := &local.Logs{FS: a.fs, Dir: a.cfg.Dir}
	seeds := &local.Seeds{Contact: a.cfg.Contact != "", ByPages: a.cfg.Cluster.ByPages(), Scope: p.Scope,
		Crawl: a.crawler.Intake, Run: r}
	_, seeds.Walks = p.Strategy.(*strategy.Walk)
	apps := &local.Applications{Definitions: a.orders, Defined: a.orders.Applications, Log: "crawl", Seeds: seeds,
		Archive: a.archive, Crawl: collecting{a.crawler.Applications, a.crawler.Intake}}
	views := local.Views{Blacklists: a.orders, Crawl: a.crawler.View, EventLog: p.Events, Logs: logs,
		Samples: a.history}
	host := &local.HostCommands{Crawl: asked, Orders: a.orders, Logs: logs, Archive: a.archive, Run: r}
	self := &local.Self{Crawl: running{a.crawler.Orders, a.crawler}, Apps: apps, Events: p.Events,
		Rates: a.orders.Rates, Paces: a.orders.Paces, Clock: a.cfg.Clock, Run: r}
	var others operate.Others
	if c := a.membership; c != nil {
		self.Agent, views.Agent, others = c.Members.Self.Name, c.Members.Self.Name, local.Others{Members: c.Members}
		self.NoPaces = c.ByPages() && a.cfg.Frontier.SiteDelay <= 0
		seeds.Copier, apps.Log = c.Cluster, c.Instance()
		views.Division = &local.Division{Partition: a.cfg.Cluster.Partition,
			Circle: !a.cfg.Cluster.ByCoordinators() && !c.ByPages(), Placed: c.Division}
		if !c.ByPages() {
			host.Owners = c.Cluster
		}
		host.Assigned = c.Assigned()
	}
	a.local = &operate.Local{Agent: self, HostCommands: host, Seeds: seeds, Viewer: local.NewViews(views),
		Archive: a.archive, Scoping: local.Scoping{Of: p.Scope}, Queues: queue, Apps: apps}
	a.operator = operate.New(a.local, others, a.orders)
	return nil
}

// A run is a local.Run.
type run struct{ a *Agent }

func (r run) Status() *crawl.Status                     { return r.a.Status() }
func (r run) Counts() report.Counts                     { return r.a.crawler.View.Counts() }
func (r run) Waits() (local.Waiting, bool)              { return r.a.waits() }
func (r run) Sizes(s *crawl.Status) []local.Size        { return r.a.sizes(s) }
func (r run) Leave(ctx context.Context) (string, error) { return r.a.Leave(ctx) }

func (r run) Cluster() local.Cluster {
	if c := r.a.membership; c != nil {
		return c
	}
	return nil
}
