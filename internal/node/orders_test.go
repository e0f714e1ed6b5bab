package node_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	exchange "github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// kept returns the orders in the file.
func kept(t *testing.T, fs disk.FS) *orders.Set {
	t.Helper()
	set := must.Get(orders.Load(fs, "/crawl/state/orders"))(t)
	return set
}

// quiet reports requests to a host after a time.
func (w *smallWeb) quiet(t *testing.T, host string, from time.Time) {
	t.Helper()
	for _, r := range w.since(from) {
		if r.Host == host {
			t.Errorf("a request for %s %s later", r.URL, w.Start.Add(r.At).Sub(from))
		}
	}
}

// An agent cannot write its file of orders, so another agent sends the same orders again. Only then are they
// acknowledged. Orders from the future, and bytes that are no order, are refused.
func TestOrdersAreDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testdisk.NewMem()
		faulty := testdisk.NewFaulty(mem, nil)
		a, closes := open(t, newSmallWeb(t).config(t, faulty))
		defer closes()
		other := orders.NewSet()
		give := func(at time.Time) *exchange.OrdersRequest {
			o := must.Get(other.Give(orders.Order{Verb: "pause"}, "a2", at))(t)
			digest := other.Digest()
			return &exchange.OrdersRequest{Orders: [][]byte{o.AppendTo(nil)}, Digest: digest[:]}
		}
		sent := give(time.Now())
		faulty.Break(func(c testdisk.Call) testdisk.Fault {
			if c.Op.Changes() && strings.Contains(c.Name, "orders") {
				return testdisk.Fault{Err: errors.New("the disk fails")}
			}
			return testdisk.Fault{}
		})
		for range 2 {
			if _, err := a.TakeOrders(t.Context(), sent); err == nil {
				t.Fatal("an order that is not durable is acknowledged")
			}
		}
		faulty.Heal()
		answer, err := a.TakeOrders(t.Context(), sent)
		if err != nil || !bytes.Equal(answer.Digest, sent.Digest) || len(answer.Orders) > 0 ||
			kept(t, mem).Digest() != [32]byte(sent.Digest) {
			t.Fatalf("%+v, %v", answer, err)
		}
		if _, err := a.TakeOrders(t.Context(), give(time.Now().Add(25*time.Hour))); !errors.As(err, new(*rpc.Refusal)) {
			t.Errorf("an order from the future: %v", err)
		}
		no := &exchange.OrdersRequest{Orders: [][]byte{{7}}}
		if _, err := a.TakeOrders(t.Context(), no); !errors.Is(err, rpc.ErrMalformed) {
			t.Errorf("no order: %v", err)
		}
		if n := len(kept(t, mem).Past()); n != 1 {
			t.Errorf("%d orders, want 1", n)
		}
	})
}

// occupy makes the crawl loop of an agent busy, until release is called.
func occupy(t *testing.T, a *node.Agent) (release func()) {
	t.Helper()
	over := a.Occupy(t.Context())
	synctest.Wait()
	return func() {
		if err := over(); err != nil {
			t.Error(err)
		}
	}
}

// The crawl loop is busy for longer than the caller of orders waits. The agent puts them in force when the loop
// answers again, without another call: the host that rests at that time rests for the new delay.
func TestOrdersAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web, mem := newSmallWeb(t), testdisk.NewMem()
		cfg := web.config(t, mem)
		cfg.Frontier.HostDelay = time.Minute
		runApart(t, cfg, func(a *node.Agent) {
			time.Sleep(70 * time.Second) // a.example/ is fetched after its robots.txt
			release, from := occupy(t, a), time.Now()
			hurried, end := context.WithTimeout(t.Context(), 10*time.Second)
			_, err := a.Operator().Give(hurried, &pb.GiveRequest{Verb: "delay", Value: "1h"})
			end()
			if err == nil || !strings.Contains(err.Error(), "tries again every 2s") {
				t.Errorf("a busy crawl loop: %v", err)
			}
			release()
			time.Sleep(50 * time.Minute)
			web.quiet(t, "a.example", from)
		})
		events := read(t, mem, "logs/events.jsonl")
		if strings.Count(events, `"orders-failed"`) != 1 || strings.Count(events, `"orders-kept"`) != 1 {
			t.Errorf("events:\n%s", events)
		}
	})
}

