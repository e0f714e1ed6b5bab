package sim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/membership"
)

// A Kind is a kind of fault.
type Kind string

// The kinds of faults.
const (
	// Kill ends an agent's process (kill -9). It starts again on its disk after For.
	Kill Kind = "kill"
	// Power cuts the power of an agent's machine. Some of the data that was not synced is lost. The
	// agent starts again after For.
	Power Kind = "power"
	// Lose is the loss of an agent's machine and of its disk.
	Lose Kind = "lose"
	// Replace loses a machine; after For an agent of the same name starts with an empty disk.
	Replace Kind = "replace"
	// Old starts an agent again from a copy of its disk. The copy is made now. After For the
	// process is killed, and the copy replaces the disk.
	Old Kind = "old"
	// KillAll kills all agents; each starts again within For.
	KillAll Kind = "kill all"
	// Disaster loses all machines and disks. Each agent starts on a new machine within For, from its saved state. If
	// the fault names an agent, only the agents up to that one start again, and they adopt the states of the others.
	Disaster Kind = "disaster"
	// Ruin is a Disaster in which the coordinators lose their machines and disks, too. Each starts on a new machine
	// within For, with an empty directory.
	Ruin Kind = "ruin"
	// Orphan loses the machine and the disk of an agent for good. Another one adopts its saved state.
	Orphan Kind = "orphan"
	// Restore loses the machine and the disk of an agent. After For it starts on a new machine, from its saved state.
	// The others go on meanwhile.
	Restore Kind = "restore"
	// Full fills an agent's disk, and the agent stops. After For there is room again, and the agent
	// starts.
	Full Kind = "full"
	// Fail makes the writes and syncs of an agent's disk fail, and the agent stops. After For the
	// disk works again, and the agent starts.
	Fail Kind = "fail"
	// Stop stops an agent with SIGTERM. It starts again after For.
	Stop Kind = "stop"
	// Leave makes an agent hand its hosts to the others and end for good.
	Leave Kind = "leave"
	// Pause makes an operator pause the whole crawl at an agent, for For.
	Pause Kind = "pause"
	// Orders makes an operator give more orders at an agent than fit into one message, without a consequence.
	Orders Kind = "orders"
	// Exclude makes an operator exclude half of the pages at an agent, for For.
	Exclude Kind = "exclude"
	// Join starts one more agent.
	Join Kind = "join"
	// Cut separates an agent, and those with smaller numbers, from the others for For.
	Cut Kind = "cut"
	// OneWay loses everything that an agent sends to other agents for For.
	OneWay Kind = "one-way"
	// Lossy loses a fifth of all packets between agents for For, and delays the others by
	// 200 ms.
	Lossy Kind = "lossy"
	// Slow gives an agent a line of 50 kB/s, with 150 ms of latency, for For.
	Slow Kind = "slow"
	// Offline takes an agent off every network for For. Its connections to the web end.
	Offline Kind = "offline"
	// NoDNS leaves all DNS queries without an answer for For.
	NoDNS Kind = "no dns"
	// NoWeb makes all hosts of the web unreachable for For.
	NoWeb Kind = "no web"
	// Clock sets an agent's wall clock, so that it is wrong by For from now on. For may be
	// negative. If At and After are zero, the clock is wrong before the agent starts.
	Clock Kind = "clock"
)

// A Fault happens when the share At of the reachable pages has been fetched and After has passed
// since the fault before it. After has no effect on the first fault.
type Fault struct {
	Kind  Kind
	Agent int           `json:",omitempty"` // number of the agent; 0 for faults of no particular agent
	At    float64       `json:",omitempty"`
	After time.Duration `json:",omitempty"`
	For   time.Duration `json:",omitempty"`
}

// String returns the fault as one line.
func (f Fault) String() string {
	s := string(f.Kind)
	switch one, are := ofCoordinators[f.Kind]; {
	case one:
		s += fmt.Sprintf(" c%d", f.Agent)
	case f.Agent > 0 && (!are || f.Kind == Blind):
		s += fmt.Sprintf(" a%d", f.Agent)
	}
	s = fmt.Sprintf("at %.2f: %s", f.At, s)
	if f.After > 0 {
		s += fmt.Sprintf(", %s after the fault before", f.After)
	}
	switch {
	case f.Kind == Clock:
		s += fmt.Sprintf(", wrong by %s", f.For)
	case f.For > 0:
		s += fmt.Sprintf(", for %s", f.For)
	}
	return s
}

