package cluster

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	modelFirst = flag.Uint64("model-first", testseed.First(0), "first seed of the models")
	modelSeeds = flag.Uint64("model-seeds", 0, "how many seeds each of them has; 0: its own number")
)

// models runs a model once for each of n seeds, and in the gate for a third of them. Flags choose other seeds.
func models(t *testing.T, n uint64, run func(t *testing.T, seed uint64)) {
	n = uint64(testtier.Rounds(max(1, int(n)/3), int(n)))
	if *modelSeeds > 0 {
		n = *modelSeeds
	}
	for i := range n {
		seed := *modelFirst + i
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { run(t, seed) })
		})
	}
}

// A story is a crawl of one agent, with all its processes.
type story struct {
	cfg      crawl.Config
	frontier frontier.Config
	scope    scope.Config
	seen     keyset.Config
	fetch    fetch.Config
	seeds    []weburl.URL
	web      *textweb.Web
	name     string
	with     func() (Others, error) // opens the parts that a cluster needs
	strategy func(fs disk.FS) (visit.Strategy, error)
	disk     atomic.Pointer[testdisk.Mem] // of the last process
	closers  []io.Closer                  // parts of the last process
}

// randomStory returns the story of an agent of a random web, with a random number of workers.
func randomStory(rng *rand.Rand, seed uint64, web *textweb.Web, name string) *story {
	s := &story{
		cfg: crawl.Config{
			Config:        visit.Config{Workers: 1 + rng.IntN(4), MaxRedirects: 100},
			SnapshotBytes: 1 << (8 + rng.IntN(10)), DrainTimeout: 100 * time.Millisecond,
		},
		frontier: frontier.Config{HostDelay: 200 * time.Millisecond, SlowBase: time.Second, Seed: seed},
		scope:    scope.Config{Scope: scope.Any},
		seeds:    []weburl.URL{weburl.MustParse("http://h0.example/")},
		web:      web, name: name,
	}
	s.fetch.UserAgent, s.fetch.AllowPrivate = "orbweaver", true
	return s
}

// newStory returns a story of a small web. Lines "seed URL" are its seeds, and "delay D" is the hosts'
// delay.
func newStory(t *testing.T, text string) *story {
	t.Helper()
	s := &story{frontier: frontier.Config{Seed: 1}, scope: scope.Config{Scope: scope.Any}}
	s.fetch.UserAgent, s.fetch.AllowPrivate = "orbweaver", true
	var web strings.Builder
	for line := range strings.Lines(text) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name {
		case "seed":
			s.seeds = append(s.seeds, weburl.MustParse(value))
		case "delay":
			s.frontier.HostDelay = textweb.Duration(t, value)
		default:
			web.WriteString(line)
		}
	}
	s.web = textweb.Parse(t, web.String())
	return s
}

// A pause ends a process: by a signal, a kill or a power failure.
type pause struct {
	at    time.Duration
	kill  bool
	crash bool
	takes func(name string) bool // the crash affects only these files; nil: all
}

// A world is one process.
type world struct {
	*crawl.Crawler
	crawl.Parts
	cl    *Clustered
	fs    disk.FS
	parts *testparts.Parts
	rec   crawl.Recovered
	dead  atomic.Bool
}

func (s *story) open(fs disk.FS) (w *world, err error) {
	w = &world{fs: fs}
	if m, ok := fs.(*testdisk.Mem); ok {
		s.disk.Store(m)
	}
	w.parts, err = testparts.Open(fs, testparts.Config{Frontier: s.frontier, Scope: s.scope, Seen: s.seen,
		Fetch: s.fetch, Dial: s.web.Dialer(s.name, w.dead.Load), RetryWait: s.cfg.RetryWait, Seeds: s.seeds,
		Accept: func(items []keyset.Item) error { return w.Intake.Accept(items) }})
	if err != nil {
		return nil, err
	}
	others, err := s.with()
	if err != nil {
		return nil, err
	}
	w.cl = New(others)
	var chosen visit.Strategy
	if s.strategy != nil {
		if chosen, err = s.strategy(fs); err != nil {
			return nil, err
		}
	}
	p, cfg := w.parts, s.cfg
	cfg.ResumeWait = max(s.frontier.HostDelay, s.frontier.IPDelay, 2*time.Second)
	if others.Copies != nil && cfg.SyncEvery == 0 {
		cfg.SyncEvery = SyncEvery
	}
	w.Parts = crawl.Parts{Robots: p.Robots, Tally: p.Tally, Queries: p.Queries, DNS: s.web,
		Fetch: p.Fetch, Scope: p.Scope, Log: p.Log, Events: p.Events, Skipped: p.Skipped, Archive: p.Archive,
		Frontier: p.Frontier, Seen: p.Seen, Journal: p.Journal, Cluster: w.cl.Join(), Strategy: chosen}
	w.Crawler = crawl.New(cfg, w.Parts)
	if w.rec, err = w.Recover(fs, p.JournalDir(), p.Intact, time.Now()); err != nil {
		return nil, err
	}
	return w, w.Intake.Seed(s.seeds, nil)
}

// close closes the parts of an ended process.
func (w *world) close() error { return w.parts.Close() }

// kill abandons the process: nothing that it does from now on has an effect.
func (w *world) kill(stop context.CancelFunc) *testdisk.Mem {
	left := w.fs.(*testdisk.Mem).Clone()
	w.dead.Store(true)
	stop()
	return left
}

// accounts checks that every URL is in exactly one place.
func (s *story) accounts(t *testing.T, w *world) {
	t.Helper()
	sum := w.Tally.Summary(0, "")
	if got := sum.Finished + sum.Sent + w.View.Pending(); got != sum.Unique {
		t.Errorf("%s: %d URLs finished + %d sent + %d pending = %d, accepted %d", s.name, sum.Finished, sum.Sent,
			w.View.Pending(), got, sum.Unique)
	}
}
