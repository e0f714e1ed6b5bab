package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/consensus"
	"github.com/orbweaver/orbweaver/internal/cluster/coordinator"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/dns"
)

// The values of CoordinatorConfig.Assign.
const (
	// AssignRoundRobin gives new hosts to the agents in turn, weighted by capacity.
	AssignRoundRobin = "roundrobin"
	// AssignLeastLoaded gives new hosts to the agents with the fewest waiting URLs for their capacity.
	AssignLeastLoaded = "least-loaded"
)

// Assignments returns the values of CoordinatorConfig.Assign.
func Assignments() []string { return []string{AssignRoundRobin, AssignLeastLoaded} }

// A CoordinatorConfig configures a coordinator: a process that assigns hosts to the agents of a crawl with
// --partition=sites. Dir and Listen are required.
type CoordinatorConfig struct {
	// Name is the coordinator's name in its status. Empty means that of the keys, or "coordinator" without keys.
	Name string
	// Dir is the directory of the coordinator's files. Only one process may use it at a time. It keeps the assignments
	// of one crawl.
	Dir string
	// FS is the file system of Dir and Keys. Nil means the machine's disk.
	FS disk.FS
	// Listen is the IP address and the port for agents and for other coordinators. It must be a loopback address,
	// unless there are Keys.
	Listen string
	// Members are the addresses of all coordinators of the crawl, Self among them: the same 1, 3 or 5 at each of
	// them. Empty means that this coordinator is alone.
	Members []string
	// Self is this coordinator's address in Members. Empty means Listen.
	Self string
	// Keys is the directory that "cluster keys --coordinators" made for this coordinator.
	Keys string
	// Assign is how the coordinators choose the agent of a new host: AssignRoundRobin or AssignLeastLoaded. Empty
	// means AssignRoundRobin. That of the leading coordinator counts.
	Assign string
	// DNS configures the resolver that finds out whether hosts exist.
	DNS dns.Config
	// Unchecked assigns hosts without a look-up, for example because the agents use a proxy.
	Unchecked bool
	// Network opens the connections. Nil means the machine's network.
	Network rpc.Network
	// Now is the clock for events.jsonl, answers of name servers and certificates. Nil means time.Now.
	Now func() time.Time
	// Event receives the events of events.jsonl, with pairs of names and values. It must not block, and must be
	// safe for concurrent use. Nil drops them.
	Event func(name string, fields ...any)
	// LogBytes is how much the log grows at least until it is replaced by a snapshot. Zero means 64 MiB.
	LogBytes int64
}

// coordinatorAlone is the address of a coordinator without others in its log, so that it may move to another address.
const coordinatorAlone = "alone"

// Files of a coordinator's directory, beside the lock.
const (
	coordinatorEvents = "events.jsonl"
	coordinatorLog    = "log"  // of package consensus
	coordinatorWork   = "work" // of the machine: working files
	// coordinatorAddress has the address of this coordinator in the list of all, unless it is alone.
	coordinatorAddress = "address"
)

// A Coordinator is an open coordinator. One goroutine owns it and calls Run and Close. The other methods are safe for
// concurrent use.
type Coordinator struct {
	cfg      CoordinatorConfig
	fs       disk.FS
	keys     *rpc.Keys
	listener *rpc.Listener
	server   *rpc.Server
	machine  *coordinator.Machine
	node     *consensus.Node
	logic    *coordinator.Coordinator
	events   *eventQueue
	closers  []func() error // Close calls them in reverse order
}

// Check returns a *ConfigError if the configuration cannot work. It opens no port and changes no file.
func (c *CoordinatorConfig) Check() error {
	_, err := c.check()
	return err
}

func (c *CoordinatorConfig) check() (*rpc.Keys, error) {
	if c.Dir == "" {
		return nil, configErrorf("no directory for the coordinator: give one with --dir")
	}
	fs := c.FS
	if fs == nil {
		fs = disk.OS
	}
	var keys *rpc.Keys
	if c.Keys != "" {
		var err error
		if keys, err = rpc.LoadKeys(fs, c.Keys, c.Now); err != nil {
			return nil, keysOf("this coordinator", badKeys(c.Keys, err))
		}
		if !keys.Coordinator() {
			return nil, configErrorf("--keys %s: these are the keys of agent %q, not of a coordinator; make some with "+
				"\"orbweaver cluster keys --coordinators NAME\"", c.Keys, keys.Name())
		}
	}
	if c.Assign != "" && !slices.Contains(Assignments(), c.Assign) {
		return nil, configErrorf("--assign %s: give %s or %s", c.Assign, AssignRoundRobin, AssignLeastLoaded)
	}
	if err := rpc.CheckListen(c.Listen, keys); err != nil {
		return nil, configErrorf("--%v", err)
	}
	if ap := netip.MustParseAddrPort(c.Listen); ap.Addr().IsUnspecified() {
		return nil, configErrorf("--listen %s: agents cannot reach the unspecified address; "+
			"give the address at which they reach this machine", c.Listen)
	}
	if err := checkCoordinators(c.Members, cmp.Or(c.Self, c.Listen), c.Keys); err != nil {
		return nil, err
	}
	if c.Unchecked {
		return keys, nil
	}
	r, err := dns.New(c.DNS)
	if err != nil {
		return nil, FlagError(err)
	}
	return keys, r.Close()
}

