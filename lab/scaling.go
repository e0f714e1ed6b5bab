package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// Scaling asks: does each agent fetch as much among many as it does alone?
//
// Each agent has a web server of its own, all of them with the same web, behind
// a line of its own: so that every agent has the same bandwidth, as on a machine
// of its own, though all run on this one.
type Scaling struct {
	// Agents are their numbers. None means 1, 2, 3, 4, 6, 7, 8, 12 and 16, when
	// quick 1, 2 and 4.
	Agents []int
	// Bandwidth is the line of each, in bytes a second. Zero means 500,000.
	Bandwidth int64
	// Warm and Measured are for how long each run warms up and is measured. Zero
	// means 8 s and 25 s, when quick 2 s and 4 s.
	Warm, Measured time.Duration
	// Runs are made with each number. Zero means 3, when quick 1.
	Runs int
	// Hosts are those of the web that is crawled to its end, once with each
	// number. Zero means 1,500, when quick 100.
	Hosts int64
	Again string
}

const (
	// scalingHosts are the hosts of the web for each agent: many enough that no
	// crawl comes to its end.
	scalingHosts = 2000
	// scalingPages are the pages of a host on average.
	scalingPages = 20
	// startSlack is what the agents, and startSlack1 what each of them, may take
	// until the last one crawls.
	startSlack, startSlack1 = 4 * time.Second, time.Second
	// scalingMemory is the budget of an agent.
	scalingMemory = "128MiB"
	// scalingAim is how much of what one agent does alone each of them has to do
	// among scalingAt.
	scalingAim, scalingAt = 0.99, 7
)

// ErrScaling is a page that two agents fetched, or a host that two visited.
var ErrScaling = errors.New("two agents fetched the same")

func (x *Scaling) defaults(quick bool) {
	if quick {
		def(&x.Warm, 2*time.Second)
		def(&x.Measured, 4*time.Second)
		def(&x.Runs, 1)
		def(&x.Hosts, 100)
		if x.Agents == nil {
			x.Agents = []int{1, 2, 4}
		}
	}
	def(&x.Bandwidth, 500_000)
	def(&x.Warm, 8*time.Second)
	def(&x.Measured, 25*time.Second)
	def(&x.Runs, 3)
	def(&x.Hosts, 1500)
	if x.Agents == nil {
		x.Agents = []int{1, 2, 3, 4, 6, 7, 8, 12, 16}
	}
}

// A ScalingRun is one crawl of so many agents.
type ScalingRun struct {
	Agents int `json:"agents"`
	// PagesPerS is of one agent on average, in the time that was measured; Least
	// and Most are of the agent that fetched the least, and the most.
	PagesPerS float64 `json:"pages_per_s"`
	Least     float64 `json:"least_pages_per_s"`
	Most      float64 `json:"most_pages_per_s"`
	// Line is how much of its line an agent used on average: as pages are of
	// different lengths, what it could do is told more exactly by it.
	Line float64 `json:"line_share"`
	costs
}

// costs are those of a crawl of so many agents.
type costs struct {
	// Links sent to other agents by pages fetched, bytes sent to other agents by
	// pages, processor time of an agent's by page, and
	// the largest memory of an agent.
	Overhead  float64 `json:"overhead"`
	Exchanged float64 `json:"exchanged_bytes_per_page"`
	CPU       float64 `json:"cpu_us_per_page"`
	Peak      int64   `json:"peak_memory_bytes"`
	Pages     int64   `json:"pages"`
}

// A WholeCrawl is one of so many agents to its end.
type WholeCrawl struct {
	Agents int `json:"agents"`
	costs
}

// Run implements Experiment.
func (x *Scaling) Run(ctx context.Context, t *Trial) (*Result, error) {
	y := *x
	y.defaults(t.Quick)
	var rs []ScalingRun
	// The numbers take turns, so that what changes on the machine meets all.
	for run := range y.Runs {
		for _, n := range y.Agents {
			done := t.step("%d agents, run %d of %d", n, run+1, y.Runs)
			stop := t.alive("crawling")
			r, err := y.crawl(ctx, t, n, run)
			stop()
			if err != nil {
				return nil, fmt.Errorf("%d agents: %w", n, err)
			}
			done("%.1f pages/s each, %.1f %% of the line", r.PagesPerS, percent*r.Line)
			rs = append(rs, r)
		}
	}
	var ws []WholeCrawl
	for _, n := range y.Agents {
		done := t.step("%d agents, to the end", n)
		stop := t.alive("crawling")
		w, err := y.whole(ctx, t, n)
		stop()
		if err != nil {
			return nil, fmt.Errorf("%d agents, to the end: %w", n, err)
		}
		done("%s pages, %.2f links sent a page", humanize.Comma(w.Pages), w.Overhead)
		ws = append(ws, w)
	}
	return y.result(t, rs, ws), nil
}

