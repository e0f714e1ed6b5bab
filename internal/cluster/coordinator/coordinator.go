package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

const (
	// maxWait bounds Follow.Wait.
	maxWait = time.Second
	// busyFor is when an agent asks again whose hosts find no room.
	busyFor = time.Second
	// decideEvery is how often the leader decides who belongs to the roster.
	decideEvery = 250 * time.Millisecond
	// retryEvery is the pause after a command that failed.
	retryEvery = 100 * time.Millisecond
	// awayAfter is how long the leader has not heard of an agent that gets no new hosts.
	awayAfter = 3 * time.Second
	// joinTime is how long new hosts wait for an agent that is joining.
	joinTime = 5 * time.Second
	// stale is how old the arrival of a Follow may be when it is answered.
	stale = 3 * time.Second
	// maxLoad bounds the hosts and URLs that an agent reports, and maxUnit the URLs that a host counts as, so that
	// sums fit into 64 bits.
	maxLoad = 1 << 40
	maxUnit = 1 << 20
)

// Events receives what a person may want to know. It is not consensus.Events, because the two do not import each other.
type Events interface {
	// Event notes an event with pairs of names and values. It must not block. Safe for concurrent use.
	Event(name string, fields ...any)
}

type silent struct{}

func (silent) Event(string, ...any) {}

// A Resolver looks hosts up. Safe for concurrent use.
type Resolver interface {
	// Exists reports whether a host has an address. It ends when ctx does. If it cannot tell, it returns false: the
	// host is looked up again.
	Exists(ctx context.Context, host string) bool
}

// Config configures a Coordinator. Only Machine and Log have no default.
type Config struct {
	Machine  *Machine
	Log      Log
	Resolver Resolver // nil: all hosts exist
	// LeastLoaded gives new hosts to the agents with the fewest waiting URLs for their capacity. Otherwise the agents
	// take turns by capacity. The leader's value counts.
	LeastLoaded bool

	// Lookups bounds the look-ups that run at once, and LookupTime each of them. Zero means 256 and 15 s.
	Lookups    int
	LookupTime time.Duration
	// DeadFor is how long a host without an address is not looked up again. Zero means a minute.
	DeadFor time.Duration
	// MaxPending bounds the hosts that wait for their look-up or assignment, at about 300 bytes each, and MaxDead the
	// hosts that are remembered as dead. Zero means 262,144.
	MaxPending, MaxDead int
	// Gather is how long the leader gathers hosts for one command. Zero means 100 ms.
	Gather time.Duration
	// LostAfter is how long an agent must be silent before it counts as lost. Zero means 9 s. Agents may start visits
	// for 6 s without an answer: see the package comment for what the difference covers.
	LostAfter time.Duration
	Events    Events // nil drops them
}

// fresh is how old an agent's report may be for a decision.
const fresh = 2 * time.Second

func (c Config) withDefaults() Config {
	set := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	last := func(p *time.Duration, v time.Duration) {
		if *p <= 0 {
			*p = v
		}
	}
	set(&c.Lookups, 256)
	set(&c.MaxPending, 1<<18)
	set(&c.MaxDead, 1<<18)
	last(&c.LookupTime, 15*time.Second)
	last(&c.DeadFor, time.Minute)
	last(&c.Gather, 100*time.Millisecond)
	last(&c.LostAfter, 9*time.Second)
	c.Events = cmp.Or[Events](c.Events, silent{})
	return c
}

// A Coordinator answers agents while its Log says that it leads. Its methods are safe for concurrent use.
type Coordinator struct {
	cfg        Config
	leadership atomic.Pointer[leadership] // nil: this coordinator does not lead, or is not ready
}

// New returns a Coordinator. It answers only while Run runs.
func New(cfg Config) *Coordinator { return &Coordinator{cfg: cfg.withDefaults()} }

