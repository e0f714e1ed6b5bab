package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/coordination"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// A coordinator is a coordinator of a story, with its machine and its disk. A story may kill it and start it again.
// It implements consensus.Events.
type coordinator struct {
	s      *story
	number int // from 1
	name   string
	addr   netip.AddrPort
	mem    *testdisk.Mem
	faulty *testdisk.Faulty
	run    *coordinating // nil: not started yet
}

// A coordinating is one run of a coordinator.
type coordinating struct {
	machine *simnet.Machine
	cancel  context.CancelFunc
	done    chan struct{} // closed at the end
	full    atomic.Bool   // its disk is full

	mu   sync.Mutex                // guards open
	open *coordination.Coordinator // nil: not open

	err    error // set when done is closed
	killed bool  // a fault killed it: its result does not matter
}

const (
	coordinatorDir = "/coordinator"
	// coordinatorMachine is the number of the first coordinator's machine: behind those of all agents. So a cut leaves
	// the coordinators with the agents of larger numbers.
	coordinatorMachine = mostAgents + 1
	// mostCoordinators bounds the coordinators of a story.
	mostCoordinators = 5
)

// coordinatorAddr returns the address of the coordinator with a number.
func coordinatorAddr(number int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, byte(number)}), 7490)
}

// addCoordinators adds the coordinators of the plan, and returns their names.
func (s *story) addCoordinators() (names []string) {
	for i := range s.plan.Coordinators {
		c := &coordinator{s: s, number: i + 1, name: fmt.Sprintf("c%d", i+1), addr: coordinatorAddr(i + 1)}
		s.coordinators = append(s.coordinators, c)
		names = append(names, c.name)
	}
	return names
}

// coordinatorAddrs returns the addresses of all coordinators.
func (s *story) coordinatorAddrs() (addrs []string) {
	for _, c := range s.coordinators {
		addrs = append(addrs, c.addr.String())
	}
	return addrs
}

// newDisk gives the coordinator an empty disk with its keys.
func (c *coordinator) newDisk() { c.setDisk(c.s.keys[c.name].Clone()) }

func (c *coordinator) setDisk(mem *testdisk.Mem) { c.mem, c.faulty = mem, testdisk.NewFaulty(mem, nil) }

func (c *coordinator) Event(name string, fields ...any) { c.s.log("%s: %s %v", c.name, name, fields) }

// start starts the coordinator's process.
func (c *coordinator) start() {
	c.faulty.Heal()
	s, p := c.s, &coordinating{done: make(chan struct{})}
	p.machine = s.net.Machine(coordinatorMachine+c.number-1, c.addr.Addr())
	c.run = p
	cfg := coordination.Config{
		Dir: coordinatorDir, FS: c.faulty, Listen: c.addr.String(), Members: s.coordinatorAddrs(), Keys: keysDir,
		Network: p.machine, LogBytes: 32 << 10, // so that there are snapshots
		Events: c,
	}
	if s.plan.Seed%2 == 0 {
		cfg.Assign = coordination.AssignLeastLoaded
	}
	cfg.DNS.HostsFile, cfg.DNS.Servers = "-", []string{"192.0.2.1"}
	cfg.DNS.Dial = func(context.Context, string, string) (net.Conn, error) { return s.web.dialDNS(p.machine) }
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	s.log("%s starts", c.name)
	s.running.Go(func() {
		defer close(p.done)
		open, err := coordination.Open(cfg)
		if err == nil {
			p.mu.Lock()
			p.open = open
			p.mu.Unlock()
			err = errors.Join(open.Run(ctx), open.Close())
		}
		p.err = err
		cancel()
		if !p.killed {
			s.log("%s ends: %v", c.name, err)
			p.machine.Kill()
		}
	})
}

// leads reports whether the coordinator leads, as far as it knows.
func (c *coordinator) leads() bool {
	if !c.lives() {
		return false
	}
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	return c.run.open != nil && c.run.open.Leads()
}

// lives reports whether the coordinator has a process that has not ended.
func (c *coordinator) lives() bool {
	if c.run == nil || c.run.killed {
		return false
	}
	select {
	case <-c.run.done:
		return false
	default:
		return true
	}
}

// kill ends the process at once. Its disk keeps everything that was written.
func (c *coordinator) kill() { c.end(c.mem.Clone(), (*simnet.Machine).Kill) }

