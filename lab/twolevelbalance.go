package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/coordinator"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// The part balance crawls a generated web in this process. Agents fetch pages in rounds, and the
// real coordinator assigns the hosts that they find. It needs no processes, because only the choice
// of an agent matters.

// The ways to choose the agent of a host.
const (
	wayHash   = "rendezvous"
	wayTurns  = "round-robin"
	wayLoaded = "least-loaded"
)

var balanceWays = []string{wayHash, wayTurns, wayLoaded}

// balanceAgents are the numbers of agents; the quick run has the first two.
var balanceAgents = []int{2, 7, 16, 31}

// balanceRound is the number of pages that an agent fetches before it reports new hosts and its queue.
const balanceRound = 10

// An Evenness says how evenly values are divided among agents.
type Evenness struct {
	// Most is the largest value divided by the mean, Deviation the standard deviation divided by the
	// mean.
	Most      float64 `json:"most_of_mean"`
	Deviation float64 `json:"deviation_of_mean"`
}

func evenness(vs []float64) (e Evenness) {
	mean := average(vs)
	for _, v := range vs {
		e.Most = max(e.Most, v/mean)
		e.Deviation += (v/mean - 1) * (v/mean - 1)
	}
	e.Deviation = math.Sqrt(e.Deviation / float64(len(vs)))
	return e
}

// A BalanceRun is a crawl of one web.
type BalanceRun struct {
	Way    string   `json:"way"`
	Agents int      `json:"agents"`
	Seed   uint64   `json:"seed"`
	Hosts  Evenness `json:"hosts"`
	Pages  Evenness `json:"pages"`
	Bytes  Evenness `json:"bytes"`
	// Time is how long the crawl takes, divided by the time if all agents always had pages to fetch.
	Time float64 `json:"time_of_ideal"`
}

// A balanceWeb is a web with the sums of its hosts.
type balanceWeb struct {
	web   *gen.Web
	name  []string
	bytes []float64 // of all pages of a host, on the line
}

func newBalanceWeb(ctx context.Context, seed uint64, hosts int64) (*balanceWeb, error) {
	w, err := gen.New(plainWeb(seed, hosts))
	if err != nil {
		return nil, err
	}
	b := &balanceWeb{web: w}
	var answer []byte
	for h := range w.Hosts() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		name, _ := w.Name(h)
		sum := 0.0
		for p := range w.Pages(h) {
			answer, _ = w.Answer(answer[:0], testweb.Query{Host: h, Target: w.Target(h, p), Gzip: true})
			sum += float64(len(answer))
		}
		b.name, b.bytes = append(b.name, name), append(b.bytes, sum)
	}
	return b, nil
}

// balance crawls all webs in all ways.
func (x *TwoLevel) balance(ctx context.Context, t *Trial) (runs []BalanceRun, err error) {
	sizes := balanceAgents
	if t.Quick {
		sizes = sizes[:2]
	}
	for s := range x.Seeds {
		seed := t.Seed + uint64(s)
		w, err := newBalanceWeb(ctx, seed, x.Hosts)
		if err != nil {
			return nil, err
		}
		for _, n := range sizes {
			done := t.step("balance of %d agents, web %d", n, s+1)
			var said string
			for _, way := range balanceWays {
				r, err := w.crawl(ctx, t, way, n)
				if err != nil {
					return nil, fmt.Errorf("%s, %d agents: %w", way, n, err)
				}
				r.Seed = seed
				runs = append(runs, r)
				said += fmt.Sprintf("%s %.2f  ", way, r.Pages.Most)
			}
			done("%s", said)
		}
	}
	return runs, nil
}

// An assigner chooses the agents of hosts. found has the hosts that each agent has found in a round,
// queues the waiting pages of each agent by host. It returns the agent of each found host.
type assigner func(found [][]int64, queues [][]balanceQueue) (map[int64]int, error)

// A balanceQueue is a host with pages that wait.
type balanceQueue struct {
	host  int64
	pages []int64
}

