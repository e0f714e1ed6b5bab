package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// An actor is an agent of a story, with its machine and its disk. A story may kill it and start it
// again.
type actor struct {
	s        *story
	number   int // from 1
	name     string
	addr     netip.AddrPort
	mem      *testdisk.Mem
	disk     time.Time // when its disk was new
	faulty   *testdisk.Faulty
	founds   bool           // it starts the cluster: at its first start, its own address is the first of --join
	gone     bool           // its machine is lost
	orphan   bool           // others adopt its saved state
	lost     *testdisk.Mem  // its disk when its machine was lost; nil: none was lost
	left     *testdisk.Mem  // its disk when it had left, if another agent has its name; nil: none
	newcomer bool           // it joined later, with an empty disk
	starts   int            // number of starts of its process
	down     time.Time      // when it last went down; zero: never
	up       time.Time      // when it came back after that; zero: not yet
	untold   time.Time      // it was apart from others since then when it went down; zero: it was not
	links    time.Time      // its disk lacks the links that it accepted since then; zero: it has all
	marks    map[*actor]int // lengths of the others' event files when it went down or came back
	leaving  bool           // it was told to leave
	slow     time.Time      // end of the time with a slow line
	clock    clock          // the clock of its machine
	forward  bool           // the clock was set forward since the process started

	records map[string][]record // on its disk at the end, by file; see archives.read

	run *process // nil: not started yet
}

// A process is one run of an actor, from its start to its end.
type process struct {
	machine *simnet.Machine
	cancel  context.CancelFunc
	done    chan struct{} // closed at the end

	failed atomic.Int64 // when its disk first failed, as a time.Duration since start; 0: never

	mu    sync.Mutex  // guards agent
	agent *node.Agent // nil: not open

	began  time.Time
	result node.Result // result, err and at are set when done is closed
	err    error
	at     time.Time
	killed bool // a fault killed it: its result does not matter
}

func (p *process) open() *node.Agent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.agent
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// config returns the configuration that the command line would make for the agent.
func (a *actor) config(resume bool, together int) node.Config {
	s, m := a.s, a.run.machine
	cfg := node.Config{
		Dir: crawlDir, Seeds: []string{s.made.URL(0, 0)}, Contact: "ops@example.org", FS: a.faulty, Resume: resume,
		MemoryBytes: node.LeastMemory, Note: func(text string) { s.log("%s: %s", a.name, text) },
		Clock: &a.clock,
	}
	cfg.DNS.HostsFile, cfg.DNS.Servers = "-", []string{"192.0.2.1"}
	cfg.DNS.Dial = func(_ context.Context, _, _ string) (net.Conn, error) { return s.web.dialDNS(m) }
	cfg.Fetch.AllowPrivate = true
	cfg.Fetch.Dial = func(ctx context.Context, _, addr string) (net.Conn, error) { return s.web.dial(ctx, m, addr) }
	cfg.Scope.Scope = scope.Any
	d := max(s.plan.Shared, 0)
	cfg.Frontier.HostDelay, cfg.Frontier.IPDelay, cfg.Frontier.SiteDelay = s.plan.Delay, d, d
	cfg.Frontier.SlowBase, cfg.Frontier.SlowMax = s.plan.Pause, 16*s.plan.Pause
	s.plan.seedDead(&cfg, s.made)
	cfg.Crawl.DrainTimeout = 2 * time.Second
	cfg.Crawl.PageLimit, cfg.Crawl.TimeLimit = s.plan.PageLimit, s.plan.TimeLimit
	cfg.Crawl.HostPageLimit, cfg.Crawl.SeedRoots = s.plan.HostPages, s.plan.SeedRoots
	if s.plan.HostDepth > 0 {
		cfg.Scope.HostDepth = &s.plan.HostDepth
	}
	cfg.Archive.Agent, cfg.Archive.MaxBytes = a.name, s.plan.FileBytes
	if s.plan.Rate != "" {
		var err error
		if cfg.Rate, err = rate.Parse(s.plan.Rate); err != nil {
			panic(err)
		}
	}
	cfg.Links = s.plan.logsLinks()
	cfg.Crawl.DelayFactor, cfg.Crawl.DelayMax = s.plan.Auto, 20*s.plan.Delay
	if s.plan.Walk > 0 {
		cfg.Strategy = s.openWalk
	}
	if s.plan.Focused {
		cfg.Strategy = s.openFocused
	}
	if s.plan.Rounds > 0 {
		cfg.Strategy = s.openRecrawl
	}
	if s.plan.Keep != "" {
		var err error
		if cfg.Crawl.Keep, err = sheet.ParseKeep("keep", []string{s.plan.Keep}); err != nil {
			panic(err)
		}
	}
	a.saves(&cfg)
	if s.plan.alone() {
		return cfg
	}
	join := []string{}
	if a.founds {
		join = append(join, a.addr.String())
	}
	for _, other := range s.actors {
		if other != a {
			join = append(join, other.addr.String())
		}
	}
	cfg.Cluster = &membership.Config{
		Name: a.name, Capacity: 1, Listen: a.addr.String(), Join: join, Keys: keysDir, Partition: s.plan.Partition,
		Boundary: s.plan.Boundary, Kappa: s.plan.Kappa, Replicas: s.plan.Replicas, Agents: together, Recovery: 2,
		OnLoss: s.plan.OnLoss, TwoLevel: s.plan.TwoLevel,
		Network: m, Classifier: s.model,
	}
	if s.plan.Partition == sites {
		cfg.Cluster.Coordinators = s.coordinatorAddrs()
	}
	if a.number > s.plan.Agents && s.plan.Capacity > 0 {
		cfg.Cluster.Capacity = s.plan.Capacity
	}
	return cfg
}