// power cuts the machine's power: what was not synced may be lost.
func (c *coordinator) power(seed uint64) { c.end(c.mem.Crash(seed), (*simnet.Machine).Vanish) }

// end ends the process. left is the disk that remains.
func (c *coordinator) end(left *testdisk.Mem, off func(*simnet.Machine)) {
	p := c.run
	p.killed = true
	c.faulty.Break(func(testdisk.Call) testdisk.Fault { return testdisk.Fault{Err: errGone} })
	off(p.machine)
	p.cancel()
	c.setDisk(left)
}

// fill fills the disk.
func (c *coordinator) fill() {
	run, full := c.run, testdisk.FullAfter(200)
	c.faulty.Break(func(call testdisk.Call) testdisk.Fault {
		f := full(call)
		if f.Err != nil {
			run.full.Store(true)
		}
		return f
	})
}

// leader returns the coordinator that leads, or nil.
func (s *story) leader() *coordinator {
	for _, c := range s.coordinators {
		if c.leads() {
			return c
		}
	}
	return nil
}

// stopCoordinators stops the coordinators when the agents have ended, and returns what is wrong with their ends.
func (s *story) stopCoordinators() (wrong []string) {
	for _, c := range s.coordinators {
		if c.run == nil || c.run.killed {
			continue
		}
		early := !c.lives()
		c.run.cancel()
		<-c.run.done
		switch full := c.run.full.Load(); {
		case full && !disk.IsFull(c.run.err):
			wrong = append(wrong, fmt.Sprintf("%s: ended with %v, and its disk is full", c.name, c.run.err))
		case !full && (early || c.run.err != nil):
			wrong = append(wrong, fmt.Sprintf("%s: ended early (%t) with %v", c.name, early, c.run.err))
		}
	}
	return wrong
}

// The kinds of faults of coordinators. Fault.Agent is the number of the coordinator, unless the kind needs none.
const (
	// KillLeader kills the coordinator that leads. It starts again after For.
	KillLeader Kind = "kill leader"
	// KillCoordinator kills a coordinator. It starts again after For.
	KillCoordinator Kind = "kill coordinator"
	// PowerCoordinator cuts the power of a coordinator's machine. It starts again after For.
	PowerCoordinator Kind = "power coordinator"
	// LoseCoordinator kills a coordinator, and removes all files but its keys. It starts again after For. No random
	// plan has it: without a majority of the others, what the coordinators know is lost.
	LoseCoordinator Kind = "lose coordinator"
	// FullCoordinator fills the disk of a coordinator, which stops. After For there is room, and it starts again.
	FullCoordinator Kind = "full coordinator"
	// NoCoordinators kills all coordinators. They start again after For.
	NoCoordinators Kind = "no coordinators"
	// CutCoordinator separates a coordinator from everything for For.
	CutCoordinator Kind = "cut coordinator"
	// Blind separates an agent, and those with smaller numbers, from the coordinators for For.
	Blind Kind = "blind"
)

// ofCoordinators lists the kinds of faults that need coordinators. Those with true name one of them.
var ofCoordinators = map[Kind]bool{KillLeader: false, KillCoordinator: true, PowerCoordinator: true,
	LoseCoordinator: true, FullCoordinator: true, NoCoordinators: false, CutCoordinator: true, Blind: false}

// notices returns how long the agents may take to continue with the hosts of one that went down. Without coordinators,
// they wait for these.
func (s *story) notices() time.Duration { return noticedAfter + s.uncoordinated }

// unsafe returns how much longer than others a page may wait until it is finished: links to new hosts wait at their
// finder until the coordinators have assigned these.
func (s *story) unsafe() (d time.Duration) {
	if s.plan.Partition != sites {
		return 0
	}
	d = assignedWithin
	for _, e := range s.unassigned {
		if since := time.Since(e.from); time.Now().Before(e.to.Add(backAfter)) {
			d = max(d, since+lostRepeats)
		}
	}
	return d
}

// ownerOrders returns the orders in which the actors may own a host. With coordinators, the agent that they have
// chosen is the first, and the order of the others is that of their hashes. The judge does not ask the coordinators:
// the chosen agent is among those that have asked the host for something. It may be any agent if none has.
func (s *story) ownerOrders(host int) (all [][]int) {
	order := s.rank()[host]
	if s.plan.Partition != sites {
		return [][]int{order}
	}
	first := s.judge.visitors(int64(host))
	if len(first) == 0 {
		first = order
	}
	for _, n := range first {
		rest := slices.DeleteFunc(slices.Clone(order), func(o int) bool { return o == n })
		all = append(all, append([]int{n}, rest...))
	}
	return all
}

