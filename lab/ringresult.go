package lab

import (
	"fmt"
	"math"
	"slices"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot/plotter"

	"github.com/orbweaver/orbweaver/internal/cluster/placement"
)

// percent converts a share to percent.
const percent = 100

// result returns the text, tables and figures of the experiment.
func (x *Ring) result(t *Trial, r *ringRun) *Result {
	return &Result{
		Name: "ring", Title: "How are hosts divided among agents?",
		Question: "How evenly do agents without a coordinator divide the hosts: with UbiCrawler's ring (section 4.3 " +
			"of its paper), and with rendezvous hashing over virtual buckets? What does the look-up of an owner " +
			"cost? Which hosts move when an agent joins or leaves?",
		SetUp: x.setUp(t),
		Sections: []Section{
			{Heading: "The paper's figure", Table: x.paper(r), Shown: true,
				Text: "The paper states a deviation below 6 % with 100 replicas and below 4.5 % with 200. This holds " +
					"for small and large sets of agents that have met a substantial number of hosts. The paper does " +
					"not say which deviation it means.\n\n- *Least* and *greatest*: the extremes over the numbers of " +
					"agents. Each value is the mean over all sets of names, computed from the shares of the " +
					"circle.\n- *Below*: how many of these values are below the paper's bound.\n- *Hosts met*: the " +
					"same, counted in hosts after the last host was met. Only the first sets of names are " +
					"counted.\n- *Fits*: \"yes\" if both are always below the bound, \"in part\" if only the shares " +
					"of the circle are. A mean over few sets of few agents varies much. So \"in part\" does not " +
					"refute the paper. \"Yes\" does not promise that every cluster stays below the bound: see the " +
					"greatest MAD of a set.\n- *Theory*: an agent's share is the mean of w random parts of the " +
					"circle. Each part reaches from the middle of one gap to the middle of the next. The standard " +
					"deviation of this mean is 1/√(2w), and its mean absolute deviation is √(2/π) times as much."},
			{Heading: "With ever more hosts, equal capacities", Table: limitTable(r, "equal"), Shown: true,
				Text: "The deviations of the shares of the circle or of the buckets, so they do not depend on which " +
					"hosts exist. The values are means over the sets of names. The last column is the greatest MAD " +
					"of a single set."},
			{Heading: "With ever more hosts, capacities 1, 2 and 4", Table: limitTable(r, "mixed")},
			{Heading: "Deviation as hosts are met", Table: growthTable(r),
				Text: fmt.Sprintf("Mean absolute deviation with equal capacities, the mean over %d sets of names. "+
					"With few hosts, chance alone causes a deviation of about √(2n/πh) for n agents and h hosts. No "+
					"method avoids this.", min(x.Sets, growthSets))},
			{Heading: "Time and memory", Table: timeTable(r), Shown: true, Text: fmt.Sprintf("The fastest of %d "+
				"rounds of %s look-ups of hosts in random order, and of %d joins and leaves. *Next*: the look-up of "+
				"the owner and the heir.", lookupRounds, humanize.Comma(ringLookups), ringRounds)},
			{Heading: "What moves", Table: moveTable(r), Shown: true,
				Text: "*Astray*: the share of hosts that moved between two agents although neither of them joined or " +
					"left."},
		},
		Data:    x.data(r),
		Figure:  x.figure(r),
		Figures: map[string]any{"growth": r.growth, "limits": r.limits, "times": r.times, "moves": r.moves},
		Again:   x.Again,
	}
}

func (x *Ring) setUp(t *Trial) string {
	return fmt.Sprintf("Seed %d determines the names of agents and hosts. A host's key is the xxHash of its name, as "+
		"in a crawl.\n\n- *Ring*: an agent has κ replicas for each unit of its capacity.\n- *Rendezvous*: the "+
		"method's name has the number of virtual buckets; the default is %s.\n\nThe deviation of an agent is "+
		"share/expected - 1. Its expected share is its capacity divided by the capacity of all agents. *MAD* is the "+
		"mean of the absolute deviations, *RMS* the root of the mean of their squares, and *max* the largest "+
		"absolute deviation.\n\nThe experiment measures the deviations with up to %s hosts. It also computes them "+
		"from the shares of the circle or of the buckets: these are the limit with ever more hosts. There are up to "+
		"%d sets of names. Rendezvous with many agents and buckets has fewer sets, because many agents already "+
		"average out chance. Everything runs in one process, one step after the other.", t.Seed,
		humanize.Comma(placement.Buckets),
		humanize.Comma(x.Hosts), x.Sets)
}