// A scaled is an agent of the experiment.
type scaled struct {
	name, dir string
	web       *web
	process   *process
	mu        sync.Mutex // guards progress
	progress  []paged
	summary   report.Summary
	usage     Usage
}

// paged is how many pages and bytes there were at a time.
type paged struct {
	at           time.Time
	pages, bytes int64
}

// crawl is one run for a time, with a line for each agent.
func (x *Scaling) crawl(ctx context.Context, t *Trial, n, run int) (r ScalingRun, err error) {
	spec := WebSpec{Spec: gen.Plain(t.Seed+uint64(run), int64(scalingHosts*slices.Max(x.Agents))),
		Shape: testweb.Shape{BytesPerSecond: x.Bandwidth}}
	spec.PagesMean = scalingPages
	err = x.together(ctx, t, n, n, spec, x.Warm+x.Measured+startSlack+time.Duration(n)*startSlack1,
		func(all []*scaled) error {
			r, err = x.measured(all)
			return err
		})
	return r, err
}

// whole is a crawl to the end, of a web without a line.
func (x *Scaling) whole(ctx context.Context, t *Trial, n int) (w WholeCrawl, err error) {
	spec := WebSpec{Spec: gen.Plain(t.Seed, x.Hosts), Truth: true}
	spec.PagesMean = scalingPages
	err = x.together(ctx, t, n, 1, spec, 0, func(all []*scaled) error {
		w = WholeCrawl{n, costsOf(all)}
		return nil
	})
	return w, err
}

// together lets n agents crawl, with so many webs, until they end or for a time,
// and f look at what came of it.
func (x *Scaling) together(ctx context.Context, t *Trial, n, webs int, spec WebSpec, limit time.Duration,
	f func([]*scaled) error) (err error) {
	dir, err := os.MkdirTemp(t.Dir, "scaling-")
	if err != nil {
		return fmt.Errorf("scaling: %w", err)
	}
	defer os.RemoveAll(dir)
	addrs, err := testweb.FreeAddrs(n)
	if err != nil {
		return err
	}
	var served []*web
	defer func() {
		for _, w := range served {
			_, werr := w.stop()
			err = errors.Join(err, werr)
		}
	}()
	for i := range webs {
		webDir := filepath.Join(dir, "web-"+strconv.Itoa(i+1))
		if err := os.Mkdir(webDir, 0o755); err != nil {
			return fmt.Errorf("scaling: %w", err)
		}
		w, err := startWeb(ctx, t.Self, webDir, spec)
		if err != nil {
			return err
		}
		served = append(served, w)
	}
	var all []*scaled
	for i := range n {
		a := &scaled{name: fmt.Sprintf("agent-%d", i+1), web: served[i%webs]}
		a.dir = filepath.Join(dir, a.name)
		if err := a.start(ctx, t.Orbweaver, limit, addrs[i], addrs[0], n); err != nil {
			for _, b := range all {
				b.process.cmd.Process.Kill()
				b.process.wait()
			}
			return err
		}
		all = append(all, a)
	}
	if err = errors.Join(wait(all), ctx.Err()); err != nil {
		return err
	}
	if err := x.held(ctx, all); err != nil {
		return err
	}
	return f(all)
}

// wait waits for the end of all. Where one fails the others are killed, since
// they may wait for it.
func wait(all []*scaled) error {
	var running sync.WaitGroup
	var failed sync.Once
	var first error
	for _, a := range all {
		running.Go(func() {
			u, err := a.process.wait(exitTimeLimit)
			a.usage = u
			if err == nil {
				return
			}
			failed.Do(func() {
				first = fmt.Errorf("%s: %w", a.name, err)
				for _, b := range all {
					b.process.cmd.Process.Kill()
				}
			})
		})
	}
	running.Wait()
	return first
}

