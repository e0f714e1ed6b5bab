package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot/plotter"

	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// Memory answers: does a long crawl keep its speed and its bound of memory?
type Memory struct {
	Agent Program
	// Hosts and PagesMean are the number of hosts of the web and their mean number of pages.
	// The crawl ends after Pages pages. Zero means 1,000,000 hosts of 20 pages and 3,000,000
	// pages; with --quick 30,000 hosts and 60,000 pages.
	Hosts     int64
	PagesMean float64
	Pages     int64
	// Duration ends the crawl earlier. Zero means no limit of time.
	Duration time.Duration
	// PageBytes is the mean length of a page in bytes. Zero means the web's default. Small
	// pages make a long crawl faster: the work that does not depend on the length of a page
	// then takes a larger share of the processor time.
	PageBytes int
	// Budget is the agent's --memory in bytes. Zero means the agent's default and a Bound of
	// 1 GB.
	Budget int64
	// Bound is the largest memory in bytes that the agent may take, also while it stops. Zero
	// means Budget.
	Bound int64
}

// steady is the share by which the last tenth of the crawl may be worse than the first, in
// speed and in processor time per page.
const steady = 0.1

// ErrMemory reports a crawl that took more memory than Memory.Bound.
var ErrMemory = errors.New("too much memory")

// Run implements Experiment.
func (x *Memory) Run(ctx context.Context, t *Trial) (*Result, error) {
	y := *x
	if t.Quick {
		def(&y.Hosts, 30_000)
		def(&y.Pages, 60_000)
	}
	def(&y.Hosts, 1_000_000)
	def(&y.Pages, 3_000_000)
	def(&y.PagesMean, 20)
	def(&y.Bound, y.Budget)
	def(&y.Bound, 1e9)
	spec := WebSpec{Spec: gen.Plain(t.Seed, y.Hosts)}
	spec.PagesMean, spec.PageBytes = y.PagesMean, y.PageBytes
	var flags []string
	if y.Budget > 0 {
		flags = []string{"--memory", strconv.FormatInt(y.Budget, 10)}
	}
	b := &bench{t: t, x: &Throughput{}}
	var (
		mu      sync.Mutex // guards samples
		samples = []Sample{{}}
		run     *crawlRun
	)
	err := b.with(ctx, spec, func(w *web, dir string) (err error) {
		done := t.step("%s pages of %s hosts", humanize.Comma(y.Pages), humanize.Comma(y.Hosts))
		stop := keepSmall(filepath.Join(dir, "crawl", "archive"))
		defer stop()
		tick := func(s progressLine, now Sample) {
			mu.Lock()
			samples = append(samples, now)
			mu.Unlock()
			t.partial("%s pages, %s pages/s, %d MB", count(float64(s.Pages)), count(s.PagesPerS), now.Resident/1e6)
		}
		job := crawlJob{
			Program: y.Agent.Path, Web: w, Dir: filepath.Join(dir, "crawl"), PageLimit: y.Pages, TimeLimit: y.Duration,
			Flags: flags, Tick: tick,
		}
		if run, err = job.run(ctx); err != nil {
			return err
		}
		a := micros(run.Usage.CPU / time.Duration(run.Summary.Pages))
		done("%s pages/s, %s of CPU a page, %d MB at the peak", count(run.PagesPerS()), a, run.Usage.Peak/1e6)
		return nil
	})
	if err != nil {
		return nil, err
	}
	r := y.result(t, samples, run)
	if run.Usage.Peak >= y.Bound {
		err = fmt.Errorf("%w: %s at the peak, the bound is %s", ErrMemory,
			humanize.Bytes(uint64(run.Usage.Peak)), humanize.Bytes(uint64(y.Bound)))
	}
	return r, err
}

// keepSmall truncates finished archive files to zero bytes, because the archive of a long run is
// not read and would fill the disk. The names of the files stay.
func keepSmall(dir string) (stop func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				names, _ := filepath.Glob(filepath.Join(dir, "*.warc.gz"))
				for _, name := range names {
					os.Truncate(name, 0)
				}
			case <-over:
				return
			}
		}
	}()
	return func() { close(over); <-done }
}