// A blacklist is in force whole, or not at all, also if the crawl loop is too busy to hear of it
// at once.
func TestBlacklistIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web, mem := newSmallWeb(t), testdisk.NewMem()
		cfg := web.config(t, mem)
		cfg.ExcludeFile, cfg.Frontier.HostDelay = "/blacklist", 10*time.Second
		write(t, mem, cfg.ExcludeFile, "# nothing\n")
		runApart(t, cfg, func(a *node.Agent) {
			time.Sleep(time.Second)
			release := occupy(t, a)
			write(t, mem, cfg.ExcludeFile, "a.example\n/5\n")
			// The second look is in vain, because the crawl loop does not answer within its context.
			hurried, end := context.WithTimeout(t.Context(), time.Second)
			a.LookAtBlacklist(hurried)
			end()
			release()
			time.Sleep(3 * time.Second)
			from := time.Now()
			time.Sleep(time.Minute)
			web.quiet(t, "a.example", from)
			calls(t, a, `Blacklists limit:1
				-> = agents:{file:"/blacklist" entries:2 matches:2 list:{about:"a.example" why:"blacklist /blacklist, line 1"}}`)
		})
	})
}

// While the crawl runs, a damaged blacklist leaves the one before in force. Hosts that are off a new one are visited.
func TestBlacklistChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web, mem := newSmallWeb(t), testdisk.NewMem()
		cfg := web.config(t, mem)
		cfg.ExcludeFile, cfg.Frontier.HostDelay = "/blacklist", time.Minute
		write(t, mem, cfg.ExcludeFile, "b.example\n")
		runApart(t, cfg, func(a *node.Agent) {
			time.Sleep(150 * time.Second)
			write(t, mem, cfg.ExcludeFile, "(\n")
			time.Sleep(3 * time.Minute)
			web.quiet(t, "b.example", web.Start)
			write(t, mem, cfg.ExcludeFile, "a.example\n")
			time.Sleep(time.Minute)
			web.quiet(t, "a.example", time.Now().Add(-50*time.Second))
			time.Sleep(3 * time.Minute)
			if !web.asked("http://b.example/") {
				t.Error("no request to a host that is off the blacklist")
			}
		})
		if events := read(t, mem, "logs/events.jsonl"); strings.Count(events, `"blacklist-refused"`) != 1 {
			t.Errorf("events:\n%s", events)
		}
	})
}

// A crawl of which the blacklist has left links says so, and names the file.
func TestBarredByBlacklist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testdisk.NewMem()
		cfg := newSmallWeb(t).config(t, mem)
		cfg.ExcludeFile = "/blacklist"
		write(t, mem, cfg.ExcludeFile, "b.example\n")
		res, err := life(cfg)
		if err != nil || res.Stop != crawl.OnlyBlocked || res.Barred != (node.Barred{Blacklist: "/blacklist"}) {
			t.Errorf("%s, %v, %+v", res.Stop, err, res.Barred)
		}
	})
}