// checkCoordinators refuses a list of coordinators that cannot work for the one with the address self.
func checkCoordinators(members []string, self, keys string) error {
	if len(members) == 0 {
		return nil
	}
	if n := len(members); n%2 == 0 || n > consensus.MaxMembers {
		return configErrorf("--coordinator names %d coordinators; give 1, 3 or 5: they work as long as more than half "+
			"run", n)
	}
	for i, addr := range members {
		if err := checkAddress("coordinator", addr); err != nil {
			return err
		}
		if err := needsKeys(addr, keys); err != nil {
			return err
		}
		if slices.Contains(members[:i], addr) {
			return configErrorf("--coordinator names %s twice; give each coordinator once", addr)
		}
	}
	if !slices.Contains(members, self) {
		return configErrorf("--listen %s is not in the list of --coordinator; give all coordinators the same list",
			self)
	}
	return nil
}

// checkAddress returns a *ConfigError unless addr, a value of a flag, is a host and a port.
func checkAddress(flag, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if n, ok := parsePort(port); err != nil || host == "" || !ok || n == 0 {
		return configErrorf("--%s %q: give an address and a port, such as 192.0.2.1:7490", flag, addr)
	}
	return nil
}

// OpenCoordinator opens the directory and the port of a coordinator. It reads all assignments, which takes about a
// second for a million hosts. The error is a *ConfigError, a full disk (disk.IsFull), disk.ErrLocked, a *StateError, or
// another error of the disk.
func OpenCoordinator(cfg CoordinatorConfig) (_ *Coordinator, err error) {
	keys, err := cfg.check()
	if err != nil {
		return nil, err
	}
	if cfg.FS == nil {
		cfg.FS = disk.OS
	}
	if cfg.Network == nil {
		cfg.Network = rpc.System
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if keys != nil {
		cfg.Name = cmp.Or(cfg.Name, keys.Name())
	}
	cfg.Name = cmp.Or(cfg.Name, "coordinator")
	c := &Coordinator{cfg: cfg, keys: keys, fs: disk.Patient(cfg.FS, func() {})}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := c.claim(); err != nil {
		return nil, denied(cfg.Dir, err)
	}
	if err := c.open(); err != nil {
		return nil, denied(cfg.Dir, err)
	}
	return c, nil
}

func (c *Coordinator) onClose(f func() error) { c.closers = append(c.closers, f) }

func (c *Coordinator) dir(elem ...string) string {
	return filepath.Join(append([]string{c.cfg.Dir}, elem...)...)
}

// claim opens the port and locks the directory. If it refuses the directory, it has changed nothing in it.
func (c *Coordinator) claim() (err error) {
	if err := c.suits(); err != nil {
		return err
	}
	if c.listener, err = rpc.ListenCoordinator(c.cfg.Network, c.cfg.Listen, c.keys); err != nil {
		return configErrorf("--%v", err)
	}
	c.onClose(c.listener.Close)
	if err := c.fs.MkdirAll(c.dir(), 0o755); err != nil {
		return err
	}
	lock, err := disk.Lock(c.fs, c.dir())
	if err != nil {
		return err
	}
	c.onClose(lock.Close)
	for _, d := range []string{c.dir(), filepath.Dir(c.dir())} { // a power failure must not remove the directory
		if err := c.fs.SyncDir(d); err != nil {
			return err
		}
	}
	return nil
}

// suits refuses a directory with files that are not a coordinator's.
func (c *Coordinator) suits() error {
	if crawl, err := HoldsCrawl(c.fs, c.cfg.Dir); err != nil {
		return err
	} else if crawl {
		return configErrorf("--dir %s holds the crawl of an agent; give the coordinator a directory of its own",
			c.cfg.Dir)
	}
	entries, err := c.fs.ReadDir(c.dir())
	if err != nil {
		return nil // it is missing, or opening it fails as well
	}
	for _, e := range entries {
		if !slices.Contains([]string{coordinatorEvents, coordinatorLog, coordinatorWork, coordinatorAddress,
			disk.LockName}, e.Name()) {
			return configErrorf("--dir %s is not empty and not a coordinator's (it contains %s): choose another "+
				"directory", c.cfg.Dir, e.Name())
		}
	}
	return nil
}

// open opens the parts, each before the parts that need it.
func (c *Coordinator) open() error {
	log, err := report.OpenEvents(c.fs, c.dir(coordinatorEvents), c.cfg.Now)
	if err != nil {
		return err
	}
	c.events = newEventQueue(log, c.cfg.Event)
	c.onClose(c.events.close)
	exists, err := c.openResolver()
	if err != nil {
		return err
	}
	machine := coordinator.MachineConfig{FS: c.fs, Dir: c.dir(coordinatorWork)}
	if c.machine, err = coordinator.OpenMachine(machine); err != nil {
		return err
	}
	c.onClose(c.machine.Close)
	members, self, network := c.cfg.Members, cmp.Or(c.cfg.Self, c.cfg.Listen), consensus.Network(nil)
	if len(members) < 2 {
		members, self = []string{coordinatorAlone}, coordinatorAlone
	} else {
		network = raftNetwork{c.listener.Raft(), c}
	}
	named, err := c.checkMember(self)
	if err != nil {
		return err
	}
	c.node, err = consensus.Open(consensus.Config{
		FS: c.fs, Dir: c.dir(coordinatorLog), Members: members, Self: self, Network: network,
		Machine: replicated{c.machine}, Event: c.consensusEvent, SnapshotBytes: c.cfg.LogBytes,
	})
	switch {
	case errors.Is(err, consensus.ErrMembers):
		_, text, _ := strings.Cut(err.Error(), consensus.ErrMembers.Error()+": ")
		text = strings.ReplaceAll(text, " "+coordinatorAlone+",", " one coordinator without others,")
		return configErrorf("--coordinator: %s", strings.ReplaceAll(text, "not "+coordinatorAlone+";",
			"not one without others;"))
	case err != nil && !disk.IsFull(err):
		return &StateError{err}
	case err != nil:
		return err
	}
	c.onClose(c.node.Close)
	if !named && self != coordinatorAlone {
		if err := disk.WriteFile(c.fs, c.dir(coordinatorAddress), []byte(self+"\n")); err != nil {
			return err
		}
	}
	c.logic = coordinator.New(coordinator.Config{
		Machine: c.machine, Log: c.node, Exists: exists, LeastLoaded: c.cfg.Assign == AssignLeastLoaded,
		Event: c.events.add,
	})
	c.server = rpc.NewServer(c.listener, rpc.ServerConfig{
		Crawl: func() rpc.ID { return c.machine.Crawl() }, Admitted: c.admitted,
		Coordination: rpc.Coordination{Discover: c.discover, Follow: c.follow, Finish: c.finish, Status: c.status,
			Forget: c.forget},
		Panicked: func(call string, value any, stack []byte) {
			c.events.add("call-panicked", "call", call, "error", fmt.Sprint(value), "stack", string(stack))
		},
	})
	c.events.add("coordinator-started", "name", c.cfg.Name, "address", c.Addr(), "members", c.members())
	return nil
}

// checkMember refuses the directory of another coordinator of the list. With its votes, this one could vote twice in
// one term, and two coordinators could lead. named reports whether the directory has the address self.
func (c *Coordinator) checkMember(self string) (named bool, err error) {
	b, err := disk.ReadFile(c.fs, c.dir(coordinatorAddress), 4<<10)
	has := strings.TrimSpace(string(b))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case has != self && slices.Contains(c.cfg.Members, has):
		return false, configErrorf("--dir %s is the directory of the coordinator at %s: give this one its own "+
			"directory, or an empty one", c.cfg.Dir, has)
	}
	return has == self, nil
}

