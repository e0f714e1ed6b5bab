package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// Speed answers: does a crawl keep --rate when its limit, its agents and the servers change?
//
// Real agents crawl a generated web on this machine. The web counts the requests, with no help from the agents.
type Speed struct{}

const (
	// rateEvery is the interval at which the web is asked for its counts.
	rateEvery = 100 * time.Millisecond
	// rateWindow is the time whose requests are compared with the rate.
	rateWindow = 10 * time.Second
	// rateSettle is how long after a change of the agents or of the web the rate may be missed.
	rateSettle = 15 * time.Second
)

// A rateCase is one crawl.
type rateCase struct {
	Name, Text string
	agents     int
	rate       string
	limit      func(at time.Duration) float64 // requests or bits a second; nil: no lower bound holds
	shape      testweb.Shape
	bits       bool // the limit is one of bits
	wild       bool
	workers    int       // visits at once; 0: the default
	clock      bool      // the limit changes at the next minute of the clock
	turns      time.Time // when it changes; set when the case begins
	takes      time.Duration
	acts       []rateAct
}

// A rateAct happens during a crawl.
type rateAct struct {
	at   time.Duration
	name string
	do   func(c *rateCrawl) error
}

// A RatePoint is what the web had counted at a time.
type RatePoint struct {
	S        float64
	Requests int64 // that have begun
	Bits     int64 // that the web has sent, with headers
}

// A RateRun is the result of a rateCase.
type RateRun struct {
	rateCase
	Points []RatePoint
	// Most and Least are the requests, or bits, in ten seconds as shares of the rate. Least leaves out the first five
	// seconds and those after a death. Both are 0 if the case is not compared with its limit.
	Most  float64
	Least float64
	// Mean is the requests a second from the tenth second on, and MeanBits the bits.
	Mean     float64
	MeanBits float64
	// Second is the least number of requests in a second from the sixth on, as a share of the rate; 0 without a limit.
	Second float64
	// Answers are those of the web, if the case is the disturbed one.
	Answers *rateAnswers
}

// amount returns what the limit counts, requests or bits.
func (r *RateRun) amount(p RatePoint) float64 {
	if r.bits {
		return float64(p.Bits)
	}
	return float64(p.Requests)
}

func (x *Speed) cases(quick bool) []rateCase {
	unit := 15 * time.Second
	if quick {
		unit = 11 * time.Second
	}
	order := func(text string) func(c *rateCrawl) error {
		return func(c *rateCrawl) error { return c.ctl("rate", text) }
	}
	saves := func(c *rateCrawl) error { return c.ctl("checkpoint") }
	always := func(r float64) func(time.Duration) float64 { return func(time.Duration) float64 { return r } }
	joinAndKill := []rateAct{{unit, "a4 joins", func(c *rateCrawl) error { return c.start(4) }},
		{2 * unit, killed, func(c *rateCrawl) error { return c.all[0].cmd.Process.Kill() }}}
	cases := []rateCase{
		{Name: "step response", Text: "one agent; `ctl rate` gives 200/s, then 40/s", agents: 1, rate: "50/s",
			takes: 3 * unit, limit: func(at time.Duration) float64 {
				return []float64{50, 200, 40}[min(int(at/unit), 2)]
			}, acts: []rateAct{{unit, "200/s", order("200/s")}, {2 * unit, "40/s", order("40/s")}}},
		{Name: "time of day", Text: "one agent with 120/s in some minutes of the day, else 40/s", agents: 1,
			clock: true},
		{Name: disturbed, Text: "one agent; a web with redirects, dead links, slow and hanging servers, resets, and " +
			"the errors of the table below", agents: 1, rate: "100/s", limit: always(100), wild: true, takes: 3 * unit},
		{Name: "bits", Text: "three agents with `--rate 6Mbit`; a fourth joins; the first is killed; the web of " +
			"*disturbed*", agents: 3, rate: "6Mbit", bits: true, limit: always(6e6), wild: true, takes: 4 * unit,
			acts: joinAndKill},
		{Name: "four agents", Text: "three agents; a fourth joins; the first is killed", agents: 3, rate: "150/s",
			limit: always(150), takes: 3 * unit, acts: joinAndKill},
		{Name: checkpoints, Text: "one agent; `ctl checkpoint` makes its state durable four times", agents: 1,
			rate: "200/s", limit: always(200), takes: 3 * unit, acts: []rateAct{
				{unit, checkpoint, saves}, {3 * unit / 2, checkpoint, saves}, {2 * unit, checkpoint, saves},
				{5 * unit / 2, checkpoint, saves}}},
		{Name: "saturated line", Text: "one agent with `--rate 1000/s` behind a line of 500 kB a second",
			agents: 1, rate: "1000/s", shape: testweb.Shape{BytesPerSecond: 500_000}, takes: unit},
	}
	connections := []int{4, 16, 64, 256, 1024}
	if quick {
		cases, connections = cases[:1], []int{16, 256}
	}
	for _, n := range connections {
		cases = append(cases, rateCase{Name: fmt.Sprintf("%s, %d", processor, n), Text: fmt.Sprintf(
			"one agent with `--rate 100000/s --workers %d`", n), agents: 1, rate: "100000/s", workers: n, takes: unit})
	}
	return cases
}