// Config.Unblock takes back the blocks of hosts, in any spelling. What is not blocked is named, and all other blocks
// stay.
func TestUnblock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web, mem := newSmallWeb(t), testdisk.NewMem()
		cfg := web.config(t, mem)
		a, closes := open(t, cfg)
		for _, host := range []string{"a.example", "b.example", "c.example"} {
			calls(t, a, `Give verb:"block" about:"%s"`, host)
		}
		closes()
		cfg.Resume = true
		begin := func(unblock []string, want ...string) (*node.Agent, func()) {
			t.Helper()
			cfg.Unblock = unblock
			a, closes := open(t, cfg)
			var got []string
			for _, o := range kept(t, mem).Standing() {
				got = append(got, o.Verb+" "+o.About)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q stand, want %q", got, want)
			}
			return a, closes
		}
		a, closes = begin([]string{"http://a.example/", "x.example", "a.example"}, "block b.example", "block c.example")
		past := kept(t, mem).Past()
		if last := past[len(past)-1]; !last.Off || last.By != "the start" {
			t.Errorf("the order of --unblock: %+v", last)
		}
		if !slices.Equal(a.NotBlocked, []string{"x.example"}) {
			t.Errorf("not blocked: %q", a.NotBlocked)
		}
		res, err := a.Run(t.Context())
		if err != nil || res.Stop != crawl.OnlyBlocked || res.Barred != (node.Barred{ByOrders: true}) {
			t.Errorf("%s, %v, %+v", res.Stop, err, res.Barred)
		}
		closes()
		if !web.asked("http://a.example/") || web.asked("http://b.example/robots.txt") {
			t.Errorf("requests: %s", web.Requests())
		}
		a, closes = begin([]string{"b.example"}, "block c.example")
		if res, err = a.Run(t.Context()); err != nil || res.Stop != crawl.Finished {
			t.Errorf("%s, %v", res.Stop, err)
		}
		closes()
	})
}

// What Config.Unblock names wrongly is refused before anything is opened. The error says what is wrong, and what to do.
func TestUnblockIsChecked(t *testing.T) {
	web, mem := newSmallWeb(t), testdisk.NewMem()
	cfg := web.config(t, mem)
	cfg.Resume = true
	for name, want := range map[string]string{
		"two words":   `unblock: host "two words" is not a host name; give one such as www.example.org`,
		"*.http://a/": `unblock: "*.http://a/" is not a domain; give one such as *.example.org`,
	} {
		cfg.Unblock = []string{"a.example", `/calendar/\d+`, name} // a host and a pattern, which are right
		var wrong *input.ConfigError
		if _, err := node.Open(cfg); !errors.As(err, &wrong) || err.Error() != want {
			t.Errorf("%q: %v; want %s", name, err, want)
		}
	}
	if entries, err := mem.ReadDir("/"); err != nil || len(entries) > 0 {
		t.Errorf("on the disk: %v, %v", entries, err)
	}
}

// An order of a delay holds from the next request on, over restarts, and until it is taken back: no restart and no
// agent's setting shortens it.
func TestDelayOverRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newSmallWeb(t)
		cfg := web.config(t, testdisk.NewMem())
		run := func(fn func(a *node.Agent)) {
			t.Helper()
			runApart(t, cfg, fn)
			cfg.Resume = true
		}
		var from, until time.Time
		run(func(a *node.Agent) {
			time.Sleep(550 * time.Millisecond)
			calls(t, a, `Give verb:"delay" value:"1h"`)
			from = time.Now()
			time.Sleep(90 * time.Minute)
		})
		for range 2 {
			run(func(*node.Agent) { time.Sleep(100 * time.Minute) })
		}
		run(func(a *node.Agent) {
			time.Sleep(time.Second)
			calls(t, a, `Explain host:"a.example" -> delay: 1h0m0s, order crawl-
				-> delay of 1h0m0s until`)
			id := kept(t, cfg.FS).Standing()[0].ID()
			calls(t, a, `TakeBack id:"%s"`, id)
			until = time.Now()
			time.Sleep(time.Hour)
		})
		last, during, after := map[string]time.Time{}, 0, 0
		for _, r := range web.Told() {
			at := web.Start.Add(r.At)
			gap := at.Sub(last[r.Host])
			last[r.Host] = at
			switch {
			case at.Before(from):
			case !at.Before(until):
				after++
			default:
				if during++; gap < time.Hour {
					t.Errorf("%s %s after the request before it", r.Host, gap)
				}
			}
		}
		if during < 6 || during > 10 || after < 8 {
			t.Errorf("%d requests under the order, %d after it", during, after)
		}
	})
}

