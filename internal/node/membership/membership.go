// Package membership answers: how does an agent come into its cluster, take part in it, and leave it?
//
//	Config -> Prepare -> Open -> Meet -> Tend -> Depart
//
// Prepare finds out who the agent is, and takes its port. Open opens what the agent keeps for the cluster, and wires
// the features of package cluster together. Meet finds the other agents and waits until enough of them are there. Tend
// applies each view of the cluster until the run ends. Depart leaves the cluster.
//
// A joining admits other agents and asks for admission; a Membership knows the owners and has the features. One
// goroutine owns a Membership; the methods that other agents call are safe for concurrent use.
package membership

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/boundary"
	"github.com/orbweaver/orbweaver/internal/cluster/contents"
	"github.com/orbweaver/orbweaver/internal/cluster/gone"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/lease"
	"github.com/orbweaver/orbweaver/internal/cluster/limits"
	"github.com/orbweaver/orbweaver/internal/cluster/lost"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/operation"
	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/cluster/replicas"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/sites/follower"
	"github.com/orbweaver/orbweaver/internal/cluster/termination"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/local"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// contentsDir has the table of contents, in the crawl directory.
const contentsDir = "state/contents"

// keptLinksDir and keptPagesDir have what other agents have received, until their saved states have it.
const keptLinksDir, keptPagesDir = "state/handed", "state/handed-pages"

// Files lists the files and directories in a crawl directory that not every membership has.
var Files = []string{replicas.Dir, lost.KeptDir, contentsDir, sitesDir, boundaryDir, identityFile,
	gone.File, keptLinksDir, keptPagesDir}

// A Place is the crawl directory of an agent, and what the agent has from the beginning.
type Place struct {
	FS    disk.FS
	Dir   string
	Clock clock.Clock
	Note  func(string) // tells the operator; nil: nobody
	// Origin names the restore from a store that has made the directory; empty: none has.
	Origin string
}

// path returns the path of a file in the crawl directory.
func (p *Place) path(elem ...string) string {
	return filepath.Join(append([]string{p.Dir}, elem...)...)
}

// An Agent is what a membership asks of its agent, when the agent is open. Safe for concurrent use.
type Agent interface {
	// Halt ends the run of the crawl loop. The error is crawl.ErrNotRunning if it does not run.
	Halt(ctx context.Context, why crawl.Stop) error
	// Progress returns the state of the crawl loop, or nil before its run.
	Progress() *crawl.Status
	// Uncollected says in words which pages applications have still to collect from this agent; "": none.
	Uncollected() string
	// Claimed reports that no saved state of an agent waits for another agent to continue it. It is asked when the
	// crawl would end. Unclaimed says in words which of them wait; "": none.
	Claimed() bool
	Unclaimed() string
	// Unchecked reports that a host may have no address here: a proxy looks it up, or --connect-to leads elsewhere.
	Unchecked(host string) bool
	// Answer carries out what the Operator of another agent has passed on.
	Answer(ctx context.Context, method string, request []byte) ([]byte, error)
}

// Orders are those of the operators, which the agents pass on to each other.
type Orders interface {
	// Serve makes a server answer other agents about orders, before it runs.
	Serve(s *rpc.Server)
	// Tend tells other agents of orders that they lack, until ctx is done.
	Tend(ctx context.Context)
}

// An Archive has the records of an agent.
type Archive interface {
	// OpenNewest opens the newest record of a URL, and returns its size. r is nil if there is none.
	OpenNewest(url string) (r io.ReadCloser, size int64, err error)
}

// Stored is what the agents have in a store.
type Stored = lost.Stored

// Parts are the parts of an agent that a membership works with.
type Parts struct {
	Agent     Agent
	Archive   Archive
	Stored    Stored // nil: the segments of the agents are in no store
	Events    *report.Events
	Orders    Orders
	PageLimit int64 // of all agents together; zero: none
	Plans     bool  // the strategy decides itself which pages it fetches again
	Memory    Memory
}

// Memory is how many bytes each part may take; see the package of each.
type Memory struct{ Contents, Exchange, Outbox, Pages, Replicas, Shipping, Sites int64 }

// A Membership is what an agent needs to take part in its cluster.
type Membership struct {
	Cluster *cluster.Clustered // nil before Open
	Members *members.Members
	// Division tells which agent owns a host.
	// It implements cluster.Placement, contents.Placed and shares.Placed.
	Division *Division

	cfg      Config
	joining  joining
	agent    Agent
	events   *report.Events
	orders   Orders
	gone     *gone.Roll
	parts    cluster.Others
	calls    *cluster.Calls
	leases   *lease.Service
	contents *contents.Service // nil: the agents do not share contents
	store    *boundary.Store   // nil: pages do not move between agents
	pages    *boundary.Pages   // nil: agents divide hosts, not pages
	server   *rpc.Server
	started  time.Time          // when this run began
	seen     *gossip.View       // the last view
	most     atomic.Int64       // the most agents that have owned hosts at once
	replicas *replicas.Replicas // nil: replication is off
	lists    *lost.Lists        // nil: replication is off
	refetch  *lost.Refetch      // nil: the pages of lost archives are not fetched again
	sites    *follower.Follower // nil: no coordinator assigns the hosts
	age      limits.Age
	limit    *limits.Pages
	ends     *termination.Agreement
	stop     context.CancelFunc
	running  sync.WaitGroup
	closers  []io.Closer // of what Open has opened
}

