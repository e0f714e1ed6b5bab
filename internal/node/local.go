package node

import (
	"context"

	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/sites/follower"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/node/local"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
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
	*crawl.Applications
	*crawl.Intake
}

// running are the parts of the crawl that save and end it.
type running struct {
	*crawl.Orders
	crawl *crawl.Crawler
}

func (r running) Halt(ctx context.Context, why crawl.Stop) error { return r.crawl.Halt(ctx, why) }

// openOperator puts the orders in force, and makes the Operator. Its Local also answers when other agents pass commands
// on.
func (a *Agent) openOperator() (err error) {
	if a.NotBlocked, err = a.orders.Open(a.crawler.Orders, a.rates, a.cfg.Unblock); err != nil {
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
	seeds := &local.Seeds{Contact: a.cfg.Contact != "", ByPages: a.cfg.Cluster.byPages(), Scope: p.Scope,
		Crawl: a.crawler.Intake, Run: r}
	_, seeds.Walks = p.Strategy.(*strategy.Walk)
	apps := &local.Applications{Definitions: a.orders, Defined: a.orders.Applications, Log: "crawl", Seeds: seeds,
		Archive: a.archive, Crawl: collecting{a.crawler.Applications, a.crawler.Intake}}
	views := local.Views{Blacklists: a.orders, Crawl: a.crawler.View, EventLog: p.Events, Logs: logs,
		Samples: a.history}
	host := &local.HostCommands{Crawl: asked, Orders: a.orders, Logs: logs, Archive: a.archive, Run: r}
	self := &local.Self{Crawl: running{a.crawler.Orders, a.crawler}, Apps: apps, Events: p.Events, Run: r}
	var others operate.Others
	if c := a.membership; c != nil {
		self.Agent, views.Agent, others = c.members.Self.Name, c.members.Self.Name, local.Others{Members: c.members}
		self.NoPaces = c.cfg.byPages() && a.cfg.Frontier.SiteDelay <= 0
		seeds.Copier, apps.Log = a.cluster, c.joining.who.Instance
		views.Division = &local.Division{Partition: c.cfg.Partition, Circle: c.sites == nil && !c.cfg.byPages(),
			Placed: placed{c}}
		if !c.cfg.byPages() {
			host.Owners = a.cluster
		}
		if c.sites != nil {
			host.Assigned = assigned{c.sites}
		}
	}
	a.local = &operate.Local{Agent: self, HostCommands: host, Seeds: seeds, Viewer: local.NewViews(views),
		Archive: a.archive, Scoping: local.Scoping{Of: p.Scope}, Queues: queue, Apps: apps}
	a.operator = operate.New(a.local, others, a.orders)
	return nil
}

// A run is a local.Run.
type run struct{ a *Agent }

func (r run) Status() *crawl.Status                     { return r.a.Status() }
func (r run) Waits() (local.Waiting, bool)              { return r.a.waits() }
func (r run) Sizes(s *crawl.Status) []local.Size        { return r.a.sizes(s) }
func (r run) Leave(ctx context.Context) (string, error) { return r.a.Leave(ctx) }

func (r run) Describe(s *pb.AgentStatus) {
	if c := r.a.membership; c != nil {
		s.Address, s.Absent = c.members.Self.Addr, c.joining.gone()
	}
	s.Rate, s.DomainRates = rateState(r.a.rates, r.a.now()), r.a.orders.Paces.States()
}

// A placed is a local.Placed.
type placed struct{ c *membership }

func (p placed) Owners() *placement.View { return p.c.owners() }

// An assigned is a local.Assigned.
type assigned struct{ f *follower.Follower }

func (s assigned) LookUp(ctx context.Context, host string) {
	if s.f.IsAttached() {
		_, _ = s.f.Table.Lookup(ctx, []string{host})
	}
}
func (s assigned) Waits(host string) bool     { return s.f.Table.Waits(host) }
func (s assigned) Explain(host string) string { return s.f.Table.Explain(host) }

// operated carries out what the Operator of another agent has passed on.
func (c *membership) operated(ctx context.Context, from rpc.Caller, o rpc.Operation) (rpc.OperationAnswer, error) {
	answer := c.a.local.Answer
	switch {
	case o.Method == captureMethod:
		answer = func(_ context.Context, _ string, request []byte) ([]byte, error) { return c.captured(request) }
	case o.Method == members.LeftMethod && c.joining.endings != nil && c.members.Gossip() != nil:
		return rpc.OperationAnswer{}, c.joining.endings.Left(c.members.Gossip(), from)
	}
	response, err := answer(ctx, o.Method, o.Request)
	if err != nil {
		return rpc.OperationAnswer{Error: err.Error()}, nil
	}
	return rpc.OperationAnswer{Response: response}, nil
}
