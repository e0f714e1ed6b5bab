package coordination_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/coordinator"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/coordination"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

const coordinatorAddr = "127.0.0.1:7490"

// coordinatorConfig configures a coordinator without others.
func coordinatorConfig(fs disk.FS, net rpc.Network) coordination.Config {
	return coordination.Config{Dir: "/c", FS: fs, Listen: coordinatorAddr, Network: net, Unchecked: true}
}

// newLoop returns a machine in memory whose processes listen on loopback.
func newLoop() *simnet.Machine { return simnet.New(1).Machine(1, netip.MustParseAddr("127.0.0.1")) }

// makeKeys makes the keys of coordinators, whose names begin with c, and of agents, in folders of dir.
func makeKeys(t *testing.T, fs disk.FS, dir string, names ...string) {
	t.Helper()
	a, err := rpc.OpenAuthority(fs, dir, time.Now())
	for _, name := range names {
		issue := a.Issue
		if strings.HasPrefix(name, "c") {
			issue = a.IssueCoordinator
		}
		_, bad := issue(name)
		err = errors.Join(err, bad)
	}
	must.Do(t, err)
}

// runCoordinator opens and runs a coordinator. stop ends it and returns the error of Run or Close.
func runCoordinator(t *testing.T, cfg coordination.Config) (c *coordination.Coordinator, stop func() error) {
	t.Helper()
	c = must.Get(coordination.Open(cfg))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return c, func() error { cancel(); return errors.Join(<-ended, c.Close()) }
}

// An asker is an agent without a crawl.
type asker struct {
	t      *testing.T
	client *rpc.Client
	crawl  rpc.ID
	next   uint64
	hosts  map[string]string // their agents, by the entries
}

// newAsker returns an agent with the keys in a directory; empty: it has none.
func newAsker(t *testing.T, fs disk.FS, net rpc.Network, keys, name string) *asker {
	t.Helper()
	a := &asker{t: t, next: 1, hosts: map[string]string{}}
	var k *rpc.Keys
	if keys != "" {
		var err error
		if k, err = rpc.LoadKeys(fs, filepath.Join(keys, name), nil); err != nil {
			t.Fatal(err)
		}
	}
	a.client = rpc.NewClient(rpc.ClientConfig{Keys: k, Dial: net.Dial, Seed: 1, Self: func() rpc.Caller {
		return rpc.Caller{Name: name, Instance: rpc.ID{name[1]}, Boot: 1, Crawl: a.crawl}
	}})
	t.Cleanup(func() { a.client.Close() })
	return a
}

// coordinator returns what calls the coordinator at addr.
func (a *asker) coordinator(addr string) coordinator.Client {
	return coordinator.Client{Peer: a.client.Coordinator(addr)}
}

// follow asks once.
func (a *asker) follow(addr string) (coordinator.Followed, error) {
	f, err := a.coordinator(addr).Follow(a.t.Context(), coordinator.Follow{From: a.next, Wait: time.Second,
		Report: coordinator.Report{Capacity: 1, Addr: "127.0.0.1:7470", State: assignment.Up, Term: a.next - 1,
			Settings: map[string]string{"partition": "sites"}}})
	if err != nil {
		return f, err
	}
	a.crawl = rpc.ID(f.Crawl)
	for data := f.Entries; len(data) > 0; {
		e, rest, err := assignment.Decode(data)
		if err != nil {
			a.t.Fatal(err)
		}
		for _, s := range e.Shares {
			for _, h := range s.Hosts {
				a.hosts[h] = s.Agent
			}
		}
		data, a.next = rest, e.Number+1
	}
	return f, nil
}

// await follows until the agent is a member and knows a number of hosts.
func (a *asker) await(addr string, hosts int) coordinator.Followed {
	a.t.Helper()
	for range 600 {
		f, err := a.follow(addr)
		switch {
		case err == nil && f.Member && f.Last+1 == a.next && len(a.hosts) >= hosts:
			return f
		case errors.As(err, new(*rpc.Refusal)):
			a.t.Fatal(err)
		case err != nil:
			time.Sleep(100 * time.Millisecond)
		}
	}
	a.t.Fatalf("the agent is no member, or knows only the hosts %v", a.hosts)
	return coordinator.Followed{}
}

