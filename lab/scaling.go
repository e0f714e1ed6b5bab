package lab

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// Scaling answers: does each of several agents fetch as many pages as a single agent, and each
// thread of an agent as many as a single thread?
//
// All agents run on this machine. In the part line, each has its own web server, with the same web
// as the others and a limited line, so that each agent has the same bandwidth as on a machine of
// its own. In the part threads, the web answers late, and --workers bounds the requests of an agent.
type Scaling struct {
	// Parts are those to run: line, whole and threads. Empty means all.
	Parts []string `name:"part" enum:"line,whole,threads" placeholder:"PART" help:"${scaling_part}"`
	// Agents lists the numbers of agents. Empty means 1, 2, 3, 4, 6, 7, 8, 12 and 16, with
	// --quick 1, 2 and 4.
	Agents []int `placeholder:"N" help:"${scaling_agents}"`
	// Bandwidth is the bandwidth of each line, in bytes per second. Zero means 500,000.
	Bandwidth quantity.Bandwidth `placeholder:"RATE" help:"Limit the line of each agent to RATE (default: 4Mbit)."`
	// Warm is the time before the measurement of a run, Measured the time of the measurement.
	// Zero means 8 s and 25 s, with --quick 2 s and 4 s.
	Warm     time.Duration `kong:"-"`
	Measured time.Duration `name:"duration" placeholder:"D" help:"Measure D of each run (default: 25s, quick 4s)."`
	// Runs is the number of runs with each number of agents. Zero means 3, with --quick 1.
	Runs int `placeholder:"N" help:"Run each number of agents N times (default: 3, quick 1)."`
	// Hosts is the number of hosts of a web that the agents crawl to the end, once with each
	// number of agents. Zero means 1,500, with --quick 100.
	Hosts int64 `kong:"-"`
	// Threads lists the numbers of threads of an agent in the part threads, and ThreadAgents those of
	// agents.
	Threads      []int `kong:"-"`
	ThreadAgents []int `kong:"-"`
}

const (
	// threadLatency is the latency of the web in the part threads.
	threadLatency = 100 * time.Millisecond
	// scalingHosts is the number of hosts per agent, enough that no timed crawl finishes.
	scalingHosts = 2000
	// scalingPages is the mean number of pages per host.
	scalingPages = 20
	// startSlack, and startSlack1 for each agent, bound the time until the last agent crawls.
	startSlack, startSlack1 = 4 * time.Second, time.Second
	// scalingMemory is the memory budget of an agent.
	scalingMemory = "128MiB"
	// scalingAim is the target for scalingAt agents: what each does, divided by what a single
	// agent does.
	scalingAim, scalingAt = 0.99, 7
)

// ErrScaling reports a page that two agents fetched, or a host that two agents visited.
var ErrScaling = errors.New("two agents fetched the same")

func (x *Scaling) defaults(quick bool) {
	size(quick, &x.Agents, []int{1, 2, 3, 4, 6, 7, 8, 12, 16}, []int{1, 2, 4})
	size(quick, &x.Bandwidth, 500_000, 500_000)
	size(quick, &x.Warm, 8*time.Second, 2*time.Second)
	size(quick, &x.Measured, 25*time.Second, 4*time.Second)
	size(quick, &x.Runs, 3, 1)
	size(quick, &x.Hosts, 1500, 100)
	all := []string{kindLine, kindWhole, kindThreads}
	size(quick, &x.Parts, all, all)
	size(quick, &x.Threads, []int{1, 2, 3, 5, 8, 16}, []int{1, 4})
	size(quick, &x.ThreadAgents, []int{2, 7, 14}, []int{2})
}

// The parts of the experiment, and kinds of crawls: timed behind a line, to the end, and timed with late servers.
const (
	kindLine    = "line"
	kindWhole   = "whole"
	kindThreads = "threads"
)

// A ScalingRun is one crawl with a number of agents.
type ScalingRun struct {
	Kind    string `json:"kind"`
	Agents  int    `json:"agents"`
	Run     int    `json:"run"`     // from 1
	Threads int    `json:"threads"` // of each agent; 0: the default
	// PagesPerS is the mean over the agents, in the measured time. Least and Most are of the
	// agents that fetched the least and the most.
	PagesPerS float64 `json:"pages_per_s"`
	Least     float64 `json:"least_pages_per_s"`
	Most      float64 `json:"most_pages_per_s"`
	// Line is the mean share of its line that an agent used. It is more exact than PagesPerS,
	// because pages have different lengths.
	Line float64 `json:"line_share"`
	costs
}

// costs are the costs of a crawl with several agents.
type costs struct {
	// Per fetched page: links sent to other agents, URLs that other agents were asked about, bytes
	// sent to other agents, and processor time of the agents. Then the largest memory of an agent.
	Overhead  float64 `json:"overhead"`
	Keys      float64 `json:"keys_per_page"`
	Exchanged float64 `json:"exchanged_bytes_per_page"`
	CPU       float64 `json:"cpu_us_per_page"`
	Peak      int64   `json:"peak_memory_bytes"`
	Pages     int64   `json:"pages"`
}