// A Plan describes a story.
type Plan struct {
	Seed      uint64
	Agents    int           // at the start; zero means 1
	Spare     int           // agents that may join later
	Hosts     int64         // number of hosts of the web; zero means 20
	Pages     float64       // mean pages of a host; zero means 10
	Delay     time.Duration // of a host; zero means 100 ms
	Shared    time.Duration `json:",omitempty"` // delay of addresses and sites; zero: half of Delay; negative: none
	Busy      float64       // share of the pages that first answer 429 with a Retry-After of 1 s
	Failing   float64       `json:",omitempty"` // share of pages that first answer 503, and of slow ones
	Broken    float64       `json:",omitempty"` // share of the pages that always answer 500, and of those with 410
	Redirects float64       `json:",omitempty"` // share of the links that redirect, and of those that lead nowhere
	Delays    float64       `json:",omitempty"` // share of the hosts with a Crawl-delay of 3 times Delay
	Pause     time.Duration `json:",omitempty"` // of a host after a 429 or 503, at first; zero: the default
	Replicas  int           // zero means 2
	OnLoss    string        `json:",omitempty"` // --on-loss; empty means the default of membership.Config
	FileBytes int64         `json:",omitempty"` // largest size of an archive file; zero means the default
	Partition string        // empty means the default of membership.Config
	Boundary  string        `json:",omitempty"` // --boundary; empty means the default of membership.Config
	Kappa     int           `json:",omitempty"` // replicas on the ring; zero means the default
	Capacity  float64       `json:",omitempty"` // of agents that join; zero means 1
	Addresses int64         `json:",omitempty"` // number of addresses that all hosts share; zero: see gen.Spec
	Mirrors   bool          `json:",omitempty"` // some hosts and pages are copies of others; see holdings
	Walk      int           `json:",omitempty"` // steps of random walks; zero: the agents crawl breadth-first
	PageLimit int64         `json:",omitempty"` // of all agents together; zero: none
	TimeLimit time.Duration `json:",omitempty"` // of each agent; zero: none
	Latency   time.Duration // one way, between agents
	Faults    []Fault

	DeadURLs    int     `json:",omitempty"` // seeds on a port of each host that refuses connections
	Crosslinked float64 `json:",omitempty"` // share of the pages that are linked only from other hosts

	HostPages int64 `json:",omitempty"` // --host-page-limit; zero: none
	HostDepth int   `json:",omitempty"` // --host-depth; zero: none
	SeedRoots bool  `json:",omitempty"` // --seed-roots

	Topics  int    `json:",omitempty"` // of the web, whose model the agents have; zero: see story.learn
	Focused bool   `json:",omitempty"` // the agents want their own topics first
	Rate    string `json:",omitempty"` // --rate; empty: no limit
	Waves   bool   `json:",omitempty"` // servers are fast, slow, or send more, for some seconds each; see wave

	// Auto makes the delay of a host this multiple of its response times, at least Delay; zero: it is Delay.
	Auto float64 `json:",omitempty"`

	Rounds int    `json:",omitempty"` // how often each page is visited again; zero: never
	Keep   string `json:",omitempty"` // --keep; empty: all responses

	Coordinators int  `json:",omitempty"` // 1, 3 or 5 with the partition "sites"; otherwise 0
	TwoLevel     bool `json:",omitempty"` // --coverage two-level
}

// sites is the partition with coordinators, topic the one by the categories of pages.
const sites, topic = "sites", "topic"