// result returns the text, tables and figures of the experiment.
func (x *Memory) result(t *Trial, samples []Sample, run *crawlRun) *Result {
	tenths := Tenths(samples)
	byTenth := &Table{Columns: []Column{
		{Name: "tenth"}, {Name: "until", Unit: "pages"}, {Name: "pages/s"}, {Name: "to the first", Digits: 3},
		{Name: "most memory", Unit: "MB"}, {Name: "CPU a page", Unit: "µs"}, {Name: "CPU to the first", Digits: 3},
		{Name: "web's", Unit: "µs"},
	}}
	last, lastCPU, firstCPU := 0.0, 0.0, 0.0
	for i, rate := range tenths {
		until := run.Summary.Pages * int64(i+1) / 10
		last = rate / max(tenths[0], 1e-9)
		from := run.Summary.Pages * int64(i) / 10
		cpu, web := cpuAPage(samples, from, until)
		if i == 0 {
			firstCPU = cpu
		}
		lastCPU = cpu / max(firstCPU, 1e-9)
		byTenth.Add(i+1, until, rate, last, float64(mostOf(samples, from, until))/1e6, cpu, lastCPU, web)
	}
	verdict := "The crawl is too short for a comparison of its tenths."
	if tenths != nil {
		verdict = fmt.Sprintf("The last tenth of the pages had %.3f times the rate of the first: ", last)
		if last >= 1-steady {
			verdict += fmt.Sprintf("at most %.0f %% slower.", 100*steady)
		} else {
			verdict += fmt.Sprintf("more than %.0f %% slower.", 100*steady)
		}
		verdict += fmt.Sprintf(" A page in the last tenth took %.3f times the processor time of a page in the first: ",
			lastCPU)
		if lastCPU <= 1+steady {
			verdict += fmt.Sprintf("at most %.0f %% more.", 100*steady)
		} else {
			verdict += fmt.Sprintf("more than %.0f %% more.", 100*steady)
		}
	}
	s := &run.Summary
	pages := time.Duration(max(s.Pages, 1))
	sum := &Table{Columns: []Column{{Name: "figure"}, {Name: "value", Digits: 1}}}
	sum.Add("pages", s.Pages)
	sum.Add("hosts that were asked", int64(s.Hosts))
	sum.Add("URLs found", s.Discovered)
	sum.Add("URLs accepted", s.Unique)
	sum.Add("peak memory (MB)", float64(run.Usage.Peak)/1e6)
	sum.Add("time from start to end (s)", run.Usage.Wall.Seconds())
	sum.Add("pages/s, whole", run.PagesPerS())
	sum.Add("pages/s, fetching", run.FetchingPerS())
	sum.Add("CPU a page (µs)", float64(run.Usage.CPU/pages)/1e3)
	sum.Add("web's CPU a page (µs)", float64(run.WebCPU/pages)/1e3)
	bad, twice := int64(0), int64(0)
	for _, n := range run.Report.ViolationCount {
		bad += n
	}
	if o := run.Report.Origin; o != nil {
		twice = o.Twice
	}
	sum.Add("violations", bad)
	sum.Add("pages fetched twice", twice)
	name, title := "throughput-memory", "Memory and speed of a long crawl"
	if x.Budget > 0 {
		budget := mebibytes(x.Budget)
		name, title = name+"-"+budget, title+" with "+budget
	}
	r := &Result{
		Name: name, Title: title,
		Question: "Does an agent keep its memory below " + humanize.Bytes(uint64(x.Bound)) +
			", and its speed, as the number of known URLs grows?",
		SetUp: x.setUp(t.Seed),
		Sections: []Section{{Heading: "Summary", Table: sum, Shown: true, Text: verdict},
			{Heading: "In tenths of the pages", Table: byTenth, Shown: true}},
		Data: Table{Columns: []Column{
			{Name: "time", Unit: "s"}, {Name: "pages"}, {Name: "resident bytes"},
			{Name: "agent's CPU", Unit: "s"}, {Name: "web's CPU", Unit: "s"},
		}},
		Figures: map[string]any{
			"pages": s.Pages, "hosts": s.Hosts, "peak_bytes": run.Usage.Peak, "bound_bytes": x.Bound,
			"wall_s":      run.Usage.Wall.Seconds(),
			"pages_per_s": run.PagesPerS(), "fetching_pages_per_s": run.FetchingPerS(), "tenths_pages_per_s": tenths,
			"last_to_first": last, "cpu_last_to_first": lastCPU,
			"cpu_us": float64(run.Usage.CPU/pages) / 1e3, "violations": bad, "twice": twice,
		},
	}
	for _, p := range samples {
		r.Data.Add(p.At, p.Pages, p.Resident, p.CPU, p.WebCPU)
	}
	r.Figure = memoryFigure(samples, tenths, x.Bound)
	return r
}

