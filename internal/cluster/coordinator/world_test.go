package coordinator_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/coordinator"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// A world is one coordinator, which is its own log, and agents that follow it. Package sites tests several coordinators
// with agents as they are.
type world struct {
	t       testing.TB
	machine *coordinator.Machine
	c       *coordinator.Coordinator
	changes chan struct{}

	mu    sync.Mutex // guards the fields below
	leads bool
	index uint64
}

// inWorld runs a test in virtual time, with a coordinator that leads.
func inWorld(t *testing.T, cfg coordinator.Config, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		m := must.Get(coordinator.OpenMachine(coordinator.MachineConfig{FS: testdisk.NewMem(), Dir: "coordinator",
			MemoryBytes: 1 << 20}))(t)
		w := &world{t: t, machine: m, changes: make(chan struct{}, 1), leads: true}
		cfg.Machine, cfg.Log = w.machine, w
		w.c = coordinator.New(cfg)
		w.run(func(ctx context.Context) {
			if err := errors.Join(w.c.Run(ctx), m.Close()); err != nil {
				t.Error(err)
			}
		})
		f(t, w)
	})
}

// run runs f until the test ends.
func (w *world) run(f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { f(ctx) })
	w.t.Cleanup(func() { cancel(); wg.Wait() })
}

// resign makes the coordinator another one's follower.
func (w *world) resign() {
	w.mu.Lock()
	w.leads = false
	w.mu.Unlock()
	w.changes <- struct{}{}
}

func (w *world) Leader() (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.leads {
		return "", false
	}
	return "192.0.2.1:7480", true
}

func (w *world) Changes() <-chan struct{} { return w.changes }

func (w *world) Propose(_ context.Context, command []byte) (any, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.leads {
		return nil, errors.New("leadership lost")
	}
	w.index++
	return w.machine.Apply(w.index, command), nil
}

// A peer is an agent that follows the coordinator.
type peer struct {
	w    *world
	self rpc.Caller

	mu      sync.Mutex // guards the fields below
	report  coordinator.Report
	away    bool                 // it does not reach the coordinator
	silent  map[string]time.Time // agents that it does not hear, and since when; it hears all others
	entries []assignment.Entry   // that it has read
	member  bool                 // what the last answer said
	late    bool                 // its reports are on their way for long
}

// start starts an agent.
func (w *world) start(name string, state assignment.State) *peer {
	p := &peer{w: w, self: rpc.Caller{Name: name, Instance: [16]byte{name[0]}, Boot: 1},
		silent: map[string]time.Time{}}
	p.report = coordinator.Report{Capacity: 1, Addr: "192.0.2.9:7470", State: state,
		Settings: map[string]string{"partition": "sites"}}
	w.run(p.follow)
	return p
}

// follow asks the coordinator, and reports that no other agent is silent except those of p.silent.
func (p *peer) follow(ctx context.Context) {
	stamp, term := uint64(0), uint64(0)
	for ctx.Err() == nil {
		f, away := coordinator.Follow{From: uint64(len(p.all())) + 1, Wait: time.Second, Stamp: stamp}, false
		p.set(func() {
			f.Report, away = p.report, p.away
			f.Report.Term, f.Report.Heard = term, map[string]time.Duration{}
			for _, name := range []string{"a", "b", "c"} {
				if since, ok := p.silent[name]; ok {
					f.Report.Heard[name] = time.Since(since)
				} else {
					f.Report.Heard[name] = 0
				}
			}
		})
		if away {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		answer, err := p.w.c.Follow(ctx, p.self, f)
		if err != nil {
			if refused(err) {
				p.w.t.Errorf("agent %s: %v", p.self.Name, err)
			}
			time.Sleep(100 * time.Millisecond)
			continue
		}
		term = answer.Term
		p.set(func() {
			if p.member = answer.Member; !p.late {
				stamp = answer.Stamp
			}
		})
		for data := answer.Entries; len(data) > 0; {
			e, rest, err := assignment.Decode(data)
			if err != nil {
				p.w.t.Error(err)
				return
			}
			data = rest
			p.set(func() { p.entries = append(p.entries, e) })
		}
	}
}

// discover asks the coordinator until no host is coming. It returns the last answers.
func (p *peer) discover(hosts ...string) []coordinator.HostAnswer {
	p.w.t.Helper()
	return p.keep(0, hosts...)
}

// keep is discover, and says how the hosts are to be assigned.
func (p *peer) keep(how assignment.How, hosts ...string) []coordinator.HostAnswer {
	p.w.t.Helper()
	for {
		as, err := p.w.c.Discover(p.w.t.Context(), p.self, hosts, how)
		if err != nil {
			p.w.t.Fatal(err)
		}
		if !slices.ContainsFunc(as, func(a coordinator.HostAnswer) bool { return a.State == coordinator.HostComing }) {
			return as
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func refused(err error) bool { return errors.As(err, new(*rpc.Refusal)) }

// set changes the agent.
func (p *peer) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// connect connects the agent to the coordinator, or cuts it off.
func (p *peer) connect(on bool) { p.set(func() { p.away = !on }) }

// isMember reports whether the last answer gave the agent the right to start visits.
func (p *peer) isMember() (member bool) {
	p.set(func() { member = p.member })
	return member
}

// all returns the entries that the agent has read.
func (p *peer) all() (es []assignment.Entry) {
	p.set(func() { es = slices.Clone(p.entries) })
	return es
}

// ended reports whether the agent has read that the crawl has ended.
func (p *peer) ended() bool {
	return slices.ContainsFunc(p.all(), func(e assignment.Entry) bool { return e.Roster != nil && e.Roster.Ended })
}
