package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

const coordinatorAddr = "127.0.0.1:7490"

// coordinatorKeys makes the keys of coordinators, whose names begin with c, and of agents. It returns the parent of
// their directories.
func coordinatorKeys(t *testing.T, fs disk.FS, dir string, names ...string) string {
	t.Helper()
	a, err := rpc.OpenAuthority(fs, dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		issue := a.Issue
		if strings.HasPrefix(name, "c") {
			issue = a.IssueCoordinator
		}
		if _, err := issue(name); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// runCoordinator opens and runs a coordinator. stop ends it and returns the error of Run or Close.
func runCoordinator(t *testing.T, cfg CoordinatorConfig) (c *Coordinator, stop func() error) {
	t.Helper()
	c, err := OpenCoordinator(cfg)
	if err != nil {
		t.Fatal(err)
	}
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
	state  assignment.State
	next   uint64
	hosts  map[string]string // their agents, by the entries
}

func newAsker(t *testing.T, net rpc.Network, keys *rpc.Keys, name string) *asker {
	a := &asker{t: t, next: 1, state: assignment.Up, hosts: map[string]string{}}
	a.client = rpc.NewClient(rpc.ClientConfig{Keys: keys, Dial: net.Dial, Seed: 1, Self: func() rpc.Caller {
		return rpc.Caller{Name: name, Instance: rpc.ID{name[1]}, Boot: 1, Crawl: a.crawl}
	}})
	t.Cleanup(func() { a.client.Close() })
	return a
}

// follow asks once.
func (a *asker) follow(addr string) (rpc.Followed, error) {
	f, err := a.client.Coordinator(addr).Follow(a.t.Context(), rpc.Follow{From: a.next, Wait: time.Second,
		Report: rpc.Report{Capacity: 1, Addr: "127.0.0.1:7470", State: uint8(a.state), Term: a.next - 1,
			Settings: map[string]string{"partition": "sites"}}})
	if err != nil {
		return f, err
	}
	a.crawl = f.Crawl
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

// await follows until done returns true.
func (a *asker) await(addr string, done func(rpc.Followed) bool) rpc.Followed {
	a.t.Helper()
	for range 600 {
		f, err := a.follow(addr)
		switch {
		case err == nil && done(f):
			return f
		case errors.As(err, new(*rpc.Refusal)):
			a.t.Fatal(err)
		case err != nil:
			time.Sleep(100 * time.Millisecond)
		}
	}
	a.t.Fatal("the coordinator does not do it")
	return rpc.Followed{}
}

func isMember(f rpc.Followed) bool { return f.Member }

// discover asks until no host is coming.
func (a *asker) discover(addr string, hosts ...string) []rpc.HostAnswer {
	a.t.Helper()
	for {
		as, err := a.client.Coordinator(addr).Discover(a.t.Context(), rpc.Discovery{Hosts: hosts})
		if err != nil {
			a.t.Fatal(err)
		}
		coming := func(h rpc.HostAnswer) bool { return h.State == rpc.HostComing }
		if !slices.ContainsFunc(as, coming) {
			return as
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestCoordinatorAlone: a coordinator assigns hosts to agents, also after it has been restarted at another address. A
// stranger learns nothing.
func TestCoordinatorAlone(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("secure=%v", secure), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs, l := testdisk.NewMem(), newLoop()
				cfg := CoordinatorConfig{Dir: "c", FS: fs, Listen: coordinatorAddr, Network: l, Unchecked: true}
				var keys, strange *rpc.Keys
				load := func(dir, name string) *rpc.Keys {
					k, err := rpc.LoadKeys(fs, filepath.Join(dir, name), nil)
					if err != nil {
						t.Fatal(err)
					}
					return k
				}
				if secure {
					dir, other := coordinatorKeys(t, fs, "keys", "c1", "a1"), coordinatorKeys(t, fs, "other", "a1")
					cfg.Keys, keys, strange = filepath.Join(dir, "c1"), load(dir, "a1"), load(other, "a1")
				}
				c, stop := runCoordinator(t, cfg)
				a := newAsker(t, l, keys, "a1")
				a.await(c.Addr(), isMember)
				for _, h := range a.discover(c.Addr(), "x.example", "y.example") {
					if h.State != rpc.HostAssigned {
						t.Errorf("a host has the state %d", h.State)
					}
				}
				a.await(c.Addr(), func(rpc.Followed) bool { return len(a.hosts) == 2 })
				if s := c.Status(); !s.Leads || s.Leader != coordinatorAddr || s.Hosts != 2 || len(s.Agents) != 1 ||
					s.Agents[0].State != "up" || s.Crawl != a.crawl.String() {
					t.Errorf("status %+v", s)
				}
				if secure {
					_, err := newAsker(t, l, strange, "a1").follow(c.Addr())
					if !errors.Is(err, rpc.ErrStranger) {
						t.Errorf("an agent of another cluster: %v", err)
					}
					if _, err := newAsker(t, l, nil, "a1").follow(c.Addr()); err == nil {
						t.Error("a stranger without keys was answered")
					}
				}
				if err := stop(); err != nil {
					t.Fatal(err)
				}

				cfg.Listen = "127.0.0.1:7491"
				c, stop = runCoordinator(t, cfg)
				b := newAsker(t, l, keys, "a1")
				b.crawl = a.crawl
				b.await(c.Addr(), func(f rpc.Followed) bool { return len(b.hosts) == 2 && f.Member })
				if !slices.Equal(b.discover(c.Addr(), "y.example"), []rpc.HostAnswer{{State: rpc.HostAssigned}}) {
					t.Error("y.example is not known any more")
				}
				f := b.await(c.Addr(), isMember)
				if err := b.client.Coordinator(c.Addr()).Finish(t.Context(),
					rpc.Finish{Term: f.Term, Number: f.Last}); err != nil {
					t.Error(err)
				}
				raw, err := b.client.Coordinator(c.Addr()).Status(t.Context())
				var s CoordinatorStatus
				if err := errors.Join(err, json.Unmarshal(raw, &s)); err != nil || !s.Ended || s.Hosts != 2 {
					t.Errorf("status %s, %v", raw, err)
				}
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				log, err := disk.ReadFile(fs, "c/events.jsonl", 1<<20)
				if err != nil || strings.Count(string(log), "coordinator-started") != 2 ||
					!strings.Contains(string(log), "crawl-ended") {
					t.Errorf("events.jsonl, %v:\n%s", err, log)
				}
			})
		})
	}
}

// TestCoordinatorForgets: the coordinators forget a silent agent at the word of a person with a coordinator's keys, but
// not one that may be running.
func TestCoordinatorForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, l := testdisk.NewMem(), newLoop()
		dir := coordinatorKeys(t, fs, "keys", "c1", "a1", "a2")
		cfg := CoordinatorConfig{Dir: "c", FS: fs, Listen: coordinatorAddr, Network: l, Unchecked: true,
			Keys: dir + "/c1"}
		c, stop := runCoordinator(t, cfg)
		ask := func(name string) *asker {
			keys, err := rpc.LoadKeys(fs, filepath.Join(dir, name), nil)
			if err != nil {
				t.Fatal(err)
			}
			return newAsker(t, l, keys, name)
		}
		ask("a1").await(c.Addr(), isMember)
		forget := func(as, name string) error {
			return (&CoordinatorsClient{client: ask(as).client}).Forget(t.Context(), []string{c.Addr()}, name)
		}
		for _, wrong := range []struct{ as, name, want string }{
			{"c1", "a1", "may be running: it was silent for 0s only"},
			{"c1", "a3", "is not in the crawl's roster"},
			{"c1", "A", "use 1 to 63"},
			{"a2", "a1", "may not call Forget"},
		} {
			if err := forget(wrong.as, wrong.name); err == nil || !strings.Contains(err.Error(), wrong.want) {
				t.Errorf("%s forgets %s: %v, want %q", wrong.as, wrong.name, err, wrong.want)
			}
		}
		time.Sleep(30 * time.Second)
		if s := c.Status(); s.Agents[0].State != "up" {
			t.Fatalf("without a witness, the agent is %s", s.Agents[0].State)
		}
		if err := forget("c1", "a1"); err != nil {
			t.Error(err)
		}
		if s := c.Status(); s.Agents[0].State != "lost" {
			t.Errorf("the agent is %s", s.Agents[0].State)
		}
		if err := forget("c1", "a1"); err == nil || !strings.Contains(err.Error(), "is lost already") {
			t.Errorf("a lost agent: %v", err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if err := forget("c1", "a1"); err == nil {
			t.Error("a coordinator that has stopped forgets")
		}
	})
}