// members returns the addresses of all coordinators.
func (c *Coordinator) members() []string {
	if len(c.cfg.Members) == 0 {
		return []string{c.Addr()}
	}
	return c.cfg.Members
}

// consensusEvent passes an event of the log on. If this coordinator is alone, nobody wants to know that it leads.
func (c *Coordinator) consensusEvent(name string, fields ...any) {
	if len(c.members()) > 1 || name != "consensus-founded" && name != "consensus-leader" {
		c.events.add(name, fields...)
	}
}

// openResolver returns the function that reports whether a host has an address, or nil if hosts are not checked.
func (c *Coordinator) openResolver() (exists func(ctx context.Context, host string) bool, err error) {
	if c.cfg.Unchecked {
		return nil, nil
	}
	cfg := c.cfg.DNS
	cfg.IPv6, cfg.Now = true, c.cfg.Now
	r, err := dns.New(cfg)
	if err != nil {
		return nil, FlagError(err)
	}
	c.onClose(r.Close)
	return func(ctx context.Context, host string) bool {
		_, err := r.Lookup(ctx, host)
		return err == nil
	}, nil
}

// Run works until ctx ends or the coordinator fails. A full disk is an error that disk.IsFull recognizes. It may be
// called once.
func (c *Coordinator) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	run := func(f func(ctx context.Context) error) {
		wg.Go(func() {
			if err := f(ctx); err != nil {
				stop(&coordinatorFailure{err})
			}
		})
	}
	run(c.server.Run)
	run(c.logic.Run)
	run(c.events.run)
	run(c.watch)
	run(c.nameMembers)
	wg.Wait()
	failure, _ := errors.AsType[*coordinatorFailure](context.Cause(ctx))
	if failure == nil {
		c.events.add("coordinator-stopped")
		return nil
	}
	c.events.add("coordinator-stopped", "cause", failure.err.Error())
	return failure.err
}

