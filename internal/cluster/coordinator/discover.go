package coordinator

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/wake"
)

// A discovery is what the leader knows of hosts that have no agent yet. It is in RAM: a new leader begins empty, and
// the agents ask again.
//
//	Discover -> table: known -> assigned
//	         -> pending: look-up -> exists -> ready -> assign command -> forgotten here
//	                             -> dead, for a time
//
// Each member has a queue of its own, and look-ups take turns between the queues. A member may have an equal share of
// the pending hosts. So one that asks for hosts without end only delays its own.
type discovery struct {
	cfg *Config

	mu      sync.Mutex // guards the fields below; not held during I/O
	pending map[string]*lookup
	queues  map[string]*queue // by member; none is empty
	turns   []*queue          // the same, in the order of their turns
	mine    map[string]int    // pending hosts by member
	running int
	ready   []*lookup
	isReady chan struct{} // receives a value when ready is no longer empty

	// dead has the hosts whose last look-up found no address, and until when they are not looked up again. deadByTime
	// has the same in the order of time, and hosts that are no longer in dead.
	dead       map[string]time.Time
	deadByTime []deadHost

	lookups, deaths uint64
}

// A lookup is a host that is looked up, or waits for that, or is ready to be assigned.
type lookup struct {
	host, member string
	kept         bool // for the member; otherwise for any agent
	again        bool // its last look-up found no address
}

type queue struct {
	member string
	hosts  []*lookup
}

type deadHost struct {
	host  string
	until time.Time
}

// remembered is how many times as long as a host counts as dead it is remembered that it was.
const remembered = 10

func newDiscovery(cfg *Config) *discovery {
	return &discovery{cfg: cfg, pending: map[string]*lookup{}, queues: map[string]*queue{}, mine: map[string]int{},
		isReady: make(chan struct{}, 1), dead: map[string]time.Time{}}
}

// known answers for a host that is pending or dead.
func (d *discovery) known(host string, now time.Time) (HostAnswer, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.knownLocked(host, now)
}

func (d *discovery) knownLocked(host string, now time.Time) (HostAnswer, bool) {
	if d.pending[host] != nil {
		return HostAnswer{State: HostComing}, true
	}
	if until := d.dead[host]; now.Before(until) {
		return HostAnswer{HostDead, until.Sub(now)}, true
	}
	return HostAnswer{}, false
}

// add takes a host that is not in the table. members is how many share the room.
func (d *discovery) add(ctx context.Context, wg *sync.WaitGroup, member, host string, how assignment.How,
	members int, now time.Time) HostAnswer {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a, ok := d.knownLocked(host, now); ok {
		return a
	}
	if len(d.pending) >= d.cfg.MaxPending || d.mine[member] >= d.cfg.MaxPending/max(1, members) {
		return HostAnswer{HostDead, busyFor}
	}
	_, again := d.dead[host]
	l := &lookup{host: host, member: member, kept: how == assignment.Kept, again: again}
	d.pending[host] = l
	d.mine[member]++
	if how != assignment.LookedUp || d.cfg.Resolver == nil {
		d.makeReady(l)
		return HostAnswer{State: HostComing}
	}
	q := d.queues[member]
	if q == nil {
		q = &queue{member: member}
		d.queues[member] = q
		d.turns = append(d.turns, q)
	}
	q.hosts = append(q.hosts, l)
	d.start(ctx, wg)
	return HostAnswer{State: HostComing}
}

// start starts look-ups, as many as may run at once. The caller holds mu.
func (d *discovery) start(ctx context.Context, wg *sync.WaitGroup) {
	for d.running < d.cfg.Lookups && len(d.turns) > 0 && ctx.Err() == nil {
		q := d.turns[0]
		l := q.hosts[0]
		q.hosts[0], q.hosts = nil, q.hosts[1:]
		d.turns = d.turns[1:]
		if len(q.hosts) > 0 {
			d.turns = append(d.turns, q)
		} else {
			delete(d.queues, q.member)
		}
		d.running++
		d.lookups++
		wg.Go(func() {
			c, cancel := context.WithTimeout(ctx, d.cfg.LookupTime)
			exists := d.cfg.Resolver.Exists(c, l.host)
			cancel()
			d.looked(ctx, wg, l, exists, time.Now())
		})
	}
}

// end waits for calls of start that have not seen the end of ctx.
func (d *discovery) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turns, d.queues = nil, map[string]*queue{}
}

