package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A clustered has the cluster parts of one agent, wired as in package node, without a
// crawl.
type clustered struct {
	self   gossip.Agent
	member *gossip.Member
	client *rpc.Client
	server *rpc.Server
	end    func()
}

var clusterID = rpc.ID{1, 2, 3}

func startClustered(t *testing.T, keys *rpc.Keys, name string, instance byte) *clustered {
	t.Helper()
	l, err := rpc.Listen(rpc.System, "127.0.0.1:0", keys)
	if err != nil {
		t.Fatal(err)
	}
	c := &clustered{self: gossip.Agent{Name: name, Capacity: 1, Instance: [16]byte{instance}, Boot: 1, Addr: l.Addr()}}
	wire := func(a gossip.Agent) rpc.Agent {
		return rpc.Agent{Name: a.Name, Instance: a.Instance, Boot: a.Boot, Capacity: a.Capacity, Addr: a.Addr,
			State: uint8(a.State)}
	}
	settings := map[string]string{"partition": "rendezvous"}
	c.client = rpc.NewClient(rpc.ClientConfig{Keys: keys, Self: func() rpc.Caller {
		return rpc.Caller{Name: name, Instance: c.self.Instance, Boot: 1, Crawl: clusterID}
	}})
	c.member, err = gossip.Open(gossip.Config{
		Self: c.self, Advertise: netip.MustParseAddrPort(l.Addr()), Label: clusterID.String(), Secret: keys.Gossip(),
		Packets: l.Packets(), Streams: l.Gossip(), Interval: 100 * time.Millisecond,
		Dial: func(ctx context.Context, addr, name string) (net.Conn, error) {
			return rpc.DialGossip(ctx, keys, nil, addr, name)
		},
		Hello: func(ctx context.Context, addr string) error {
			_, err := c.client.Hello(ctx, addr, rpc.Hello{Agent: wire(c.self), Settings: settings})
			var refusal *rpc.Refusal
			switch {
			case errors.As(err, &refusal) && refusal.Reason == "self":
				return gossip.ErrSelf
			case errors.As(err, &refusal):
				return fmt.Errorf("%w: %w", gossip.ErrRefused, err)
			}
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.server = rpc.NewServer(l, rpc.ServerConfig{
		Crawl: func() rpc.ID { return clusterID },
		Handlers: rpc.Handlers{
			Hello: func(_ context.Context, _ rpc.Caller, h rpc.Hello) (rpc.Welcome, error) {
				if err := h.Differ(settings); err != nil {
					return rpc.Welcome{}, err
				}
				err := c.member.Admit(gossip.Agent{Name: h.Agent.Name, Instance: h.Agent.Instance, Boot: h.Agent.Boot,
					Capacity: h.Agent.Capacity, Addr: h.Agent.Addr}, time.Now())
				switch {
				case errors.Is(err, gossip.ErrSelf):
					return rpc.Welcome{}, &rpc.Refusal{Reason: "self", Text: err.Error()}
				case err != nil:
					return rpc.Welcome{}, &rpc.Refusal{Reason: "name", Text: err.Error()}
				}
				return rpc.Welcome{Agent: wire(c.self), Crawl: clusterID}, nil
			},
			Pulse: func(_ context.Context, from rpc.Caller, view uint64) (rpc.Pulse, error) {
				return rpc.Pulse{View: c.member.View().Digest(), Idle: true}, nil
			},
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.server.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	c.end = sync.OnceFunc(func() {
		c.member.Close()
		c.client.Close()
		cancel()
		wg.Wait()
		l.Close()
	})
	t.Cleanup(c.end)
	return c
}

// TestClusterKeys: agents with the keys that the command makes find each other and call each other.
// An agent with the keys of another cluster, or with a name that is in use, is refused.
func TestClusterKeys(t *testing.T) {
	dir := t.TempDir()
	keys := func(cluster string, names ...string) (out []*rpc.Keys) {
		var stdout, stderr bytes.Buffer
		home := filepath.Join(dir, cluster)
		if code := run([]string{"cluster", "keys", "--out", home, "--agents", strings.Join(names, ",")}, &stdout,
			&stderr); code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr.String())
		}
		for _, name := range names {
			k, err := rpc.LoadKeys(disk.OS, filepath.Join(home, name), nil)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, k)
		}
		return out
	}
	for _, secure := range []bool{true, false} {
		t.Run(fmt.Sprintf("secure=%v", secure), func(t *testing.T) {
			ks := make([]*rpc.Keys, 3)
			if secure {
				ks = keys("ours", "a1", "a2", "a3")
			}
			var agents []*clustered
			for i, k := range ks {
				a := startClustered(t, k, fmt.Sprintf("a%d", i+1), byte(i+1))
				seeds := []string{a.self.Addr}
				for _, other := range agents {
					seeds = append(seeds, other.self.Addr)
				}
				if err := a.member.Join(t.Context(), seeds); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				a.member.Announce(ctx, gossip.Up) // an agent that was not told in time hears it by gossip
				cancel()
				agents = append(agents, a)
			}
			wait := func(n int, agents ...*clustered) {
				t.Helper()
				for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
					digest, same := agents[0].member.View().Digest(), true
					for _, a := range agents {
						v := a.member.View()
						same = same && len(v.Agents) == n && v.Digest() == digest
						for _, other := range v.Agents {
							same = same && other.State == gossip.Up
						}
					}
					if same {
						return
					}
					if time.Since(begin) > 2*time.Minute {
						t.Fatalf("no view of %d: %+v", n, agents[0].member.View())
					}
				}
			}
			wait(3, agents...)
			for _, from := range agents {
				for _, to := range from.member.View().Agents {
					p, err := from.client.Peer(to.Name, to.Addr).Pulse(t.Context(), 0)
					if err != nil || !p.Idle {
						t.Errorf("%s to %s: %+v, %v", from.self.Name, to.Name, p, err)
					}
				}
			}
			second := startClustered(t, ks[1], "a2", 9)
			err := second.member.Join(t.Context(), []string{agents[0].self.Addr})
			if !errors.Is(err, gossip.ErrRefused) || !strings.Contains(err.Error(), `agent name "a2" is in use`) {
				t.Errorf("a second a2: %v", err)
			}
			if secure {
				stranger := startClustered(t, keys("theirs", "a4")[0], "a4", 10)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				if err := stranger.member.Join(ctx, []string{agents[0].self.Addr}); !errors.Is(err, gossip.ErrNobody) {
					t.Errorf("a stranger: %v", err)
				}
				if n := agents[0].server.Counts().Refused["stranger"]; n == 0 {
					t.Error("the stranger was not counted")
				}
				// Packets without the secret change nothing.
				conn, err := net.Dial("udp", agents[0].self.Addr)
				if err != nil {
					t.Fatal(err)
				}
				for range 100 {
					io.WriteString(conn, "\x08\x00rubbish")
				}
				conn.Close()
			}
			wait(3, agents...)
			agents[2].end()
			wait(2, agents[:2]...)
			if v := agents[0].member.View(); len(v.Lost) != 1 || v.Lost[0].Name != "a3" {
				t.Errorf("lost %+v", v.Lost)
			}
		})
	}
}
