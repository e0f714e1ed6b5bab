package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
)

// TwoLevel repeats the experiments of the paper on FC2L-UDCbot, a crawler with a coordinator
// ("Full-coverage two-level URL duplication checking"): sections 4 and 5, figures 7 to 12.
type TwoLevel struct {
	// Parts are those of TwoLevelParts to run. Empty means all.
	Parts []string
	// Agents lists the numbers of agents of the crawls. Empty means 1, 2, 3, 5 and 7, as in the
	// paper; with --quick 1, 2 and 3.
	Agents []int
	// Pages lists the numbers of pages, of all agents together, at which the crawls are compared,
	// from low to high. Only the most agents fetch the last of them. Fewer agents fetch their share of
	// the last but one, so that their crawls take about as long as each other. Empty means 31,250 and
	// its doubles up to 2 million; with --quick 200, 400 and 800.
	Pages []int64
	// PageBytes is the mean length of a page. Zero means 22,300, as in the paper; with --quick 3,000.
	PageBytes int
	// Bandwidth is the bandwidth of each agent's line, in bytes per second. Zero means 2,500,000, with
	// --quick 500,000.
	Bandwidth int64
	// Hosts is the number of hosts of the webs of the part coverage. Zero means 2,000, with --quick 100.
	Hosts int64
	// From are JSON files of earlier runs. If there are any, nothing is measured: their results are written again, as
	// one result. Of the same crawl in several files, the last counts.
	From []string
}

// The parts of the experiment.
const (
	partModel    = "model"
	partCoverage = "coverage"
	partCrawls   = "crawls"
	partFast     = "fast"
)

// TwoLevelParts returns the names of the parts, in their order.
func TwoLevelParts() []string {
	return []string{partModel, partCoverage, partCrawls, partFast}
}

func (x *TwoLevel) defaults(quick bool) {
	if quick {
		def(&x.Hosts, 100)
		def(&x.PageBytes, 3000)
		def(&x.Bandwidth, 500_000)
		if x.Agents == nil {
			x.Agents = []int{1, 2, 3}
		}
		if x.Pages == nil {
			x.Pages = []int64{200, 400, 800}
		}
	}
	def(&x.Hosts, 2000)
	def(&x.PageBytes, 22_300)
	def(&x.Bandwidth, 2_500_000)
	if x.Parts == nil {
		x.Parts = TwoLevelParts()
	}
	if x.Agents == nil {
		x.Agents = []int{1, 2, 3, 5, 7}
	}
	if x.Pages == nil {
		x.Pages = []int64{31_250, 62_500, 125_000, 250_000, 500_000, 1_000_000, 2_000_000}
	}
}

// share returns how many pages a number of agents fetches.
func (x *TwoLevel) share(agents int) int64 {
	last, most := len(x.Pages)-1, slices.Max(x.Agents)
	if agents == most || last == 0 {
		return x.Pages[last]
	}
	return max(x.Pages[last-1]*int64(agents)/int64(most), x.Pages[0])
}

// common returns the largest of Pages that any number of agents fetches.
func (x *TwoLevel) common() (pages int64) {
	for _, p := range x.Pages {
		if p <= x.share(slices.Min(x.Agents)) {
			pages = p
		}
	}
	return pages
}

func (x *TwoLevel) has(part string) bool { return slices.Contains(x.Parts, part) }

// twoLevelRun has the results of all parts.
type twoLevelRun struct {
	coverage []CoverageRun
	crawls   []TwoLevelCrawl
	points   []TwoLevelPoint
}

// Run implements Experiment.
func (x *TwoLevel) Run(ctx context.Context, t *Trial) (*Result, error) {
	y := *x
	y.defaults(t.Quick)
	var r twoLevelRun
	var err error
	if len(y.From) > 0 {
		return y.again(t)
	}
	if y.has(partCoverage) {
		if r.coverage, err = y.cover(ctx, t); err != nil {
			return nil, fmt.Errorf("coverage: %w", err)
		}
	}
	if y.has(partCrawls) {
		if err = y.crawl(ctx, t, &r); err != nil {
			return nil, fmt.Errorf("crawls: %w", err)
		}
	}
	if y.has(partFast) {
		if err = y.fast(ctx, t, &r); err != nil {
			return nil, fmt.Errorf("fast: %w", err)
		}
	}
	return y.result(t, &r), nil
}

// twoLevelSetUp is what a run was asked for, in its JSON.
type twoLevelSetUp struct {
	Parts     []string `json:"parts"`
	Agents    []int    `json:"agents"`
	Pages     []int64  `json:"pages"`
	PageBytes int      `json:"page_bytes"`
	Bandwidth int64    `json:"bandwidth_bytes_per_s"`
	Hosts     int64    `json:"hosts"`
	Again     string   `json:"again"`
}

