package consensus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// TestOne checks a group of one, which needs no network.
func TestOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1, 0)
		g.start()
		m := g.members[0]
		g.propose(g.leader(), 200)
		g.agree()
		if m.noted("consensus-snapshot") < 2 {
			t.Error("no snapshots were made")
		}
		m.stop()
		m.start()
		g.propose(g.leader(), 1)
		g.agree()
		if _, err := m.node.Propose(t.Context(), make([]byte, MaxCommand+1)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("a large command: %v", err)
		}
		n := m.node
		m.stop()
		if _, err := n.Propose(t.Context(), nil); !errors.Is(err, ErrStopped) {
			t.Errorf("a command after Close: %v", err)
		}
		if err := n.Verify(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("Verify after Close: %v", err)
		}
	})
}

// TestLeaderChange kills the leader 50 times, and logs how long it takes until another one leads.
func TestLeaderChange(t *testing.T) {
	for _, latency := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGroup(t, 3, latency)
				g.start()
				var took []time.Duration
				for range 50 {
					l := g.leader()
					g.propose(l, 2)
					l.kill()
					began := time.Now()
					g.leader()
					took = append(took, time.Since(began).Round(time.Millisecond))
					l.start()
					g.agree()
				}
				g.stop()
				slices.Sort(took)
				t.Logf("a new leader after %v (median), %v (most)", took[25], took[49])
				if took[49] > 20*time.Second {
					t.Errorf("a change of the leader took %v", took[49])
				}
			})
		})
	}
}

// TestVanishedLeader checks that members notice a leader that sends nothing any more, without a reset.
func TestVanishedLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 3, time.Millisecond)
		g.start()
		l := g.leader()
		g.propose(l, 5)
		l.part(true)
		began := time.Now()
		if !within(lease+10*time.Millisecond, func() bool { _, self := l.node.Leader(); return !self }) {
			t.Error("a leader without a majority still leads after the lease")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := g.try(ctx, l, 40); !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrNotLeader) {
			t.Errorf("a command without a majority: %v", err)
		}
		if err := l.node.Verify(ctx); err == nil {
			t.Error("a leader without a majority is verified")
		}
		next := g.leader(l)
		t.Logf("a new leader after %v", time.Since(began))
		g.propose(next, 20)
		var verified sync.WaitGroup
		for range 20 { // callers at the same time share the question
			verified.Go(func() {
				if err := next.node.Verify(t.Context()); err != nil {
					t.Errorf("Verify: %v", err)
				}
			})
		}
		verified.Wait()
		select {
		case <-next.node.Changes():
		default:
			t.Error("a member became the leader, and Changes has nothing")
		}
		l.part(false)
		g.agree()
		if addr, self := l.node.Leader(); self || addr != next.addr {
			t.Errorf("the old leader follows %q (%v), want %q", addr, self, next.addr)
		}
		g.stop()
	})
}

// TestSlowDisks checks that a leader stays the leader while the disks of all others stand still: heartbeats need none.
func TestSlowDisks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 3, time.Millisecond)
		g.start()
		l := g.leader()
		g.propose(l, 3)
		g.agree()
		const still = 5 * time.Second
		for _, m := range g.members {
			if m != l {
				m.stall.Store(int64(still))
			}
		}
		began := time.Now()
		done := make(chan error, 1)
		go func() { done <- g.try(t.Context(), l, 40) }()
		for time.Since(began) < still-100*time.Millisecond {
			time.Sleep(50 * time.Millisecond)
			if _, self := l.node.Leader(); !self {
				t.Fatalf("%s no longer leads after %v", l.addr, time.Since(began))
			}
		}
		if err := <-done; err != nil && !errors.Is(err, ErrUnknown) { // afterwards, others may become candidates
			t.Errorf("propose: %v", err)
		}
		g.proposeSomehow(3)
		g.agree()
		g.stop()
	})
}

// TestLagging checks that a member that is far behind gets a snapshot, also if it was restarted.
func TestLagging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 3, time.Millisecond)
		g.start()
		l := g.leader()
		g.propose(l, 10)
		g.agree()
		var behind *member
		for _, m := range g.members {
			if m != l {
				behind = m
			}
		}
		behind.stop()
		g.propose(g.leader(), 600)
		if first, _ := g.leader().node.log.FirstIndex(); first < 50 {
			t.Fatalf("the leader's log begins with %d: the test needs it shorter", first)
		}
		behind.start()
		g.agree()
		if first, _ := behind.node.log.FirstIndex(); first < 50 {
			t.Errorf("the log of the member behind begins with %d; it got no snapshot", first)
		}
		behind.kill()
		behind.start()
		g.propose(g.leader(), 10)
		g.agree()
		g.stop()
	})
}