// String returns the plan as text.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d agents, %d hosts of %.0f pages, delay %s, %d replicas, latency %s",
		p.Seed, p.Agents, p.Hosts, p.Pages, p.Delay, p.Replicas, p.Latency)
	if p.Partition != "" {
		b.WriteString(", partition " + p.Partition)
	}
	if p.Boundary != "" {
		b.WriteString(", boundary " + p.Boundary)
	}
	if p.OnLoss != "" {
		b.WriteString(", on loss " + p.OnLoss)
	}
	if p.FileBytes > 0 {
		fmt.Fprintf(&b, ", files of %d bytes", p.FileBytes)
	}
	if p.Kappa > 0 {
		fmt.Fprintf(&b, ", kappa %d", p.Kappa)
	}
	if p.Capacity > 0 {
		fmt.Fprintf(&b, ", capacity %g of new agents", p.Capacity)
	}
	if p.Addresses > 0 {
		fmt.Fprintf(&b, ", %d addresses", p.Addresses)
	}
	if p.Topics > 0 {
		fmt.Fprintf(&b, ", %d topics", p.Topics)
	}
	if p.Focused {
		b.WriteString(", focused")
	}
	if p.Rate != "" {
		fmt.Fprintf(&b, ", rate %s", p.Rate)
	}
	if p.Rounds > 0 {
		fmt.Fprintf(&b, ", recrawl of %d rounds", p.Rounds)
	}
	if p.Keep != "" {
		fmt.Fprintf(&b, ", keep %s", p.Keep)
	}
	if p.Auto > 0 {
		fmt.Fprintf(&b, ", delays of %g response times", p.Auto)
	}
	if p.Waves {
		b.WriteString(", in waves")
	}
	if p.DeadURLs > 0 {
		fmt.Fprintf(&b, ", %d seeds on a dead port of each host", p.DeadURLs)
	}
	if p.Walk > 0 {
		fmt.Fprintf(&b, ", walks of %d steps", p.Walk)
	}
	b.WriteString(p.boundsText())
	for _, share := range p.shares() {
		if share.of > 0 {
			fmt.Fprintf(&b, ", %.0f %% %s", 100*share.of, share.name)
		}
	}
	for _, f := range p.Faults {
		b.WriteString("\n  " + f.String())
	}
	return b.String()
}

// A share is a part of the pages, links or hosts of a story's web.
type share struct {
	of   float64
	name string
}

func (p Plan) shares() []share {
	return []share{
		{p.Busy, "busy"}, {p.Failing, "failing"}, {p.Broken, "broken"}, {p.Redirects, "redirects"},
		{p.Delays, "with a Crawl-delay"}, {p.Crosslinked, "crosslinked"},
	}
}

// JSON returns the plan in the form that Parse reads.
func (p Plan) JSON() string {
	b, _ := json.Marshal(p) // a Plan can always be encoded
	return string(b)
}

// Parse reads the output of JSON. It refuses a plan that no story can have, such as one with a fault
// of an agent that does not exist.
func Parse(text string) (p Plan, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("plan: %w", err)
	}
	if d.More() {
		return p, errors.New("plan: something follows after the plan")
	}
	if err := p.check(); err != nil {
		return p, fmt.Errorf("plan: %w", err)
	}
	return p, nil
}

func (p Plan) withDefaults() Plan {
	p.Agents = max(p.Agents, 1)
	if p.Hosts == 0 {
		p.Hosts = 20
	}
	if p.Pages == 0 {
		p.Pages = 10
	}
	if p.Delay == 0 {
		p.Delay = 100 * time.Millisecond
	}
	if p.Shared == 0 {
		p.Shared = p.Delay / 2
	}
	if p.Replicas == 0 {
		p.Replicas = 2
	}
	return p
}

// moves reports whether pages move between agents.
func (p Plan) moves() bool {
	return p.Boundary == membership.BoundaryContents || p.Boundary == "" && p.Partition == topic
}

// alone reports whether the plan is for a single agent without a cluster.
func (p Plan) alone() bool { return p.Agents == 1 && p.Spare == 0 }

// Divided returns the plan of the same cluster with another partition.
func (p Plan) Divided(partition string) Plan {
	if p.Partition == partition {
		return p
	}
	p.Partition, p.Boundary, p.Kappa, p.Mirrors, p.Coordinators = partition, "", 0, false, 0
	p.Faults = slices.DeleteFunc(slices.Clone(p.Faults), func(f Fault) bool {
		_, are := ofCoordinators[f.Kind]
		return are
	})
	if partition == sites && !p.alone() {
		return p.coordinated()
	}
	return p
}