// again returns the result of the runs whose JSON are the files From.
func (x *TwoLevel) again(t *Trial) (*Result, error) {
	r, y := &twoLevelRun{}, *t
	var first Earlier
	x.Parts = nil
	for i, name := range x.From {
		var run struct {
			Experiment string
			Earlier
			Figures struct {
				Coverage []CoverageRun
				Crawls   []TwoLevelCrawl
				Points   []TwoLevelPoint
				SetUp    twoLevelSetUp `json:"set_up"`
			}
		}
		b, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(b, &run)
		}
		f := run.Figures
		if err == nil && (!strings.HasPrefix(run.Experiment, "twolevel") || len(f.SetUp.Parts) == 0) {
			err = fmt.Errorf("%s is not the JSON of this experiment", name)
		}
		if err != nil {
			return nil, fmt.Errorf("an earlier run: %w", err)
		}
		if i == 0 { // the others add to it
			first, y.Seed, y.Again = run.Earlier, run.Seed, f.SetUp.Again
			x.Agents, x.Pages, x.PageBytes = f.SetUp.Agents, f.SetUp.Pages, f.SetUp.PageBytes
			x.Bandwidth, x.Hosts = f.SetUp.Bandwidth, f.SetUp.Hosts
		}
		for _, p := range f.SetUp.Parts {
			if !x.has(p) {
				x.Parts = append(x.Parts, p)
			}
		}
		r.coverage = append(r.coverage, f.Coverage...)
		for _, c := range f.Crawls {
			r.drop(c.Way, c.Agents)
		}
		r.crawls, r.points = append(r.crawls, f.Crawls...), append(r.points, f.Points...)
	}
	res := x.result(&y, r)
	res.Earlier, res.Again = &first, y.Again
	return res, nil
}

// drop removes a crawl.
func (r *twoLevelRun) drop(way string, agents int) {
	r.crawls = slices.DeleteFunc(r.crawls, func(c TwoLevelCrawl) bool { return c.Way == way && c.Agents == agents })
	r.points = slices.DeleteFunc(r.points, func(p TwoLevelPoint) bool { return p.Way == way && p.Agents == agents })
}

// result returns the text, tables and figures.
func (x *TwoLevel) result(t *Trial, r *twoLevelRun) *Result {
	res := &Result{
		Name: "twolevel", Title: "What does a coordinator cost?",
		Question: "The paper on FC2L-UDCbot (\"Full-coverage two-level URL duplication checking\") lets a " +
			"coordinator assign whole hosts to agents. It measures seven agents, and estimates up to 300. How do " +
			"`--partition sites` and the default, `--partition rendezvous`, compare with it?",
		SetUp: x.setUp(t, r),
		Data: Table{Columns: []Column{{Name: "part"}, {Name: "way"}, {Name: "agents"}, {Name: "pages"},
			{Name: "case"}, {Name: "what"}, {Name: "value"}}},
		Figure: &Figure{Alt: "The experiments of the paper on FC2L-UDCbot: " + strings.Join(x.Parts, ", ") + "."},
		Figures: map[string]any{"coverage": r.coverage, "crawls": r.crawls,
			"points": r.points, "set_up": twoLevelSetUp{x.Parts, x.Agents, x.Pages, x.PageBytes, x.Bandwidth,
				x.Hosts, t.Again}},
	}
	if len(x.Parts) == 1 {
		res.Name += "-" + x.Parts[0]
	}
	if x.has(partCrawls) {
		x.crawlsResult(res, r)
	}
	if x.has(partFast) {
		x.fastResult(res, r)
	}
	if x.has(partModel) {
		x.modelResult(res, r)
	}
	if x.has(partCoverage) {
		x.coverageResult(res, r.coverage)
	}
	return res
}

// received returns the mean bytes of a page on the line; zero: nothing was crawled.
func (r *twoLevelRun) received() float64 {
	sum := 0.0
	for _, p := range r.points {
		sum += p.Received / float64(len(r.points))
	}
	return sum
}

func (x *TwoLevel) setUp(t *Trial, r *twoLevelRun) string {
	text := "Paper: eight machines with a Core 2 Duo and 1 GB of memory; pages of 22.3 KB from a line of 320 Mbit/s " +
		"for each agent, emulated by disks."
	if x.has(partCrawls) || x.has(partFast) {
		text += fmt.Sprintf(" Here: processes of one machine. Each agent has a web server of its own with the same "+
			"generated web (seed %d, pages of %s bytes, compressed to %s on the line), behind a line of %s/s. Agents "+
			"and coordinator reach each other on loopback without keys.", t.Seed, humanize.Comma(int64(x.PageBytes)),
			humanize.Comma(int64(r.received())), humanize.Bytes(uint64(x.Bandwidth)))
	}
	return text
}
