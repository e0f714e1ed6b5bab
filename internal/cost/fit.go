package cost

import (
	"errors"
	"fmt"
	"math"
)

// A Run is one crawl that was measured.
type Run struct {
	Agents int     // of the cluster; 0: an agent that crawled alone, without a cluster
	Pages  float64 // of all agents together
	Speed  float64 // pages a second of one agent, on average
	Bytes  float64 // received for all Pages
}

// A Fitted is a Model whose constants are fitted to runs by least squares:
//
//	speed of an agent = Single - (Fixed + PerAgent*(n-1) + PerDoubling*log2(m)),    m in million pages
//
// Speeds alone cannot tell apart the kinds of overhead of the paper, so the fitted kinds are their sums by what they
// grow with.
type Fitted struct {
	Model
	Runs int
	// Error is the standard deviation of a run from the model, in pages a second of an agent. It is NaN if there are as
	// many constants as runs.
	Error float64
	// NoAlone means that no agent crawled alone. Then Single is the speed of the only agent of a cluster.
	NoAlone bool
	// OneSize means that all runs have about as many pages, so that the overhead does not depend on them.
	OneSize bool

	t       float64     // quantile of Student's distribution; 0: too few runs for a band
	inverse [][]float64 // of the matrix of the normal equations
}

// The kinds of a Fitted.
const (
	AnyAgents = "at any size"
	ByAgents  = "by the number of agents"
	ByPages   = "by the number of pages"
)

// level is the confidence of a band.
const level = 0.95

// Fit fits a Model to runs. The error says which runs are missing.
func Fit(runs []Run) (*Fitted, error) {
	f := &Fitted{Runs: len(runs), NoAlone: true}
	sizes := map[int]bool{}
	fewest, most := math.Inf(1), 0.0
	pages, bytes := 0.0, 0.0
	for _, r := range runs {
		pages, bytes = pages+r.Pages, bytes+r.Bytes
		if r.Agents == 0 {
			f.NoAlone = false
			continue
		}
		sizes[r.Agents] = true
		fewest, most = min(fewest, r.Pages), max(most, r.Pages)
	}
	if len(sizes) < 2 {
		return nil, errors.New("the runs must be of clusters with at least two different numbers of agents, " +
			"such as 2 and 4; one of them may be a cluster of one agent")
	}
	f.OneSize = most < 2*fewest
	size := len(f.row(1, 1))
	if len(runs) < size {
		return nil, fmt.Errorf("%d runs are too few for %d constants; add runs, or let all have about as many pages",
			len(runs), size)
	}
	var rows [][]float64
	var speeds []float64
	for _, r := range runs {
		rows, speeds = append(rows, f.row(r.Agents, r.Pages)), append(speeds, r.Speed)
	}
	constants, inverse, ok := least(rows, speeds)
	if !ok {
		return nil, errors.New("the runs cannot tell apart the effects of agents and of pages; add a run " +
			"with another number of pages and a number of agents that you have already")
	}
	f.inverse, f.Error = inverse, math.NaN()
	if free := len(runs) - size; free > 0 {
		squares := 0.0
		for i, row := range rows {
			off := speeds[i] - dot(row, constants)
			squares += off * off
		}
		f.Error = math.Sqrt(squares / float64(free))
		f.t = student(level, free)
	}
	f.Name, f.PageBytes = "fitted", bytes/pages
	f.constants(constants)
	if f.Single <= 0 {
		return nil, fmt.Errorf("the fitted speed of a single agent is %.3g pages/s; the runs contradict each other",
			f.Single)
	}
	return f, nil
}

// row returns what the constants are multiplied with for a run. n is 0 for an agent alone.
func (f *Fitted) row(n int, pages float64) []float64 {
	row := make([]float64, 0, 4)
	cluster := 1.0
	if n == 0 {
		cluster, n = 0, 1
	}
	row = append(row, 1, -float64(n-1))
	if !f.NoAlone {
		row = append(row, -cluster)
	}
	if !f.OneSize {
		row = append(row, -cluster*math.Log2(pages/1e6))
	}
	return row
}

// constants sets the Model to the constants in the order of a row.
func (f *Fitted) constants(c []float64) {
	f.Single = c[0]
	agent := c[1]
	rest := c[2:]
	if !f.NoAlone {
		f.Overheads = append(f.Overheads, Overhead{Kind: AnyAgents, Base: rest[0]})
		rest = rest[1:]
	}
	f.Overheads = append(f.Overheads, Overhead{Kind: ByAgents, Base: -agent, Agent: agent})
	if !f.OneSize {
		f.Overheads = append(f.Overheads, Overhead{Kind: ByPages, Doubling: rest[0]})
	}
}

// Band returns the bounds of the confidence band (95 %) of Speed. ok is false if there are too few runs for one.
func (f *Fitted) Band(n int, pages float64) (low, high float64, ok bool) {
	if f.t == 0 {
		return 0, 0, false
	}
	// The variance of the estimate at a row is that of a run, times the row times the inverse times the row.
	row, spread := f.row(n, pages), 0.0
	for i := range row {
		spread += row[i] * dot(f.inverse[i], row)
	}
	half := f.t * f.Error * math.Sqrt(spread)
	one := f.Single - f.Overhead(n, pages)
	return float64(n) * max(one-half, 0), float64(n) * (one + half), true
}

// A Sample is one kind of overhead that was measured in one run, in pages a second of an agent.
type Sample struct {
	Agents   int
	Pages    float64
	Overhead float64
}

// FitOverhead fits one kind of overhead to samples by least squares. If all samples have one number of agents, or one
// number of pages, the overhead does not depend on it.
func FitOverhead(kind string, samples []Sample) (Overhead, error) {
	o := Overhead{Kind: kind}
	agents, pages := map[int]bool{}, map[float64]bool{}
	for _, s := range samples {
		agents[s.Agents], pages[s.Pages] = true, true
	}
	fields := []*float64{&o.Base}
	if len(agents) > 1 {
		fields = append(fields, &o.Agent)
	}
	if len(pages) > 1 {
		fields = append(fields, &o.Doubling)
	}
	var rows [][]float64
	var measured []float64
	for _, s := range samples {
		row := []float64{1}
		if len(agents) > 1 {
			row = append(row, float64(s.Agents))
		}
		if len(pages) > 1 {
			row = append(row, math.Log2(s.Pages/1e6))
		}
		rows, measured = append(rows, row), append(measured, s.Overhead)
	}
	if len(samples) < len(fields) || len(samples) == 0 {
		return o, fmt.Errorf("%s: %d samples are too few for %d constants", kind, len(samples), len(fields))
	}
	constants, _, ok := least(rows, measured)
	if !ok {
		return o, fmt.Errorf("%s: the samples cannot tell apart the effects of agents and of pages", kind)
	}
	for i, field := range fields {
		*field = constants[i]
	}
	return o, nil
}