// Prepare prepares the membership before the directory holds a crawl. If it refuses, it has changed nothing in the
// directory. All agents of the cluster must have equal settings, beside those of cfg. The caller calls Close.
func Prepare(cfg *Config, at Place, settings map[string]string) (_ *Membership, err error) {
	keys, err := cfg.Check(at.FS, at.Clock)
	if err != nil {
		return nil, err
	}
	listener, err := rpc.Listen(cfg.network(), cfg.Listen, keys)
	if err != nil {
		return nil, input.SettingError(err)
	}
	c := newMembership(cfg, at, keys)
	c.joining.listener, c.joining.settings = listener, settings
	c.Members.Self.Addr = listener.Addr()
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err = c.joining.identify(); err != nil {
		return nil, err
	}
	c.joining.sortJoin()
	c.joining.nameMembers(nil)
	c.call(keys)
	c.started = at.Clock.Now()
	if err := c.joining.mayCome(); err != nil {
		return nil, err
	}
	return c, nil
}

// newMembership returns a membership that has no identity yet.
func newMembership(cfg *Config, at Place, keys *rpc.Keys) *Membership {
	c := &Membership{cfg: *cfg, Members: new(members.Members)}
	c.Division = &Division{cfg: &c.cfg, members: c.Members}
	c.joining = joining{Place: at, cfg: &c.cfg, keys: keys, members: c.Members, age: &c.age}
	return c
}

// call makes the client with which this agent calls others.
func (c *Membership) call(keys *rpc.Keys) {
	c.Members.Client = rpc.NewClient(rpc.ClientConfig{Keys: keys, Dial: c.cfg.network().Dial, Self: c.Members.Caller})
}

// Close closes the connections to other agents and the port, after CloseStores.
func (c *Membership) Close() (err error) {
	if c.Members.Client != nil {
		err = c.Members.Client.Close()
	}
	return errors.Join(err, c.joining.listener.Close())
}

// OpenLeases creates the leases before the frontier is opened. If neither addresses nor sites have a delay, they are
// those of domains for which operators order a rate. It also returns those of hosts; nil: each host has one agent.
func (c *Membership) OpenLeases(connections lease.Connections) (points, hosts *lease.Service) {
	c.leases = lease.NewService(lease.Parts{Members: c.Members, Clock: c.joining.Clock, Placer: &c.cfg,
		Connections: connections, Running: &c.running, ByPages: c.cfg.ByPages()})
	c.parts.Leases = c.leases
	if c.cfg.ByPages() {
		return c.leases, c.leases
	}
	return c.leases, nil
}

// Open opens what this agent keeps for the cluster, and makes Cluster. Meet then meets the others. The caller calls
// CloseStores, also after an error.
func (c *Membership) Open(p Parts) (err error) {
	c.agent, c.events, c.orders = p.Agent, p.Events, p.Orders
	c.joining.events = c.events
	if c.cfg.ByContents() {
		table, err := contents.Open(c.joining.FS, c.joining.path(contentsDir),
			contents.Config{MemoryBytes: p.Memory.Contents})
		if err != nil {
			return err
		}
		c.closers = append(c.closers, table)
		c.contents = contents.NewService(contents.Parts{Members: c.Members, Placed: c.Division,
			Running: &c.running}, table)
		c.parts.Contents = c.contents
	}
	if c.gone, err = gone.Open(gone.Config{FS: c.joining.FS, Path: c.joining.path(gone.File), Clock: c.joining.Clock,
		Members: c.Members, Crawl: c.agent}); err != nil {
		return err
	}
	c.closers = append(c.closers, c.gone)
	archives := captures{c.Members, c.Division, p.Archive}
	c.parts.Archives = archives
	c.calls = cluster.NewCalls(c.Members)
	c.parts.Durable = c.calls.Durable
	c.openServer(p, operated{archives, &c.joining, c.gone, c.agent})
	if err := errors.Join(c.openSites(p.Memory), c.openReplicas(p)); err != nil {
		return err
	}
	c.ends = termination.New(termination.Config{Self: c.Members.Self.Name, Others: others{c.Members}, Sites: c.sites,
		Agent: busy{c.Members, c.Division, &c.joining, c.refetch, c.sites, c.agent}, Clock: c.joining.Clock})
	c.openPages()
	if err := c.openBoxes(p.Memory); err != nil {
		return err
	}
	c.parts.Placement, c.parts.Exchange = c.Division, c.calls
	c.parts.Counter, c.parts.End = replicas.SourceOf(c.Members.Self).Counter(), end{c.ends, c.agent}
	c.Cluster = cluster.New(c.parts)
	c.Cluster.Serve(c.server)
	c.ends.Serve(c.server, c.Cluster)
	return nil
}

