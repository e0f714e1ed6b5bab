package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// Throughput answers: how many pages per second does one agent archive, compared with a minimal
// loop that fetches, decodes, scans and archives (the yardstick, package bare)?
//
// Each run has its own web, made by the same Config, on the same cores. The yardstick and the
// agents take turns, so that other load on the machine affects all of them.
type Throughput struct {
	// Agents are the programs to measure, in this order. To compare versions, measure them in
	// one run of the experiment, where they take turns.
	Agents []Program `kong:"-"`
	// Hosts and PagesMean are the number of hosts of the web and their mean number of pages.
	// Zero means 20,000 hosts of 20 pages, with --quick 2,000 hosts.
	Hosts     int64   `placeholder:"N" help:"${throughput_hosts}"`
	PagesMean float64 `default:"20" placeholder:"NUMBER" help:"Generate N pages per host on average."`
	// Runs is the number of runs of each program. Zero means 3, with --quick 1.
	Runs int `placeholder:"N" help:"Measure each program N times (default: 3, quick 1)."`
	// Duration is the time of a run of the yardstick. With --quick it also bounds the runs of
	// the agents. Zero means 30 s, with --quick 3 s.
	Duration time.Duration `placeholder:"D" help:"${duration}"`
	// Profiles is a folder for processor profiles. If it is not empty, each agent has one run more for each kind, with
	// a profiler, which does not count.
	Profiles string `name:"cpuprofile" placeholder:"DIR" help:"Run each agent once more for each way, and write processor profiles to DIR, for \"go tool pprof\"."`
	// Kinds names the ways of serving to measure. Nil means all.
	Kinds []string `name:"only" placeholder:"KIND" help:"Serve the web only in these ways: ${kinds}."`
}

// A Program is a program to measure: its name in the results, and its file.
type Program struct{ Name, Path string }

// A kind is a way in which the web is served.
type kind struct {
	name, title string
	bare        bool // the yardstick can fetch from it, too
	web         func(*WebSpec)
}

// kinds lists all ways. The web compresses with gzip unless the kind says otherwise, as nearly all
// real servers do.
var kinds = []kind{
	{"identity", "identity bodies, kept connections", true, func(w *WebSpec) { w.Identity = true }},
	{"gzip", "gzip bodies, kept connections", true, func(*WebSpec) {}},
	{"close", "gzip, a connection for each fetch", false, func(w *WebSpec) { w.CloseEach = true }},
	{"tls", "gzip, https, kept connections", false, func(w *WebSpec) { w.Secure = 1 }},
	{"tls-close", "gzip, https, a connection for each fetch", false,
		func(w *WebSpec) { w.Secure, w.CloseEach = 1, true }},
}

// bareConns is the number of connections of the yardstick. The agent has as many workers by
// default.
const bareConns = 64

// A measurement is one run of one program.
type measurement struct {
	Kind, Who string
	Round     int // 0: the run does not count

	Pages          int64
	Wall, Fetching time.Duration
	PagesPerS      float64 // pages divided by the time of the whole process
	FetchingPerS   float64 // pages divided by the time in which the program fetched
	MBPerS         float64
	CPU, WebCPU    time.Duration // per page
	Peak           int64

	Crawl *crawlRun // nil for the yardstick
}

