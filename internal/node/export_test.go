package node

import (
	"context"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// The methods of this file let the tests of package node_test do what other agents do, or what happens too seldom.

// Occupy makes the crawl loop busy until release is called.
func (a *Agent) Occupy(ctx context.Context) (release func() error) {
	over, busy := make(chan struct{}), make(chan error, 1)
	go func() {
		busy <- a.crawler.Orders.Redelay(ctx, func(string) (time.Duration, bool) { <-over; return time.Minute, true })
	}()
	return func() error { close(over); return <-busy }
}

// LookAtBlacklist looks at the file for the second time since it was written.
func (a *Agent) LookAtBlacklist(ctx context.Context) {
	a.orders.LookAtBlacklist(ctx, a.orders.BlacklistStamp())
}

// TakeOrders receives another agent's orders.
func (a *Agent) TakeOrders(ctx context.Context, q *pb.OrdersRequest) (*pb.OrdersResponse, error) {
	return a.orders.Answer(ctx, rpc.Caller{}, q)
}

// Cut cuts a state, as the saving of states does.
func (a *Agent) Cut(ctx context.Context) (ok bool, err error) {
	return a.saved(a.segments).Cut(ctx, nil, func() error { return nil })
}

// Halt ends the run for a reason.
func (a *Agent) Halt(ctx context.Context, reason crawl.Stop) error {
	return a.crawler.Halt(ctx, reason)
}

// IsGone reports whether the agent has announced its end.
func (a *Agent) IsGone() bool {
	m := a.membership.Members.Gossip()
	return m != nil && m.View().Agents[0].State == gossip.Gone
}

// HostDelay returns the quiet time of a host.
func (a *Agent) HostDelay(host string) time.Duration { return a.parts.Frontier.HostDelay(host) }

// Shared returns the settings that an agent with a configuration, a strategy and seeds compares with others.
func Shared(cfg Config, s visit.Strategy, seeds []weburl.URL) (map[string]string, error) {
	a := &Agent{cfg: cfg}
	a.parts.Strategy = s
	return a.shared(seeds)
}