// TestCutAfterSnapshot gives a member a snapshot of the leader, and interrupts them when the member has stored the
// first entry after it. The leader offers this entry again, and the log of the member begins with it.
func TestCutAfterSnapshot(t *testing.T) {
	for _, how := range []string{"reset", "killed"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGroup(t, 3, time.Millisecond)
				g.start()
				l := g.leader()
				g.propose(l, 10)
				behind := g.members[0]
				if behind == l {
					behind = g.members[1]
				}
				behind.stop()
				g.propose(l, 400)
				behind.start()
				first := uint64(0)
				end := time.Now().Add(time.Minute)
				for first < 50 && time.Now().Before(end) {
					time.Sleep(time.Millisecond)
					first, _ = behind.node.log.FirstIndex()
				}
				if first < 50 {
					t.Fatalf("the log of the member behind begins with %d; it got no snapshot", first)
				}
				if how == "reset" {
					l.machine.Drop(behind.machine)
				} else {
					behind.kill()
					behind.start()
				}
				g.propose(g.leader(), 3)
				g.agree()
				g.stop()
			})
		})
	}
}

// TestFaultOfOne fails a lone member's disk at each change of it in turn. The member stops and says why, no goroutine
// stays, and what it had acknowledged is there after a power failure.
func TestFaultOfOne(t *testing.T) {
	rng := testseed.Rand(t)
	for n := int64(1); ; n++ {
		var failed bool
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, 1, 0)
			m := g.members[0]
			m.hook = testdisk.FailFrom(n, syscall.ENOSPC)
			failed = faultOfOne(t, g, m)
			m.lose(rng.Uint64())
			m.start()
			g.propose(g.leader(), 2)
			g.agree()
			g.stop()
		})
		if t.Failed() {
			t.Fatalf("at change %d of the disk", n)
		}
		if !failed {
			t.Logf("%d changes of the disk", n-1)
			return
		}
	}
}

func faultOfOne(t *testing.T, g *group, m *member) (failed bool) {
	if err := m.open(); err != nil {
		if !disk.IsFull(err) {
			t.Errorf("open: %v", err)
		}
		m.node = nil
		return true
	}
	var err error
	if !within(20*time.Second, func() bool { _, self := m.node.Leader(); return self || m.node.health.err() != nil }) {
		t.Error("no leader")
	}
	for i := 0; i < 100 && err == nil; i++ {
		err = g.try(t.Context(), m, 40)
		time.Sleep(time.Millisecond)
	}
	select {
	case cause := <-m.node.Failed():
		if !disk.IsFull(cause) { // a snapshot can fail after the last command
			t.Errorf("Failed: %v; the last command: %v", cause, err)
		}
		if err := m.node.Verify(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("Verify after the failure: %v", err)
		}
		if err := m.node.Close(); !disk.IsFull(err) {
			t.Errorf("Close after the failure: %v", err)
		}
		return true
	case <-time.After(time.Minute):
		if err != nil {
			t.Errorf("propose: %v, and no failure", err)
		}
		return m.node.health.err() != nil
	}
}

// TestFaultOfThree fails the disk of one of three members at a change of it, and lets its power fail. The others go
// on. The member returns, and all agree. Each run takes another change of the disk, in a random order.
func TestFaultOfThree(t *testing.T) {
	rng := testseed.Rand(t)
	for range testtier.Rounds(40, 400) {
		n, victim, crash := int64(1+rng.IntN(150)), rng.IntN(3), rng.Uint64()
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, 3, time.Millisecond)
			v := g.members[victim]
			v.hook = testdisk.FailFrom(n, syscall.EIO)
			if crash%2 == 0 { // the disk fails once, and would work again
				v.hook = testdisk.FailAt(n, syscall.EIO)
			}
			for _, m := range g.members {
				if err := m.open(); err != nil {
					if m != v || !errors.Is(err, syscall.EIO) {
						t.Errorf("open: %v", err)
					}
					m.node = nil
				}
			}
			if !within(30*time.Second, func() bool { return g.leading() != nil }) { // it takes all to found a group
				v.lose(crash)
				v.start()
			}
			for i := range 6 {
				g.proposeSomehow(15)
				if i == 2 && v.node != nil { // a change of the leader, so that terms are written
					if l := g.leading(); l != nil && l != v {
						l.kill()
						l.start()
					}
				}
			}
			v.lose(crash)
			g.proposeSomehow(3)
			v.start()
			g.propose(g.leader(), 2)
			g.agree()
			g.stop()
		})
		if t.Failed() {
			t.Fatalf("at change %d of member %d, crash %d", n, victim, crash)
		}
	}
}

// TestNoVoteWithoutDisk checks that nobody is elected with the vote of a member that cannot store it. Who becomes a
// candidate first is random, so it takes several rounds.
func TestNoVoteWithoutDisk(t *testing.T) {
	for range 12 {
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, 3, time.Millisecond)
			g.start()
			l := g.leader()
			var others []*member
			for _, m := range g.members {
				if m != l {
					others = append(others, m)
				}
			}
			candidate, broken := others[0], others[1]
			broken.fs.Break(func(c testdisk.Call) testdisk.Fault {
				if strings.HasSuffix(c.Name, "vote.tmp") && c.Op.Changes() {
					return testdisk.Fault{Err: syscall.EIO}
				}
				return testdisk.Fault{}
			})
			l.kill()
			if err := <-broken.node.Failed(); !errors.Is(err, syscall.EIO) {
				t.Errorf("Failed: %v", err)
			}
			time.Sleep(10 * time.Second)
			for _, m := range others {
				if m.noted("consensus-leader leader "+m.addr) > 0 {
					t.Errorf("%s was elected with a vote that is on no disk", m.addr)
				}
			}
			broken.kill()
			candidate.stop()
		})
	}
}