const crawlDir, keysDir = "/crawl", "/keys"

// start starts the actor's process. together is the number of agents that must be present before
// the crawl begins.
func (a *actor) start(resume bool, together int) {
	a.starts++
	a.faulty.Heal() // the disk works again: after a Full fault, there is room
	p := &process{done: make(chan struct{}), began: time.Now()}
	p.machine = a.s.net.Machine(a.number, a.addr.Addr())
	a.run = p
	cfg := a.config(resume, together)
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	a.s.log("%s starts (resume: %t)", a.name, resume)
	a.s.running.Go(func() {
		defer close(p.done)
		agent, err := node.Open(cfg)
		if err == nil {
			p.mu.Lock()
			p.agent = agent
			p.mu.Unlock()
			p.result, err = agent.Run(ctx)
			err = errors.Join(err, agent.Close())
		}
		p.err, p.at = err, time.Now()
		cancel()
		if p.killed {
			return
		}
		a.s.log("%s ends: %s, %v", a.name, p.result.Stop, err)
		if p.result.Stop == crawl.Finished {
			a.finishes()
		}
		p.machine.Kill()
	})
}

// newDisk gives the actor an empty disk with its keys.
func (a *actor) newDisk() {
	a.founds = a.number == 1 && a.run == nil
	a.disk = time.Now()
	if a.run != nil {
		j := a.s.judge
		j.mu.Lock()
		j.replaced = append(j.replaced, restore{a.number, a.disk, a.disk})
		j.mu.Unlock()
	}
	a.setDisk(a.s.keys[a.name].Clone())
}

func (a *actor) setDisk(mem *testdisk.Mem) { a.mem, a.faulty = mem, testdisk.NewFaulty(mem, nil) }

// kill ends the process at once. Its disk keeps everything that was written.
func (a *actor) kill() { a.end(a.mem.Clone(), (*simnet.Machine).Kill) }

// power cuts the machine's power. Data that was not synced may be lost: of any file, or of all files below one
// directory.
func (a *actor) power(seed uint64) {
	left := a.mem.Crash(seed)
	hit := []string{"/archive/", "/logs/", "/state/seen/", "/state/journal/"}
	if i := rand.New(rand.NewPCG(seed, 0x706f776572)).IntN(2 * len(hit)); i < len(hit) {
		a.s.log("%s loses what was not synced below %s", a.name, hit[i])
		left = a.mem.CrashOf(func(name string) bool { return strings.HasPrefix(name, crawlDir+hit[i]) })
	}
	a.end(left, (*simnet.Machine).Vanish)
}

