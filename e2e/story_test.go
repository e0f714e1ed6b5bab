//go:build linux

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// A plot is the set-up of a story.
type plot struct {
	agents    int
	hosts     int64
	pages     float64       // of a host
	delay     time.Duration // of a host; an address and a site have half of it
	flags     []string      // of all agents
	addresses int           // of all hosts together; 0: one for each host
	names     string        // prefix of the agents' names, before their number; empty: "a"

	coordinators int // that assign the hosts; 0: --partition sites is not used
}

// A story is a crawl by agents in network namespaces, with mutual TLS between them, and the web's
// log of it.
type story struct {
	*testing.T
	plot
	seed   uint64
	made   *gen.Web
	truth  *gen.Truth
	web    *testweb.Web
	wire   *wire
	dir    string
	agents []*actor

	coordinators []*chair
}

// An actor is an agent of a story, at the index of its number.
type actor struct {
	s      *story
	number int // from 1
	name   string
	dir    string
	p      *process // nil: not started
	gone   bool     // for good
}

// A verdict is the result of a story.
type verdict struct {
	reachable, missed, beyond int64
	twice                     int64 // pages that the web served more than once
	archived, copies          int64 // pages in the existing archives, and their records
	violations                map[string]int64
	sent                      float64
	wrong                     []string // errors; a correct cluster causes none
}

// overlap returns the papers' overlap: the repeated fetches divided by all fetches.
func (v *verdict) overlap() float64 { return float64(v.twice) / max(1, float64(v.reachable)) }

