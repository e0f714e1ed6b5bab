package node_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/cluster/termination"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// An agent that was refused, because it has other settings, may call nothing but Hello. A start of an agent that was
// welcomed may, and no other start of it.
func TestRefusedAgentsAreNotAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loop := newLoop()
		cfg := newSmallWeb(t).config(t, testdisk.NewMem())
		cfg.Frontier.HostDelay = time.Minute // it still crawls when the others call
		cfg.Cluster = &membership.Config{Name: "a1", Capacity: 1, Listen: "127.0.0.1:7470", Network: loop}
		link := link.Link{URL: weburl.MustParse("http://b.example/")}.AppendTo(nil)
		settings := must.Get(node.Shared(cfg, nil, nil))(t)
		runApart(t, cfg, func(a *node.Agent) {
			time.Sleep(time.Second)
			var crawl rpc.ID
			as := func(name string, boot uint64, change string) (hello, pulse, push error) {
				me := rpc.Caller{Name: name, Instance: rpc.ID{name[1]}, Boot: boot, Crawl: crawl}
				c := rpc.NewClient(rpc.ClientConfig{Dial: loop.Dial, Self: func() rpc.Caller { return me }})
				defer c.Close()
				h := &pb.HelloRequest{Agent: &pb.Agent{Name: name, Instance: me.Instance[:], Boot: boot, Capacity: 1,
					Address: "127.0.0.1:7479"}, Settings: map[string]string{}}
				for k, v := range settings {
					h.Settings[k] = v
				}
				if change != "" {
					h.Settings[change] += "-other"
				}
				p := c.Peer("a1", cfg.Cluster.Listen)
				if boot > 0 {
					var w *pb.HelloResponse
					if w, hello = membership.HelloCall.Ask(t.Context(), p, h); hello == nil {
						crawl, me.Crawl = rpc.ID(w.Crawl), rpc.ID(w.Crawl)
					}
				}
				_, pulse = termination.PulseCall.Ask(t.Context(), p, new(pb.PulseRequest))
				_, push = cluster.PushCall.Ask(t.Context(), p, &pb.PushRequest{Count: 1, Links: link})
				return hello, pulse, push
			}
			if hello, pulse, _ := as("a2", 1, ""); hello != nil || pulse != nil {
				t.Fatalf("an agent with the same settings: %v, %v", hello, pulse)
			}
			hello, pulse, push := as("a3", 1, "strategy")
			if r, ok := errors.AsType[*rpc.Refusal](hello); !ok || r.Reason != "settings" {
				t.Errorf("an agent with another strategy: %v", hello)
			}
			if !errors.Is(pulse, rpc.ErrAgain) || !errors.Is(push, rpc.ErrAgain) {
				t.Errorf("calls of an agent that was refused: %v, %v", pulse, push)
			}
			if _, pulse, _ := as("a2", 0, ""); !errors.Is(pulse, rpc.ErrAgain) {
				t.Errorf("a call of another start of a2: %v", pulse)
			}
		})
	})
}
