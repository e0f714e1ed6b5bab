//go:build linux

package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

var stories = flag.Int("stories", testtier.Rounds(1, 10), "tell N stories of real agents in network "+
	"namespaces, each with the next kind of fault")

// A fate is what happens to the agents of a story.
type fate struct {
	name  string
	apart bool // agents that live cannot hear each other: repeated pages and short delays are no faults
	// happens returns how many pages may be fetched twice.
	happens func(s *story, rng *rand.Rand) (twice int64)
}

// unlogged bounds the pages that a killed agent had in progress, or in the logs' last interval.
const unlogged = 20

var fates = []fate{
	{name: "a machine of four is lost with its disk", happens: func(s *story, rng *rand.Rand) int64 {
		s.await(0.3)
		return s.agents[rng.IntN(4)].lost() + unlogged
	}},
	{name: "an agent is killed and continues", happens: func(s *story, rng *rand.Rand) int64 {
		s.await(0.3)
		a := s.agents[1+rng.IntN(3)]
		a.p.kill()
		last := pagesLately(s.T, a.dir)
		s.await(0.4)
		a.start("--resume")
		return last + unlogged
	}},
	{name: "an agent leaves", happens: func(s *story, rng *rand.Rand) int64 {
		s.await(0.3)
		a := s.agents[rng.IntN(4)]
		cmd := exec.Command(orbweaver, "ctl", "--dir", a.dir, "leave")
		if err := s.wire.places[a.number].start(cmd); err != nil {
			s.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			s.Errorf("ctl leave: %v", err)
		}
		return 0
	}},
	{name: "two agents restart", happens: func(s *story, rng *rand.Rand) int64 {
		for i, n := range rng.Perm(4)[:2] {
			s.await(0.2 + 0.2*float64(i))
			a := s.agents[n]
			a.p.cmd.Process.Signal(syscall.SIGTERM)
			if !ended(a.p, time.Minute) {
				s.Fatalf("%s does not stop", a.name)
			}
			a.start("--resume")
		}
		return 0
	}},
	{name: "two of four cannot hear the others", apart: true, happens: func(s *story, _ *rand.Rand) int64 {
		s.await(0.2)
		s.wire.follow(func(from, to int) path {
			return path{cut: from != 0 && to != 0 && (from <= 2) != (to <= 2)}
		})
		time.Sleep(15 * time.Second)
		s.wire.follow(func(int, int) path { return path{} })
		return s.web.Report().Origin.Reachable
	}},
}

// TestStories: whatever happens to one or two of four agents, no page is missed. Only what an agent
// fetched in its last second, or while agents could not hear each other, is fetched twice.
func TestStories(t *testing.T) {
	for i := range *stories {
		f := fates[i%len(fates)]
		t.Run(fmt.Sprint(i+1, " ", f.name), func(t *testing.T) {
			p := plot{agents: 4, hosts: 60, pages: 30, delay: 30 * time.Millisecond}
			if i%2 == 0 {
				p.flags = append(p.flags, "--partition", "ring", "--kappa", "50")
			}
			s := tell(t, p)
			s.startAll()
			may := f.happens(s, rand.New(rand.NewPCG(s.seed, 2)))
			s.end(0)
			v := s.judge()
			if s.Logf("%d pages fetched twice", v.twice); v.twice > may {
				s.Errorf("%d pages fetched twice, want at most %d", v.twice, may)
			}
			if !f.apart {
				s.polite()
			}
		})
	}
}