// paper compares the ring with the paper's bounds by each metric, for the shares themselves
// and for the hosts.
func (x *Ring) paper(r *ringRun) *Table {
	table := &Table{Columns: []Column{
		{Name: "replicas"}, {Name: "deviation"}, {Name: "least", Unit: "%", Digits: 2},
		{Name: "greatest", Unit: "%", Digits: 2},
		{Name: "theory", Unit: "%", Digits: 2}, {Name: "paper"}, {Name: "below"},
		{Name: "greatest, hosts met", Unit: "%", Digits: 2}, {Name: "below, hosts met"}, {Name: "fits"},
	}}
	for _, w := range []struct {
		k     int
		bound float64
	}{{ring100.k, paper100}, {ring200.k, paper200}} {
		rms := percent / math.Sqrt(2*float64(w.k))
		for _, m := range []struct {
			name   string
			of     func(Deviation) float64
			theory any
		}{
			{"mean absolute (MAD)", func(d Deviation) float64 { return d.MAD }, rms * math.Sqrt(2/math.Pi)},
			{"root mean square (RMS)", func(d Deviation) float64 { return d.RMS }, rms},
			{"maximum", func(d Deviation) float64 { return d.Max }, nil},
		} {
			var shares, met bounded
			for _, l := range r.limits {
				if l.k == w.k && l.Capacities == "equal" {
					shares.add(m.of(l.Mean), w.bound)
				}
			}
			for _, g := range r.growth {
				if g.k == w.k {
					met.add(m.of(g.By[len(g.By)-1]), w.bound)
				}
			}
			table.Add(w.k, m.name, percent*slices.Min(shares.all), percent*slices.Max(shares.all), m.theory,
				fmt.Sprintf("below %g %%", percent*w.bound), shares.String(), percent*slices.Max(met.all),
				met.String(), fits(shares, met))
		}
	}
	return table
}

// bounded holds values, and how many of them are below a bound.
type bounded struct {
	all   []float64
	below int
}

func (b *bounded) add(v, bound float64) {
	b.all = append(b.all, v)
	if v < bound {
		b.below++
	}
}

func (b bounded) String() string { return fmt.Sprintf("%d of %d", b.below, len(b.all)) }

// fits returns whether all values of both are below the bound. "In part" means that the shares
// themselves are, and the counts of hosts of some sets of names are not.
func fits(shares, met bounded) string {
	switch {
	case shares.below < len(shares.all):
		return "no"
	case met.below < len(met.all):
		return "in part"
	}
	return "yes"
}

// limitTable returns the deviations of the shares themselves.
func limitTable(r *ringRun, capacities string) *Table {
	table := &Table{Columns: []Column{{Name: "way"}, {Name: "agents"}, {Name: "sets"},
		{Name: "MAD", Unit: "%", Digits: 2}, {Name: "RMS", Unit: "%", Digits: 2}, {Name: "max", Unit: "%", Digits: 2},
		{Name: "greatest MAD", Unit: "%", Digits: 2}}}
	for _, l := range r.limits {
		if l.Capacities == capacities {
			table.Add(l.Way, l.Agents, l.Sets, percent*l.Mean.MAD, percent*l.Mean.RMS, percent*l.Mean.Max,
				percent*l.Worst.MAD)
		}
	}
	return table
}

// toldHosts returns the numbers of hosts in the text; the CSV has all.
func toldHosts(most int64) (ps []int64) {
	for p := int64(10_000); p < most; p *= 10 {
		ps = append(ps, p)
	}
	return append(ps, most)
}

func growthTable(r *ringRun) *Table {
	table := &Table{Columns: []Column{{Name: "way"}, {Name: "agents"}}}
	if len(r.growth) == 0 {
		return table
	}
	hosts := r.growth[0].Hosts
	told := toldHosts(hosts[len(hosts)-1])
	for _, p := range told {
		table.Columns = append(table.Columns, Column{Name: short10(p) + " hosts", Unit: "%", Digits: 2})
	}
	for _, g := range r.growth {
		cells := []any{g.Way, g.Agents}
		for _, p := range told {
			cells = append(cells, percent*g.By[slices.Index(g.Hosts, p)].MAD)
		}
		table.Add(cells...)
	}
	return table
}

func timeTable(r *ringRun) *Table {
	table := &Table{Columns: []Column{{Name: "way"}, {Name: "agents"}, {Name: "owner", Unit: "ns", Digits: 1},
		{Name: "next", Unit: "ns", Digits: 1}, {Name: "made anew", Unit: "ms", Digits: 2},
		{Name: "join", Unit: "ms", Digits: 2}, {Name: "leave", Unit: "ms", Digits: 2}, {Name: "memory", Unit: "kB"}}}
	for _, m := range r.times {
		table.Add(m.Way, m.Agents, m.Owner, m.Next, m.New, m.With, m.Without, float64(m.Bytes)/1e3)
	}
	return table
}