const (
	killed      = "a1 is killed"
	checkpoint  = "checkpoint"
	checkpoints = "checkpoints"
	disturbed   = "disturbed"
	processor   = "saturated processor"
)

// Run implements Experiment.
func (x *Speed) Run(ctx context.Context, t *Trial) (*Result, error) {
	var runs []RateRun
	for _, c := range x.cases(t.Quick) {
		err := t.crawling(c.Name, func() (string, error) {
			r, err := c.run(ctx, t)
			runs = append(runs, r)
			if r.Most == 0 {
				return fmt.Sprintf("%.0f requests/s", r.Mean), err
			}
			return fmt.Sprintf("%.0f requests/s, %.1f to %.1f %% of the rate", r.Mean, 100*r.Least, 100*r.Most), err
		})
		if err != nil {
			return nil, err
		}
	}
	return x.result(runs), nil
}

// A rateCrawl is a rateCase under way.
type rateCrawl struct {
	rateCase
	ctx   context.Context
	t     *Trial
	dir   string
	web   *web
	addrs []string
	busy  [][2]time.Duration // when the acts began and ended
	mu    sync.Mutex         // guards all
	all   []*process
}

// limits returns the highest and the lowest limit that may hold at a time: while a command is under way, the limit is
// that before or that after it.
func (c *rateCrawl) limits(at time.Duration) (high, low float64) {
	high = c.limit(at)
	low = high
	for i, b := range c.busy {
		if planned := c.acts[i].at; at >= planned && at <= b[1] {
			before := c.limit(planned - time.Millisecond)
			high, low = max(high, before), min(low, before)
		}
	}
	return high, low
}

func (c rateCase) run(ctx context.Context, t *Trial) (run RateRun, err error) {
	spec := WebSpec{Spec: gen.Plain(t.Seed, 1000), Shape: c.shape}
	spec.PagesMean, spec.PageBytes, spec.Links = 200, 6000, 20
	if c.wild {
		spec.Slow, spec.Failing, spec.Busy, spec.Hanging = 0.1, 0.02, 0.02, 0.005
		spec.Redirects, spec.DeadLinks, spec.Gone, spec.Broken, spec.Resetting = 0.05, 0.05, 0.01, 0.01, 0.01
	}
	if c.clock {
		c.setClock(time.Now())
	}
	err = t.serve(ctx, 1, spec, func(webs []*web, dir string) (err error) {
		crawl := &rateCrawl{rateCase: c, ctx: ctx, t: t, dir: dir, web: webs[0]}
		if crawl.addrs, err = testweb.FreeAddrs(8); err != nil {
			return err
		}
		defer crawl.end()
		for i := range c.agents {
			if err := crawl.start(i + 1); err != nil {
				return err
			}
		}
		if run, err = crawl.observe(); err == nil && c.Name == disturbed {
			run.Answers, err = crawl.answers()
		}
		return err
	})
	return run, err
}

// setClock gives the case a limit that changes at a minute of the clock, not sooner than 20 s from now.
func (c *rateCase) setClock(now time.Time) {
	c.turns = now.Add(20 * time.Second).Truncate(time.Minute).Add(time.Minute)
	c.rate = fmt.Sprintf("120/s %s-%s, else 40/s", c.turns.Add(-2*time.Minute).Format("15:04"), c.turns.Format("15:04"))
	c.takes = c.turns.Sub(now) + 20*time.Second
}