// Run implements Experiment.
func (x *Scaling) Run(ctx context.Context, t *Trial) (*Result, error) {
	y := *x
	y.defaults(t.Quick)
	var rs []ScalingRun
	// The numbers of agents and threads take turns, so that changes on the machine affect all of them.
	for run := 1; run <= y.Runs; run++ {
		for _, r := range y.turns() {
			if r.Run = run; r.Kind == kindWhole && run > 1 {
				continue
			}
			name := fmt.Sprintf("%s, %d agents, %d threads, run %d of %d", r.Kind, r.Agents, r.Threads, run, y.Runs)
			err := t.crawling(name, func() (string, error) {
				err := y.crawl(ctx, t, &r, func(*agentGroup) {})
				rs = append(rs, r)
				return fmt.Sprintf("%.1f pages/s each, %.2f links sent a page", r.PagesPerS, r.Overhead), err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return y.result(rs), nil
}

// turns returns the crawls of a run.
func (x *Scaling) turns() (rs []ScalingRun) {
	for _, kind := range x.Parts {
		if kind != kindThreads {
			for _, n := range x.Agents {
				rs = append(rs, ScalingRun{Kind: kind, Agents: n})
			}
			continue
		}
		for _, n := range x.ThreadAgents {
			for _, threads := range x.Threads {
				rs = append(rs, ScalingRun{Kind: kind, Agents: n, Threads: threads})
			}
		}
	}
	return rs
}

// crawl makes a crawl and measures it. change may change its agents.
func (x *Scaling) crawl(ctx context.Context, t *Trial, r *ScalingRun, change func(*agentGroup)) error {
	c := agentGroup{agents: r.Agents, webs: r.Agents,
		limit: x.Warm + x.Measured + startSlack + time.Duration(r.Agents)*startSlack1}
	c.spec.Spec = plainWeb(t.Seed+uint64(r.Run-1), int64(scalingHosts*slices.Max(x.Agents)))
	switch r.Kind {
	case kindWhole:
		c = agentGroup{agents: r.Agents, webs: 1, spec: WebSpec{Spec: plainWeb(t.Seed, x.Hosts), Truth: true}}
	case kindThreads:
		c.flags, c.spec.Shape.Latency = []string{"--workers", strconv.Itoa(r.Threads)}, threadLatency
	default:
		c.spec.Shape.BytesPerSecond = int64(x.Bandwidth)
	}
	change(&c)
	return c.together(ctx, t, func(all []*scaled) error {
		r.costs = costsOf(all)
		if r.Kind == kindWhole {
			return nil
		}
		return x.measure(r, all)
	})
}

// plainWeb is a web of hosts with scalingPages pages on average.
func plainWeb(seed uint64, hosts int64) gen.Spec {
	s := gen.Plain(seed, hosts)
	s.PagesMean = scalingPages
	return s
}

// table returns the rows of a report of a crawl, the head first.
func table(dir, name string) ([][]string, error) {
	f, err := os.Open(filepath.Join(dir, "reports", name))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = -1 // a last line may count what is left out
	rows, err := r.ReadAll()
	if err != nil || len(rows) == 0 {
		return nil, fmt.Errorf("%s has %d rows: %w", name, len(rows), err)
	}
	return rows, nil
}

// measure sums up a timed run.
func (x *Scaling) measure(r *ScalingRun, all []*scaled) error {
	// The time from which all agents crawl.
	var from time.Time
	for _, a := range all {
		i := slices.IndexFunc(a.progress, func(p paged) bool { return p.pages > 0 })
		if i < 0 {
			return fmt.Errorf("%s fetched nothing", a.name)
		}
		if at := a.progress[i].at; at.After(from) {
			from = at
		}
	}
	from = from.Add(x.Warm)
	to := from.Add(x.Measured)
	var rates, lines []float64
	for _, a := range all {
		if !a.crawledAt(from) || !a.crawledAt(to) {
			return fmt.Errorf("%s did not crawl during the whole measured time", a.name)
		}
		begin, end := a.at(from), a.at(to)
		rates = append(rates, (end.pages-begin.pages)/x.Measured.Seconds())
		lines = append(lines, (end.received-begin.received)/x.Measured.Seconds()/float64(x.Bandwidth))
	}
	r.PagesPerS, r.Least, r.Most, r.Line = average(rates), slices.Min(rates), slices.Max(rates), average(lines)
	return nil
}

// costsOf returns the costs of a whole crawl.
func costsOf(all []*scaled) (c costs) {
	var sent, keys, exchanged int64
	var cpu time.Duration
	for _, a := range all {
		s := a.summary
		c.Pages += s.Pages
		if e := s.Exchange; e != nil {
			sent, keys, exchanged = sent+e.Links, keys+e.Keys, exchanged+e.Bytes
		}
		cpu += a.usage.CPU
		c.Peak = max(c.Peak, a.usage.Peak, s.PeakMemory)
	}
	pages := float64(c.Pages)
	c.Overhead, c.Keys = float64(sent)/pages, float64(keys)/pages
	c.Exchanged, c.CPU = float64(exchanged)/pages, float64(cpu.Microseconds())/pages
	return c
}
