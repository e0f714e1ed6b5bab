package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/contents"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/lease"
	"github.com/orbweaver/orbweaver/internal/cluster/limits"
	"github.com/orbweaver/orbweaver/internal/cluster/lost"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/replicas"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/shares"
	"github.com/orbweaver/orbweaver/internal/cluster/sites/follower"
	"github.com/orbweaver/orbweaver/internal/cluster/spare"
	"github.com/orbweaver/orbweaver/internal/cluster/termination"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/local"
	"github.com/orbweaver/orbweaver/internal/node/standing"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const (
	// identityFile holds the identity of the agent in this crawl directory.
	identityFile = "state/agent.json"
	contentsDir  = "state/contents"
	leaveTime    = 3 * time.Second
)

// A membership is what an agent needs to take part in its cluster.
type membership struct {
	a         *Agent // only for the features that still need it
	cfg       Cluster
	joining   joining
	clock     clock.Clock
	events    *report.Events
	cluster   *cluster.Clustered // nil before the run
	leases    *lease.Service
	contents  *contents.Service // nil: the agents do not share contents
	orders    *standing.Orders
	members   *members.Members
	server    *rpc.Server
	started   time.Time                      // when this run began
	placed    atomic.Pointer[placement.View] // see owners
	takesPart atomic.Bool                    // this agent is in that view
	seen      *gossip.View                   // the last view
	unheard   atomic.Pointer[time.Time]      // see crawl.Config.Unheard; nil: before the first view
	most      atomic.Int64                   // the most agents that have owned hosts at once
	saw       atomic.Uint64                  // digest of the view that owners belong to
	replicas  *replicas.Replicas             // nil: replication is off
	spares    *spare.Copies                  // nil: archive files are not copied to other agents
	lists     *lost.Lists                    // nil: replication is off
	refetch   *lost.Refetch                  // nil: the pages of lost archives are not fetched again
	sites     *follower.Follower             // nil: no coordinator assigns the hosts
	age       limits.Age
	pageLimit *limits.Pages
	ends      *termination.Agreement
	stop      context.CancelFunc
	running   sync.WaitGroup
}

// check refuses a configuration that cannot work.
func (c *Cluster) check(fsys disk.FS, clock clock.Clock) (*rpc.Keys, error) {
	if err := rpc.CheckName(c.Name); err != nil {
		return nil, input.Errorf("--name: %v", err)
	}
	var keys *rpc.Keys
	if c.Keys != "" {
		var err error
		if keys, err = rpc.LoadKeys(fsys, c.Keys, clock); err != nil {
			return nil, rpc.KeysError(c.Keys, "this agent", err)
		}
		if keys.Coordinator() {
			return nil, input.Errorf("--keys %s: these are the keys of coordinator %q, not of an agent; "+
				"give the directory that has this agent's keys", c.Keys, keys.Name())
		}
		if keys.Name() != c.Name {
			return nil, input.Errorf("--keys %s: these are the keys of agent %q, not of %q; "+
				"give the directory that has this agent's keys, or correct --name", c.Keys, keys.Name(), c.Name)
		}
	}
	if err := c.checkPartition(); err != nil {
		return nil, err
	}
	if err := rpc.CheckListen(c.Listen, keys); err != nil {
		return nil, input.Errorf("--%v", err)
	}
	if ap := netip.MustParseAddrPort(c.Listen); ap.Addr().IsUnspecified() {
		return nil, input.Errorf("--listen %s: other agents cannot reach the unspecified address; "+
			"give the address at which they reach this machine", c.Listen)
	}
	for _, addr := range c.Join {
		host, port, err := net.SplitHostPort(addr)
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 || host == "" {
			return nil, input.Errorf("--join %q: give an address and a port, such as 192.0.2.1:7470", addr)
		}
	}
	if err := c.checkFounder(); err != nil {
		return nil, err
	}
	if err := c.checkAgents([]placement.Owner{{Name: c.Name, Capacity: c.Capacity}}); err != nil {
		return nil, input.Errorf("%v", err)
	}
	return keys, nil
}

// tryPort refuses a port that the agent cannot listen on. Otherwise it returns the address that the
// agent would have.
func (c *Cluster) tryPort(fsys disk.FS, clock clock.Clock) (addr string, err error) {
	keys, err := c.check(fsys, clock)
	if err != nil {
		return "", err
	}
	l, err := rpc.Listen(c.network(), c.Listen, keys)
	if err != nil {
		return "", input.Errorf("--%v", err)
	}
	return l.Addr(), l.Close()
}