// setUp returns text that says what was measured.
func (x *Memory) setUp(seed uint64) string {
	length, budget := "", ""
	if x.PageBytes > 0 {
		length = fmt.Sprintf(", each of %s on average", humanize.Bytes(uint64(x.PageBytes)))
	}
	if x.Budget > 0 {
		budget = " --memory " + mebibytes(x.Budget)
	}
	return fmt.Sprintf("The web is generated (seed %d) and has %s hosts with %g pages each on average%s. A process "+
		"of its own serves it with gzip, on the same cores. The crawl is `crawl --delay 0 --scope any --page-limit "+
		"%d%s`, with defaults for all other settings. The experiment records pages and resident memory each second. "+
		"It empties complete archive files meanwhile, to save disk space.",
		seed, humanize.Comma(x.Hosts), x.PagesMean, length, x.Pages, budget)
}

// mebibytes formats a number of bytes for a file name, such as 256MiB.
func mebibytes(n int64) string {
	if n%(1<<20) == 0 {
		return strconv.FormatInt(n>>20, 10) + "MiB"
	}
	return strconv.FormatInt(n, 10)
}

// cpuAPage returns the processor time per page of the agent and of the web, between two
// numbers of pages, in microseconds.
func cpuAPage(samples []Sample, from, until int64) (agent, web float64) {
	at := func(pages int64) Sample {
		i, _ := slices.BinarySearchFunc(samples, pages, func(s Sample, n int64) int { return cmp.Compare(s.Pages, n) })
		return samples[min(i, len(samples)-1)]
	}
	a, b := at(from), at(until)
	n := float64(max(b.Pages-a.Pages, 1))
	return float64(b.CPU-a.CPU) / n / 1e3, float64(b.WebCPU-a.WebCPU) / n / 1e3
}

// mostOf returns the largest memory of the samples between two numbers of pages.
func mostOf(samples []Sample, from, to int64) int64 {
	most := int64(0)
	for _, s := range samples {
		if s.Pages >= from && s.Pages <= to {
			most = max(most, s.Resident)
		}
	}
	return most
}

// memoryFigure draws speed and memory over time.
func memoryFigure(samples []Sample, tenths []float64, bound int64) *Figure {
	rate := Panel{Title: "Pages a second (over 10 s) and in each tenth of the pages", X: "time (s)", Y: "pages/s"}
	memory := Panel{Title: "Resident memory", X: "time (s)", Y: "MB", Levels: []Level{{"bound", float64(bound) / 1e6}}}
	var overTime, byTenth, resident plotter.XYs
	from := 0
	for i, s := range samples {
		for from < i-1 && s.At-samples[from].At > 10*time.Second {
			from++
		}
		if d := (s.At - samples[from].At).Seconds(); d > 0 {
			overTime = append(overTime, plotter.XY{X: s.At.Seconds(), Y: float64(s.Pages-samples[from].Pages) / d})
		}
		if s.Resident > 0 {
			resident = append(resident, plotter.XY{X: s.At.Seconds(), Y: float64(s.Resident) / 1e6})
		}
	}
	at := 0.0
	if len(samples) > 0 {
		at = samples[0].At.Seconds()
		total := float64(samples[len(samples)-1].Pages - samples[0].Pages)
		for _, r := range tenths {
			if r > 0 {
				byTenth = append(byTenth, plotter.XY{X: at, Y: r})
				at += total / 10 / r
				byTenth = append(byTenth, plotter.XY{X: at, Y: r})
			}
		}
	}
	for _, l := range []Line{{Name: "over 10 s", Points: overTime}, {Name: "tenths", Points: byTenth}} {
		if len(l.Points) > 0 {
			rate.Lines = append(rate.Lines, l)
		}
	}
	if len(resident) > 0 {
		memory.Lines = []Line{{Points: resident}}
	}
	return &Figure{Alt: "Pages a second and resident memory of a long crawl over time", Panels: []Panel{rate, memory}}
}