func moveTable(r *ringRun) *Table {
	table := &Table{Columns: []Column{{Name: "way"}, {Name: "what happens"}, {Name: "moved", Unit: "%", Digits: 2},
		{Name: "least that must", Unit: "%", Digits: 2}, {Name: "astray", Unit: "%", Digits: 2}}}
	for _, m := range r.moves {
		table.Add(m.Way, m.What, percent*m.Moved, percent*m.Ideal, percent*m.Astray)
	}
	return table
}

// data returns the CSV: deviations, and times in lines without a number of hosts.
func (x *Ring) data(r *ringRun) Table {
	t := Table{Columns: []Column{{Name: "way"}, {Name: "agents"}, {Name: "capacities"}, {Name: "hosts"}, {Name: "sets"},
		{Name: "mad"}, {Name: "rms"}, {Name: "max"}, {Name: "worst mad"}, {Name: "worst rms"}, {Name: "worst max"},
		{Name: "owner ns"}, {Name: "next ns"}, {Name: "new", Unit: "ms"}, {Name: "with", Unit: "ms"},
		{Name: "without", Unit: "ms"}, {Name: "bytes"}}}
	for _, g := range r.growth {
		for i, d := range g.By {
			t.Add(g.Way, g.Agents, "equal", g.Hosts[i], g.Sets, d.MAD, d.RMS, d.Max, nil, nil, nil, nil, nil, nil, nil,
				nil, nil)
		}
	}
	for _, l := range r.limits {
		t.Add(l.Way, l.Agents, l.Capacities, nil, l.Sets, l.Mean.MAD, l.Mean.RMS, l.Mean.Max, l.Worst.MAD, l.Worst.RMS,
			l.Worst.Max, nil, nil, nil, nil, nil, nil)
	}
	for _, m := range r.times {
		t.Add(m.Way, m.Agents, "equal", nil, nil, nil, nil, nil, nil, nil, nil, m.Owner, m.Next, m.New, m.With,
			m.Without, m.Bytes)
	}
	return t
}

// drawnSizes are those numbers of agents in the paper's figure whose lines can be told apart.
var drawnSizes = []int{2, 10, 100, 1000}

// figure draws the deviation as the number of hosts grows, as the paper does, its limit, and
// the time of a look-up.
func (x *Ring) figure(r *ringRun) *Figure {
	rings := Panel{Title: "Ring: deviation (MAD) as hosts are met; thin κ=100, thick κ=200", X: "hosts", Y: "%",
		Log: true}
	buckets := Panel{Title: "Rendezvous: the same", X: "hosts", Y: "%", Log: true}
	for _, g := range r.growth {
		at := slices.Index(drawnSizes, g.Agents)
		if at < 0 {
			continue
		}
		line := Line{Name: fmt.Sprintf("%d agents", g.Agents), Color: at + 1, Bold: g.k != ring100.k}
		for i, d := range g.By {
			if d.MAD > 0 { // 0 has no logarithm
				line.Points = append(line.Points, plotter.XY{X: float64(g.Hosts[i]), Y: percent * d.MAD})
			}
		}
		p := &buckets
		if g.k > 0 {
			p = &rings
			line.Name += fmt.Sprintf(", κ=%d", g.k)
		}
		p.Lines = append(p.Lines, line)
	}
	for i, bound := range []float64{paper100, paper200} {
		line := Line{Name: fmt.Sprintf("the paper's %g %%", percent*bound), Color: 8 - 2*i, Bold: i == 1}
		for _, h := range []int64{growthPoints(x.Hosts)[0], x.Hosts} {
			line.Points = append(line.Points, plotter.XY{X: float64(h), Y: percent * bound})
		}
		rings.Lines = append(rings.Lines, line)
	}
	limits := Panel{Title: "With ever more hosts", X: "agents", Y: "MAD (%)", Log: true}
	times := Panel{Title: "Time of a look-up", X: "agents", Y: "ns", Log: true}
	for i, w := range allWays {
		line := Line{Name: w.name, Color: i + 1, Bold: w.name == rendezvous18.name || w.name == ring200.name}
		for _, l := range r.limits {
			if l.Way == w.name && l.Capacities == "equal" && l.Mean.MAD > 0 {
				line.Points = append(line.Points, plotter.XY{X: float64(l.Agents), Y: percent * l.Mean.MAD})
			}
		}
		limits.Lines = append(limits.Lines, line)
		line.Points = nil
		for _, m := range r.times {
			if m.Way == w.name {
				line.Points = append(line.Points, plotter.XY{X: float64(m.Agents), Y: m.Owner})
			}
		}
		times.Lines = append(times.Lines, line)
	}
	return &Figure{Alt: "Deviation from the expected shares as hosts are met and with ever more hosts, and the time " +
		"of a look-up, by the number of agents", Panels: []Panel{rings, buckets, limits, times}}
}