// discover asks for a host until it is assigned.
func (a *asker) discover(addr, host string) {
	a.t.Helper()
	for {
		as, err := a.coordinator(addr).Discover(a.t.Context(), []string{host}, 0)
		switch {
		case err != nil:
			a.t.Fatal(err)
		case as[0].State == coordinator.HostAssigned:
			return
		case as[0].State != coordinator.HostComing:
			a.t.Fatalf("host %s has the state %d", host, as[0].State)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// again runs a coordinator again, and checks that it knows what an agent was told before.
func (a *asker) again(cfg coordination.Config) (b *asker, c *coordination.Coordinator, f coordinator.Followed,
	stop func() error) {
	a.t.Helper()
	c, stop = runCoordinator(a.t, cfg)
	b = &asker{t: a.t, client: a.client, crawl: a.crawl, next: 1, hosts: map[string]string{}}
	f = b.await(c.Addr(), len(a.hosts))
	for h, agent := range a.hosts {
		if b.hosts[h] != agent {
			a.t.Errorf("%s is of %q, and was of %q", h, b.hosts[h], agent)
		}
	}
	return b, c, f, stop
}

// TestCoordinatorAlone: a coordinator assigns hosts to agents, also after a power failure or a restart, and at
// another address. A stranger learns nothing.
func TestCoordinatorAlone(t *testing.T) {
	for seed := range uint64(testtier.Rounds(5, 100)) {
		synctest.Test(t, func(t *testing.T) {
			mem, l, secure := testdisk.NewMem(), newLoop(), seed%2 == 1
			cfg, keys := coordinatorConfig(mem, l), ""
			if secure {
				keys = "/keys"
				makeKeys(t, mem, keys, "c1", "a1")
				makeKeys(t, mem, "/other", "a1")
				cfg.Keys = "/keys/c1"
			}
			c, stop := runCoordinator(t, cfg)
			a := newAsker(t, mem, l, keys, "a1")
			a.await(c.Addr(), 0)
			a.discover(c.Addr(), "x.example")
			a.discover(c.Addr(), "y.example")
			a.await(c.Addr(), 2)
			if s := c.Status(); !s.Leads || s.Leader != coordinatorAddr || s.Hosts != 2 || len(s.Agents) != 1 ||
				s.Agents[0].State != "up" || s.Crawl != a.crawl.String() {
				t.Errorf("status %+v", s)
			}
			if secure {
				_, err := newAsker(t, mem, l, "/other", "a1").follow(c.Addr())
				if !errors.Is(err, rpc.ErrStranger) {
					t.Errorf("an agent of another cluster: %v", err)
				}
				if _, err := newAsker(t, mem, l, "", "a1").follow(c.Addr()); err == nil {
					t.Error("a stranger without keys was answered")
				}
			}
			left, starts := mem, 2
			if !secure {
				left, starts = mem.Crash(seed), 1 // the events of the first start may be lost
			}
			must.Do(t, stop())

			cfg.FS, cfg.Listen = left, "127.0.0.1:7491"
			b, c, f, stop := a.again(cfg)
			b.discover(c.Addr(), "y.example")
			if err := b.coordinator(c.Addr()).Finish(t.Context(), f.Term, f.Last); err != nil {
				t.Error(err)
			}
			raw, err := b.coordinator(c.Addr()).Status(t.Context())
			var s coordination.Status
			if err := errors.Join(err, json.Unmarshal(raw, &s)); err != nil || !s.Ended || s.Hosts != 2 {
				t.Errorf("status %s, %v", raw, err)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			log, err := disk.ReadFile(left, "/c/events.jsonl", 1<<20)
			if err != nil || strings.Count(string(log), "coordinator-started") < starts ||
				!strings.Contains(string(log), "crawl-ended") {
				t.Errorf("events.jsonl, %v:\n%s", err, log)
			}
		})
	}
}

// TestCoordinatorForgets: the coordinators forget a silent agent at the word of a person with a coordinator's keys, but
// not one that may be running.
func TestCoordinatorForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, l := testdisk.NewMem(), newLoop()
		makeKeys(t, fs, "/keys", "c1", "a1", "a2")
		cfg := coordinatorConfig(fs, l)
		cfg.Keys = "/keys/c1"
		c, stop := runCoordinator(t, cfg)
		newAsker(t, fs, l, "/keys", "a1").await(c.Addr(), 0)
		forget := func(as, name, want string) {
			t.Helper()
			err := coordination.NewClient(newAsker(t, fs, l, "/keys", as).client, "this command").Forget(t.Context(),
				[]string{c.Addr()}, name)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s forgets %s: %v, want %q", as, name, err, want)
			}
		}
		forget("c1", "a1", "may be running: it was silent for 0s only")
		forget("c1", "a3", "is not in the crawl's roster")
		forget("c1", "A", "use 1 to 63")
		forget("a2", "a1", "may not call Forget")
		time.Sleep(30 * time.Second)
		if s := c.Status(); s.Agents[0].State != "up" {
			t.Fatalf("without a witness, the agent is %s", s.Agents[0].State)
		}
		forget("c1", "a1", "")
		if s := c.Status(); s.Agents[0].State != "lost" {
			t.Errorf("the agent is %s", s.Agents[0].State)
		}
		forget("c1", "a1", "is lost already")
		if err := stop(); err != nil {
			t.Error(err)
		}
		forget("c1", "a1", coordinatorAddr) // a coordinator that has stopped does not forget
	})
}