// isRefused reports whether the actor was told that the coordinators had ended the crawl, and could be: it came late
// for each agent that has ended the crawl, and there is one. The agents of later terms know nothing of the URLs that
// wait on its disk. Agents that came late themselves, and had no URLs, need not be among those that it came late for.
func (a *actor) isRefused() bool {
	if a.run == nil || !a.run.ended() || a.run.killed || a.run.err == nil ||
		!strings.Contains(a.run.err.Error(), "the coordinators have ended this crawl") {
		return false
	}
	some := false
	for _, o := range a.s.actors {
		switch {
		case o == a || !o.endedCrawl():
		case a.cameLate(o):
			some = true
		case !o.cameLast():
			return false
		}
	}
	return some
}

// cameLast reports whether the actor came late for another one that has ended the crawl.
func (a *actor) cameLast() bool {
	return slices.ContainsFunc(a.s.actors, func(o *actor) bool { return o.endedCrawl() && a.cameLate(o) })
}

// excuseCut excuses the visits that agents cut off because they had lost the right to visit: the request, or the last
// byte of the web, may have been on its way at that instant. Event times are whole milliseconds.
func (s *story) excuseCut() {
	for _, a := range s.actors {
		for line := range bytes.Lines(a.events()) {
			var e struct {
				Event  string
				Time   time.Time
				Visits int
			}
			if json.Unmarshal(line, &e) == nil && e.Event == "right-lost" && e.Visits > 0 {
				from := e.Time.Add(-2*webLatency - time.Millisecond)
				s.judge.excuse(excuse{agent: a.number, from: from, to: e.Time.Add(webLatency + time.Millisecond)})
			}
		}
	}
}

// excuseRefused excuses the links that wait on the disks of agents that came after the end, if no other agent had them:
// links of their hosts, and links for other agents that they could not send. With two replicas, that may be so for the
// hosts of which all other copies were lost, or were at agents that came after the end, too.
func (s *story) excuseRefused() {
	late := map[int]bool{}
	for _, a := range s.actors {
		if a.isRefused() {
			late[a.number] = true
			s.judge.refuse(a.number)
		}
	}
	for _, a := range s.actors {
		if !late[a.number] {
			continue
		}
		for host := range s.made.Hosts() {
			if s.plan.Replicas < 2 || s.judge.lostAt(host, a.down) || s.copiesAt(int(host), late) {
				s.judge.lost(host, loss{at: a.run.at, links: start})
			}
		}
	}
}

// copiesAt reports whether some agents may have had all copies of what is known of a host, in any order of owners that
// the host may have.
func (s *story) copiesAt(host int, agents map[int]bool) bool {
	return slices.ContainsFunc(s.ownerOrders(host), func(order []int) bool {
		order = slices.DeleteFunc(slices.Clone(order), func(n int) bool { return s.actors[n-1].run == nil })
		return !slices.ContainsFunc(order[:min(s.plan.Replicas, len(order))], func(n int) bool { return !agents[n] })
	})
}

// refuse notes that an agent came after the end.
func (j *judge) refuse(agent int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.refused == nil {
		j.refused = map[int]bool{}
	}
	j.refused[agent] = true
}

// lostAt reports whether a fault at a time may have lost a host.
func (j *judge) lostAt(host int64, at time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.losses[host], func(l loss) bool { return l.at.Equal(at) })
}

// visitors returns the agents that have sent requests to a host.
func (j *judge) visitors(host int64) (all []int) {
	name, _ := j.made.Name(host)
	j.mu.Lock()
	defer j.mu.Unlock()
	if g := j.groups[byHost][name]; g != nil {
		for _, r := range g.by {
			all = append(all, r.agent)
		}
	}
	return all
}

const (
	// electedAfter bounds the time until a new leader answers the agents.
	electedAfter = 10 * time.Second
	// startsIn bounds the time until a coordinator that starts again takes part.
	startsIn = 5 * time.Second
	// assignedWithin bounds the time from the first link to a host until its owner can have the link: two gatherings of
	// 100 ms, a look-up, a commit, and an entry to read.
	assignedWithin = time.Second
)

