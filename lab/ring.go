package lab

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Ring answers: how evenly do agents divide the hosts, what does it cost to look up the owner
// of a host, and which hosts move when an agent joins?
//
// It runs in this process, because nothing else runs at the same time.
type Ring struct {
	// Hosts is the largest number of hosts. Zero means 10 million, with --quick 200,000.
	Hosts int64
	// Agents is the largest number of agents, at most 1,000. Zero means 1,000, with --quick
	// 100.
	Agents int64
	// Sets is the number of sets of agent names. Zero means 50, with --quick 5.
	Sets int64
}

const (
	maxRingAgents = 1000
	// lotsBudget bounds the random draws of rendezvous for one number of agents, over all sets
	// of names. Large numbers of agents get fewer sets, but at least one.
	lotsBudget, quickDraws = 50_000_000, 20_000_000
	// growthSets is the number of sets of names for the growing number of hosts.
	growthSets = 5
	// paper100 and paper200 are the paper's bounds of the deviation with 100 and 200 replicas.
	paper100, paper200 = 0.06, 0.045
)

func (x *Ring) defaults(quick bool) {
	size(quick, &x.Hosts, 10_000_000, 200_000)
	size(quick, &x.Agents, maxRingAgents, 100)
	size(quick, &x.Sets, 50, 5)
}

// sizes returns the numbers of agents.
func (x *Ring) sizes() (ns []int) {
	for _, n := range []int{2, 5, 10, 16, 20, 50, 100, 200, 500, 1000} {
		if n <= int(x.Agents) {
			ns = append(ns, n)
		}
	}
	return ns
}

// A divider assigns hosts to agents.
type divider interface {
	Owner(key uint64) placement.Owner
	Nearest(dst []placement.Owner, key uint64, t int) []placement.Owner
	Agents() []placement.Owner
	Shares() []float64
}

// A way is a way to assign hosts to agents.
type way struct {
	name  string
	k     int                 // replicas; 0: not a ring
	draws func(n int) float64 // number of random draws to build it for n agents
	build func([]placement.Owner) (divider, error)
	join  func(divider, placement.Owner) (divider, error)
	leave func(divider, string) (divider, error)
}