// coordinated gives a plan coordinators, and faults of them. A generator of its own makes them, so that the other parts
// of the plan stay as they were.
func (p Plan) coordinated() Plan {
	rng := rand.New(rand.NewPCG(p.Seed, 0x7369746573))
	p.Coordinators = []int{1, 3, 3, 3, 5}[rng.IntN(5)]
	kinds := []Kind{KillLeader, KillLeader, KillCoordinator, PowerCoordinator, FullCoordinator, NoCoordinators,
		CutCoordinator, Blind}
	for range rng.IntN(3) {
		f := Fault{Kind: kinds[rng.IntN(len(kinds))], At: float64(1+rng.IntN(80)) / 100}
		f.For = time.Duration(100+rng.IntN(20_000)) * time.Millisecond
		switch one := ofCoordinators[f.Kind]; {
		case one:
			f.Agent = 1 + rng.IntN(p.Coordinators)
		case f.Kind == Blind:
			f.Agent = 1 + rng.IntN(p.Agents)
		}
		p.Faults = append(p.Faults, f)
	}
	// A fault that follows another one within a time is at the same share of the pages as that one.
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return p
}

// Without returns the plan without fault i.
func (p Plan) Without(i int) Plan {
	p.Faults = append(append([]Fault(nil), p.Faults[:i]...), p.Faults[i+1:]...)
	return p
}

// Random returns the plan of a cluster for a seed.
func Random(seed uint64) Plan {
	rng := rand.New(rand.NewPCG(seed, 0x706c616e))
	between := func(from, to time.Duration) time.Duration {
		return (from + time.Duration(rng.Int64N(int64(to-from)))).Round(time.Millisecond)
	}
	p := Plan{
		Seed: seed, Agents: 2 + rng.IntN(4), Hosts: 10 + rng.Int64N(30), Pages: 4 + float64(rng.IntN(12)),
		Delay:    between(50*time.Millisecond, 400*time.Millisecond),
		Replicas: 2, Latency: between(0, 20*time.Millisecond),
	}
	if rng.IntN(8) == 0 {
		p.Replicas = 1
	}
	switch rng.IntN(6) {
	case 0:
		p.Partition = "hash"
	case 1:
		p.Partition = "ring"
	}
	p = p.withFaults(rng, []Kind{
		Kill, Kill, Power, Lose, Replace, Old, KillAll, Full, Fail, Stop, Leave, Join, Join, Cut, OneWay, Lossy,
		Slow, Offline, NoDNS, NoWeb, Clock,
	})
	// A lost archive has contents that are nowhere else.
	p.Mirrors = p.Partition == "hash" && !slices.ContainsFunc(p.Faults, func(f Fault) bool {
		return slices.Contains([]Kind{Lose, Replace, Old, Full, Fail}, f.Kind)
	})
	if p.Partition == "ring" && rng.IntN(2) == 0 {
		p.Kappa = 5 + rng.IntN(50)
	}
	if p.Spare > 0 && rng.IntN(2) == 0 {
		p.Capacity = []float64{0.5, 2, 4}[rng.IntN(3)]
	}
	if rng.IntN(4) == 0 {
		p.Addresses = max(2, p.Hosts/3)
	}
	return p.wild(rng).bounded()
}

// wild gives the web of every third plan pages that fail, redirects, and hosts with a Crawl-delay.
// Each page that a crawl should reach answers in the end, and at once: a page is not fetched again
// after 410 or 500.
func (p Plan) wild(rng *rand.Rand) Plan {
	if p.Seed%3 != 1 {
		return p
	}
	// What an agent without power or disk knew of a Retry-After may be lost with its last seconds. So it
	// stays away for longer than the web's Retry-Afters, which are at most 2 s.
	for i, f := range p.Faults {
		switch f.Kind {
		case Full, Fail:
			if p.Replicas == 1 { // others take its hosts at once, and no replica tells of the Retry-Afters
				return p
			}
			p.Faults[i].For = max(f.For, 2100*time.Millisecond)
		case Power, Replace:
			p.Faults[i].For = max(f.For, 2100*time.Millisecond)
		case Old:
			return p
		}
	}
	p.Busy, p.Pause = 0.03+0.04*rng.Float64(), time.Second
	if rng.IntN(2) == 0 {
		p.Failing = 0.02
	}
	if rng.IntN(2) == 0 {
		p.Delays = 0.3
	}
	if rng.IntN(2) == 0 && !p.Mirrors { // see holdings: it knows pages only
		p.Broken = 0.03
	}
	if rng.IntN(2) == 0 && !p.Mirrors {
		p.Redirects = 0.05
	}
	return p
}