// Run works until ctx ends, or until the Machine fails: then it returns the error.
func (c *Coordinator) Run(ctx context.Context) error {
	for {
		if _, self := c.cfg.Log.Leader(); self {
			if err := c.lead(ctx); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if _, self := c.cfg.Log.Leader(); self {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.cfg.Log.Changes():
		case err := <-c.cfg.Machine.Failed():
			return err
		}
	}
}

// A leadership is the time during which a coordinator is the leader, and what it learns during that time.
type leadership struct {
	*Coordinator
	ctx       context.Context // ends with the leadership
	started   time.Time
	number    uint64 // random, at the top of its stamps
	wg        sync.WaitGroup
	discovery *discovery
	questions questions

	mu       sync.Mutex // guards the fields below; not held during I/O
	agents   map[life]*agent
	removing map[string]bool // members that a proposed roster loses
	removed  chan struct{}   // closed when it is known what became of that roster
	votes    map[string]vote
	// forgotten are agents of which a person has said that they do not run.
	forgotten map[life]bool
	claiming  bool
	ahead     bool // an agent has had entries of another log
}

// lead leads until the leader changes.
func (c *Coordinator) lead(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	r := &leadership{Coordinator: c, ctx: ctx, discovery: newDiscovery(&c.cfg), questions: questions{
		wake: make(chan struct{}, 1)}, agents: map[life]*agent{}, votes: map[string]vote{}, forgotten: map[life]bool{}}
	r.wg.Go(func() {
		if !r.begin() {
			return
		}
		r.wg.Go(r.decide)
		r.wg.Go(r.assign)
		r.wg.Go(func() { r.questions.answer(r.ctx, c.cfg.Machine.check) })
	})
	select {
	case <-ctx.Done():
	case <-c.cfg.Log.Changes(): // another coordinator may have led in between
	case err = <-c.cfg.Machine.Failed():
	}
	cancel()
	r.discovery.end() // from here on no look-up starts
	r.wg.Wait()
	c.leadership.Store(nil)
	return err
}

// begin waits until all that earlier leaders have committed is applied. It returns false if the leadership ends before.
func (r *leadership) begin() bool {
	for r.propose([]byte{cmdNothing}) != nil {
		if !r.pause(retryEvery) {
			return false
		}
	}
	r.started, r.number = time.Now(), rand.Uint64()>>stampBits<<stampBits
	r.leadership.Store(r)
	hosts, _ := r.cfg.Machine.counts()
	r.cfg.Events.Event("coordinator-leads", "hosts", hosts)
	return true
}

// stampBits are the bits of a stamp for the milliseconds since the leadership began, which are enough for 34 years.
const stampBits = 40

// stamp returns what identifies a time of this leadership.
func (r *leadership) stamp(now time.Time) uint64 {
	return r.number | uint64(now.Sub(r.started).Milliseconds())
}

// stamped returns the time of a stamp, or zero if it is not of this leadership or of a time to come.
func (r *leadership) stamped(stamp uint64, now time.Time) time.Time {
	at := r.started.Add(time.Duration(stamp&(1<<stampBits-1)) * time.Millisecond)
	if stamp>>stampBits<<stampBits != r.number || at.After(now) {
		return time.Time{}
	}
	return at
}

// propose returns the result of a command, or the error of the Log.
func (r *leadership) propose(command []byte) error {
	result, err := r.cfg.Log.Propose(r.ctx, command)
	if err != nil {
		return err
	}
	err, _ = result.(error)
	return err
}

// pause waits. It returns false if the leadership ends before.
func (r *leadership) pause(d time.Duration) bool { return clock.Pause(r.ctx, d) }

// current returns the leadership of this coordinator, or an rpc.NotLeader.
func (c *Coordinator) current() (*leadership, error) {
	r := c.leadership.Load()
	addr, self := c.cfg.Log.Leader()
	if r == nil || !self || r.ctx.Err() != nil {
		if self {
			addr = "" // this one, but it is not ready
		}
		return nil, &rpc.NotLeader{Leader: addr}
	}
	return r, nil
}

// over replaces the error of a call during which the leadership ended.
func (r *leadership) over(err error) error {
	if _, gone := r.current(); gone != nil && !errors.As(err, new(*rpc.Refusal)) {
		return gone
	}
	if errors.Is(err, errStale) {
		return rpc.ErrAgain
	}
	return err
}

// Discover tells the coordinators of hosts whose agent the caller does not know. There is one answer for each host, in
// their order. how says how new ones are assigned. The error is an rpc.NotLeader,
// an rpc.Refusal, an rpc.ErrAgain, or that of ctx.
func (c *Coordinator) Discover(ctx context.Context, from rpc.Caller, hosts []string, how assignment.How) (
	[]HostAnswer, error) {
	r, err := c.current()
	if err != nil {
		return nil, err
	}
	roster := c.cfg.Machine.Roster()
	if m, ok := roster.Member(from.Name); !ok || m.Instance != from.Instance {
		return nil, refuse("member", "agent %q is not in the crawl's roster", from.Name)
	}
	if roster.Ended {
		return nil, refuse("member", "the crawl has ended")
	}
	if len(hosts) > assignment.MaxHosts {
		return nil, refuse("report", "agent %q asks for %d hosts, at most %d", from.Name, len(hosts),
			assignment.MaxHosts)
	}
	answers, now := make([]HostAnswer, len(hosts)), time.Now()
	var ask []string
	var of []int
	for i, h := range hosts {
		if err := assignment.CheckHost(h); err != nil {
			return nil, refuse("report", "agent %q asks for a host: %v", from.Name, err)
		}
		a, ok := r.discovery.known(h, now)
		if answers[i] = a; !ok {
			ask, of = append(ask, h), append(of, i)
		}
	}
	if len(ask) == 0 {
		return answers, nil
	}
	numbers, err := r.questions.ask(ctx, r.ctx, ask)
	if err != nil {
		return nil, r.over(err)
	}
	now = time.Now()
	for j, i := range of {
		if numbers[j] > 0 {
			answers[i] = HostAnswer{State: HostAssigned}
		} else {
			answers[i] = r.discovery.add(r.ctx, &r.wg, from.Name, ask[j], how, len(roster.Members), now)
		}
	}
	return answers, nil
}

// assign turns hosts that are ready into commands, until the leadership ends. One command is on its way at a time.
func (r *leadership) assign() {
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-r.discovery.isReady:
		}
		if !r.pause(r.cfg.Gather) {
			return
		}
		for {
			hosts, to, all := r.discovery.batch()
			if len(hosts) == 0 {
				break
			}
			if !r.someUp() || !r.allJoined() {
				return
			}
			err := r.propose(encodeAssign(r.loadsFor(to), hosts))
			if errors.Is(err, errEnded) {
				return
			}
			if err != nil {
				if !r.pause(retryEvery) {
					return
				}
				continue
			}
			if r.discovery.done(hosts); all {
				break
			}
		}
	}
}

