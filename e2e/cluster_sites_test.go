package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// A sitesCluster is a crawl of three agents whose hosts coordinators assign.
type sitesCluster struct {
	t            *testing.T
	dir          string
	web          *testweb.Web
	addrs        []string // of the agents
	coordinators []string
	processes    []*process // of the coordinators
	seed         string
	flags        []string // of the agents
}

// coordinate starts coordinator i, again if it ran before.
func (s *sitesCluster) coordinate(i int) {
	name := fmt.Sprintf("c%d", i+1)
	args := []string{"coordinator", "--dir", filepath.Join(s.dir, name), "--keys", filepath.Join(s.dir, "keys", name),
		"--listen", s.coordinators[i], "--coordinator", strings.Join(s.coordinators, ","), "--dns", s.web.DNSAddr()}
	s.processes[i] = start(s.t, args...)
}

// agent starts agent i.
func (s *sitesCluster) agent(i int, more ...string) *process {
	name := fmt.Sprintf("a%d", i+1)
	args := flags(s.t, s.web, filepath.Join(s.dir, name), "--quiet", "--scope", "any", "--delay", "20ms",
		"--ip-delay", "0", "--site-delay", "0", "--name", name, "--keys", filepath.Join(s.dir, "keys", name),
		"--listen", s.addrs[i], "--join", strings.Join(s.addrs, ","), "--agents", "3", "--partition", "sites",
		"--coordinator", strings.Join(s.coordinators, ","))
	args = append(args, s.flags...)
	return start(s.t, append(args, more...)...)
}

// newSitesCluster makes keys and starts the coordinators.
func newSitesCluster(t *testing.T, coordinators int, bounds gen.Bounds, more ...string) *sitesCluster {
	t.Helper()
	spec := gen.Plain(11, 12)
	spec.Crosslinked = 0.2
	made, err := gen.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	bounds.Seeds, bounds.Robots = []gen.Seed{{}}, true
	truth, err := made.Reachable(bounds)
	if err != nil {
		t.Fatal(err)
	}
	s := &sitesCluster{t: t, dir: t.TempDir(), seed: made.URL(0, 0), flags: more,
		web: serve(t, testweb.Config{Origin: made, Truth: truth,
			Promise: testweb.Promise{HostDelay: 20 * time.Millisecond}})}
	var names []string
	for i := range 3 {
		s.addrs = append(s.addrs, port(t))
		names = append(names, fmt.Sprintf("a%d", i+1))
	}
	var cs []string
	for i := range coordinators {
		s.coordinators = append(s.coordinators, port(t))
		cs = append(cs, fmt.Sprintf("c%d", i+1))
	}
	s.processes = make([]*process, coordinators)
	crawl(context.Background(), t, "cluster", "keys", "--out", filepath.Join(s.dir, "keys"),
		"--agents", strings.Join(names, ","), "--coordinators", strings.Join(cs, ",")).must(t, 0)
	for i := range cs {
		s.coordinate(i)
	}
	return s
}

// finish waits until all agents have ended by themselves.
func (s *sitesCluster) finish(agents []*process) {
	s.t.Helper()
	for i, p := range agents {
		home := filepath.Join(s.dir, fmt.Sprintf("a%d", i+1))
		if !ended(p, 3*time.Minute) {
			s.t.Fatalf("a%d does not end:\n%s\n%s", i+1, tail(p.out.String()), events(s.t, home))
		}
		if code := p.code(); code != 0 {
			s.t.Errorf("a%d: exit code %d\n%s", i+1, code, tail(p.out.String()))
		}
		if left := summary(s.t, home)["urls_queued"]; left != 0.0 {
			s.t.Errorf("a%d: %v URLs left", i+1, left)
		}
		verify(s.t, home)
	}
}

// stop stops the coordinators.
func (s *sitesCluster) stop() {
	s.t.Helper()
	for i, p := range s.processes {
		if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
			s.t.Error(err)
		}
		if !ended(p, time.Minute) || p.code() != 0 {
			s.t.Errorf("coordinator c%d: %s", i+1, tail(p.out.String()))
		}
	}
}

// Without the exchange of links, agents reach all pages that the hosts' root pages lead to, and not all pages. An agent
// that is resumed after the end of the crawl ends again, because no URL waits there.
func TestTwoLevel(t *testing.T) {
	weighs(t, 4)
	s := newSitesCluster(t, 1, gen.Bounds{TwoLevel: true}, "--coverage", "two-level")
	var agents []*process
	for i := range 3 {
		agents = append(agents, s.agent(i, s.seed))
	}
	s.finish(agents)
	if p := s.agent(1, "--resume"); !ended(p, time.Minute) || p.code() != 0 {
		t.Errorf("a2, resumed after the end, does not end with exit code 0:\n%s", tail(p.out.String()))
	}
	s.stop()
	noViolations(t, s.web)
	r := s.web.Report()
	if r.Origin.Missed > 0 || r.Origin.Twice > 0 {
		t.Errorf("%d of the two-level pages missed (%v), %d fetched twice", r.Origin.Missed, r.Origin.MissedURLs,
			r.Origin.Twice)
	}
	dropped := 0.0
	for i := range agents {
		skipped := summary(t, filepath.Join(s.dir, fmt.Sprintf("a%d", i+1)))["skipped"].(map[string]any)
		if n, ok := skipped["otherAgent"].(float64); ok {
			dropped += n
		}
	}
	if dropped == 0 {
		t.Error("no link is dropped")
	}
	t.Logf("%d pages of the two-level crawl, %d beyond; %v links dropped", r.Origin.Fetched, r.Origin.Beyond, dropped)
}