// prepareCluster prepares the membership before the directory holds a crawl. If it refuses, it has
// changed nothing in the directory.
func (a *Agent) prepareCluster(seeds []weburl.URL) error {
	cfg := *a.cfg.Cluster
	keys, err := cfg.check(a.fs, a.cfg.Clock)
	if err != nil {
		return err
	}
	settings, err := a.shared(seeds)
	if err != nil {
		return err
	}
	listener, err := rpc.Listen(cfg.network(), cfg.Listen, keys)
	if err != nil {
		return input.Errorf("--%v", err)
	}
	a.onClose(listener.Close)
	c := a.newMembership(&cfg, keys)
	c.joining.listener, c.joining.settings, c.joining.note = listener, settings, a.cfg.Note
	c.members.Self.Addr = listener.Addr()
	if err := c.joining.identify(); err != nil {
		return err
	}
	c.joining.sortJoin()
	c.joining.nameMembers(nil)
	c.members.Client = rpc.NewClient(rpc.ClientConfig{Keys: keys, Dial: cfg.network().Dial, Self: c.members.Caller})
	a.onClose(c.members.Client.Close)
	a.membership, c.started = c, a.now()
	return c.joining.mayCome()
}

// newMembership returns a membership that has no identity yet.
func (a *Agent) newMembership(cfg *Cluster, keys *rpc.Keys) *membership {
	c := &membership{a: a, cfg: *cfg, clock: a.cfg.Clock, members: new(members.Members)}
	c.joining = joining{cfg: &c.cfg, fs: a.fs, dir: a.cfg.Dir, clock: a.cfg.Clock, keys: keys,
		members: c.members, age: &c.age}
	return c
}

// openContents opens the table of contents if the partition is PartitionHash.
func (a *Agent) openContents() error {
	c := a.membership
	if c.cfg.partition() != PartitionHash {
		return nil
	}
	table, err := contents.Open(a.fs, a.dir(contentsDir), contents.Config{MemoryBytes: a.budget.of(shareContents)})
	if err != nil {
		return err
	}
	a.onClose(table.Close)
	c.contents = contents.NewService(contents.Parts{Members: c.members, Placed: c, Running: &c.running}, table)
	a.others.Contents = c.contents
	return nil
}

// openLeases creates the leases before the frontier is opened. If neither addresses nor sites have a delay, they are
// those of domains for which operators order a rate.
func (a *Agent) openLeases() {
	c, f := a.membership, &a.cfg.Frontier
	if c == nil {
		return
	}
	c.leases = lease.NewService(lease.Parts{Members: c.members, Clock: a.cfg.Clock, Placer: &c.cfg,
		Connections: a.fetcher, Running: &c.running, ByPages: c.cfg.byPages()})
	f.Lease, a.others.Leases = c.leases, c.leases
	if c.cfg.byPages() {
		f.HostLease = c.leases
	}
}

// openCluster opens what the agent needs to meet others. Run then meets them.
func (a *Agent) openCluster() error {
	c := a.membership
	c.orders, c.events = a.orders, a.parts.Events
	c.joining.events = c.events
	handlers := rpc.Handlers{Hello: c.joining.hello, Push: c.receive, Known: c.known, Claim: c.claim,
		Hand:    c.handed,
		Recall:  c.answerRecall,
		Operate: c.operated, Orders: func(ctx context.Context, from rpc.Caller, o rpc.Orders) (rpc.OrdersAnswer,
			error) {
			return c.orders.Serve(ctx, from, o)
		}}
	a.others.Captures = c.capture
	a.others.Durable = cluster.NewDurable(func() [16]byte { return c.members.Crawl() })
	c.server = rpc.NewServer(c.joining.listener, rpc.ServerConfig{Crawl: c.members.Crawl, Admitted: c.joining.admitted,
		Handlers:    handlers,
		MemoryBytes: a.budget.of(shareExchange), Panicked: local.Panicked(a.parts.Events)})
	shares.Call.Serve(c.server, a.rates.Answer)
	c.pageLimit = limits.New(limits.Config{Limit: a.cfg.Crawl.PageLimit, Members: c.members, Owners: &c.placed,
		Clock: a.cfg.Clock, Events: a.parts.Events})
	limits.Call.Serve(c.server, c.pageLimit.Answer)
	lease.Call.Serve(c.server, c.leases.Answer)
	if c.contents != nil {
		contents.Call.Serve(c.server, c.contents.Answer)
	}
	err := errors.Join(a.openSites(), a.openReplicas())
	c.ends = termination.New(termination.Config{Members: c.members, Sites: c.sites, Agent: busy{c}, Clock: a.cfg.Clock})
	return err
}

