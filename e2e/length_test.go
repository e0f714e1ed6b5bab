//go:build linux

package e2e

import (
	"bytes"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// A crawl of some minutes, of which a second is less than a thousandth: whatever
// befalls its agents, every page is fetched, and at most one of a thousand twice.
func TestStoryLength(t *testing.T) {
	if !*long {
		t.Skip("told with -long")
	}
	for _, tale := range []struct {
		name          string
		agents, begin int
		befalls       func(s *story, rng *rand.Rand)
	}{
		{"death", 4, 4, func(s *story, rng *rand.Rand) {
			s.await(0.3)
			s.agents[rng.IntN(4)].lost()
		}},
		{"two-deaths", 6, 6, func(s *story, rng *rand.Rand) {
			order := rng.Perm(6)
			for i, share := range []float64{0.2, 0.5} {
				s.await(share)
				s.agents[order[i]].lostSafely()
			}
		}},
		{"join", 4, 3, func(s *story, _ *rand.Rand) {
			s.await(0.4)
			s.agents[3].start()
			s.agents[3].says("hosts-taken", 0)
		}},
		{"leave", 4, 4, func(s *story, rng *rand.Rand) {
			s.await(0.4)
			a := s.agents[rng.IntN(4)]
			s.Logf("%s leaves: %s", a.name, a.ctl("leave"))
			if !ended(a.p, time.Minute) {
				s.dump()
				s.Fatalf("%s does not leave", a.name)
			}
		}},
		{"return", 4, 4, func(s *story, rng *rand.Rand) {
			s.await(0.3)
			a := s.agents[rng.IntN(4)]
			s.Logf("%s is killed with %d pages in its last second", a.name, pagesLately(s.T, a.dir))
			a.p.kill()
			s.await(0.5)
			a.start("--resume")
		}},
		{"rolling", 4, 4, func(s *story, _ *rand.Rand) {
			for i, a := range s.agents {
				s.await(0.2 + 0.15*float64(i))
				a.p.cmd.Process.Signal(syscall.SIGTERM)
				if !ended(a.p, time.Minute) {
					s.dump()
					s.Fatalf("%s does not stop", a.name)
				}
				a.start("--resume")
				a.says("joined", 1)
			}
		}},
	} {
		t.Run(tale.name, func(t *testing.T) {
			began := time.Now()
			s := tell(t, plot{agents: tale.agents, hosts: 100, pages: 240, most: 480, delay: time.Second, apart: true})
			for _, a := range s.agents[:tale.begin] {
				a.start("--agents", strconv.Itoa(tale.begin))
			}
			tale.befalls(s, rand.New(rand.NewPCG(s.seed, 5)))
			s.end(0)
			v := s.judge()
			s.polite()
			if v.overlap() > 0.001 {
				s.Errorf("%d pages of %d fetched twice", v.twice, v.reachable)
			}
			longest, mean := s.lags()
			s.Logf("| %s | %d | %d | %.4f | %d | %.3f %% | %v | %v | %v |", tale.name, tale.agents, v.reachable,
				1-float64(v.missed)/float64(v.reachable),
				v.twice, 100*v.overlap(), mean, longest, time.Since(began).Round(time.Second))
		})
	}
}

// lostSafely is lost, and returns when those that are left know all again of
// which two copies are to be.
func (a *actor) lostSafely() (lastSecond int64) {
	a.s.Helper()
	whole := map[*actor]int{}
	for _, o := range a.s.agents {
		whole[o] = o.said("shipped-whole")
	}
	lastSecond = a.lost()
	for _, o := range a.s.agents {
		if !o.gone {
			o.says("shipped-whole", whole[o])
		}
	}
	return lastSecond
}

// ctl asks an agent for something.
func (a *actor) ctl(verb string) string {
	a.s.Helper()
	var out bytes.Buffer
	cmd := exec.Command(orbweaver, "ctl", "--dir", a.dir, verb)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := a.s.wire.places[a.number].start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		a.s.Fatalf("ctl %s: %v: %s", verb, err, out.String())
	}
	return out.String()
}

// lags are how long finishes waited at most, and on average over the agents,
// until another agent had them.
func (s *story) lags() (longest, mean time.Duration) {
	n := 0.0
	for _, a := range s.agents {
		if a.gone {
			continue
		}
		for _, e := range eventsOf(s.T, a.dir, "shipped") {
			ms := func(field string) time.Duration { return time.Duration(e[field].(float64)) * time.Millisecond }
			longest, mean, n = max(longest, ms("longest_lag_ms")), mean+ms("lag_ms"), n+1
		}
	}
	return longest, mean / time.Duration(max(n, 1))
}