// crawl crawls the web with n agents.
func (w *balanceWeb) crawl(ctx context.Context, t *Trial, way string, n int) (r BalanceRun, err error) {
	assign, end, err := w.assigner(ctx, t, way, n)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, end()) }()
	owner := map[int64]int{}
	waiting := map[int64][]int64{} // pages of hosts without an owner
	seen := map[[2]int64]bool{{0, 0}: true}
	found := make([][]int64, n)
	queues := make([][]balanceQueue, n)
	at := make([]map[int64]int, n) // index in queues by host
	for i := range at {
		at[i] = map[int64]int{}
	}
	add := func(host, page int64) {
		o := owner[host]
		i, ok := at[o][host]
		if !ok {
			i = len(queues[o])
			queues[o], at[o][host] = append(queues[o], balanceQueue{host: host}), i
		}
		queues[o][i].pages = append(queues[o][i].pages, page)
	}
	waiting[0], found[0] = []int64{0}, []int64{0}
	hosts, pages, bytes := make([]float64, n), make([]float64, n), make([]float64, n)
	next := make([]int, n) // queue whose turn it is
	var refs []gen.Ref
	rounds, total := 0, 0.0
	for busy := true; busy; rounds++ {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		assigned, err := assign(found, queues)
		if err != nil {
			return r, err
		}
		for a := range found {
			for _, h := range found[a] {
				owner[h] = assigned[h]
				hosts[owner[h]]++
				bytes[owner[h]] += w.bytes[h]
				for _, p := range waiting[h] {
					add(h, p)
				}
				delete(waiting, h)
			}
			found[a] = found[a][:0]
		}
		busy = false
		for a := range n {
			for range balanceRound {
				via, ok := pop(queues[a], &next[a])
				if !ok {
					break
				}
				busy = true
				pages[a]++
				total++
				refs = w.web.Links(via[0], via[1], refs[:0])
				for _, to := range refs {
					page := [2]int64{to.Host, to.Page}
					if to.Page < 0 || to.Page >= w.web.Pages(to.Host) || seen[page] {
						continue
					}
					seen[page] = true
					if _, ok := owner[to.Host]; ok {
						add(to.Host, to.Page)
						continue
					}
					if waiting[to.Host] == nil {
						found[a] = append(found[a], to.Host)
					}
					waiting[to.Host] = append(waiting[to.Host], to.Page)
				}
			}
		}
	}
	r = BalanceRun{Way: way, Agents: n, Hosts: evenness(hosts), Pages: evenness(pages), Bytes: evenness(bytes)}
	r.Time = float64(rounds-1) / math.Ceil(total/float64(n)/balanceRound)
	return r, nil
}

// pop takes a page of the next host that has one. next is the host's turn.
func pop(queues []balanceQueue, next *int) (page [2]int64, ok bool) {
	for range queues {
		q := &queues[*next%len(queues)]
		*next = (*next + 1) % len(queues)
		if len(q.pages) > 0 {
			page = [2]int64{q.host, q.pages[0]}
			q.pages = q.pages[1:]
			return page, true
		}
	}
	return page, false
}

// assigner returns the way to choose agents. The caller calls end afterwards.
func (w *balanceWeb) assigner(ctx context.Context, t *Trial, way string, n int) (a assigner, end func() error,
	err error) {
	agents := members(t.Seed, 0, n, equal)
	if way == wayHash {
		d, err := placement.NewRendezvous(agents, 0)
		if err != nil {
			return nil, nil, err
		}
		number := map[string]int{}
		for i, a := range d.Agents() {
			number[a.Name] = i
		}
		return func(found [][]int64, _ [][]balanceQueue) (map[int64]int, error) {
			owner := map[int64]int{}
			for _, hs := range found {
				for _, h := range hs {
					owner[h] = number[d.Owner(link.HostKey(w.name[h])).Name]
				}
			}
			return owner, nil
		}, func() error { return nil }, nil
	}
	c, err := startCouncil(ctx, filepath.Join(t.Dir, "coordinator"), agents, way == wayLoaded)
	if err != nil {
		return nil, nil, err
	}
	return func(found [][]int64, queues [][]balanceQueue) (map[int64]int, error) {
		return c.assign(ctx, w, found, queues)
	}, c.end, nil
}

// A council is a coordinator in this process, with its callers.
type council struct {
	c       *coordinator.Coordinator
	machine *coordinator.Machine
	callers []rpc.Caller
	number  map[string]int // of a caller, by name
	owners  map[string]int // of hosts
	last    uint64         // entry that was read
	hosts   uint64         // that were found
	stop    context.CancelFunc
	over    chan error
}

// A soleLog applies each command at once. It is safe for concurrent use.
type soleLog struct {
	machine *coordinator.Machine
	mu      sync.Mutex // guards index, and is held while a command is applied
	index   uint64
}

// Propose implements coordinator.Log.
func (l *soleLog) Propose(ctx context.Context, command []byte) (any, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index++
	return l.machine.Apply(l.index, command), ctx.Err()
}