// someUp waits until an agent is up. It returns false if the leadership ends before.
func (r *leadership) someUp() bool {
	up := func(m assignment.Member) bool { return m.State == assignment.Up }
	for {
		more := r.cfg.Machine.changes()
		if slices.ContainsFunc(r.cfg.Machine.Roster().Members, up) {
			return true
		}
		select {
		case <-more:
		case <-r.ctx.Done():
			return false
		}
	}
}

// allJoined waits for agents that are joining, at most joinTime for each. Agents that start together report themselves
// one after the other. Without the wait, the first one would get all hosts of a small web. It returns false if the
// leadership ends before.
func (r *leadership) allJoined() bool {
	for r.someJoin(time.Now()) {
		if !r.pause(decideEvery) {
			return false
		}
	}
	return true
}

func (r *leadership) someJoin(now time.Time) bool {
	roster := r.cfg.Machine.Roster()
	r.mu.Lock()
	defer r.mu.Unlock()
	for l, a := range r.agents {
		m, ok := roster.Member(l.name)
		in := ok && lifeOf(m) == l
		if !in && a.State <= assignment.Up && now.Sub(a.at) < fresh && now.Sub(a.first) < joinTime {
			return true
		}
	}
	return false
}

// loadsFor returns the head of the next assign command. If to is not empty, its hosts go to that agent if it is up:
// all others count as away.
func (r *leadership) loadsFor(to string) (a assign) {
	if to == "" {
		return r.loads()
	}
	for _, m := range r.cfg.Machine.Roster().Members {
		if m.Name != to {
			a.Away = append(a.Away, m.Name)
		}
	}
	return a
}

// loads returns the head of the next assign command, for any agents.
func (r *leadership) loads() (a assign) {
	_, assigned := r.cfg.Machine.counts()
	roster := r.cfg.Machine.Roster()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := situation{now: time.Now(), started: r.started, agents: r.agents}
	var units []uint64
	for _, m := range roster.Members {
		if m.State != assignment.Up {
			continue
		}
		g := r.agents[lifeOf(m)]
		if s.silence(lifeOf(m)) > awayAfter || r.cfg.LeastLoaded && g == nil {
			a.Away = append(a.Away, m.Name)
		} else if r.cfg.LeastLoaded {
			units = append(units, min(max(1, g.urls/max(1, g.hosts)), maxUnit))
		}
	}
	if len(units) == 0 {
		return a
	}
	// The URLs of hosts that an agent got since its report are not known. Each host counts as much as the mean host
	// that waits at the agent in the middle.
	slices.Sort(units)
	a.Unit, a.Loads = units[(len(units)-1)/2], map[string]uint64{}
	for _, m := range roster.Members {
		if g := r.agents[lifeOf(m)]; g != nil {
			a.Loads[m.Name] = g.urls + a.Unit*(assigned[m.Name]-min(g.assigned, assigned[m.Name]))
		}
	}
	return a
}

// String names a host state in tests and logs.
func (s HostState) String() string {
	switch s {
	case HostAssigned:
		return "assigned"
	case HostComing:
		return "coming"
	case HostDead:
		return "dead"
	}
	return fmt.Sprintf("HostState(%d)", uint8(s))
}