// TestCoordinatorFull: a full disk ends a coordinator with an error that says so, wherever it strikes. Afterwards the
// directory can be opened again, and all that an agent was told is there.
func TestCoordinatorFull(t *testing.T) {
	for _, room := range []int64{0, 300, 1000, 2000, 3000, 5000, 8000} {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem, l := testdisk.NewMem(), newLoop()
				faulty := testdisk.NewFaulty(mem, nil)
				cfg := CoordinatorConfig{Dir: "c", FS: faulty, Listen: coordinatorAddr, Network: l, Unchecked: true}
				c, stop := runCoordinator(t, cfg)
				a := newAsker(t, l, nil, "a1")
				a.await(c.Addr(), isMember)
				faulty.Break(testdisk.FullAfter(room))
				for i := 0; ; i++ {
					_, err := a.client.Coordinator(c.Addr()).Discover(t.Context(),
						rpc.Discovery{Hosts: []string{fmt.Sprintf("h%d.example", i)}})
					if err != nil {
						break
					}
					if _, err := a.follow(c.Addr()); err != nil {
						break
					}
				}
				if err := stop(); !disk.IsFull(err) {
					t.Errorf("the coordinator ended with %v", err)
				}
				faulty.Heal()
				_, stop = runCoordinator(t, cfg)
				b := newAsker(t, l, nil, "a1")
				b.crawl = a.crawl
				b.await(c.Addr(), func(f rpc.Followed) bool { return f.Last+1 == b.next })
				for h, agent := range a.hosts {
					if b.hosts[h] != agent {
						t.Errorf("%s is of %q, and was of %q", h, b.hosts[h], agent)
					}
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestCoordinatorPower: a coordinator without others loses nothing that it has told an agent when the power fails.
func TestCoordinatorPower(t *testing.T) {
	for seed := range uint64(testtier.Rounds(5, 100)) {
		synctest.Test(t, func(t *testing.T) {
			mem, l := testdisk.NewMem(), newLoop()
			cfg := CoordinatorConfig{Dir: "/c", FS: mem, Listen: coordinatorAddr, Network: l, Unchecked: true}
			c, stop := runCoordinator(t, cfg)
			a := newAsker(t, l, nil, "a1")
			a.await(c.Addr(), isMember)
			a.discover(c.Addr(), "x.example")
			a.await(c.Addr(), func(rpc.Followed) bool { return len(a.hosts) == 1 })
			cfg.FS = mem.Crash(seed)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			c, stop = runCoordinator(t, cfg)
			b := newAsker(t, l, nil, "a1")
			b.crawl = a.crawl
			b.await(c.Addr(), func(f rpc.Followed) bool { return b.hosts["x.example"] == "a1" && f.Member })
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCoordinatorChecks: each mistake is refused with a text that says what would be right.
func TestCoordinatorChecks(t *testing.T) {
	mem := testdisk.NewMem()
	keys := coordinatorKeys(t, mem, "keys", "c1", "a1")
	for _, f := range []string{"crawl/crawl.yaml", "foreign/notes.txt"} {
		if err := errors.Join(mem.MkdirAll(filepath.Dir(f), 0o755), disk.WriteFile(mem, f, []byte("x\n"))); err != nil {
			t.Fatal(err)
		}
	}
	three := []string{coordinatorAddr, "127.0.0.1:7491", "127.0.0.1:7492"}
	for _, c := range []struct {
		change func(*CoordinatorConfig)
		want   string
	}{
		{func(c *CoordinatorConfig) { c.Dir = "" }, "--dir"},
		{func(c *CoordinatorConfig) { c.Listen = "7490" }, `--listen "7490": an IP address and a port are needed`},
		{func(c *CoordinatorConfig) { c.Listen = "192.0.2.1:7490" }, "orbweaver cluster keys"},
		{func(c *CoordinatorConfig) { c.Keys, c.Listen = keys+"/c1", "0.0.0.0:7490" }, "cannot reach the unspecified"},
		{func(c *CoordinatorConfig) { c.Keys = keys + "/a1" }, `keys of agent "a1", not of a coordinator`},
		{func(c *CoordinatorConfig) { c.Keys = "nowhere" }, "--keys nowhere"},
		{func(c *CoordinatorConfig) { c.Members = three[:2] }, "names 2 coordinators; give 1, 3 or 5"},
		{func(c *CoordinatorConfig) { c.Members = slices.Concat(three[:2], three[:1]) }, "twice"},
		{func(c *CoordinatorConfig) { c.Members, c.Listen = three, "127.0.0.1:1" }, "is not in the list of"},
		{func(c *CoordinatorConfig) { c.Members = []string{"localhost"} }, "give an address and a port"},
		{func(c *CoordinatorConfig) { c.Assign = "random" }, "--assign random: give roundrobin or least-loaded"},
		{func(c *CoordinatorConfig) { c.DNS.Servers, c.Unchecked = []string{"dns.example"}, false }, "--dns"},
		{func(c *CoordinatorConfig) { c.Dir = "crawl" }, "holds the crawl of an agent"},
		{func(c *CoordinatorConfig) { c.Dir = "foreign" }, "it contains notes.txt"},
	} {
		cfg := CoordinatorConfig{Dir: "c", FS: mem, Listen: coordinatorAddr, Unchecked: true, Network: noNetwork{}}
		c.change(&cfg)
		opened, err := OpenCoordinator(cfg)
		if err == nil {
			opened.Close()
		}
		if _, ok := errors.AsType[*ConfigError](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	if _, err := mem.Stat("c"); err == nil {
		t.Error("a refused coordinator has made its directory")
	}
}

// noNetwork has no free port.
type noNetwork struct{}

func (noNetwork) Listen(addr string) (net.Listener, net.PacketConn, error) {
	return nil, nil, fmt.Errorf("listen %s: no port", addr)
}

func (noNetwork) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("no network")
}

// TestCoordinatorLocked: a directory has one coordinator at a time, and a group keeps its members.
func TestCoordinatorLocked(t *testing.T) {
	mem, l := testdisk.NewMem(), newLoop()
	cfg := CoordinatorConfig{Dir: "c", FS: mem, Listen: coordinatorAddr, Unchecked: true, Network: l}
	c, err := OpenCoordinator(cfg)
	if err != nil {
		t.Fatal(err)
	}
	again := cfg
	again.Listen = "127.0.0.1:7491"
	if _, err := OpenCoordinator(again); !errors.Is(err, disk.ErrLocked) {
		t.Errorf("a second coordinator in the directory: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Members = []string{coordinatorAddr, "127.0.0.1:7491", "127.0.0.1:7492"}
	_, err = OpenCoordinator(cfg)
	if _, ok := errors.AsType[*ConfigError](err); !ok || !strings.Contains(err.Error(), "a group keeps its members") {
		t.Errorf("two more members: %v", err)
	}
}

// TestCoordinatorDirectory: a coordinator does not start with the directory of another one.
func TestCoordinatorDirectory(t *testing.T) {
	cfg := CoordinatorConfig{Dir: "c", FS: testdisk.NewMem(), Listen: coordinatorAddr, Unchecked: true,
		Network: newLoop(),
		Members: []string{coordinatorAddr, "127.0.0.1:7491", "c3:7490"}}
	open := func(self string) error {
		cfg.Self = self
		c, err := OpenCoordinator(cfg)
		if err != nil {
			return err
		}
		return c.Close()
	}
	if err := errors.Join(open(coordinatorAddr), open(coordinatorAddr)); err != nil {
		t.Fatal(err)
	}
	for _, self := range cfg.Members[1:] {
		err := open(self)
		if _, ok := errors.AsType[*ConfigError](err); !ok ||
			!strings.Contains(err.Error(), "is the directory of the coordinator at "+coordinatorAddr) {
			t.Errorf("with the directory of another one: %v", err)
		}
	}
}
