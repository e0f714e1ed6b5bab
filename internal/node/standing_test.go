package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// An agent cannot write its file of orders, so another agent sends the same orders again. Only then are they
// acknowledged. Orders from the future, and bytes that are no order, are refused.
func TestOrdersAreDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testdisk.NewMem()
		faulty := testdisk.NewFaulty(mem, nil)
		cfg := newSmallWeb().config(t, mem)
		cfg.FS = faulty
		a := opened(t, cfg)
		other := orders.NewSet()
		o, err := other.Give(orders.Order{Verb: "pause"}, "a2", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		sent := rpc.Orders{Orders: [][]byte{o.AppendTo(nil)}, Digest: other.Digest()}
		faulty.Break(func(c testdisk.Call) testdisk.Fault {
			if c.Op.Changes() && strings.Contains(c.Name, "orders") {
				return testdisk.Fault{Err: errors.New("the disk fails")}
			}
			return testdisk.Fault{}
		})
		for range 2 {
			if _, err := a.standing.serve(t.Context(), rpc.Caller{}, sent); err == nil {
				t.Fatal("an order that is not durable is acknowledged")
			}
		}
		faulty.Heal()
		answer, err := a.standing.serve(t.Context(), rpc.Caller{}, sent)
		if err != nil || answer.Digest != other.Digest() || len(answer.Orders) > 0 {
			t.Fatalf("%+v, %v", answer, err)
		}
		kept, err := orders.Load(mem, a.dir(ordersFile))
		if err != nil || kept.Digest() != other.Digest() {
			t.Errorf("the file has %v, %v", kept, err)
		}
		late, err := other.Give(orders.Order{Verb: "pause"}, "a2", time.Now().Add(25*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		var refusal *rpc.Refusal
		if _, err := a.standing.serve(t.Context(), rpc.Caller{},
			rpc.Orders{Orders: [][]byte{late.AppendTo(nil)}}); !errors.As(err, &refusal) {
			t.Errorf("an order from the future: %v", err)
		}
		if _, err := a.standing.serve(t.Context(), rpc.Caller{},
			rpc.Orders{Orders: [][]byte{{7}}}); !errors.Is(err, rpc.ErrMalformed) {
			t.Errorf("no order: %v", err)
		}
		if n := len(a.standing.Past()); n != 1 {
			t.Errorf("%d orders, want 1", n)
		}
	})
}

// occupy makes the crawl loop of an agent busy, until release is called.
func occupy(t *testing.T, a *Agent) (release func()) {
	t.Helper()
	over, busy := make(chan struct{}), make(chan error, 1)
	go func() {
		busy <- a.crawler.Redelay(t.Context(), func(string) (time.Duration, bool) { <-over; return time.Minute, true })
	}()
	synctest.Wait()
	return func() {
		close(over)
		if err := <-busy; err != nil {
			t.Error(err)
		}
	}
}

// The crawl loop is busy for longer than the caller of orders waits. The agent puts them in force when the loop
// answers again, without another call: the host that rests at that time rests for the new delay.
func TestOrdersAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web, mem := newSmallWeb(), testdisk.NewMem()
		cfg := web.config(t, mem)
		cfg.Frontier.HostDelay = time.Minute
		runApart(t, cfg, func(a *Agent) {
			ctx := t.Context()
			time.Sleep(70 * time.Second) // a.example/ is fetched after its robots.txt
			release := occupy(t, a)
			from := time.Now()
			hurried, end := context.WithTimeout(ctx, 10*time.Second)
			_, _, err := a.standing.Give(hurried, orders.Order{Verb: "delay", Value: "1h"})
			end()
			if err == nil || !strings.Contains(err.Error(), "tries again every 2s") {
				t.Errorf("a busy crawl loop: %v", err)
			}
			release()
			time.Sleep(50 * time.Minute)
			for _, r := range web.requests() {
				if r.host == "a.example" && r.at.After(from) {
					t.Errorf("a request %s after the order of 1h", r.at.Sub(from))
				}
			}
			if a.standing.kept != a.standing.set.Digest() {
				t.Error("the orders are not kept")
			}
		})
		events, err := disk.ReadFile(mem, "/crawl/logs/events.jsonl", 1<<20)
		if err != nil || strings.Count(string(events), `"orders-failed"`) != 1 ||
			strings.Count(string(events), `"orders-kept"`) != 1 {
			t.Errorf("%v, events:\n%s", err, events)
		}
	})
}

// A blacklist is in force whole, or not at all, also if the crawl loop is too busy to hear of it
// at once.
func TestBlacklistIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web, mem := newSmallWeb(), testdisk.NewMem()
		cfg := web.config(t, mem)
		cfg.Blacklist = "/blacklist"
		write := func(text string) {
			t.Helper()
			if err := disk.WriteFile(mem, cfg.Blacklist, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		write("# nothing\n")
		runApart(t, cfg, func(a *Agent) {
			ctx := t.Context()
			time.Sleep(time.Second)
			release := occupy(t, a)
			write("a.example\n/5\n")
			// Two looks, the second one in vain, because the crawl loop does not answer within its context.
			hurried, end := context.WithTimeout(ctx, time.Second)
			a.lookAtBlacklist(hurried, a.stampBlacklist())
			end()
			release()
			time.Sleep(3 * time.Second)
			from := time.Now()
			time.Sleep(time.Minute)
			for _, r := range web.requests() {
				if r.host == "a.example" && r.at.After(from) {
					t.Errorf("a request %s after the blacklist", r.at.Sub(from))
				}
			}
			if n := a.blacklist.len(); n != 2 || a.standing.kept != a.standing.set.Digest() {
				t.Errorf("a blacklist of %d entries is in force, want 2; kept: %v", n,
					a.standing.kept == a.standing.set.Digest())
			}
			shown, err := operated{a}.Blacklist(ctx, &pb.BlacklistsRequest{Limit: 1})
			if err != nil || shown.File != cfg.Blacklist || shown.Entries != 2 || len(shown.List) != 1 ||
				shown.List[0].About != "a.example" || shown.List[0].Why != "blacklist /blacklist, line 1" {
				t.Errorf("shown: %v, %v", shown, err)
			}
		})
	})
}
