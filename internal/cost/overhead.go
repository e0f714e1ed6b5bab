package cost

import (
	"fmt"
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
func (o Overhead) At(n int, pages float64) float64 {
	return o.Share.of(n) * (o.Base + o.Agent*float64(n) + o.Doubling*o.doublings(n, pages))
}

func (o *Overhead) doublings(n int, pages float64) float64 {
	if o.Own {
		pages /= float64(n)
	}
	return math.Log2(pages / 1e6)
}

// A Sample is one kind of overhead that was measured in one run, in pages a second of an agent.
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
	fits []fittedPart
}

type fittedPart struct {
	of         func(n int, pages float64) []float64
	regression regression
}

// FitParts adds an Overhead for each part to a Model.
func FitParts(m Model, parts []Part) (*FittedParts, error) {
	f := &FittedParts{Model: m}
	for _, p := range parts {
		if err := f.fit(p); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// fit fits one kind. If all samples have one number of agents, or one number of pages, the overhead does not depend on
// it. A kind without samples above zero costs nothing.
func (f *FittedParts) fit(p Part) error {
	o := Overhead{Kind: p.Form.Kind, Share: p.Form.Share, Own: p.Form.Own}
	agents, pages := map[int]bool{}, map[float64]bool{}
	var used []Sample
	for _, s := range p.Samples {
		if o.Share.of(s.Agents) > 0 {
			used = append(used, s)
			agents[s.Agents], pages[o.doublings(s.Agents, s.Pages)] = true, true
		}
	}
	if !slices.ContainsFunc(used, func(s Sample) bool { return s.Overhead > 0 }) {
		f.Overheads = append(f.Overheads, o)
		return nil
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
		return fmt.Errorf("%s: %d samples are too few for %d constants", o.Kind, len(used), len(fields))
	}
	row := func(n int, m float64) []float64 {
		of := o.Share.of(n)
		row := []float64{of}
		if byAgents {
			row = append(row, of*float64(n))
		}
		if byPages {
			row = append(row, of*o.doublings(n, m))
		}
		return row
	}
	var rows [][]float64
	var measured []float64
	for _, s := range used {
		rows, measured = append(rows, row(s.Agents, s.Pages)), append(measured, s.Overhead)
	}
	r, ok := regress(rows, measured)
	if !ok {
		return fmt.Errorf("%s: the samples cannot tell apart the effects of agents and of pages", o.Kind)
	}
	for i, field := range fields {
		*field = r.constants[i]
	}
	f.Overheads = append(f.Overheads, o)
	f.fits = append(f.fits, fittedPart{row, r})
	return nil
}

// Band returns the bounds of the confidence band (95 %) of Speed, if the kinds deviate independently of each other. ok
// is false if there are too few samples for one.
func (f *FittedParts) Band(n int, pages float64) (low, high float64, ok bool) {
	squares := 0.0
	for _, p := range f.fits {
		half, ok := p.regression.half(p.of(n, f.capped(pages)))
		if !ok {
			return 0, 0, false
		}
		squares += half * half
	}
	return f.within(n, pages, math.Sqrt(squares))
}
