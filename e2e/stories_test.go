//go:build linux

package e2e

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// A machine of four is lost, with its disk: nothing is missed, and twice is
// fetched only what the lost one fetched in its last second.
func TestStoryDeath(t *testing.T) {
	s := tell(t, plot{agents: 4, hosts: 60, pages: 30, grows: true, delay: 30 * time.Millisecond, flags: onRing})
	rng := rand.New(rand.NewPCG(s.seed, 2))
	s.startAll()
	s.await(0.3)
	last := s.agents[rng.IntN(4)].lost()
	s.end(0)
	v := s.judge()
	s.polite()
	s.repeated(v, last, 1)
}

// Of six machines two are lost, one after the other.
func TestStoryTwoDeaths(t *testing.T) {
	if !*long {
		t.Skip("told with -long")
	}
	s := tell(t, plot{agents: 6, hosts: 60, pages: 30, delay: 60 * time.Millisecond})
	rng := rand.New(rand.NewPCG(s.seed, 2))
	s.startAll()
	order := rng.Perm(6)
	var last int64
	for i, share := range []float64{0.2, 0.5} {
		s.await(share)
		last += s.agents[order[i]].lostSafely()
	}
	s.end(0)
	v := s.judge()
	s.polite()
	s.repeated(v, last, 2)
}

// A fifth of all packets between agents is lost, and the others take 200 ms.
func TestStoryBadNetwork(t *testing.T) {
	if !*long {
		t.Skip("told with -long")
	}
	s := tell(t, plot{agents: 4, hosts: 40, pages: 20, delay: 50 * time.Millisecond, flags: onRing})
	s.startAll()
	for _, a := range s.agents {
		a.says("view", 0)
	}
	s.await(0.05)
	s.wire.follow(func(from, to int) path {
		if from == 0 || to == 0 {
			return path{} // the web's
		}
		return path{loss: 0.2, latency: 200 * time.Millisecond}
	})
	s.end(0)
	v := s.judge()
	s.Logf("%d pages fetched twice; views: %v", v.twice, s.views())
}

// An agent is stopped for half a minute, long enough that the others take it for
// dead, and goes on as if nothing had been.
func TestStoryFalseSuspicion(t *testing.T) {
	if !*long {
		t.Skip("told with -long")
	}
	s := tell(t, plot{agents: 4, hosts: 60, pages: 30, delay: 100 * time.Millisecond})
	rng := rand.New(rand.NewPCG(s.seed, 4))
	s.startAll()
	s.await(0.2)
	a := s.agents[rng.IntN(4)]
	a.p.cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(30 * time.Second)
	a.p.cmd.Process.Signal(syscall.SIGCONT)
	s.end(0)
	v := s.judge()
	s.Logf("%d pages fetched twice; views: %v", v.twice, s.views())
}

// Two and two cannot reach each other for a while.
func TestStoryPartition(t *testing.T) {
	if !*long {
		t.Skip("told with -long")
	}
	s := tell(t, plot{agents: 4, hosts: 60, pages: 30, delay: 100 * time.Millisecond, flags: onRing})
	s.startAll()
	s.await(0.2)
	s.wire.follow(func(from, to int) path {
		return path{cut: from != 0 && to != 0 && (from <= 2) != (to <= 2)}
	})
	time.Sleep(25 * time.Second)
	s.wire.follow(func(int, int) path { return path{} })
	s.end(0)
	v := s.judge()
	s.Logf("%d pages fetched twice; views: %v", v.twice, s.views())
}

// An agent has a twentieth of the others' time.
func TestStorySlowAgent(t *testing.T) {
	if !*long {
		t.Skip("told with -long")
	}
	s := tell(t, plot{agents: 4, hosts: 40, pages: 20, delay: 20 * time.Millisecond})
	s.startAll()
	for _, a := range s.agents {
		a.says("view", 0)
	}
	slow := s.agents[2].p
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			slow.cmd.Process.Signal(syscall.SIGSTOP)
			if !slow.lives(95 * time.Millisecond) {
				return
			}
			slow.cmd.Process.Signal(syscall.SIGCONT)
			if !slow.lives(5 * time.Millisecond) {
				return
			}
		}
	}()
	s.end(0)
	<-over
	v := s.judge()
	s.polite()
	if v.twice > 0 {
		s.Errorf("%d pages fetched twice", v.twice)
	}
}