// proposeSomehow proposes commands until n are committed, at whatever leader there is.
func (g *group) proposeSomehow(n int) {
	g.t.Helper()
	for end := time.Now().Add(2 * time.Minute); n > 0; {
		if time.Now().After(end) {
			g.t.Fatal("no command is committed in two minutes")
		}
		if l := g.leading(); l == nil {
			time.Sleep(20 * time.Millisecond)
		} else if err := g.try(context.Background(), l, 40); err == nil {
			n--
		}
	}
}

// TestRandomFaults lets members be killed, lose their power, be cut off and have slow disks, at random, while clients
// propose at all of them.
func TestRandomFaults(t *testing.T) {
	seed := testseed.New(t)
	for run := range uint64(testtier.Rounds(4, 40)) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, run))
			g := newGroup(t, 3+2*int(run%2), time.Duration(1+rng.IntN(30))*time.Millisecond)
			g.start()
			g.leader()
			for range 15 {
				g.randomFault(rng)
				g.clients(rng, time.Duration(rng.IntN(8000))*time.Millisecond)
			}
			for _, m := range g.members {
				m.part(false)
				if m.node != nil && m.node.health.err() != nil {
					m.lose(rng.Uint64())
				}
				if m.node == nil {
					m.start()
				}
				m.fs.Heal()
			}
			g.proposeSomehow(3)
			g.agree()
			t.Logf("%d members, %d of %d commands acknowledged", len(g.members), len(g.judge.acked), g.n)
			g.stop()
		})
		if t.Failed() {
			t.Fatalf("in run %d", run)
		}
	}
}

// randomFault makes something happen to one member. At most a minority is down.
func (g *group) randomFault(rng *rand.Rand) {
	m := g.members[rng.IntN(len(g.members))]
	down := 0
	for _, o := range g.members {
		if o.node == nil {
			down++
		}
	}
	may := m.node != nil && down+1 < majority(len(g.members))
	switch rng.IntN(6) {
	case 0:
		m.part(true)
	case 1:
		m.part(false)
	case 2:
		if may {
			m.kill()
		}
	case 3:
		if may {
			m.lose(rng.Uint64())
		}
	case 4: // the disk stands still for a while at some writes
		if m.node != nil {
			wait := time.Duration(rng.IntN(4000)) * time.Millisecond
			m.fs.Break(func(c testdisk.Call) testdisk.Fault {
				if c.Op == testdisk.OpSync && c.Change%7 == 0 {
					m.stall.Store(int64(wait))
				}
				return testdisk.Fault{}
			})
		}
	default:
		if m.node == nil {
			m.start()
		}
	}
}

// clients proposes at all members for d.
func (g *group) clients(rng *rand.Rand, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var done []chan struct{}
	for _, m := range g.members {
		if m.node == nil {
			continue
		}
		ch, size := make(chan struct{}), 20+rng.IntN(100)
		done = append(done, ch)
		go func() {
			defer close(ch)
			for ctx.Err() == nil {
				if g.try(ctx, m, size) != nil {
					clock.Pause(ctx, 50*time.Millisecond)
				} else {
					clock.Pause(ctx, 10*time.Millisecond)
				}
			}
		}()
	}
	for _, ch := range done {
		<-ch
	}
}

// TestMembers checks what Open says of wrong lists of members.
func TestMembers(t *testing.T) {
	open := func(mem *testdisk.Mem, self string, members ...string) error {
		n, err := Open(Config{FS: mem, Dir: "raft", Self: self, Members: members, Machine: &book{judge: newJudge()}})
		if err == nil {
			err = n.Close()
		}
		return err
	}
	mem := testdisk.NewMem()
	for _, tt := range []struct {
		self    string
		members []string
		want    string
	}{
		{"a:1", nil, "it has 0 addresses"},
		{"a:1", []string{"b:1"}, "a:1 is not among b:1"},
		{"a:1", []string{"a:1", "b:1", "b:1"}, `"b:1" is there twice`},
		{"a:1", strings.Fields("a:1 b c d e f g h i j"), "at most 9"},
		{"a:1", []string{"a:1", "b:1"}, "a group of 2 needs a network"},
		{"a:1", []string{"a:1"}, ""},
		{"b:1", []string{"b:1"}, "the group in raft has a:1, not b:1"},
	} {
		err := open(mem, tt.self, tt.members...)
		if tt.want == "" && err != nil ||
			tt.want != "" && (!errors.Is(err, ErrMembers) || !strings.Contains(fmt.Sprint(err), tt.want)) {
			t.Errorf("%s of %v: %v, want %q", tt.self, tt.members, err, tt.want)
		}
	}
}
