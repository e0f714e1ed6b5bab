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
// Speeds alone cannot tell apart the kinds of overhead of the paper, so there is one, of AnyKind.
type Fitted struct {
	Model
	Runs int
	// NoAlone means that no agent crawled alone. Then Single is the speed of the only agent of a cluster.
	NoAlone bool
	// OneSize means that all runs have about as many pages, so that the overhead does not depend on them.
	OneSize bool

	regression regression
}

// Error returns the standard deviation of a run from the model, in pages a second of an agent. It is NaN if there are
// as many constants as runs.
func (f *Fitted) Error() float64 { return f.regression.error }

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
		f.MostAgents = max(f.MostAgents, r.Agents)
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
	var ok bool
	if f.regression, ok = regress(rows, speeds); !ok {
		return nil, errors.New("the runs cannot tell apart the effects of agents and of pages; add a run " +
			"with another number of pages and a number of agents that you have already")
	}
	f.Name, f.PageBytes = "fitted", bytes/pages
	f.constants(f.regression.constants, most)
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

// AnyKind is the kind of the only Overhead of a Fitted.
const AnyKind = "cluster"

// constants sets the Model to the constants in the order of a row. More pages than in any run make no agent faster.
func (f *Fitted) constants(c []float64, mostPages float64) {
	f.Single = c[0]
	o := Overhead{Kind: AnyKind, Base: -c[1], Agent: c[1]}
	rest := c[2:]
	if !f.NoAlone {
		o.Base += rest[0]
		rest = rest[1:]
	}
	if !f.OneSize {
		if o.Doubling = rest[0]; o.Doubling < 0 {
			f.MostPages = mostPages
		}
	}
	f.Overheads = []Overhead{o}
}

// Band returns the bounds of the confidence band (95 %) of Speed. ok is false if there are too few runs for one.
func (f *Fitted) Band(n int, pages float64) (low, high float64, ok bool) {
	if f.MostPages > 0 {
		pages = min(pages, f.MostPages)
	}
	half, ok := f.regression.half(f.row(n, pages))
	one := f.Single - f.Overhead(n, pages)
	return float64(n) * max(one-half, 0), float64(n) * (one + half), ok
}