// RandomAlone returns the plan of a single agent for a seed.
func RandomAlone(seed uint64) Plan {
	rng := rand.New(rand.NewPCG(seed, 0x616c6f6e))
	p := Plan{
		Seed: seed, Agents: 1, Hosts: 3 + rng.Int64N(10), Pages: 4 + float64(rng.IntN(20)),
		Delay: time.Duration(20+rng.IntN(100)) * time.Millisecond,
	}
	p = p.withFaults(rng, []Kind{Kill, Kill, Power, Power, Full, Fail, Stop, Offline, NoDNS, NoWeb, Clock})
	p = p.wild(rng).bounded()
	if p.Pause > 0 { // its pauses make it long enough
		return p
	}
	// Power failures lose records in most ways, so there are always some. A generator of its own leaves the other
	// faults as they were.
	more := rand.New(rand.NewPCG(seed, 0x706f776572))
	for at := p.Faults[len(p.Faults)-1].At; len(p.Faults) < 4; {
		at += more.Float64() * (0.95 - at)
		wait := time.Duration(50+more.IntN(3000)) * time.Millisecond
		p.Faults = append(p.Faults, Fault{Kind: Power, Agent: 1, At: float64(int(at*100)) / 100, For: wait})
	}
	return p
}

// withFaults adds one to three faults of the given kinds.
func (p Plan) withFaults(rng *rand.Rand, kinds []Kind) Plan {
	between := func(from, to time.Duration) time.Duration {
		return (from + time.Duration(rng.Int64N(int64(to-from)))).Round(time.Millisecond)
	}
	// A supervisor starts a killed process again at once. A generator of its own leaves the other
	// parts of each plan as they were.
	quick := rand.New(rand.NewPCG(p.Seed, 0x717569636b))
	fault := func() Fault {
		f := Fault{Agent: 1 + rng.IntN(p.Agents+p.Spare)} // it may have joined
		switch f.Kind = kinds[rng.IntN(len(kinds))]; f.Kind {
		case Kill, Power, Stop, Full, Fail:
			f.For = between(50*time.Millisecond, 3*time.Second)
			if rng.IntN(2) == 0 { // long enough for the others to take over
				f.For = between(8*time.Second, 60*time.Second)
			}
			if f.Kind == Kill && quick.IntN(2) == 0 {
				f.For = time.Duration(1+quick.IntN(150)) * time.Millisecond
			}
		case Replace:
			f.For = between(100*time.Millisecond, 12*time.Second)
		case Old:
			f.For = between(2*time.Second, 10*time.Second)
		case KillAll:
			f.For = between(100*time.Millisecond, 10*time.Second)
		case Cut, OneWay, Lossy, Slow:
			f.For = between(time.Second, 40*time.Second)
		case NoDNS, NoWeb, Offline:
			f.For = between(time.Second, 30*time.Second)
		case Clock:
			f.For = between(-2*time.Hour, 2*time.Hour)
		}
		switch f.Kind {
		case Join:
			p.Spare++
			f.Agent = p.Agents + p.Spare
		case Cut: // none of the others has a larger number than the last agent
			f.Agent = min(f.Agent, p.Agents+p.Spare-1)
		case KillAll, Lossy, NoDNS, NoWeb:
			f.Agent = 0
		}
		return f
	}
	n, at := 1+rng.IntN(3), 0.0
	for i := range n {
		f := fault()
		if i > 0 {
			switch rng.IntN(4) {
			case 0: // within a second
				f.After = between(0, time.Second)
			case 1: // while others take over its hosts
				f.After = between(3*time.Second, 12*time.Second)
			default:
				at += rng.Float64() * (0.9 - at)
			}
		} else {
			at = rng.Float64() * 0.7
		}
		f.At = max(0.01, float64(int(at*100))/100) // not before the crawl begins
		p.Faults = append(p.Faults, f)
	}
	return p
}