// start starts the agent.
func (a *scaled) start(ctx context.Context, program string, limit time.Duration, addr, first string,
	n int) (err error) {
	args := []string{"crawl", "--json", "--dir", a.dir, "--contact", "lab@example.org", "--scope", "any",
		"--delay", "0", "--ip-delay", "0", "--site-delay", "0", "--allow-private", "--dns", a.web.DNS, "--ca", a.web.CA,
		"--memory", scalingMemory, "--time-limit", limit.String(), // 0 is none
		"--name", a.name, "--listen", addr, "--join", first, "--agents", strconv.Itoa(n)}
	for _, c := range a.web.ConnectTo {
		args = append(args, "--connect-to", c)
	}
	lines := &progressLines{tick: func(l progressLine) {
		a.mu.Lock()
		a.progress = append(a.progress, paged{time.Now(), l.Pages, l.Bytes})
		a.mu.Unlock()
	}}
	a.process, err = launch(ctx, program, append(args, a.web.Seed), nil, lines)
	return err
}

// held holds the crawl against what the webs saw, and against itself: no page
// twice, no host by two agents.
func (x *Scaling) held(ctx context.Context, all []*scaled) error {
	owner := map[string]string{}
	for _, a := range all {
		if err := readSummary(a.dir, &a.summary); err != nil {
			return err
		}
		r, err := a.web.report(ctx)
		if err != nil {
			return err
		}
		if v := violations(r); v != "" {
			return &ImpoliteError{v}
		}
		if err := misfetched(r, a.summary.StopReason); err != nil {
			return err
		}
		hosts, err := visited(filepath.Join(a.dir, "reports", "hosts.csv"))
		if err != nil {
			return err
		}
		for _, h := range hosts {
			if other, ok := owner[h]; ok {
				return fmt.Errorf("%w: host %s, by %s and %s", ErrScaling, h, other, a.name)
			}
			owner[h] = a.name
		}
	}
	return nil
}

// visited are the hosts in a report of them: the first column.
func visited(name string) (hosts []string, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("hosts: %w", err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for first := true; sc.Scan(); first = false {
		if host, _, ok := strings.Cut(sc.Text(), ","); ok && !first {
			hosts = append(hosts, host)
		}
	}
	return hosts, sc.Err()
}

// measured sums a run up.
func (x *Scaling) measured(all []*scaled) (r ScalingRun, err error) {
	// From when every agent has begun.
	var from time.Time
	for _, a := range all {
		i := slices.IndexFunc(a.progress, func(p paged) bool { return p.pages > 0 })
		if i < 0 {
			return r, fmt.Errorf("%s fetched nothing", a.name)
		}
		if at := a.progress[i].at; at.After(from) {
			from = at
		}
	}
	from = from.Add(x.Warm)
	to := from.Add(x.Measured)
	r.Agents = len(all)
	var rates, lines []float64
	for _, a := range all {
		begin, ok1 := pagesAt(a.progress, from)
		end, ok2 := pagesAt(a.progress, to)
		if !ok1 || !ok2 {
			return r, fmt.Errorf("%s did not crawl in all of the time that is measured", a.name)
		}
		rates = append(rates, (end.pages-begin.pages)/x.Measured.Seconds())
		lines = append(lines, (end.bytes-begin.bytes)/x.Measured.Seconds()/float64(x.Bandwidth))
	}
	r.PagesPerS, r.Least, r.Most, r.Line = average(rates), slices.Min(rates), slices.Max(rates), average(lines)
	r.costs = costsOf(all)
	return r, nil
}

// costsOf are those of a crawl as a whole.
func costsOf(all []*scaled) (c costs) {
	var sent, exchanged int64
	var cpu time.Duration
	for _, a := range all {
		s := a.summary
		c.Pages += s.Pages
		sent += s.Sent
		exchanged += s.Exchanged
		cpu += a.usage.CPU
		c.Peak = max(c.Peak, a.usage.Peak, s.PeakMemory)
	}
	pages := float64(c.Pages)
	c.Overhead, c.Exchanged, c.CPU = float64(sent)/pages, float64(exchanged)/pages, float64(cpu.Microseconds())/pages
	return c
}

// reckoned is a paged between two.
type reckoned struct{ pages, bytes float64 }

// pagesAt is how much there was at a time, which two of the moments told have to
// stand around; between them pages are taken to come evenly.
func pagesAt(ps []paged, at time.Time) (r reckoned, ok bool) {
	for i := 1; i < len(ps); i++ {
		a, b := ps[i-1], ps[i]
		if !a.at.After(at) && b.at.After(at) {
			share := float64(at.Sub(a.at)) / float64(b.at.Sub(a.at))
			return reckoned{float64(a.pages) + share*float64(b.pages-a.pages),
				float64(a.bytes) + share*float64(b.bytes-a.bytes)}, true
		}
	}
	return r, false
}