// looked takes the result of a look-up. A host that is dead twice in a row is ready all the same: its owner's
// look-ups, retries and logs then end its URLs. So is one for which the memory of the dead has no room.
func (d *discovery) looked(ctx context.Context, wg *sync.WaitGroup, l *lookup, exists bool, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	switch {
	case ctx.Err() != nil:
		return
	case exists || l.again || len(d.deadByTime) >= d.cfg.MaxDead:
		delete(d.dead, l.host)
		d.makeReady(l)
	default:
		d.deaths++
		d.forget(l)
		until := now.Add(d.cfg.DeadFor)
		d.dead[l.host] = until
		d.deadByTime = append(d.deadByTime, deadHost{l.host, until})
	}
	d.start(ctx, wg)
}

// makeReady makes a host wait for an assign command. The caller holds mu.
func (d *discovery) makeReady(l *lookup) {
	d.ready = append(d.ready, l)
	wake.Up(d.isReady)
}

// forget ends a pending host. The caller holds mu.
func (d *discovery) forget(l *lookup) {
	delete(d.pending, l.host)
	if d.mine[l.member]--; d.mine[l.member] == 0 {
		delete(d.mine, l.member)
	}
}

// sweep forgets old look-ups of dead hosts.
func (d *discovery) sweep(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.deadByTime) > 0 && !now.Before(d.deadByTime[0].until.Add((remembered-1)*d.cfg.DeadFor)) {
		g := d.deadByTime[0]
		if d.deadByTime = d.deadByTime[1:]; d.dead[g.host].Equal(g.until) {
			delete(d.dead, g.host)
		}
	}
}

// to returns the agent that a host is for; "": any.
func (l *lookup) to() string {
	if l.kept {
		return l.member
	}
	return ""
}

// batch returns the next hosts to be assigned to the same agent ("": to any), at most as many as fit into an entry.
// They stay pending. all reports that no other host is ready.
func (d *discovery) batch() (hosts []string, to string, all bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	bytes := 0
	for i, l := range d.ready {
		if i == 0 {
			to = l.to()
		}
		if l.to() != to {
			continue
		}
		if bytes += len(l.host) + 1; len(hosts) == assignment.MaxHosts || bytes > assignment.MaxHostBytes {
			break
		}
		hosts = append(hosts, l.host)
	}
	return hosts, to, len(hosts) == len(d.ready)
}

// done forgets ready hosts that are assigned, in the order of batch.
func (d *discovery) done(hosts []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ready = slices.DeleteFunc(d.ready, func(l *lookup) bool {
		if len(hosts) == 0 || l.host != hosts[0] {
			return false
		}
		hosts = hosts[1:]
		d.forget(l)
		return true
	})
}

// counts returns the numbers of hosts that are pending and dead, and of look-ups and those without an address.
func (d *discovery) counts() (pending, dead int, lookups, deaths uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.pending), len(d.dead), d.lookups, d.deaths
}

// A question asks the table for hosts.
type question struct {
	hosts   []string
	numbers []uint64
	err     error
	done    chan struct{}
}

// questions are put to the table together: a pass of the table takes as long for many hosts as for few.
type questions struct {
	mu   sync.Mutex // guards open
	open []*question
	wake chan struct{}
}

// ask returns the numbers of hosts.
func (q *questions) ask(ctx, leading context.Context, hosts []string) ([]uint64, error) {
	one := &question{hosts: hosts, done: make(chan struct{})}
	q.mu.Lock()
	q.open = append(q.open, one)
	q.mu.Unlock()
	wake.Up(q.wake)
	select {
	case <-one.done:
		return one.numbers, one.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-leading.Done():
		return nil, errStale
	}
}

// answer answers questions until ctx ends.
func (q *questions) answer(ctx context.Context, check func(hosts []string) ([]uint64, error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		}
		q.mu.Lock()
		open := q.open
		q.open = nil
		q.mu.Unlock()
		var hosts []string
		for _, one := range open {
			hosts = append(hosts, one.hosts...)
		}
		if len(hosts) == 0 {
			continue
		}
		numbers, err := check(hosts)
		for _, one := range open {
			if one.err = err; err == nil {
				one.numbers, numbers = numbers[:len(one.hosts)], numbers[len(one.hosts):]
			}
			close(one.done)
		}
	}
}
