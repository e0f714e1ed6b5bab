// Package testmembers answers: how does a test of a cluster's feature get agents that know and call each other?
//
//	Open -> agents -> the feature serves its calls at Agent.Server -> Begin -> Agent.Members
//
// The agents gossip and call each other over a simulated network, in the virtual time of testing/synctest.
package testmembers

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
)

// Settle is longer than a change needs until all agents have the same view.
const Settle = 30 * time.Second

// A Cluster is the agents of a test.
type Cluster struct {
	t      *testing.T
	net    *simnet.Network
	Agents []*Agent // in the order of their names
}

// An Agent is one of a Cluster. It implements gossip.Calls.
type Agent struct {
	Members *members.Members
	Server  *rpc.Server // runs after Begin

	of      *Cluster
	machine *simnet.Machine
	port    *rpc.Listener
	gossip  *gossip.Member
	ctx     context.Context // ends with the agent
	cancel  context.CancelFunc
	served  chan error // nil: the agent does not run
}

// Open returns agents that have not begun, in a bubble of testing/synctest. They end with the test.
func Open(t *testing.T, names ...string) *Cluster {
	c := &Cluster{t: t, net: simnet.New(1)}
	t.Cleanup(func() {
		for _, a := range c.Agents {
			a.Kill()
		}
		time.Sleep(time.Minute) // until the connections have ended
	})
	for _, name := range names {
		c.Add(name)
	}
	return c
}

// Add returns one more agent that has not begun.
func (c *Cluster) Add(name string) *Agent {
	c.t.Helper()
	n := len(c.Agents) + 1
	ip := netip.AddrFrom4([4]byte{127, 0, 0, byte(n)})
	a := &Agent{of: c, machine: c.net.Machine(n, ip)}
	var err error
	if a.port, err = rpc.Listen(a.machine, netip.AddrPortFrom(ip, 7470).String(), nil); err != nil {
		c.t.Fatal(err)
	}
	self := gossip.Agent{Name: name, Instance: [16]byte{byte(n), 'i', 'd'}, Boot: 1, Capacity: 1, Addr: a.port.Addr()}
	a.Members = &members.Members{Self: self}
	a.Members.Client = rpc.NewClient(rpc.ClientConfig{Dial: a.machine.Dial, Self: a.Members.Caller, Seed: uint64(n)})
	a.Members.SetCrawl(rpc.ID{1})
	a.Server = rpc.NewServer(a.port, rpc.ServerConfig{Crawl: a.Members.Crawl})
	if a.gossip, err = gossip.Open(gossip.Config{Self: self, Advertise: netip.MustParseAddrPort(self.Addr),
		Label: "test", Packets: a.port.Packets(), Streams: a.port.Gossip(), Calls: a, Seed: uint64(n)}); err != nil {
		c.t.Fatal(err)
	}
	a.Members.Join(a.gossip)
	a.ctx, a.cancel = context.WithCancel(context.Background())
	c.Agents = append(c.Agents, a)
	return a
}

// Begin lets the agents begin that have not, and returns when all know each other.
func (c *Cluster) Begin() {
	c.t.Helper()
	for i, a := range c.Agents {
		if a.served != nil {
			continue
		}
		a.served = make(chan error, 1)
		go func() { a.served <- a.Server.Run(a.ctx) }()
		err := a.gossip.Found()
		if i > 0 {
			err = a.gossip.Join(a.ctx, []string{c.Agents[0].Members.Self.Addr})
		}
		if err = errors.Join(err, a.gossip.Announce(a.ctx, gossip.Up)); err != nil {
			c.t.Fatal(err)
		}
	}
	time.Sleep(Settle)
}

// Announce tells the others a state of the agent.
func (a *Agent) Announce(s gossip.State) {
	if err := a.gossip.Announce(a.ctx, s); err != nil {
		a.of.t.Error(err)
	}
	time.Sleep(Settle)
}

// Kill ends the agent without a word. It may be called again.
func (a *Agent) Kill() {
	if a.ctx.Err() != nil {
		return
	}
	a.cancel()
	a.machine.Kill()
	err := errors.Join(a.Members.Client.Close(), a.gossip.Close())
	if a.served != nil {
		<-a.served
	}
	a.port.Close()
	if err != nil {
		a.of.t.Error(err)
	}
}

func (a *Agent) Dial(ctx context.Context, addr, name string) (net.Conn, error) {
	return rpc.DialGossip(ctx, nil, a.machine.Dial, addr, name)
}

// Hello implements gossip.Calls. The other agent admits each one.
func (a *Agent) Hello(_ context.Context, addr string) error {
	for _, other := range a.of.Agents {
		if other.Members.Self.Addr == addr && other.ctx.Err() == nil {
			return other.gossip.Admit(a.Members.Self, time.Now())
		}
	}
	return errors.New("no agent at " + strconv.Quote(addr))
}
