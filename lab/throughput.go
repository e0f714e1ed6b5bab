package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/orbweaver/orbweaver/testweb/gen"
)

// Throughput asks: how many pages a second does one agent archive, beside the
// least work that still counts as crawling?
//
// Every run has a web of its own, made by the same Config, on the same cores:
// the yardstick and the agents in turns, so that what else the machine does
// falls on all of them.
type Throughput struct {
	// Agents are the programs that are measured, the first one first. Agents
	// of other versions are compared in turns, which is the only fair way.
	Agents []Program
	// Bare is the yardstick, as a program.
	Bare string
	// Hosts and PagesMean are the web's. Zero means 20,000 hosts of 20 pages,
	// when quick 2,000 hosts of 20.
	Hosts     int64
	PagesMean float64
	// Runs is how often each is measured. Zero means 3, when quick 1.
	Runs int
	// Duration is how long the yardstick runs, and when quick the agent at
	// most. Zero means 30s, when quick 3s.
	Duration time.Duration
	// Profiles is a folder for a profile of each agent's run; empty: none.
	Profiles string
	// Kinds are the names of those that are measured; nil: all.
	Kinds []string
}

// A Program is one that is measured, and what it is called.
type Program struct{ Name, Path string }

// A kind is a way in which the web is served.
type kind struct {
	name, title string
	bare        bool // the yardstick can do it, too
	web         func(*WebSpec)
}

// kinds are served with gzip unless they say otherwise, as nearly all of the real web is.
var kinds = []kind{
	{"identity", "identity bodies, kept connections", true, func(w *WebSpec) { w.Identity = true }},
	{"gzip", "gzip bodies, kept connections", true, func(*WebSpec) {}},
	{"close", "gzip, a connection for each fetch", false, func(w *WebSpec) { w.CloseEach = true }},
	{"tls", "gzip, https, kept connections", false, func(w *WebSpec) { w.Secure = 1 }},
	{"tls-close", "gzip, https, a connection for each fetch", false, func(w *WebSpec) { w.Secure, w.CloseEach = 1, true }},
}

// bareConns is how many connections the yardstick has; the agent has as many
// workers by default.
const bareConns = 64

// A measurement is one run of one program.
type measurement struct {
	Kind, Who string
	Round     int

	Pages           int64
	Wall, Fetching  time.Duration
	PagesPerS       float64 // the stricter of the two
	FetchingPerS    float64
	MBPerS          float64
	CPU, WebCPU     time.Duration // a page
	Peak            int64
	Twice, Missed   int64
	Robots          int64
	Handshakes      int64
	Resumed         float64 // share of the handshakes
	Profile         string
	bare, hasReport bool
}

func (x *Throughput) defaults(quick bool) {
	def(&x.Hosts, 20_000)
	def(&x.PagesMean, 20)
	if quick {
		def(&x.Runs, 1)
		def(&x.Duration, 3*time.Second)
	}
	def(&x.Runs, 3)
	def(&x.Duration, 30*time.Second)
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// bench is where runs take place.
type bench struct {
	t *Trial
	x *Throughput
	n int // runs so far
}

func (b *bench) spec(k kind) WebSpec {
	s := WebSpec{Spec: gen.Plain(b.t.Seed, b.x.Hosts)}
	s.PagesMean = b.x.PagesMean
	k.web(&s)
	return s
}

// with runs f beside a web of the kind, in a folder that is gone afterwards.
func (b *bench) with(ctx context.Context, k kind, f func(w *web, dir string) error) (err error) {
	b.n++
	dir := filepath.Join(b.t.Dir, fmt.Sprintf("run%d", b.n))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	w, err := startWeb(ctx, b.t.Program, dir, b.spec(k))
	if err != nil {
		return err
	}
	defer func() {
		_, serr := w.stop()
		err = errors.Join(err, serr)
	}()
	return f(w, dir)
}

func (b *bench) bare(ctx context.Context, k kind, round int) (m measurement, err error) {
	err = b.with(ctx, k, func(w *web, dir string) error {
		urls := filepath.Join(dir, "urls.txt")
		if err := writeURLs(urls, b.spec(k).Spec, 100_000); err != nil {
			return err
		}
		done := b.t.step("%s: bare, run %d of %d", k.name, round, b.x.Runs)
		r, err := runBare(ctx, b.x.Bare, w, urls, dir, bareConns, b.x.Duration, k.name != "identity")
		if err != nil {
			return err
		}
		m = measurement{Kind: k.name, Who: "bare", Round: round, bare: true, Pages: r.Pages, Wall: r.Usage.Wall, Fetching: b.x.Duration,
			PagesPerS: r.PagesPerS, FetchingPerS: r.PagesPerS, MBPerS: r.MBPerS,
			CPU: r.Usage.CPU / time.Duration(r.Pages), WebCPU: r.WebCPU / time.Duration(r.Pages), Peak: r.Usage.Peak}
		done("%s pages/s, %s a page", count(m.PagesPerS), micros(m.CPU))
		return nil
	})
	return m, err
}

func (b *bench) agent(ctx context.Context, k kind, p Program, round int) (m measurement, err error) {
	err = b.with(ctx, k, func(w *web, dir string) error {
		done := b.t.step("%s: %s, run %d of %d", k.name, p.Name, round, b.x.Runs)
		job := crawlJob{Program: p.Path, Web: w, Dir: filepath.Join(dir, "crawl"), Tick: func(s progressLine, resident int64) {
			b.t.partial("%s pages, %s pages/s, %d MB", count(float64(s.Pages)), count(s.PagesPerS), resident/1e6)
		}}
		if job.TimeLimit = 10 * time.Minute; b.t.Quick {
			job.TimeLimit = b.x.Duration
		}
		if b.x.Profiles != "" {
			job.Profile = filepath.Join(b.x.Profiles, fmt.Sprintf("%s-%s-%d.pprof", p.Name, k.name, round))
		}
		r, err := job.run(ctx)
		if err != nil {
			return err
		}
		s := &r.Summary
		pages := time.Duration(s.Pages)
		m = measurement{Kind: k.name, Who: p.Name, Round: round, hasReport: true, Pages: s.Pages, Wall: r.Usage.Wall, Fetching: r.Fetching,
			PagesPerS: r.PagesPerS(), FetchingPerS: r.FetchingPerS(), MBPerS: float64(s.Bytes) / 1e6 / r.Usage.Wall.Seconds(),
			CPU: r.Usage.CPU / pages, WebCPU: r.WebCPU / pages, Peak: r.Usage.Peak, Robots: s.RobotsTxt, Profile: job.Profile,
			Handshakes: r.Report.TLS.Full + r.Report.TLS.Resumed}
		if o := r.Report.Origin; o != nil {
			m.Twice, m.Missed = o.Twice, o.Missed
		}
		if m.Handshakes > 0 {
			m.Resumed = float64(r.Report.TLS.Resumed) / float64(m.Handshakes)
		}
		done("%s pages/s, %s a page", count(m.PagesPerS), micros(m.CPU))
		return nil
	})
	if err != nil {
		err = fmt.Errorf("%s, %s: %w", k.name, p.Name, err)
	}
	return m, err
}