// Leader implements coordinator.Log.
func (l *soleLog) Leader() (addr string, self bool) { return "127.0.0.1:7490", true }

// Changes implements coordinator.Log: there are none.
func (l *soleLog) Changes() <-chan struct{} { return nil }

// startCouncil starts a coordinator and waits until all agents belong to its roster.
func startCouncil(ctx context.Context, dir string, agents []placement.Owner, leastLoaded bool) (*council, error) {
	m, err := coordinator.OpenMachine(coordinator.MachineConfig{FS: disk.OS, Dir: dir, MemoryBytes: 4 << 20})
	if err != nil {
		return nil, err
	}
	c := &council{machine: m, number: map[string]int{}, owners: map[string]int{}, over: make(chan error, 1)}
	c.c = coordinator.New(coordinator.Config{Machine: m, Log: &soleLog{machine: m}, LeastLoaded: leastLoaded,
		Gather: time.Millisecond})
	ctx, c.stop = context.WithCancel(ctx)
	go func() { c.over <- c.c.Run(ctx) }()
	for i, a := range agents {
		c.callers = append(c.callers, rpc.Caller{Name: a.Name, Instance: [16]byte{1, byte(i), byte(i >> 8)},
			Boot: 1})
		c.number[a.Name] = i
	}
	for all := false; !all; {
		all = true
		for i := range c.callers {
			f, err := c.follow(ctx, i, nil)
			if err != nil {
				return nil, errors.Join(err, c.end())
			}
			c.callers[i].Crawl = f.Crawl
			all = all && f.Member
		}
	}
	return c, nil
}

// end stops the coordinator.
func (c *council) end() error {
	c.stop()
	return errors.Join(<-c.over, c.machine.Close())
}

// follow reports the queue of an agent, and reads the next entries.
func (c *council) follow(ctx context.Context, i int, queue []balanceQueue) (f coordinator.Followed, err error) {
	r := coordinator.Report{Capacity: 1, Addr: "127.0.0.1:7470", State: assignment.Up,
		Settings: map[string]string{"partition": "sites"}}
	for _, q := range queue {
		if len(q.pages) > 0 {
			r.Hosts++
			r.URLs += uint64(len(q.pages))
		}
	}
	err = again(ctx, func() error {
		f, err = c.c.Follow(ctx, c.callers[i], coordinator.Follow{From: c.last + 1, Report: r})
		return err
	})
	if err != nil {
		return f, err
	}
	for data := f.Entries; len(data) > 0; {
		e, rest, err := assignment.Decode(data)
		if err != nil {
			return f, err
		}
		data, c.last = rest, e.Number
		for _, s := range e.Shares {
			for _, h := range s.Hosts {
				c.owners[h] = c.number[s.Agent]
			}
		}
	}
	return f, nil
}

// again repeats a call while the coordinator is not ready.
func again(ctx context.Context, call func() error) error {
	for {
		err := call()
		not := (*rpc.NotLeader)(nil)
		if !errors.Is(err, rpc.ErrAgain) && !errors.As(err, &not) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// assign lets the coordinator assign the hosts that agents have found.
func (c *council) assign(ctx context.Context, w *balanceWeb, found [][]int64, queues [][]balanceQueue) (
	map[int64]int, error) {
	if slices.IndexFunc(found, func(hs []int64) bool { return len(hs) > 0 }) < 0 {
		return nil, nil
	}
	for i := range c.callers {
		if _, err := c.follow(ctx, i, queues[i]); err != nil {
			return nil, err
		}
	}
	owner, new := map[int64]int{}, uint64(0)
	for i, hs := range found {
		new += uint64(len(hs))
		for part := range slices.Chunk(hs, assignment.MaxHosts) {
			var names []string
			for _, h := range part {
				names = append(names, w.name[h])
			}
			err := again(ctx, func() error {
				_, err := c.c.Discover(ctx, c.callers[i], names, true)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	// A report during the wait would say what the agents have before they know of their new hosts.
	for c.hosts += new; c.c.Status().Hosts < c.hosts; {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(200 * time.Microsecond):
		}
	}
	for _, hs := range found {
		for _, h := range hs {
			o, ok := c.owners[w.name[h]]
			for ; !ok; o, ok = c.owners[w.name[h]] {
				if _, err := c.follow(ctx, 0, queues[0]); err != nil {
					return nil, err
				}
			}
			owner[h] = o
		}
	}
	return owner, nil
}
