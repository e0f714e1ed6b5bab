package cost

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// An Overhead is what one kind of work for the cluster costs each agent, in pages a second. With n agents and m million
// pages it is the Share of n, times Base + Agent*n + Doubling*log2(m).
type Overhead struct {
	Kind  string `json:"kind"`
	Share Share  `json:"share,omitempty"`
	// Own means that m is the number of pages of one agent, and not of all together.
	Own      bool    `json:"own_pages,omitempty"`
	Base     float64 `json:"base"`
	Agent    float64 `json:"per_agent"`
	Doubling float64 `json:"per_doubling"`
}

// A Share says by how many agents, or which part of the work, an overhead is multiplied.
type Share string

// The shares. The paper has only the first.
const (
	Always  Share = ""        // 1
	Each    Share = "each"    // n: all agents get what one has caused
	Others  Share = "others"  // (n-1)/n: for what belongs to other agents
	Cluster Share = "cluster" // 1; but 0 if there is only one agent
)

func (s Share) of(n int) float64 {
	switch {
	case s == Always:
		return 1
	case s == Each:
		return float64(n)
	case n < 2:
		return 0
	case s == Others:
		return float64(n-1) / float64(n)
	}
	return 1
}

// At returns the overhead of an agent among n that crawl so many pages together. pages must be above zero.
func (o *Overhead) At(n int, pages float64) float64 {
	if o.Own {
		pages /= float64(n)
	}
	return o.of(n, pages)
}

// of is At for the pages on which the overhead depends: those of all agents, or of one.
func (o *Overhead) of(n int, pages float64) float64 {
	return o.Share.of(n) * (o.Base + o.Agent*float64(n) + o.Doubling*math.Log2(pages/1e6))
}

// A Sample is one kind of overhead that was measured in one run, in pages a second of an agent. A run may give several
// samples, at several numbers of pages; they have the same number of agents.
type Sample struct {
	Agents   int
	Pages    float64
	Overhead float64
}

// A Part is one kind of overhead as it was measured in several runs, and the form that is fitted to it.
type Part struct {
	// Form has the Kind, Share and Own; its constants are not used.
	Form Overhead
	// ByAgents and ByPages fit the constants Agent and Doubling, which are zero without.
	ByAgents, ByPages bool
	Samples           []Sample
}

// A FittedParts is a Model whose kinds of overhead are fitted by least squares, each to its own samples.
type FittedParts struct {
	Model
	// without has the models that the samples give if those of one number of agents are left out.
	without []Model
}

// FitParts adds an Overhead for each part to a Model.
func FitParts(m Model, parts []Part) (*FittedParts, error) {
	sizes := map[int]bool{}
	for _, p := range parts {
		for _, s := range p.Samples {
			sizes[s.Agents] = true
		}
	}
	f := &FittedParts{Model: m}
	var err error
	if f.Overheads, err = fitAll(parts, 0); err != nil {
		return nil, err
	}
	for _, n := range slices.Sorted(maps.Keys(sizes)) {
		less := m
		if less.Overheads, err = fitAll(parts, n); err != nil {
			f.without = nil // too few samples for a band
			return f, nil
		}
		f.without = append(f.without, less)
	}
	return f, nil
}

// fitAll fits all kinds to the samples but those of one number of agents.
func fitAll(parts []Part, without int) (all []Overhead, err error) {
	for _, p := range parts {
		o, err := p.fit(without)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// fit fits the kind to the samples but those of one number of agents. If all samples have one number of agents, or one
// number of pages, the overhead does not depend on it. A kind without samples above zero costs nothing.
func (p *Part) fit(without int) (Overhead, error) {
	o := Overhead{Kind: p.Form.Kind, Share: p.Form.Share, Own: p.Form.Own}
	agents, pages := map[int]bool{}, map[float64]bool{}
	var used []Sample
	for _, s := range p.Samples {
		if s.Agents == without || o.Share.of(s.Agents) == 0 {
			continue
		}
		if o.Own {
			s.Pages /= float64(s.Agents)
		}
		used = append(used, s)
		agents[s.Agents], pages[s.Pages] = true, true
	}
	if !slices.ContainsFunc(used, func(s Sample) bool { return s.Overhead > 0 }) {
		return o, nil
	}
	byAgents, byPages := p.ByAgents && len(agents) > 1, p.ByPages && len(pages) > 1
	fields := []*float64{&o.Base}
	if byAgents {
		fields = append(fields, &o.Agent)
	}
	if byPages {
		fields = append(fields, &o.Doubling)
	}
	if len(used) < len(fields) {
		return o, fmt.Errorf("%s: %d samples are too few for %d constants", o.Kind, len(used), len(fields))
	}
	var rows [][]float64
	var measured []float64
	for _, s := range used {
		of := o.Share.of(s.Agents)
		row := []float64{of}
		if byAgents {
			row = append(row, of*float64(s.Agents))
		}
		if byPages {
			row = append(row, of*math.Log2(s.Pages/1e6))
		}
		rows, measured = append(rows, row), append(measured, s.Overhead)
	}
	constants, _, ok := least(rows, measured)
	if !ok {
		return o, fmt.Errorf("%s: the samples cannot tell apart the effects of agents and of pages", o.Kind)
	}
	for i, field := range fields {
		*field = constants[i]
	}
	return o, nil
}

// Band returns the bounds of the confidence band (95 %) of Speed, by the jackknife over the numbers of agents: samples
// of one run depend on each other, so a run is left out as a whole. ok is false if there are too few runs for one.
func (f *FittedParts) Band(n int, pages float64) (low, high float64, ok bool) {
	k := len(f.without)
	if k < 3 {
		return 0, 0, false
	}
	mean, squares := 0.0, 0.0
	for i := range f.without {
		mean += f.without[i].Speed(n, pages) / float64(k)
	}
	for i := range f.without {
		off := f.without[i].Speed(n, pages) - mean
		squares += off * off
	}
	half := student(level, k-1) * math.Sqrt(squares*float64(k-1)/float64(k))
	speed := f.Speed(n, pages)
	return max(0, speed-half), speed + half, true
}
