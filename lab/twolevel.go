package lab

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// TwoLevel repeats the experiments of the paper on FC2L-UDCbot, a crawler with a coordinator
// ("Full-coverage two-level URL duplication checking"): sections 4 and 5, figures 7 to 12.
type TwoLevel struct {
	// Parts are those of TwoLevelParts to run. Empty means all.
	Parts []string `name:"part" placeholder:"PART" help:"${twolevel_part}"`
	// Agents lists the numbers of agents of the crawls and of the part speed. Empty means 1, 2, 3, 5 and 7, as in the
	// paper; with --quick 1, 2 and 3.
	Agents []int `placeholder:"N" help:"${twolevel_agents}"`
	// Pages lists the numbers of pages, of all agents together, at which the crawls are compared,
	// from low to high. Only the most agents fetch the last of them. Fewer agents fetch their share of
	// the last but one, so that their crawls take about as long as each other. Empty means 31,250 and
	// its doubles up to 2 million; with --quick 200, 400 and 800.
	Pages []int64 `placeholder:"N" help:"${twolevel_pages}"`
	// PageBytes is the mean length of a page. Zero means 22,300, as in the paper; with --quick 3,000.
	PageBytes int `kong:"-"`
	// Bandwidth is the bandwidth of each agent's line, in bytes per second. Zero means 2,500,000, with
	// --quick 500,000.
	Bandwidth int64 `kong:"-"`
	// Hosts is the number of hosts of the webs of the part coverage. Zero means 2,000, with --quick 100.
	Hosts int64 `placeholder:"N" help:"${twolevel_hosts}"`
	// Timed has the times of the part speed, and its number of runs. Its zero values mean 20 s, 40 s and 2,
	// with --quick 2 s, 4 s and 1.
	Timed Scaling `kong:"-"`
}

// The parts of the experiment.
const (
	partModel    = "model"
	partSpeed    = "speed"
	partCoverage = "coverage"
	partCrawls   = "crawls"
	partFast     = "fast"
)

// TwoLevelParts returns the names of the parts, in their order.
func TwoLevelParts() []string {
	return []string{partModel, partCoverage, partSpeed, partCrawls, partFast}
}

func (x *TwoLevel) defaults(quick bool) {
	size(quick, &x.Hosts, 2000, 100)
	size(quick, &x.PageBytes, 22_300, 3000)
	size(quick, &x.Bandwidth, 2_500_000, 500_000)
	size(quick, &x.Parts, TwoLevelParts(), TwoLevelParts())
	size(quick, &x.Timed.Warm, 20*time.Second, 2*time.Second)
	size(quick, &x.Timed.Measured, 40*time.Second, 4*time.Second)
	size(quick, &x.Timed.Runs, 2, 1)
	size(quick, &x.Agents, []int{1, 2, 3, 5, 7}, []int{1, 2, 3})
	size(quick, &x.Pages, []int64{31_250, 62_500, 125_000, 250_000, 500_000, 1_000_000, 2_000_000},
		[]int64{200, 400, 800})
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
	speeds   []ScalingRun // of the kinds sites and two-level
	crawls   []TwoLevelCrawl
	points   []TwoLevelPoint
}

// Run implements Experiment.
func (x *TwoLevel) Run(ctx context.Context, t *Trial) (*Result, error) {
	y := *x
	y.defaults(t.Quick)
	var r twoLevelRun
	var err error
	if y.has(partCoverage) {
		if r.coverage, err = y.cover(ctx, t); err != nil {
			return nil, fmt.Errorf("coverage: %w", err)
		}
	}
	if y.has(partSpeed) {
		if err = y.speed(ctx, t, &r); err != nil {
			return nil, fmt.Errorf("speed: %w", err)
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
	return y.result(&r), nil
}
