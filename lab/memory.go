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

// ErrMemory reports a crawl that took more memory than Memory.Bound.
var ErrMemory = errors.New("too much memory")

// Run implements Experiment.
func (x *Memory) Run(ctx context.Context, t *Trial) (*Result, error) {
	y := *x
	size(t.Quick, &y.Hosts, 1_000_000, 30_000)
	size(t.Quick, &y.Pages, 3_000_000, 60_000)
	def(&y.PagesMean, 20)
	def(&y.Bound, y.Budget)
	def(&y.Bound, 1e9)
	spec := WebSpec{Spec: gen.Plain(t.Seed, y.Hosts)}
	spec.PagesMean, spec.PageBytes = y.PagesMean, y.PageBytes
	var flags []string
	if y.Budget > 0 {
		flags = []string{"--memory", strconv.FormatInt(y.Budget, 10)}
	}
	var (
		mu      sync.Mutex // guards samples
		samples = []Sample{{}}
		run     *crawlRun
	)
	err := t.serve(ctx, 1, spec, func(webs []*web, dir string) (err error) {
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
			Program: y.Agent.Path, Web: webs[0], Dir: filepath.Join(dir, "crawl"), PageLimit: y.Pages,
			TimeLimit: y.Duration, Flags: flags, Tick: tick,
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
	r := y.result(samples, run)
	if run.Usage.Peak >= y.Bound {
		err = fmt.Errorf("%w: %s at the peak, the bound is %s", ErrMemory,
			humanize.Bytes(uint64(run.Usage.Peak)), humanize.Bytes(uint64(y.Bound)))
	}
	return r, err
}

// keepSmall truncates finished archive files to zero bytes, because the archive of a long run is
// not read and would fill the disk. The names of the files stay.
func keepSmall(dir string) (stop func()) {
	return every(5*time.Second, func() {
		names, _ := filepath.Glob(filepath.Join(dir, "*.warc.gz"))
		for _, name := range names {
			os.Truncate(name, 0)
		}
	})
}

// result returns the measurements: a place for each moment, and for each tenth of the pages.
func (x *Memory) result(samples []Sample, run *crawlRun) *Result {
	d, name := newData("time", "tenth"), "throughput-memory"
	if x.Budget > 0 {
		d.Fact("budget", mebibytes(x.Budget))
		name += "-" + mebibytes(x.Budget)
	}
	d.Fact("bound", x.Bound)
	d.Fact("hosts", x.Hosts)
	d.Fact("pages_mean", x.PagesMean)
	d.Fact("page_bytes", x.PageBytes)
	d.Fact("page_limit", x.Pages)
	s := &run.Summary
	pages := float64(max(s.Pages, 1))
	d.Fact("pages", s.Pages)
	d.Fact("asked", s.Hosts)
	d.Fact("found", s.Discovered)
	d.Fact("accepted", s.Unique)
	d.Fact("peak_bytes", run.Usage.Peak)
	d.Fact("wall_s", run.Usage.Wall)
	d.Fact("pages_per_s", run.PagesPerS())
	d.Fact("fetching_pages_per_s", run.FetchingPerS())
	d.Fact("cpu_us", 1e6*run.Usage.CPU.Seconds()/pages)
	d.Fact("web_cpu_us", 1e6*run.WebCPU.Seconds()/pages)
	d.Fact("violations", violationCount(run.Report))
	if o := run.Report.Origin; o != nil {
		d.Fact("twice", o.Twice)
	}
	from := 0
	for i, p := range samples {
		at := d.At(p.At).All(p)
		for from < i-1 && p.At-samples[from].At > 10*time.Second {
			from++
		}
		if over := (p.At - samples[from].At).Seconds(); over > 0 {
			at.Set("over_10_s", float64(p.Pages-samples[from].Pages)/over)
		}
	}
	at := samples[0].At.Seconds()
	for i, rate := range Tenths(samples) {
		from, until := s.Pages*int64(i)/10, s.Pages*int64(i+1)/10
		cpu, web := cpuAPage(samples, from, until)
		d.At("", i+1).Set("until", until).Set("rate", rate).Set("most_bytes", mostOf(samples, from, until)).
			Set("cpu", cpu).Set("web_cpu", web)
		if rate > 0 { // a step of the picture
			d.At(at+1e-3).Set("in_tenth", rate)
			at += pages / 10 / rate
			d.At(at).Set("in_tenth", rate)
		}
	}
	return &Result{Name: name, Template: "memory", Rows: d}
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