// An agent names the order that pauses the crawl and the rate of this time of day. It finds in its logs what became of
// a URL, and in its archive if the log is lost.
func TestExplainOrdersAndLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testdisk.NewMem()
		cfg := newSmallWeb(t).config(t, mem)
		cfg.Scope.Exclude = []string{"a.example/2$"}
		var err error
		if cfg.Rate, err = rate.Parse("0.01/s 0-1, else none"); err != nil {
			t.Fatal(err)
		}
		runApart(t, cfg, func(a *node.Agent) {
			time.Sleep(10 * time.Second)
			calls(t, a, `
				Explain host:"a.example"
				-> rate 0.01/s now, by the schedule 0.01/s 0-1, else none; the next request may begin in 
				-> when: 2000-01-01 00:0
				Give verb:"pause" why:"our line is needed"`)
			id := kept(t, mem).Standing()[0].ID()
			time.Sleep(2 * time.Hour)
			calls(t, a, `
				Explain url:"http://a.example/"
				-> the crawl is paused for 2 h 0 min by order %s, 2000-01-01 00:00:10Z: our line is needed\n
				-> when: after \"orbweaver ctl resume\"\n
				-> - 0.01/s
				Give verb:"pause" off:true`, id)
			time.Sleep(time.Second)
			calls(t, a, `
				Explain url:"http://a.example/" -> http://a.example/: finished\n at 2000-01-01 02:00:
				-> Z: status 200 OK, 
				Explain url:"http://a.example/2" -> /2: not known
				-> the link on http://a.example/, 1 link from a seed was not followed: matches --exclude (excluded)\n
				-> exclude: out, excluded`)
			must.Do(t, mem.Remove("/crawl/logs/crawl.log"))
			calls(t, a, `
				Explain url:"http://a.example/" -> http://a.example/: finished\n archived 2000-01-01 02:00:
				-> Z: status 200, text/html, in `)
		})
	})
}

// An agent that ends already says why when an operator tells it to leave.
func TestLeaveAtTheEnd(t *testing.T) {
	for stop, want := range map[crawl.Stop]string{
		crawl.Finished:   "the crawl has finished, and the agent ends",
		crawl.ByOperator: "the agent ends already (operator) and keeps its hosts",
		crawl.Left:       "a1 has handed its hosts to the other agents, and ends",
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := newSmallWeb(t).config(t, testdisk.NewMem())
			cfg.Cluster = &membership.Config{Name: "a1", Capacity: 1, Listen: "127.0.0.1:7470", Network: newLoop()}
			a, closes := open(t, cfg)
			defer closes()
			if stop != crawl.Finished {
				go func() {
					if err := a.Halt(context.Background(), stop); err != nil {
						t.Error(err)
					}
				}()
			}
			if res, err := a.Run(t.Context()); err != nil || res.Stop != stop {
				t.Errorf("stop %q, %v", res.Stop, err)
			}
			text, err := a.Leave(t.Context())
			if (err == nil) != (stop == crawl.Left) || err == nil && text != want ||
				err != nil && !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %q, %v", stop, text, err)
			}
		})
	}
}

// The patterns in orders of another agent have the bounds of those that operators give here, one by one and together.
func TestPatternsOfOrdersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, closes := open(t, newSmallWeb(t).config(t, testdisk.NewMem()))
		defer closes()
		other := orders.NewSet()
		q := new(exchange.OrdersRequest)
		give := func(o orders.Order) {
			o = must.Get(other.Give(o, "a2", time.Now()))(t)
			digest := other.Digest()
			q.Orders, q.Digest = append(q.Orders, o.AppendTo(nil)), digest[:]
		}
		give(orders.Order{Verb: "exclude", About: strings.Repeat("x{1000}", 285)})
		give(orders.Order{Verb: "app", About: "news",
			Value: `{"share":1,"scope":"host","depth":-1,"strategy":"follow"}`})
		for i := range 90 {
			long := strings.Repeat(string(rune('a'+i%26))+"{900}", 10) + string(rune('a'+i/26))
			give(orders.Order{Verb: "exclude", About: long})
			give(orders.Order{Verb: "app-rule", About: "news exclude " + long})
		}
		before := allocated()
		answer, err := a.TakeOrders(t.Context(), q)
		if err != nil || !bytes.Equal(answer.Digest, q.Digest) {
			t.Fatal(err)
		}
		if n := (allocated() - before) >> 20; n > 600 {
			t.Errorf("the orders took %d MiB", n)
		}
	})
}