// silentFor is how long an agent must be silent until the operator of a story tells the coordinators that it is gone.
const silentFor = time.Minute

// operate does what docs/cluster-modes.md asks of an operator, until the agents have ended: if the coordinators believe
// that an agent is up whose machine is lost or off, the operator tells them that it does not run.
func (s *story) operate() {
	for !s.isOver() {
		time.Sleep(5 * time.Second)
		for _, a := range s.actors {
			if c := s.leaderFor(a); c != nil {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				err := c.Forget(ctx, a.name)
				cancel()
				s.log("the operator says that %s does not run: %v", a.name, err)
			}
		}
	}
}

// leaderFor returns the leader if it believes that the actor is up, which has not run for silentFor.
func (s *story) leaderFor(a *actor) *coordination.Coordinator {
	s.stage.Lock()
	defer s.stage.Unlock()
	leader := s.leader()
	if leader == nil || a.run == nil || a.lives() || a.down.IsZero() || time.Since(a.down) < silentFor {
		return nil
	}
	leader.run.mu.Lock()
	open := leader.run.open
	leader.run.mu.Unlock()
	for _, is := range open.Status().Agents {
		silent := time.Duration(is.HeardMS) * time.Millisecond
		if is.Name == a.name && is.State == "up" && (silent == 0 || silent > silentFor) {
			s.bad = append(s.bad, excuse{from: a.down, to: time.Now().Add(replicatedAfter)})
			return open
		}
	}
	return nil
}

// areWaiting notes the agents that have nothing to do because no coordinator runs, and do not say so in their status.
// The caller holds stage.
func (s *story) areWaiting() {
	last, _ := s.judge.lastPage()
	if time.Since(last) < stallBound {
		return
	}
	for _, a := range s.actors {
		if !a.lives() || a.run.open() == nil {
			continue
		}
		if st := a.run.open().Status(); st != nil && !strings.Contains(st.WaitsFor, "coordinator") {
			s.silent = append(s.silent, fmt.Sprintf("%s: no coordinator runs, and its status says that it waits for %q",
				a.name, st.WaitsFor))
		}
	}
}

// strikeCoordinators makes a fault of coordinators happen. It returns false if the coordinator does not run. The caller
// holds stage.
func (s *story) strikeCoordinators(f Fault) bool {
	now := time.Now()
	hit := s.coordinators
	switch {
	case f.Kind == KillLeader:
		hit = nil
		if leader := s.leader(); leader != nil {
			hit = append(hit, leader)
		}
	case ofCoordinators[f.Kind]:
		hit = s.coordinators[f.Agent-1 : f.Agent]
	}
	some := false
	for _, c := range hit {
		some = some || c.lives()
	}
	if !some {
		s.log("no such coordinator runs")
		return false
	}
	trouble := excuse{from: now, to: now.Add(f.For + startsIn + electedAfter)}
	s.bad, s.unassigned = append(s.bad, trouble), append(s.unassigned, trouble)
	s.uncoordinated += f.For + startsIn + electedAfter
	if f.Kind == NoCoordinators && f.For >= time.Minute {
		s.later(f.For-time.Second, s.areWaiting)
	}
	switch f.Kind {
	case Blind:
		s.overlay(f.For, func(from, to int, p simnet.Path) simnet.Path {
			blind := func(n int) bool { return n > 0 && n <= f.Agent }
			if blind(from) && to >= coordinatorMachine || blind(to) && from >= coordinatorMachine {
				p.Cut = true
			}
			return p
		})
		return true
	case CutCoordinator:
		n := coordinatorMachine + f.Agent - 1
		s.overlay(f.For, func(from, to int, p simnet.Path) simnet.Path {
			p.Cut = p.Cut || from == n || to == n
			return p
		})
		return true
	}
	for _, c := range hit {
		if !c.lives() {
			continue
		}
		run := c.run
		switch f.Kind {
		case FullCoordinator:
			c.fill()
			s.later(f.For, func() {
				if c.run != run {
					return
				}
				if c.faulty.Heal(); !c.lives() {
					c.start()
				} // it wrote so little that it did not notice
			})
			continue
		case PowerCoordinator:
			c.power(s.plan.Seed + uint64(now.Sub(start)))
		case LoseCoordinator:
			c.kill()
			c.newDisk()
		default:
			c.kill()
		}
		s.later(f.For, func() {
			if c.run == run {
				c.start()
			}
		})
	}
	return true
}