// The disk of one agent is full: it stops and says so, and the others go on with
// its hosts.
func TestStoryFullDisk(t *testing.T) {
	s := tell(t, plot{agents: 4, hosts: 60, pages: 30, delay: 30 * time.Millisecond})
	a := s.agents[1]
	small := s.dir + "/small"
	if err := os.Mkdir(small, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "orbweaver-story", small).CombinedOutput()
	if err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command("umount", "-l", small).Run() })
	a.dir = small + "/" + a.name
	s.startAll()
	if !ended(a.p, time.Minute) {
		s.dump()
		t.Fatal("the disk does not fill")
	}
	if code := a.p.code(); code != 3 {
		t.Errorf("exit code %d, want 3: %s", code, tail(a.p.out.String()))
	}
	a.gone, a.dir = true, a.dir+"-is-full"
	r := s.web.Report()
	s.Logf("full after %d of %d pages", r.Origin.Fetched, r.Origin.Reachable)
	s.end(0)
	v := s.judge()
	s.polite()
	s.Logf("%d pages fetched twice", v.twice)
}

// repeated fails if more was fetched twice than so many lost agents had fetched
// in their last second, in flight, and in the logs' last interval.
func (s *story) repeated(v *verdict, last int64, lost int) {
	s.Helper()
	const unlogged = 20
	s.Logf("%d pages fetched twice; %d were fetched in the last second of those that are lost", v.twice, last)
	if v.twice > last+int64(lost)*unlogged {
		s.Errorf("%d pages fetched twice", v.twice)
	}
}

// views are how often each agent's view has changed.
func (s *story) views() (ns []string) {
	for _, a := range s.agents {
		ns = append(ns, a.name+":"+strconv.Itoa(a.said("view")))
	}
	return ns
}

// A fourth agent joins three when half of the pages are fetched: hosts move to
// it, and none is asked by two at once.
func TestStoryJoin(t *testing.T) {
	s := tell(t, plot{agents: 4, hosts: 60, pages: 30, grows: true, delay: 40 * time.Millisecond, flags: onRing})
	for _, a := range s.agents[:3] {
		a.start("--agents", "3")
	}
	s.await(0.4)
	s.agents[3].start()
	s.agents[3].says("hosts-taken", 0)
	s.end(0)
	v := s.judge()
	s.polite()
	if v.twice > 0 {
		s.Errorf("%d pages fetched twice", v.twice)
	}
	if len(indexed(t, s.agents[3].dir)) == 0 {
		s.Error("the fourth has fetched nothing")
	}
}

// Every agent is stopped in good order and started again, one after the other,
// while the others go on.
func TestStoryRollingRestart(t *testing.T) {
	if !*long {
		t.Skip("told with -long")
	}
	s := tell(t, plot{agents: 4, hosts: 60, pages: 30, delay: 150 * time.Millisecond})
	s.startAll()
	for i, a := range s.agents {
		s.await(0.1 + 0.1*float64(i))
		a.p.cmd.Process.Signal(syscall.SIGTERM)
		if !ended(a.p, time.Minute) {
			s.dump()
			t.Fatalf("%s does not stop", a.name)
		}
		if code := a.p.code(); code != 11 {
			t.Errorf("%s: exit code %d, want 11", a.name, code)
		}
		a.start("--resume")
		a.says("joined", 1)
	}
	s.end(0)
	v := s.judge()
	s.Logf("%d pages fetched twice", v.twice)
}

// An agent is killed, the others take over, and it returns with an old state.
func TestStoryReturn(t *testing.T) {
	if !*long {
		t.Skip("told with -long")
	}
	s := tell(t, plot{agents: 4, hosts: 60, pages: 30, delay: 150 * time.Millisecond, flags: onRing})
	rng := rand.New(rand.NewPCG(s.seed, 3))
	s.startAll()
	s.await(0.2)
	a := s.agents[rng.IntN(4)]
	last := pagesLately(t, a.dir)
	a.p.kill()
	s.await(0.5)
	a.start("--resume")
	s.end(0)
	v := s.judge()
	s.polite()
	s.repeated(v, last, 1)
}