// tell begins a story with a web and without agents.
func tell(t *testing.T, p plot) *story {
	t.Helper()
	s := &story{T: t, plot: p, seed: testseed.New(t), dir: t.TempDir()}
	s.wire = newWire(t, p.agents+p.coordinators, s.seed)
	spec := gen.Plain(s.seed, s.plot.hosts)
	spec.PagesMean, spec.MaxPages, spec.PageBytes = s.plot.pages, int64(8*s.plot.pages), 6000
	var err error
	if s.made, err = gen.New(spec); err != nil {
		t.Fatal(err)
	}
	if s.truth, err = s.made.Reachable(gen.Bounds{Seeds: []gen.Seed{{}}, Robots: true}); err != nil {
		t.Fatal(err)
	}
	s.wire.places[0].within(func() {
		s.web, err = testweb.New(testweb.Config{
			Origin: s.made, Truth: s.truth,
			Promise:   testweb.Promise{HostDelay: p.delay, AddrDelay: p.delay / 2, SiteDelay: p.delay / 2},
			Addresses: p.addresses, Routed: true, DNS: "127.0.0.53:0",
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := s.web.Start()
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("testweb: %v", err)
		}
	})
	var names []string
	for i := range p.agents {
		name := fmt.Sprintf("%s%d", cmp.Or(p.names, "a"), i+1)
		names = append(names, name)
		s.agents = append(s.agents, &actor{s: s, number: i + 1, name: name, dir: filepath.Join(s.dir, name)})
	}
	args := []string{"cluster", "keys", "--out", filepath.Join(s.dir, "keys"), "--agents", strings.Join(names, ",")}
	if p.coordinators > 0 {
		args = append(args, "--coordinators", s.addChairs())
	}
	crawl(context.Background(), t, args...).must(t, 0)
	return s
}

func (a *actor) addr() string { return a.s.wire.places[a.number].addr.String() + ":7470" }

// start lets an agent begin its crawl, or continue it with "--resume".
func (a *actor) start(more ...string) {
	s := a.s
	s.Helper()
	delay, half := s.delay.String(), (s.delay / 2).String()
	args := flags(s.T, s.web, a.dir, "--quiet", "--scope", "any", "--delay", delay, "--ip-delay", half, "--site-delay",
		half,
		"--name", a.name, "--listen", a.addr(), "--api", "127.0.0.1:0", "--keys", filepath.Join(s.dir, "keys", a.name))
	var join []string
	if a.number == 1 {
		join = append(join, a.addr()) // it starts the cluster
	}
	for _, other := range s.agents {
		if other != a {
			join = append(join, other.addr())
		}
	}
	args = append(args, "--join", strings.Join(join, ","))
	if len(s.coordinators) > 0 {
		args = append(args, "--partition", "sites", "--coordinator", s.chairs())
	}
	args = append(append(args, s.flags...), more...)
	a.p = s.run(a.number, append(args, s.made.URL(0, 0))...)
}

// run starts the program in a place.
func (s *story) run(place int, args ...string) *process {
	s.Helper()
	p := &process{cmd: exec.Command(orbweaver, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := s.wire.places[place].start(p.cmd); err != nil {
		s.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.cmd.Wait() // the exit code is read later
	}()
	s.Cleanup(func() { p.kill() })
	return p
}

// lost removes an agent's machine: its network, then its process, then its disk. It returns how
// many pages the agent had fetched in its last second.
func (a *actor) lost() (lastSecond int64) {
	s := a.s
	s.Helper()
	before := *s.wire.rule.Load()
	s.wire.follow(func(from, to int) path {
		if from == a.number || to == a.number {
			return path{cut: true}
		}
		return before(from, to)
	})
	if _, killed := a.p.kill(); !killed {
		s.Fatalf("%s had ended before", a.name)
	}
	a.gone = true
	lastSecond = pagesLately(s.T, a.dir)
	if err := os.RemoveAll(a.dir); err != nil {
		s.Fatal(err)
	}
	r := s.web.Report()
	s.Logf("%s is lost after %d of %d pages, %d of them its own in its last second", a.name, r.Origin.Fetched,
		r.Origin.Reachable, lastSecond)
	return lastSecond
}

// pagesLately returns the number of pages in the last second of an agent's crawl.log. These may be
// fetched again if the agent is lost. A few more are in progress, or not in the log yet.
func pagesLately(t *testing.T, dir string) (n int64) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "logs", "crawl.log"))
	if err != nil {
		t.Fatal(err)
	}
	var times []time.Time
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if at, err := time.Parse("2006-01-02T15:04:05.000Z", f[0]); err == nil && len(f) > 3 &&
			!strings.HasSuffix(f[3], "/robots.txt") {
			times = append(times, at)
		}
	}
	if len(times) == 0 {
		t.Fatalf("%s: no pages in crawl.log:\n%s", dir, tail(string(b)))
	}
	for _, at := range times {
		if at.After(times[len(times)-1].Add(-time.Second)) {
			n++
		}
	}
	return n
}

// says waits until an agent has written an event of a kind.
func (a *actor) says(kind string, since int) {
	a.s.Helper()
	for deadline := time.Now().Add(time.Minute); a.said(kind) <= since; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			a.s.dump()
			a.s.Fatalf("%s does not say %s", a.name, kind)
		}
	}
}

// said counts the events of a kind.
func (a *actor) said(kind string) int {
	b, err := os.ReadFile(filepath.Join(a.dir, "logs", "events.jsonl"))
	if err != nil {
		return 0
	}
	return strings.Count(string(b), fmt.Sprintf(`"event":%q`, kind))
}

// startAll starts all agents; none crawls before all are present.
func (s *story) startAll() {
	s.Helper()
	for _, c := range s.coordinators {
		c.start()
	}
	for _, a := range s.agents {
		a.start("--agents", strconv.Itoa(len(s.agents)))
	}
}

// await waits until the web has served a number of its reachable pages.
func (s *story) await(share float64) {
	s.Helper()
	want := int64(share * float64(s.web.Report().Origin.Reachable))
	for p := s.patience(); ; time.Sleep(20 * time.Millisecond) {
		if s.web.Report().Origin.Fetched >= want {
			return
		}
		if p.over() {
			s.dump()
			s.Fatalf("%d pages of %d are not fetched", want, s.web.Report().Origin.Reachable)
		}
	}
}

