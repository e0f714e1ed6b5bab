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

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// A plot is the set-up of a story.
type plot struct {
	agents int
	hosts  int64
	pages  float64       // of a host
	delay  time.Duration // of a host; an address and a site have half of it
	names  string        // prefix of the agents' names, before their number; empty: "a"
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

// tell begins a story with a web and without agents.
func tell(t *testing.T, p plot) *story {
	t.Helper()
	s := &story{T: t, plot: p, seed: testseed.New(t), dir: t.TempDir()}
	s.wire = newWire(t, p.agents, s.seed)
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
			Promise: testweb.Promise{HostDelay: p.delay, AddrDelay: p.delay / 2, SiteDelay: p.delay / 2},
			Routed:  true, DNS: "127.0.0.53:0",
		})
	})
	must.Do(t, err)
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
	args = append(args, more...)
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

// lost removes an agent's machine: its network, then its process, then its disk.
func (a *actor) lost() {
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
	if err := os.RemoveAll(a.dir); err != nil {
		s.Fatal(err)
	}
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

// judge compares the web's log and the archives with the truth. It returns how many URLs the agents have sent each
// other.
func (s *story) judge() (sent float64) {
	s.Helper()
	s.web.WaitIdle(time.Minute)
	r := s.web.Report()
	for _, a := range s.agents {
		if a.gone {
			continue
		}
		verify(s.T, a.dir)
		sum := summary(s.T, a.dir)
		sent += sum["urls_sent"].(float64)
		if left := sum["urls_queued"].(float64); left != 0 {
			s.Errorf("%s: %v URLs left", a.name, left)
		}
	}
	s.Logf("%d pages, %d of them fetched twice, %v URLs sent; %d packets, %d lost", r.Origin.Reachable, r.Origin.Twice,
		sent, s.wire.carried.Load(), s.wire.lost.Load())
	if r.Origin.Missed > 0 || r.Origin.Beyond > 0 {
		s.Errorf("%d pages missed (%v), %d beyond", r.Origin.Missed,
			r.Origin.MissedURLs[:min(10, len(r.Origin.MissedURLs))], r.Origin.Beyond)
	}
	return sent
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

// Two of four agents cannot hear the others for 15 s, because all packets between them are lost. Afterwards they crawl
// together again, and no page is missed.
func TestStoryCut(t *testing.T) {
	s := tell(t, plot{agents: 4, hosts: 60, pages: 30, delay: 30 * time.Millisecond})
	for _, a := range s.agents {
		a.start("--agents", strconv.Itoa(len(s.agents)))
	}
	s.await(0.2)
	s.wire.follow(func(from, to int) path { return path{cut: from != 0 && to != 0 && (from <= 2) != (to <= 2)} })
	time.Sleep(15 * time.Second)
	s.wire.follow(func(int, int) path { return path{} })
	s.end(0)
	s.judge()
}