// end is a cluster.End.
type end struct {
	*termination.Agreement
	Agent
}

// openServer makes the server that answers other agents.
func (c *Membership) openServer(p Parts, answers operated) {
	c.server = rpc.NewServer(c.joining.listener, rpc.ServerConfig{Crawl: c.Members.Crawl,
		Admitted: c.joining.admitted, MemoryBytes: p.Memory.Exchange, Panicked: local.Panicked(c.events)})
	HelloCall.Serve(c.server, c.joining.hello)
	c.orders.Serve(c.server)
	operation.Serve(c.server, answers.answer, members.LeftMethod)
	c.limit = limits.New(limits.Config{Limit: p.PageLimit, Members: c.Members, Owners: &c.Division.placed,
		Clock: c.joining.Clock, Events: c.events})
	limits.Call.Serve(c.server, c.limit.Answer)
	lease.Call.Serve(c.server, c.leases.Answer)
	if c.contents != nil {
		contents.Call.Serve(c.server, c.contents.Answer)
	}
}

// openBoxes opens what waits for other agents: links, and pages.
func (c *Membership) openBoxes(m Memory) (err error) {
	if c.parts.Outbox, err = outbox.Open(c.joining.FS, c.joining.path("state", "outbox"),
		outbox.Config{MemoryBytes: m.Outbox}); err != nil {
		return err
	}
	c.closers = append(c.closers, c.parts.Outbox)
	if c.parts.Kept, err = c.openKept(keptLinksDir, m.Outbox); err != nil || c.store == nil {
		return err
	}
	if c.parts.PageBox, err = outbox.Open(c.joining.FS, c.joining.path("state", "pagebox"),
		outbox.Config{MemoryBytes: m.Pages, BatchLinks: boundary.AtOnce}); err != nil {
		return err
	}
	c.closers = append(c.closers, c.parts.PageBox)
	c.parts.KeptPages, err = c.openKept(keptPagesDir, m.Pages)
	return err
}

// openKept opens what keeps links that other agents have; nil if states are not saved.
func (c *Membership) openKept(dir string, memory int64) (*outbox.Kept, error) {
	if !c.cfg.SavesState {
		return nil, nil
	}
	kept, err := outbox.OpenKept(c.joining.FS, c.joining.path(dir), memory/8)
	if err == nil {
		c.closers = append(c.closers, kept)
	}
	return kept, err
}

// CloseStores closes what Open has opened, the last one first. A nil Membership has nothing open.
func (c *Membership) CloseStores() error {
	var errs []error
	for _, opened := range slices.Backward(c.closers) {
		errs = append(errs, opened.Close())
	}
	c.closers = nil
	return errors.Join(errs...)
}

// Certificate returns the certificate of this agent's keys; nil: it has none.
func (c *Membership) Certificate() *tls.Certificate {
	if c.joining.keys == nil {
		return nil
	}
	return c.joining.keys.Certificate()
}

// ByPages reports whether the agents divide pages, not hosts.
func (c *Membership) ByPages() bool { return c.cfg.ByPages() }

// Instance returns the identity of the agent's crawl directory.
func (c *Membership) Instance() string { return c.joining.who.Instance }

// Waiting returns what this agent waits for before its crawl begins; nil: nothing that takes long. Safe for concurrent
// use.
func (c *Membership) Waiting() *local.Waiting { return c.joining.waits.Load() }

// Unmet says what this agent has waited for in vain before its crawl could begin; "": nothing.
func (c *Membership) Unmet() string { return c.joining.unmet }

// Address returns the agent's address for other agents.
func (c *Membership) Address() string { return c.Members.Self.Addr }

// Gone returns the agents that have gone, with their last counts. Safe for concurrent use.
func (c *Membership) Gone() []gone.Agent { return c.gone.Agents() }

// Heard returns what another agent has told of its counts last; nil: nothing. Safe for concurrent use.
func (c *Membership) Heard(agent string) *gone.Counts { return c.gone.Heard(agent) }

// Absent returns the names of the agents of this or an earlier run that are not present. Safe for concurrent use.
func (c *Membership) Absent() []string { return c.joining.gone() }

// Replicates reports whether this agent keeps the records of other agents' hosts.
func (c *Membership) Replicates() bool { return c.replicas != nil }

// SyncEvery returns how often the journal must be synchronized; zero: other agents do not wait for it.
func (c *Membership) SyncEvery() time.Duration {
	if c.replicas == nil {
		return 0
	}
	return cluster.SyncEvery
}

// Replicas returns how many records this agent keeps of other agents' hosts, and their bytes on disk. Safe for
// concurrent use.
func (c *Membership) Replicas() (records, bytes int64) { return c.replicas.Sizes() }