// A coordinatorFailure is the error of a part of a coordinator.
type coordinatorFailure struct{ err error }

func (f *coordinatorFailure) Error() string { return f.err.Error() }

// watch returns the failure of the log.
func (c *Coordinator) watch(ctx context.Context) error {
	select {
	case err := <-c.node.Failed():
		return err
	case <-ctx.Done():
		return nil
	}
}

// nameMembers keeps places for the handshakes of known agents and coordinators.
func (c *Coordinator) nameMembers(ctx context.Context) error {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for term := uint64(1 << 63); ; {
		if r := c.machine.Roster(); r.Term != term {
			term = r.Term
			addrs := slices.Clone(c.cfg.Members)
			for _, m := range r.Members {
				addrs = append(addrs, m.Addr)
			}
			var known []netip.Addr
			for _, a := range addrs {
				if ap, err := netip.ParseAddrPort(a); err == nil {
					known = append(known, ap.Addr().Unmap())
				}
			}
			c.listener.SetMembers(known)
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Close closes the directory and the port. It waits for everything that OpenCoordinator has begun.
func (c *Coordinator) Close() error {
	var errs []error
	for _, f := range slices.Backward(c.closers) {
		errs = append(errs, f())
	}
	c.closers = nil
	return errors.Join(errs...)
}

// Addr returns the address and the actual port at which the coordinator listens.
func (c *Coordinator) Addr() string { return c.listener.Addr() }

// Leads reports whether this coordinator leads and answers the agents. It does not wait.
func (c *Coordinator) Leads() bool { return c.logic.Status().Leads }

// Forget takes an agent off the roster of which a person knows that it does not run. The error says why not: this
// coordinator does not lead, or the agent may be running. It returns when the agent is off the roster.
func (c *Coordinator) Forget(ctx context.Context, agent string) error {
	return c.logic.Forget(ctx, agent)
}

// Status returns what the coordinator knows.
func (c *Coordinator) Status() CoordinatorStatus {
	s := CoordinatorStatus{Name: c.cfg.Name, Address: c.Addr(), Version: Version, Members: c.members(),
		Status: c.logic.Status()}
	if s.Leader == coordinatorAlone {
		s.Leader = s.Address
	}
	if id := c.machine.Crawl(); id != [16]byte{} {
		s.Crawl = rpc.ID(id).String()
	}
	n := c.node.Status()
	s.Voting, s.LogTerm, s.LogLast, s.LogCommitted, s.LogBytes = n.Voting, n.Term, n.Last, n.Committed, n.LogBytes
	s.MemoryBytes, s.DiskBytes = c.machine.Bytes()
	return s
}

// A CoordinatorStatus describes a coordinator and what it knows.
type CoordinatorStatus struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Version string `json:"version"`
	// Crawl is the crawl of the agents, or empty before the first agent.
	Crawl string `json:"crawl,omitempty"`
	// Members are the addresses of all coordinators.
	Members []string `json:"members"`

	coordinator.Status

	// Voting is false while a coordinator that has lost its directory catches up.
	Voting bool `json:"voting"`
	// LogTerm is the term of the leader, in Raft's sense. LogLast is the newest entry of the log here, and LogCommitted
	// the newest one that more than half of the coordinators have. LogBytes are those since the last snapshot.
	LogTerm      uint64 `json:"log_term"`
	LogLast      uint64 `json:"log_last"`
	LogCommitted uint64 `json:"log_committed"`
	LogBytes     int64  `json:"log_bytes"`
	// MemoryBytes and DiskBytes are those of the table of hosts.
	MemoryBytes int64 `json:"memory_bytes"`
	DiskBytes   int64 `json:"disk_bytes"`
}

func (c *Coordinator) status(context.Context, rpc.Caller) ([]byte, error) {
	return json.Marshal(c.Status())
}