// start starts an agent.
func (c *rateCrawl) start(n int) error {
	name := fmt.Sprintf("a%d", n)
	flags := []string{"--rate", c.rate, "--api", "127.0.0.1:0"}
	if c.workers > 0 {
		flags = append(flags, "--workers", fmt.Sprint(c.workers))
	}
	if c.agents > 1 {
		flags = append(flags, clusterFlags(name, c.addrs[n], c.addrs[1], c.agents)...)
	}
	p, err := c.web.crawl(c.ctx, c.t.Orbweaver, filepath.Join(c.dir, name), "100ms", func(progressLine) {}, flags...)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, p)
	return nil
}

// end ends all agents.
func (c *rateCrawl) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.all {
		p.cmd.Process.Signal(syscall.SIGKILL) // what they save does not matter
		_, _ = p.wait()
	}
	c.all = nil
}

// ctl gives a command to the first agent.
func (c *rateCrawl) ctl(args ...string) error {
	cmd := exec.CommandContext(c.ctx, c.t.Orbweaver, append([]string{"ctl", "--dir", filepath.Join(c.dir, "a1")},
		args...)...)
	cmd.Env = environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", args, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// observe counts the requests at the web, and lets happen what the case has.
func (c *rateCrawl) observe() (run RateRun, err error) {
	// The time counts from the first request.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(rateEvery / 10) {
		r, err := c.web.count(c.ctx)
		if err != nil {
			return run, err
		}
		if r.Requests > 0 {
			break
		}
		if time.Now().After(deadline) {
			return run, errors.New("no request within a minute")
		}
	}
	acts, began := c.acts, time.Now()
	if c.clock {
		c.limit = func(at time.Duration) float64 {
			if began.Add(at).Before(c.turns) {
				return 120
			}
			return 40
		}
	}
	for tick := time.NewTicker(rateEvery); time.Since(began) < c.takes; <-tick.C {
		if len(acts) > 0 && time.Since(began) >= acts[0].at {
			from := time.Since(began)
			if err := acts[0].do(c); err != nil {
				return run, err
			}
			c.busy = append(c.busy, [2]time.Duration{from, time.Since(began)})
			acts = acts[1:]
		}
		r, err := c.web.count(c.ctx)
		if err != nil {
			return run, err
		}
		run.Points = append(run.Points, RatePoint{time.Since(began).Seconds(), r.Requests + r.Active, 8 * r.Sent})
	}
	run.rateCase = c.rateCase
	c.judge(&run)
	return run, nil
}

// until returns the number of requests, or of bits, at a time.
func (r *RateRun) until(at float64) float64 { return r.sum(r.amount, at) }

// sum returns a count at a time.
func (r *RateRun) sum(of func(RatePoint) float64, at float64) float64 {
	before := RatePoint{}
	for _, p := range r.Points {
		if p.S >= at {
			if p.S == before.S {
				return of(p)
			}
			return of(before) + (of(p)-of(before))*(at-before.S)/(p.S-before.S)
		}
		before = p
	}
	return of(before)
}

// judge compares the requests in all windows with the limit.
func (c *rateCrawl) judge(run *RateRun) {
	last := run.Points[len(run.Points)-1].S
	window := rateWindow.Seconds()
	mean := func(of func(RatePoint) float64) float64 {
		return (run.sum(of, last) - run.sum(of, window)) / max(last-window, 0.001)
	}
	run.Mean = mean(func(p RatePoint) float64 { return float64(p.Requests) })
	run.MeanBits = mean(func(p RatePoint) float64 { return float64(p.Bits) })
	if c.limit == nil {
		return
	}
	run.Second = run.leastSecond(c.limit)
	run.Least = math.Inf(1)
	for from := 0.0; from+window <= last; from += 0.1 {
		high, low := 0.0, 0.0
		for s := 0.0; s < window; s += 0.05 {
			h, l := c.limits(time.Duration((from + s) * float64(time.Second)))
			high, low = high+h*0.05, low+l*0.05
		}
		n := run.until(from+window) - run.until(from)
		run.Most = max(run.Most, n/high)
		dead := from < 5 // few hosts are known
		for _, a := range c.acts {
			dead = dead || a.name == killed && from < (a.at+rateSettle).Seconds() && from+window > a.at.Seconds()
		}
		if !dead {
			run.Least = min(run.Least, n/low)
		}
	}
}