func (x *Throughput) defaults(quick bool) {
	size(quick, &x.Hosts, 20_000, 2000)
	def(&x.PagesMean, 20)
	size(quick, &x.Runs, 3, 1)
	size(quick, &x.Duration, 30*time.Second, 3*time.Second)
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// chosen returns the kinds to measure.
func (x *Throughput) chosen() ([]kind, error) {
	if len(x.Kinds) == 0 {
		return kinds, nil
	}
	var ks []kind
	for _, name := range x.Kinds {
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
		if i < 0 {
			return nil, fmt.Errorf("throughput: there is no kind %q", name)
		}
		ks = append(ks, kinds[i])
	}
	return ks, nil
}

// Kinds returns the names of the ways in which Throughput serves the web.
func Kinds() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// Run implements Experiment.
func (x *Throughput) Run(ctx context.Context, t *Trial) (*Result, error) {
	y := *x
	y.defaults(t.Quick)
	ks, err := y.chosen()
	if err != nil {
		return nil, err
	}
	b := &bench{t: t, x: &y}
	var ms []measurement
	add := func(m measurement, err error) error {
		if err == nil {
			ms = append(ms, m)
		}
		return err
	}
	// The yardstick and the agents take turns, and so do the kinds.
	for round := 1; round <= y.Runs; round++ {
		for _, k := range ks {
			if k.bare {
				if err := add(b.bare(ctx, k, round)); err != nil {
					return nil, err
				}
			}
			for _, p := range y.Agents {
				if err := add(b.agent(ctx, k, p, round)); err != nil {
					return nil, err
				}
			}
		}
	}
	if y.Profiles != "" {
		for _, k := range ks {
			for _, p := range y.Agents {
				if err := add(b.agent(ctx, k, p, 0)); err != nil {
					return nil, err
				}
			}
		}
	}
	return y.result(ks, ms), nil
}

// bench holds what the runs have in common.
type bench struct {
	t *Trial
	x *Throughput
}

func (b *bench) spec(k kind) WebSpec {
	s := WebSpec{Spec: gen.Plain(b.t.Seed, b.x.Hosts)}
	s.PagesMean = b.x.PagesMean
	s.Truth = float64(b.x.Hosts)*b.x.PagesMean < gen.MaxTruth/2
	k.web(&s)
	return s
}

// bareURLs is the number of URLs in the yardstick's list, which it repeats.
const bareURLs = 100_000

func (b *bench) bare(ctx context.Context, k kind, round int) (m measurement, err error) {
	err = b.t.serve(ctx, 1, b.spec(k), func(webs []*web, dir string) error {
		w, urls := webs[0], filepath.Join(dir, "urls.txt")
		if err := writeURLs(urls, b.spec(k).Spec, bareURLs); err != nil {
			return err
		}
		done := b.t.step("%s: bare, run %d of %d", k.name, round, b.x.Runs)
		stop := b.t.alive("of " + b.x.Duration.String())
		r, err := runBare(ctx, b.t.Self, w, urls, dir, bareConns, b.x.Duration, k.name != "identity")
		stop()
		if err != nil {
			return err
		}
		pages := time.Duration(r.Pages)
		m = measurement{Kind: k.name, Who: "bare", Round: round, Pages: r.Pages, Wall: r.Usage.Wall,
			Fetching:  b.x.Duration,
			PagesPerS: r.PagesPerS, FetchingPerS: r.PagesPerS, MBPerS: r.MBPerS,
			CPU: r.Usage.CPU / pages, WebCPU: r.WebCPU / pages, Peak: r.Usage.Peak}
		done("%s pages/s, %s of CPU a page", count(m.PagesPerS), micros(m.CPU))
		return nil
	})
	return m, err
}

// agent measures an agent's crawl. It crawls the whole web if the yardstick is measured, too, and
// otherwise for a time, because more would not tell more.
func (b *bench) agent(ctx context.Context, k kind, p Program, round int) (m measurement, err error) {
	what := fmt.Sprintf("run %d of %d", round, b.x.Runs)
	if round == 0 {
		what = "profile"
	}
	err = b.t.serve(ctx, 1, b.spec(k), func(webs []*web, dir string) error {
		done := b.t.step("%s: %s, %s", k.name, p.Name, what)
		job := crawlJob{Program: p.Path, Web: webs[0], Dir: filepath.Join(dir, "crawl"),
			Tick: func(s progressLine, now Sample) {
				b.t.partial("%s pages, %s pages/s, %d MB", count(float64(s.Pages)), count(s.PagesPerS),
					now.Resident/1e6)
			}}
		switch {
		case b.t.Quick:
			job.TimeLimit = b.x.Duration
		case !k.bare:
			job.TimeLimit = 2 * b.x.Duration
		}
		if round == 0 {
			job.Profile = filepath.Join(b.x.Profiles, p.Name+"-"+k.name+".pprof")
		}
		r, err := job.run(ctx)
		if err != nil {
			return err
		}
		s := &r.Summary
		pages := time.Duration(s.Pages)
		m = measurement{Kind: k.name, Who: p.Name, Round: round, Pages: s.Pages, Wall: r.Usage.Wall,
			Fetching:  r.Fetching,
			PagesPerS: r.PagesPerS(), FetchingPerS: r.FetchingPerS(),
			MBPerS: float64(s.Bytes) / 1e6 / r.Usage.Wall.Seconds(),
			CPU:    r.Usage.CPU / pages, WebCPU: r.WebCPU / pages, Peak: r.Usage.Peak, Crawl: r}
		done("%s pages/s, %s of CPU a page, %d MB", count(m.PagesPerS), micros(m.CPU), m.Peak/1e6)
		return nil
	})
	if err != nil {
		err = fmt.Errorf("%s, %s, %s: %w", k.name, p.Name, what, err)
	}
	return m, err
}

// Targets for the agent's pages/s, as a share of the yardstick's.
const (
	floorRatio = 0.40
	aimRatio   = 0.75
)

// result returns the measurements: a place for each kind of web, and for each run of a program in it. Round 0 has
// the runs with a profiler.
func (x *Throughput) result(ks []kind, ms []measurement) *Result {
	d := newData("web", "program", "round")
	d.Fact("hosts", x.Hosts)
	d.Fact("pages_mean", x.PagesMean)
	d.Fact("connections", bareConns)
	d.Fact("duration", x.Duration.String())
	d.Fact("limit", (2 * x.Duration).String())
	d.Fact("urls", bareURLs)
	d.Fact("runs", x.Runs)
	d.Fact("least_ratio", floorRatio)
	d.Fact("aim_ratio", aimRatio)
	for _, k := range ks {
		d.At(k.name).Set("title", k.title)
	}
	for _, m := range ms {
		at := d.At(m.Kind, m.Who, m.Round).Set("pages", m.Pages).Set("wall_s", m.Wall).Set("fetching_s", m.Fetching).
			Set("pages_per_s", m.PagesPerS).Set("fetching_pages_per_s", m.FetchingPerS).Set("mb_per_s", m.MBPerS).
			Set("cpu_us", 1e6*m.CPU.Seconds()).Set("web_cpu_us", 1e6*m.WebCPU.Seconds()).Set("peak_bytes", m.Peak)
		if m.Crawl == nil {
			continue
		}
		r, stop := m.Crawl.Report, m.Crawl.Summary.StopReason
		at.Set("robots_txt", m.Crawl.Summary.RobotsTxt).Set("violations", violationCount(r)).Set("stop", stop)
		if o := r.Origin; o != nil {
			at.Set("twice", o.Twice).Set("reachable", o.Reachable)
			if o.Reachable > 0 && stop == finished {
				at.Set("missed", o.Missed)
			}
		}
		for n := range r.AtOnce["host"] {
			at.Set("at_once", n)
		}
		if n := r.TLS.Full + r.TLS.Resumed; n > 0 {
			at.Set("handshakes", n).Set("resumed", r.TLS.Resumed)
		}
	}
	return &Result{Name: "throughput", Rows: d}
}