func (s *story) patience() *patience {
	return &patience{happened: func() int64 {
		n := s.web.Report().Origin.Fetched
		for _, a := range s.agents {
			if i, err := os.Stat(filepath.Join(a.dir, "logs", "events.jsonl")); err == nil {
				n += i.Size()
			}
		}
		return n
	}}
}

// end waits until all remaining agents have ended by themselves, with code.
func (s *story) end(code int) {
	s.Helper()
	p := s.patience()
	for _, a := range s.agents {
		if a.gone || a.p == nil {
			continue
		}
		for !ended(a.p, 100*time.Millisecond) {
			if p.over() {
				s.dump()
				s.Fatalf("%s does not end", a.name)
			}
		}
		if got := a.p.code(); got != code {
			s.Errorf("%s: exit code %d, want %d\n%s", a.name, got, code, tail(a.p.out.String()))
		}
	}
}

// dump logs the last messages of the agents.
func (s *story) dump() {
	for _, a := range s.agents {
		if a.p != nil && !a.gone {
			s.Logf("%s: %s\n%s", a.name, events(s.T, a.dir), a.p.stuck(s.T, a.dir, s.wire.places[a.number].start))
		}
	}
	r := s.web.Report()
	s.Logf("the web: %d pages of %d, missed %v", r.Origin.Fetched, r.Origin.Reachable,
		r.Origin.MissedURLs[:min(10, len(r.Origin.MissedURLs))])
}

// judge compares the web's log and the archives with the truth.
func (s *story) judge() *verdict {
	s.Helper()
	s.web.WaitIdle(time.Minute)
	r := s.web.Report()
	v := &verdict{
		reachable: r.Origin.Reachable, missed: r.Origin.Missed, beyond: r.Origin.Beyond, twice: r.Origin.Twice,
		violations: map[string]int64{},
	}
	for kind, n := range r.ViolationCount {
		if n > 0 {
			v.violations[kind] = n
		}
	}
	pages := map[string]int{}
	for _, a := range s.agents {
		if _, err := os.Stat(a.dir); err != nil {
			continue // its disk is lost
		}
		verify(s.T, a.dir)
		for u, n := range indexed(s.T, a.dir) {
			if !strings.HasSuffix(u, "/robots.txt") {
				pages[u] += n
			}
		}
		sum := summary(s.T, a.dir)
		v.sent += sum["urls_sent"].(float64)
		if left := sum["urls_queued"].(float64); left != 0 {
			v.wrong = append(v.wrong, fmt.Sprintf("%s: %v URLs left", a.name, left))
		}
	}
	v.archived = int64(len(pages))
	for _, n := range pages {
		v.copies += int64(n)
	}
	s.Logf("%d agents, %d pages: coverage %.4f, overlap %.4f, %d of them archived in %d records; violations %v; e/n "+
		"%.2f; %d packets, %d lost",
		len(s.agents), v.reachable, 1-float64(v.missed)/float64(v.reachable), v.overlap(), v.archived, v.copies,
		v.violations,
		v.sent/float64(v.reachable), s.wire.carried.Load(), s.wire.lost.Load())
	for _, w := range v.wrong {
		s.Error(w)
	}
	if v.missed > 0 || v.beyond > 0 {
		s.Errorf("%d pages missed (%v), %d beyond", v.missed, r.Origin.MissedURLs[:min(10, len(r.Origin.MissedURLs))],
			v.beyond)
	}
	return v
}

// polite fails the test for any violation. If machines were lost, the web counts their connections
// as open until they time out. So it may see these beside the connections of the agents that took
// over.
func (s *story) polite() {
	s.Helper()
	lost := slices.ContainsFunc(s.agents, func(a *actor) bool { return a.gone })
	for _, v := range s.web.Report().Violations {
		if !lost || v.Kind != "connections" {
			s.Errorf("%s", v)
		}
	}
}
