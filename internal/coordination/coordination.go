// Package coordination answers: what does the process of a coordinator do?
//
//	directory, port -> Open -> consensus (the log) -> coordinator.Machine (hosts and their agents)
//	calls of agents, through rpc -> coordinator.Coordinator (the decisions) -> consensus
//	persons -> Client -> rpc -> Status, Forget
//
// It connects packages coordinator, consensus and rpc, as package node connects those of an agent. The decisions are
// in package coordinator.
package coordination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/consensus"
	"github.com/orbweaver/orbweaver/internal/cluster/coordinator"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/dns"
)

// alone is the address of a coordinator without others in its log, so that it may move to another address.
const alone = "alone"

// Files of a coordinator's directory, beside the lock.
const (
	eventsFile = "events.jsonl"
	logDir     = "log"  // of package consensus
	workDir    = "work" // of the machine: working files
	// addressFile has the address of this coordinator in the list of all, unless it is alone.
	addressFile = "address"
)

// A Coordinator is an open coordinator. One goroutine owns it and calls Run and Close. The other methods are safe for
// concurrent use.
type Coordinator struct {
	cfg      Config
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

// Open opens the directory and the port of a coordinator. It reads all assignments, which takes about a
// second for a million hosts. The error is an *input.ConfigError, a full disk (disk.IsFull), disk.ErrLocked, a
// *crawldir.StateError, or another error of the disk.
func Open(cfg Config) (_ *Coordinator, err error) {
	keys, err := cfg.check()
	if err != nil {
		return nil, err
	}
	cfg.FS = cmp.Or(cfg.FS, disk.OS)
	cfg.Network = cmp.Or(cfg.Network, rpc.System)
	cfg.Clock = clock.Or(cfg.Clock)
	if keys != nil {
		cfg.Name = cmp.Or(cfg.Name, keys.Name())
	}
	cfg.Name = cmp.Or(cfg.Name, "coordinator")
	c := &Coordinator{cfg: cfg, keys: keys, fs: disk.Patient(cfg.FS, nil)}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := c.claim(); err != nil {
		return nil, crawldir.Denied(cfg.Dir, err)
	}
	if err := c.open(); err != nil {
		return nil, crawldir.Denied(cfg.Dir, err)
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
		return input.SettingError(err)
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
	if crawl, err := crawldir.HoldsCrawl(c.fs, c.cfg.Dir); err != nil {
		return err
	} else if crawl {
		return input.Errorf("{dir} %s holds the crawl of an agent; give the coordinator a directory of its own",
			c.cfg.Dir)
	}
	entries, err := c.fs.ReadDir(c.dir())
	if err != nil {
		return nil // it is missing, or opening it fails as well
	}
	for _, e := range entries {
		if !slices.Contains([]string{eventsFile, logDir, workDir, addressFile,
			disk.LockName}, e.Name()) {
			return input.Errorf("{dir} %s is not empty and not a coordinator's (it contains %s): choose another "+
				"directory", c.cfg.Dir, e.Name())
		}
	}
	return nil
}

// open opens the parts, each before the parts that need it.
func (c *Coordinator) open() error {
	log, err := report.OpenEvents(c.fs, c.dir(eventsFile), c.cfg.Clock)
	if err != nil {
		return err
	}
	c.events = newEventQueue(log, c.cfg.Events)
	c.onClose(c.events.close)
	addresses, err := c.openResolver()
	if err != nil {
		return err
	}
	machine := coordinator.MachineConfig{FS: c.fs, Dir: c.dir(workDir)}
	if c.machine, err = coordinator.OpenMachine(machine); err != nil {
		return err
	}
	c.onClose(c.machine.Close)
	members, self, network := c.cfg.Members, cmp.Or(c.cfg.Self, c.cfg.Listen), consensus.Network(nil)
	if len(members) < 2 {
		members, self = []string{alone}, alone
	} else {
		network = raftNetwork{c.listener.Raft(), c}
	}
	named, err := c.checkMember(self)
	if err != nil {
		return err
	}
	c.node, err = consensus.Open(consensus.Config{
		FS: c.fs, Dir: c.dir(logDir), Members: members, Self: self, Network: network,
		Machine: replicated{c.machine}, Events: consensusEvents{c}, SnapshotBytes: c.cfg.LogBytes,
	})
	switch {
	case errors.Is(err, consensus.ErrMembers):
		_, text, _ := strings.Cut(err.Error(), consensus.ErrMembers.Error()+": ")
		text = strings.ReplaceAll(text, " "+alone+",", " one coordinator without others,")
		return input.Errorf("{coordinator}: %s", strings.ReplaceAll(text, "not "+alone+";",
			"not one without others;"))
	case err != nil && !disk.IsFull(err):
		return &crawldir.StateError{Err: err}
	case err != nil:
		return err
	}
	c.onClose(c.node.Close)
	if !named && self != alone {
		if err := disk.WriteFile(c.fs, c.dir(addressFile), []byte(self+"\n")); err != nil {
			return err
		}
	}
	c.logic = coordinator.New(coordinator.Config{
		Machine: c.machine, Log: c.node, Resolver: addresses, LeastLoaded: c.cfg.Assign == AssignLeastLoaded,
		Events: c.events,
	})
	c.server = rpc.NewServer(c.listener, rpc.ServerConfig{
		Crawl: func() rpc.ID { return c.machine.Crawl() }, Admitted: c.admitted,
		Panicked: func(call string, value any, stack []byte) {
			c.events.Event("call-panicked", "call", call, "error", fmt.Sprint(value), "stack", string(stack))
		},
	})
	c.serve()
	c.events.Event("coordinator-started", "name", c.cfg.Name, "address", c.Addr(), "members", c.members())
	return nil
}

// checkMember refuses the directory of another coordinator of the list. With its votes, this one could vote twice in
// one term, and two coordinators could lead. named reports whether the directory has the address self.
func (c *Coordinator) checkMember(self string) (named bool, err error) {
	b, err := disk.ReadFile(c.fs, c.dir(addressFile), 4<<10)
	has := strings.TrimSpace(string(b))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case has != self && slices.Contains(c.cfg.Members, has):
		return false, input.Errorf("{dir} %s is the directory of the coordinator at %s: give this one its own "+
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

// consensusEvents passes the events of the log on. If this coordinator is alone, nobody wants to know that it leads.
// It implements consensus.Events.
type consensusEvents struct{ c *Coordinator }

func (e consensusEvents) Event(name string, fields ...any) {
	c := e.c
	if len(c.members()) > 1 || name != "consensus-founded" && name != "consensus-leader" {
		c.events.Event(name, fields...)
	}
}

// A resolver is a coordinator.Resolver.
type resolver struct{ *dns.Resolver }

func (r resolver) Exists(ctx context.Context, host string) bool {
	_, err := r.Lookup(ctx, host)
	return err == nil
}

// openResolver returns nil if hosts are not checked.
func (c *Coordinator) openResolver() (coordinator.Resolver, error) {
	if c.cfg.Unchecked {
		return nil, nil
	}
	cfg := c.cfg.DNS
	cfg.IPv6, cfg.Clock = true, c.cfg.Clock
	r, err := dns.New(cfg)
	if err != nil {
		return nil, input.SettingError(err)
	}
	c.onClose(r.Close)
	return resolver{r}, nil
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
				stop(&failure{err})
			}
		})
	}
	run(c.server.Run)
	run(c.logic.Run)
	run(c.events.run)
	run(c.watch)
	run(c.nameMembers)
	wg.Wait()
	failure, _ := errors.AsType[*failure](context.Cause(ctx))
	if failure == nil {
		c.events.Event("coordinator-stopped")
		return nil
	}
	c.events.Event("coordinator-stopped", "cause", failure.err.Error())
	return failure.err
}

// A failure is the error of a part of a coordinator.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }

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

// Close closes the directory and the port. It waits for everything that Open has begun.
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