// end ends the process. left is the disk that remains.
func (a *actor) end(left *testdisk.Mem, off func(*simnet.Machine)) {
	p := a.run
	p.killed = true
	a.s.judge.dies(a.number, time.Now().Add(-unreadWithin-a.s.plan.Latency))
	a.faulty.Break(func(testdisk.Call) testdisk.Fault { return testdisk.Fault{Err: errGone} })
	off(p.machine)
	p.cancel()
	a.setDisk(left)
}

var errGone = errors.New("the machine is off")

// begun reports whether there is a crawl on the actor's disk.
func (a *actor) begun() bool {
	_, err := a.mem.Stat(crawlDir + "/crawl.yaml")
	return err == nil
}

// showed reports whether the clock of the agent that fetched a page ever showed t: that of a, or any if pages move.
func (s *story) showed(a *actor, t time.Time) bool {
	if !s.plan.moves() {
		return a.clock.showed(t)
	}
	return slices.ContainsFunc(s.actors, func(o *actor) bool { return o.clock.showed(t) })
}

// audit reads after the story the index of the archive on the actor's disk. It returns the URLs in the index, with the
// number of records of each.
func (a *actor) audit() (wrong []string, pages map[string]int) {
	pages = map[string]int{}
	index, err := disk.ReadFile(a.mem, crawlDir+"/indexes/index.cdxj", 1<<30)
	if err != nil {
		return append(wrong, fmt.Sprintf("%s: %v", a.name, err)), pages
	}
	if err := testparts.Agree(a.mem, crawlDir); err != nil {
		wrong = append(wrong, a.name+": "+err.Error())
	}
	for _, fault := range checkIndex(string(index), a.records) {
		wrong = append(wrong, a.name+": "+fault)
	}
	for line := range strings.Lines(string(index)) {
		if stamp := strings.SplitN(line, " ", 3)[1]; !a.s.showed(a, parseStamp(stamp)) {
			wrong = append(wrong, fmt.Sprintf("%s: captured at %s, which its clock never showed", a.name, stamp))
		}
		if _, rest, ok := strings.Cut(line, `"url": "`); ok {
			u, _, _ := strings.Cut(rest, `"`)
			pages[u]++
		} else if _, rest, ok := strings.Cut(line, `"url":"`); ok {
			u, _, _ := strings.Cut(rest, `"`)
			pages[u]++
		}
	}
	return wrong, pages
}

// parseStamp reads the time of a line of an index, which has whole seconds.
func parseStamp(stamp string) time.Time {
	t, err := time.Parse("20060102150405", stamp[:min(14, len(stamp))])
	if err != nil {
		return time.Time{}
	}
	return t
}

// shipped returns how many bytes of records the actor has sent to the heirs of its hosts, according
// to its events.
func (a *actor) shipped() (n int64) {
	b, err := disk.ReadFile(a.mem, crawlDir+"/logs/events.jsonl", 1<<30)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		var e struct {
			Event string
			Bytes int64
		}
		if json.Unmarshal(line, &e) == nil && e.Event == "shipped" {
			n += e.Bytes
		}
	}
	return n
}

// makeKeys issues keys for agents and coordinators, as "orbweaver cluster keys" does. The keys of each are on a
// disk of their own.
func makeKeys(agents, coordinators []string) (map[string]*testdisk.Mem, error) {
	all := testdisk.NewMem()
	auth, err := rpc.OpenAuthority(all, "/made", time.Now())
	if err != nil {
		return nil, err
	}
	keys := map[string]*testdisk.Mem{}
	for i, name := range slices.Concat(agents, coordinators) {
		issue := auth.Issue
		if i >= len(agents) {
			issue = auth.IssueCoordinator
		}
		dir, err := issue(name)
		if err != nil {
			return nil, err
		}
		mem := testdisk.NewMem()
		if err := copyDir(mem, keysDir, all, dir); err != nil {
			return nil, err
		}
		keys[name] = mem
	}
	return keys, nil
}

func copyDir(to disk.FS, into string, from disk.FS, dir string) error {
	if err := to.MkdirAll(into, 0o700); err != nil {
		return err
	}
	entries, err := from.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		b, err := disk.ReadFile(from, dir+"/"+e.Name(), 1<<20)
		if err != nil {
			return err
		}
		if err := disk.WriteSecret(to, into+"/"+e.Name(), b); err != nil {
			return err
		}
	}
	return nil
}

// addrOf returns the address of the agent with a number.
func addrOf(number int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(number)}), 7470)
}