// receive accepts the links that another agent pushes.
func (c *membership) receive(ctx context.Context, _ rpc.Caller, l rpc.Links) error {
	links, err := decodeLinks(l)
	if err != nil {
		return err
	}
	err = c.cluster.Receive(ctx, links, l.Hops)
	if errors.Is(err, crawl.ErrNotRunning) {
		return rpc.ErrAgain
	}
	return err
}

func wire(a gossip.Agent) rpc.Agent {
	return rpc.Agent{Name: a.Name, Instance: a.Instance, Boot: a.Boot, Capacity: a.Capacity, Addr: a.Addr,
		State: uint8(a.State)}
}

func (j *joining) greeting() rpc.Hello {
	return rpc.Hello{Agent: wire(j.members.Self), Settings: j.terms()}
}

// copied returns the refusal of an agent whose crawl directory is a copy of a living agent's.
func copied(a gossip.Agent) error {
	return &rpc.Refusal{Reason: "copy",
		Text: fmt.Sprintf("agent %q is running already, at %s, from this crawl directory or a copy of it", a.Name,
			a.Addr)}
}

// hello answers an agent that asks whether it may join.
func (j *joining) hello(ctx context.Context, from rpc.Caller, h rpc.Hello) (rpc.Welcome, error) {
	var none rpc.Welcome
	m, id := j.members.Gossip(), j.members.Crawl()
	if h.Agent.Name == j.members.Self.Name && h.Agent.Instance == j.members.Self.Instance {
		if h.Agent.Boot == j.members.Self.Boot && h.Agent.Addr == j.members.Self.Addr {
			return none, &rpc.Refusal{Reason: "self", Text: gossip.ErrSelf.Error()}
		}
		return none, copied(j.members.Self)
	}
	switch {
	case id == (rpc.ID{}) || m == nil && !j.begun.Load():
		return none, &rpc.Refusal{Reason: notYet, Text: "this agent has not begun to crawl; ask again later"}
	case m == nil:
		return none, rpc.ErrAgain // this agent has not joined itself
	}
	if from.Crawl != (rpc.ID{}) && from.Crawl != id {
		return none, &rpc.Refusal{Reason: "crawl",
			Text: fmt.Sprintf("the directory of agent %q holds another crawl; choose another --dir, or delete "+
				"that crawl with --overwrite", h.Agent.Name)}
	}
	if err := cmp.Or(j.differ(h), j.otherStart(h)); err != nil {
		return none, err
	}
	if was, ok := m.View().Agent(h.Agent.Name); ok && was.Instance == h.Agent.Instance &&
		was.Addr != h.Agent.Addr && j.lives(ctx, was) {
		return none, copied(was)
	}
	agents := []placement.Owner{{Name: h.Agent.Name, Capacity: h.Agent.Capacity}}
	for _, a := range m.View().Agents {
		if a.Name != h.Agent.Name {
			agents = append(agents, placement.Owner{Name: a.Name, Capacity: a.Capacity})
		}
	}
	if err := j.cfg.checkAgents(agents); err != nil {
		return none, &rpc.Refusal{Reason: "placement", Text: err.Error()}
	}
	err := m.Admit(gossip.Agent{Name: h.Agent.Name, Instance: h.Agent.Instance, Boot: h.Agent.Boot,
		Capacity: h.Agent.Capacity, Addr: h.Agent.Addr}, j.clock.Now())
	switch {
	case errors.Is(err, gossip.ErrSelf):
		return none, &rpc.Refusal{Reason: "self", Text: err.Error()}
	case j.untenanted(ctx, err):
		return none, &rpc.Refusal{Reason: nameHeld, Text: err.Error() + ", and that agent does not answer"}
	case err != nil:
		return none, &rpc.Refusal{Reason: "name", Text: err.Error()}
	}
	if err := j.admissions.welcome(h.Agent, h.Settings[agentsSetting] == begunAlready, j.clock.Now()); err != nil {
		return none, err
	}
	elapsed := j.age.Running(j.clock.Now())
	if j.paused != nil {
		elapsed = max(elapsed-j.paused.PausedFor(), 0)
	}
	return rpc.Welcome{Agent: wire(j.members.Self), Crawl: id, Elapsed: elapsed, Agents: j.crawling()}, nil
}

