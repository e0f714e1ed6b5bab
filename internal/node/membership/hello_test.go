package membership

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
)

// A new agent with --agents 3 sees three agents and asks another one whether it may join. It takes
// the crawl for new only if that agent has not begun, was not told by others that they have begun,
// and was in no crawl before its restart.
func TestBeginsOnlyAtTheBeginning(t *testing.T) {
	agents := []placement.Owner{{Name: "a1", Capacity: 1}, {Name: "a2", Capacity: 1}, {Name: "a3", Capacity: 1}}
	all := must.Get((&Config{}).Place(agents))(t)
	for _, c := range []struct {
		name    string
		prepare func(welcomer *Membership)
		begins  bool
	}{
		{"all wait", func(*Membership) {}, true},
		{"the other one crawls", func(w *Membership) {
			w.joining.begun.Store(true)
			w.Division.settle(all, w.joining.late.Load())
		}, false},
		{"the other one was restarted", func(w *Membership) { w.Members.Self.Boot = 2; w.joining.begun.Store(true) },
			false},
		{"the other one has just come, too", func(w *Membership) {
			w.joining.late.Store(true)
			w.joining.settings[agentsSetting] = "1" // it was started without --agents
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			network := newLoop()
			welcomer, comer := memberOf(t, network, "a2"), memberOf(t, network, "a3")
			welcomer.Members.SetCrawl(rpc.ID{7})
			c.prepare(welcomer)
			crawl := must.Get(comer.joining.ask(t.Context(), welcomer.Members.Self.Addr))(t)
			comer.Members.SetCrawl(crawl)
			comer.Division.settle(all, comer.joining.late.Load())
			begins := false
			for host := range uint64(100) {
				t := comer.Division.Owners().Tenure(host)
				begins = begins || t.Mine && t.Since == 0
			}
			if begins != c.begins {
				t.Errorf("takes the crawl for new: %v, want %v", begins, c.begins)
			}
		})
	}
}

// An agent that asks its own address finds itself. Another start, or the same one at another address, is from a copy of
// its directory.
func TestAsksItself(t *testing.T) {
	c := memberOf(t, newLoop(), "a1")
	if _, err := c.joining.ask(t.Context(), c.Members.Self.Addr); !errors.Is(err, gossip.ErrSelf) {
		t.Errorf("its own address: %v", err)
	}
	for what, change := range map[string]func(a *gossip.Agent){
		"another start":   func(a *gossip.Agent) { a.Boot++ },
		"another address": func(a *gossip.Agent) { a.Addr = "127.0.0.1:7479" },
	} {
		other := memberOf(t, newLoop(), "a1")
		other.Members.Self.Instance = c.Members.Self.Instance
		change(&other.Members.Self)
		_, err := c.joining.hello(t.Context(), other.Members.Caller(), other.joining.greeting())
		if r, ok := errors.AsType[*rpc.Refusal](err); !ok || r.Reason != "copy" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// newLoop returns a machine in memory whose agents listen on loopback.
func newLoop() *simnet.Machine { return simnet.New(1).Machine(1, netip.MustParseAddr("127.0.0.1")) }

// nobody are gossip.Calls to which no agent answers.
type nobody struct{}

var errNobody = errors.New("nobody")

func (nobody) Dial(context.Context, string, string) (net.Conn, error) { return nil, errNobody }
func (nobody) Hello(context.Context, string) error                    { return errNobody }

// memberOf returns the part of one of three agents that admits agents and asks for admission.
func memberOf(t *testing.T, network rpc.Network, name string) *Membership {
	t.Helper()
	listener := must.Get(rpc.Listen(network, "127.0.0.1:747"+name[1:], nil))(t)
	c := newMembership(&Config{Name: name, Capacity: 1, Agents: 3, Network: network}, Place{Clock: clock.System}, nil)
	c.joining.settings = map[string]string{agentsSetting: "3"}
	c.Members.Self = gossip.Agent{Name: name, Capacity: 1, Instance: newExchangeID(), Boot: 1, Addr: listener.Addr()}
	m := must.Get(gossip.Open(gossip.Config{
		Self: c.Members.Self, Advertise: netip.MustParseAddrPort(c.Members.Self.Addr),
		Packets: listener.Packets(), Streams: listener.Gossip(),
		Calls: nobody{},
	}))(t)
	c.Members.Join(m)
	c.Members.Client = rpc.NewClient(rpc.ClientConfig{Dial: network.Dial, Self: func() rpc.Caller {
		return rpc.Caller{Name: name, Instance: c.Members.Self.Instance, Boot: c.Members.Self.Boot,
			Crawl: c.Members.Crawl()}
	}})
	c.server = rpc.NewServer(listener, rpc.ServerConfig{
		Crawl: c.Members.Crawl, Admitted: c.joining.admitted,
	})
	HelloCall.Serve(c.server, c.joining.hello)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, m.Close(), c.Members.Client.Close(), listener.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}