// TestCoordinatorFull: a full disk ends a coordinator with an error that says so, wherever it strikes. Afterwards the
// directory can be opened again, and all that an agent was told is there.
func TestCoordinatorFull(t *testing.T) {
	for _, room := range []int64{0, 300, 1000, 2000, 3000, 5000, 8000} {
		synctest.Test(t, func(t *testing.T) {
			l, faulty := newLoop(), testdisk.NewFaulty(testdisk.NewMem(), nil)
			cfg := coordinatorConfig(faulty, l)
			c, stop := runCoordinator(t, cfg)
			a := newAsker(t, faulty, l, "", "a1")
			a.await(c.Addr(), 0)
			faulty.Break(testdisk.FullAfter(room))
			for i, err := 0, error(nil); err == nil; i++ {
				_, err = a.coordinator(c.Addr()).Discover(t.Context(),
					[]string{fmt.Sprintf("h%d.example", i)}, 0)
				if err == nil {
					_, err = a.follow(c.Addr())
				}
			}
			if err := stop(); !disk.IsFull(err) {
				t.Errorf("room for %d bytes: the coordinator ended with %v", room, err)
			}
			faulty.Heal()
			_, _, _, stop = a.again(cfg)
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCoordinatorDirectory: a coordinator does not start with the directory of another one, and a refused one makes no
// directory. The script coordinator.txtar and TestMistakes of the program have the other refusals.
func TestCoordinatorDirectory(t *testing.T) {
	mem := testdisk.NewMem()
	makeKeys(t, mem, "/keys", "c1")
	cfg := coordinatorConfig(mem, newLoop())
	refused := func(want string) {
		t.Helper()
		c, err := coordination.Open(cfg)
		if err == nil {
			c.Close()
		}
		if _, ok := errors.AsType[*input.ConfigError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	cfg.Keys, cfg.Listen = "/keys/c1", "0.0.0.0:7490"
	refused("cannot reach the unspecified")
	if _, err := mem.Stat(cfg.Dir); err == nil {
		t.Error("a refused coordinator has made its directory")
	}
	cfg = coordinatorConfig(mem, newLoop())
	cfg.Members, cfg.Self = []string{coordinatorAddr, "127.0.0.1:7491", "c3:7490"}, coordinatorAddr
	for range 2 {
		c := must.Get(coordination.Open(cfg))(t)
		must.Do(t, c.Close())
	}
	for _, cfg.Self = range cfg.Members[1:] {
		refused("is the directory of the coordinator at " + coordinatorAddr)
	}
}