// ask asks the agent at an address whether this agent may join.
func (j *joining) ask(ctx context.Context, addr string) (rpc.Welcome, error) {
	w, err := j.members.Client.Hello(ctx, addr, j.greeting())
	if err == nil {
		if len(w.Agents) > 0 {
			j.age.Since(w.Elapsed, j.clock.Now())
			j.late.Store(true)
		}
	}
	var refusal *rpc.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Reason == "self":
		return w, gossip.ErrSelf
	case errors.As(err, &refusal) && (refusal.Reason == nameHeld || refusal.Reason == notYet):
		return w, err // a temporary error
	case errors.As(err, &refusal):
		return w, fmt.Errorf("%w: %w", gossip.ErrRefused, err)
	}
	return w, err
}

// meet finds the other agents and returns when enough of them are present. If another agent refuses
// this one, the error is an *input.Error.
func (c *membership) meet(ctx context.Context) error {
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	c.running.Go(func() {
		if err := c.server.Run(run); err != nil {
			c.events.Write("calls-failed", report.F("error", err))
		}
	})
	if c.contents != nil {
		c.contents.Begin(run)
	}
	at, err := c.joining.find(ctx)
	if err != nil {
		return c.joining.refused(err)
	}
	if c.joining.who.Crawl != c.members.Crawl().String() {
		c.joining.who.Crawl = c.members.Crawl().String()
		if err := c.joining.remember(); err != nil {
			return err
		}
	}
	m, err := gossip.Open(gossip.Config{
		Self: c.members.Self, Advertise: netip.MustParseAddrPort(c.members.Self.Addr),
		Label: c.members.Crawl().String(), Secret: c.secret(),
		Packets: c.joining.listener.Packets(), Streams: c.joining.listener.Gossip(),
		Dial: func(ctx context.Context, addr, name string) (net.Conn, error) {
			return rpc.DialGossip(ctx, c.joining.keys, c.cfg.network().Dial, addr, name)
		},
		Hello:  func(ctx context.Context, addr string) error { _, err := c.joining.ask(ctx, addr); return err },
		Pinged: c.leases.Contact, Refused: c.joining.listener.RefusedGossip, Ended: c.joining.endings.Gossip(),
	})
	if err != nil {
		return err
	}
	c.members.Join(m)
	if err := c.joining.enter(ctx, m, at); err != nil {
		return c.joining.refused(err)
	}
	told, cancelTold := context.WithTimeout(ctx, time.Second)
	m.Announce(told, gossip.Up) // agents that are not told in time hear it by gossip
	cancelTold()
	c.running.Go(func() { c.sites.Run(run) })
	c.events.Write("joined", report.F("agent", c.members.Self.Name), report.F("address", c.members.Self.Addr),
		report.F("crawl", c.members.Crawl().String()))
	v, err := c.joining.wait(ctx, m)
	if err != nil {
		return err
	}
	c.age.Since(0, c.clock.Now()) // the wait does not count as running time
	c.leases.Join(c.joining.who.Others)
	c.sites.Answer()
	return c.see(v)
}

func (c *membership) secret() []byte {
	if c.joining.keys == nil {
		return nil
	}
	return c.joining.keys.Gossip()
}

// see applies a view of the cluster.
func (c *membership) see(v *gossip.View) error {
	if err := c.leases.Look(v); err != nil {
		return err
	}
	c.joining.nameMembers(v)
	c.miss(v)
	defer c.replicas.Wake() // for the lists of archives
	return c.divide(v)
}

// divide assigns the hosts to the agents of a view.
func (c *membership) divide(v *gossip.View) error {
	up, old := members.Up(v), c.owners()
	c.most.Store(max(c.most.Load(), int64(len(up))))
	if c.replicas != nil && c.sites == nil {
		var before replicas.OwnersBefore
		if old != nil {
			before = func(host string) string { return old.Owner(link.HostKey(host)).Name }
		}
		c.replicas.Lose(v, before, c.clock.Now()) // before any caller asks for the owner of their hosts
		defer c.replicas.TakeOver()               // when the new owners are known
	}
	defer c.saw.Store(v.Digest())
	if len(up) == 0 || old != nil && slices.Equal(old.Agents(), up) {
		return nil
	}
	owners, err := c.cfg.Place(up)
	if err != nil {
		return err
	}
	c.settle(owners)
	var names []string
	for _, a := range up {
		names = append(names, a.Name)
	}
	c.events.Write("view", report.F("agents", names))
	return nil
}