// made returns v as a divider, or nil with the error.
func made[T divider](v T, err error) (divider, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

func ringWay(k int) way {
	return way{
		name: fmt.Sprintf("ring, κ=%d", k), k: k, draws: func(int) float64 { return 0 },
		build: func(as []placement.Owner) (divider, error) { return made(placement.NewRing(as, k)) },
		join:  func(d divider, a placement.Owner) (divider, error) { return made(d.(*placement.Ring).With(a)) },
		leave: func(d divider, name string) (divider, error) { return made(d.(*placement.Ring).Without(name)) },
	}
}

func rendezvousWay(bits int) way {
	return way{
		name: fmt.Sprintf("rendezvous, 2^%d", bits), draws: func(n int) float64 { return math.Ldexp(float64(n), bits) },
		build: func(as []placement.Owner) (divider, error) { return made(placement.NewRendezvous(as, 1<<bits)) },
		join:  func(d divider, a placement.Owner) (divider, error) { return made(d.(*placement.Rendezvous).With(a)) },
		leave: func(d divider, name string) (divider, error) { return made(d.(*placement.Rendezvous).Without(name)) },
	}
}

var (
	ring100, ring200 = ringWay(100), ringWay(placement.Replicas)
	rendezvous18     = rendezvousWay(18)
	growing          = []way{ring100, ring200, rendezvous18}
	allWays          = []way{ring100, ring200, rendezvousWay(16), rendezvous18, rendezvousWay(20)}
)

// members returns n agents with these capacities in turn. Each set and seed has its own names.
func members(seed uint64, set, n int, capacities []float64) []placement.Owner {
	as := make([]placement.Owner, n)
	for i := range as {
		as[i] = placement.Owner{Name: fmt.Sprintf("agent-%d.set-%d.seed-%d", i, set, seed),
			Capacity: capacities[i%len(capacities)]}
	}
	return as
}

var (
	equal = []float64{1}
	mixed = []float64{1, 2, 4}
)

// A Deviation is the deviation of agents from their expected shares. With x = share/expected-1
// for each agent, it holds the mean of |x|, the root of the mean of x*x, and the largest |x|.
type Deviation struct {
	MAD float64 `json:"mad"`
	RMS float64 `json:"rms"`
	Max float64 `json:"max"`
}

// deviation returns the deviation of shares, which may be counts.
func deviation(agents []placement.Owner, shares []float64) (d Deviation) {
	all, capacity := 0.0, 0.0
	for i, a := range agents {
		all += shares[i]
		capacity += a.Capacity
	}
	for i, a := range agents {
		off := math.Abs(shares[i]/all*capacity/a.Capacity - 1)
		d.MAD += off
		d.RMS += off * off
		d.Max = max(d.Max, off)
	}
	n := float64(len(agents))
	d.MAD, d.RMS = d.MAD/n, math.Sqrt(d.RMS/n)
	return d
}

// add adds one to d as one of n values of a mean.
func (d *Deviation) add(one Deviation, n int) {
	d.MAD += one.MAD / float64(n)
	d.RMS += one.RMS / float64(n)
	d.Max += one.Max / float64(n)
}

// A RingGrowth is the deviation as the number of hosts grows, as a mean over sets of names.
type RingGrowth struct {
	Way    string      `json:"way"`
	Agents int         `json:"agents"`
	Sets   int         `json:"sets"`
	Hosts  []int64     `json:"hosts"`
	By     []Deviation `json:"deviation"`

	k int
}

// A RingLimit is the deviation of the shares themselves, which is the limit for many hosts. It
// has the mean and the greatest value over the sets of names.
type RingLimit struct {
	Way        string    `json:"way"`
	Agents     int       `json:"agents"`
	Capacities string    `json:"capacities"`
	Sets       int       `json:"sets"`
	Mean       Deviation `json:"mean"`
	Worst      Deviation `json:"worst"`

	k int
}

// A RingMove is the share of the hosts that moved.
type RingMove struct {
	Way    string  `json:"way"`
	What   string  `json:"what"`
	Moved  float64 `json:"moved"`
	Ideal  float64 `json:"ideal"`
	Astray float64 `json:"between_others"`
}

// ringRun holds all measurements.
type ringRun struct {
	growth []RingGrowth
	limits []RingLimit
	moves  []RingMove
	times  []RingTime
}

// Run implements Experiment.
func (x *Ring) Run(ctx context.Context, t *Trial) (*Result, error) {
	y := *x
	y.defaults(t.Quick)
	r, err := y.run(ctx, t)
	if err != nil {
		return nil, err
	}
	return y.result(r), nil
}

// run makes all measurements.
func (x *Ring) run(ctx context.Context, t *Trial) (*ringRun, error) {
	var r ringRun
	keys := hostKeys(t.Seed, x.Hosts)
	for _, w := range allWays {
		for _, n := range x.sizes() {
			if err := x.measure(ctx, t, &r, w, n, keys); err != nil {
				return nil, fmt.Errorf("%s, %d agents: %w", w.name, n, err)
			}
		}
	}
	for _, w := range []way{ring200, rendezvous18, moduloWay} {
		moves, err := movesOf(w, t.Seed, keys[:min(len(keys), 1_000_000)])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		r.moves = append(r.moves, moves...)
	}
	return &r, nil
}

// measure makes all measurements for one way and number of agents.
func (x *Ring) measure(ctx context.Context, t *Trial, r *ringRun, w way, n int, keys []uint64) error {
	done := t.step("%s, %s agents", w.name, humanize.Comma(int64(n)))
	for _, capacities := range [][]float64{equal, mixed} {
		l, err := x.limit(ctx, t, w, n, capacities)
		if err != nil {
			return err
		}
		r.limits = append(r.limits, l)
	}
	for _, g := range growing {
		if g.name != w.name {
			continue
		}
		mean := RingGrowth{Way: w.name, Agents: n, Sets: min(int(x.Sets), growthSets), k: w.k}
		for set := range mean.Sets {
			d, err := w.build(members(t.Seed, set, n, equal))
			if err != nil {
				return err
			}
			if err := mean.add(ctx, d, keys); err != nil {
				return err
			}
			t.partial("hosts, set %d of %d", set+1, mean.Sets)
		}
		r.growth = append(r.growth, mean)
	}
	tm, err := timeRing(w, members(t.Seed, 0, n, equal), keys)
	if err != nil {
		return err
	}
	r.times = append(r.times, tm)
	done("MAD %.2f %%, owner %.1f ns", 100*r.limits[len(r.limits)-2].Mean.MAD, tm.Owner)
	return ctx.Err()
}

// hostKeys returns the keys of n hosts.
func hostKeys(seed uint64, n int64) []uint64 {
	keys := make([]uint64, n)
	var name []byte
	for i := range keys {
		name = strconv.AppendInt(append(name[:0], "host-"...), int64(i), 10)
		name = append(strconv.AppendUint(append(name, ".seed-"...), seed, 10), ".example"...)
		keys[i] = link.HostKey(string(name))
	}
	return keys
}

// counter returns the agents of d, and the index of each by name.
func counter(d divider) (agents []placement.Owner, number map[string]int) {
	agents = d.Agents()
	number = make(map[string]int, len(agents))
	for i, a := range agents {
		number[a.Name] = i
	}
	return agents, number
}

// add counts the hosts of each agent, and computes the deviation at 1, 2, 5, 10... thousand
// hosts.
func (g *RingGrowth) add(ctx context.Context, d divider, keys []uint64) error {
	agents, number := counter(d)
	counts := make([]float64, len(agents))
	g.Hosts = steps(1000, int64(len(keys)))
	if g.By == nil {
		g.By = make([]Deviation, len(g.Hosts))
	}
	from := int64(0)
	for i, p := range g.Hosts {
		for _, key := range keys[from:p] {
			counts[number[d.Owner(key).Name]]++
		}
		from = p
		g.By[i].add(deviation(agents, counts), g.Sets)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// limit computes the deviation of the shares themselves, for several sets of names.
func (x *Ring) limit(ctx context.Context, t *Trial, w way, n int, capacities []float64) (RingLimit, error) {
	sets, budget := int(x.Sets), float64(lotsBudget)
	if t.Quick {
		budget = quickDraws
	}
	if lots := w.draws(n); lots > 0 {
		sets = max(1, min(sets, int(budget/lots)))
	}
	l := RingLimit{Way: w.name, Agents: n, Capacities: "equal", Sets: sets, k: w.k}
	if len(capacities) > 1 {
		l.Capacities = "mixed"
	}
	for set := range sets {
		d, err := w.build(members(t.Seed, set, n, capacities))
		if err != nil {
			return l, err
		}
		one := deviation(d.Agents(), d.Shares())
		l.Mean.add(one, sets)
		l.Worst = Deviation{max(l.Worst.MAD, one.MAD), max(l.Worst.RMS, one.RMS), max(l.Worst.Max, one.Max)}
		if err := ctx.Err(); err != nil {
			return l, err
		}
		t.partial("set %d of %d", set+1, sets)
	}
	return l, nil
}

// modulo is the simplest way: the key modulo the number of agents.
type modulo []placement.Owner

func (m modulo) Owner(key uint64) placement.Owner                                 { return m[key%uint64(len(m))] }
func (m modulo) Nearest(dst []placement.Owner, _ uint64, _ int) []placement.Owner { return dst }
func (m modulo) Agents() []placement.Owner                                        { return m }
func (m modulo) Shares() []float64                                                { return make([]float64, len(m)) }

var moduloWay = way{
	name:  "modulo",
	build: func(as []placement.Owner) (divider, error) { return modulo(as), nil },
	join: func(d divider, a placement.Owner) (divider, error) {
		return append(modulo(nil), append(d.(modulo), a)...), nil
	},
	leave: func(d divider, name string) (divider, error) {
		var rest modulo
		for _, a := range d.(modulo) {
			if a.Name != name {
				rest = append(rest, a)
			}
		}
		return rest, nil
	},
}

// movesOf returns which hosts move when an agent joins 16 others, and when one leaves 16.
func movesOf(w way, seed uint64, keys []uint64) ([]RingMove, error) {
	as := members(seed, 0, 17, equal)
	newcomer, old := as[16], as[:16]
	before, err := w.build(old)
	if err != nil {
		return nil, err
	}
	joined, err := w.join(before, newcomer)
	if err != nil {
		return nil, err
	}
	left, err := w.leave(before, old[5].Name)
	if err != nil {
		return nil, err
	}
	return []RingMove{
		moved(w, "one joins 16", before, joined, keys, newcomer.Name, 1.0/17),
		moved(w, "one leaves 16", before, left, keys, old[5].Name, 1.0/16),
	}, nil
}

// moved counts the hosts with a new owner, and those of them that moved neither from nor to
// the agent who.
func moved(w way, what string, before, after divider, keys []uint64, who string, ideal float64) RingMove {
	m := RingMove{Way: w.name, What: what, Ideal: ideal}
	for _, key := range keys {
		a, b := before.Owner(key).Name, after.Owner(key).Name
		if a != b {
			m.Moved++
			if a != who && b != who {
				m.Astray++
			}
		}
	}
	m.Moved /= float64(len(keys))
	m.Astray /= float64(len(keys))
	return m
}