// miss notes since when the agents that are gone in a view cannot have made requests. It ends the calls to
// those that have been started again.
func (c *membership) miss(v *gossip.View) {
	last := c.unheard.Load()
	if last == nil {
		last = &c.started
	}
	if c.seen != nil {
		for _, a := range c.seen.Agents {
			b, there := v.Agent(a.Name)
			if there && b.Instance == a.Instance && b.Boot == a.Boot {
				continue
			}
			if there && a.Name != c.members.Self.Name {
				// It has been started again. After a power failure its earlier connections are silent.
				c.members.Client.Forget(a.Name)
			}
			if at := c.clock.Now().Add(-c.members.Gossip().Silent(a)); at.After(*last) {
				last = &at
			}
		}
	}
	c.seen = v
	c.unheard.Store(last)
}

// tend applies new views and looks for the end until ctx is done. fail ends the run.
func (c *membership) tend(ctx context.Context, fail func(error)) {
	m := c.members.Gossip()
	if o := c.sites; o != nil {
		o.Attach(c.a.cluster, c.a.cluster.Permits) // from now on the crawl loop takes calls
		c.running.Go(func() {
			if c.ends.Obey(ctx) {
				fail(input.Errorf("--coordinator %s: the coordinators have ended this crawl, and URLs wait in %s; to "+
					"crawl them, start the coordinators and the agents with new directories",
					strings.Join(c.cfg.Coordinators, ","), c.a.cfg.Dir))
			}
		})
		c.running.Go(func() {
			select {
			case err := <-o.Failed():
				fail(c.joining.refused(err))
			case <-ctx.Done():
			}
		})
	}
	c.running.Go(func() {
		for {
			select {
			case <-c.sites.Changes():
				c.stay(ctx, m)
			case <-m.Changes():
				saw, bars := c.saw.Load(), c.replicas.Barring()
				if err := c.see(m.View()); err != nil {
					fail(err)
				}
				if c.sites == nil && (c.saw.Load() != saw || c.replicas.Barring() != bars || !c.replicas.Settled()) {
					c.cluster.ViewChanged()
				}
				if err := c.joining.recall(m.View(), true); err != nil {
					fail(err)
				}
				c.stay(ctx, m)
			case err := <-m.Failed():
				fail(err)
				return
			case <-ctx.Done():
				return
			}
		}
	})
	c.running.Go(func() { c.ends.Seek(ctx) })
	c.running.Go(func() { c.orders.Tend(ctx) })
	if k := c.replicas; k != nil {
		c.running.Go(func() { k.Tend(ctx, c.cluster) })
		if c.refetch != nil {
			c.running.Go(func() { c.refetch.Tend(ctx, c.cluster) })
		}
		if s := c.spares; s != nil {
			c.running.Go(func() { s.Send(ctx) })
			c.running.Go(func() { s.Tend(ctx) })
		}
		c.running.Go(func() {
			if err := k.Run(ctx); err != nil {
				fail(err)
			}
		})
		c.running.Go(func() {
			select {
			case err := <-k.Broken():
				fail(err)
			case <-ctx.Done():
			}
		})
	}
	if c.contents != nil {
		c.contents.Tend(ctx, fail)
	}
	c.running.Go(func() { c.pageLimit.Keep(ctx, c.cluster, c.atPageLimit) })
}

// atPageLimit stops this agent because the agents have reached the page limit.
func (c *membership) atPageLimit(ctx context.Context) error {
	c.joining.admissions.set(ended)
	if err := c.a.crawler.Halt(ctx, crawl.PageLimit); !errors.Is(err, crawl.ErrNotRunning) {
		return err
	}
	return nil
}

// present returns the names of the agents that are up, this one included. Safe for concurrent use.
func (c *membership) present() (names []string) {
	if m := c.members.Gossip(); m != nil {
		for _, a := range members.Up(m.View()) {
			names = append(names, a.Name)
		}
	}
	return names
}

// others returns the names of the other agents that are up.
func (c *membership) others() []string {
	return slices.DeleteFunc(c.present(), func(name string) bool { return name == c.members.Self.Name })
}

// leave leaves the cluster, and waits for this membership's goroutines. If it is not in order, the others take this
// agent for lost, with its archive.
func (c *membership) leave(inOrder bool) error {
	if c.stop == nil {
		return nil
	}
	var err error
	if m := c.members.Gossip(); m != nil {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTime/2)
		c.sites.Leave(ctx)
		cancel()
		ctx, cancel = context.WithTimeout(context.Background(), leaveTime)
		if inOrder {
			m.Leave(ctx) // agents that do not hear it detect it
		}
		cancel()
		err = m.Close()
	}
	c.stop()
	c.running.Wait()
	c.stop = nil
	return err
}
