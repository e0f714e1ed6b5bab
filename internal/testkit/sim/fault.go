package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// The fetches that a fault may repeat (the durability contract of DESIGN.md). A killed agent
// repeats at most its last second. An agent without power also repeats the time between two syncs.
const (
	killedRepeats  = time.Second
	powerRepeats   = 2*time.Second + 100*time.Millisecond
	lostRepeats    = 2 * time.Second
	separatedAfter = 20 * time.Second // until separated agents have one view again
	// restartTime is how long agents that start together may take until they crawl again. retryTime
	// is how long a failed URL may wait for its next visit.
	restartTime, retryTime = 20 * time.Second, 60 * time.Second
	// noticedAfter is how long the others wait at most until they continue with the hosts of an
	// agent that went down: 8 s until they notice, and 20 s if another one is away. backAfter is how
	// long after the return of an agent links reach it again.
	noticedAfter, backAfter = 30 * time.Second, 10 * time.Second
	// secondWait is how long they wait for an agent that goes down while another one is away.
	secondWait = 20 * time.Second
	// slowLag is how far the replicas may lag behind over a slow line.
	slowLag = 5 * time.Second
	// slowLatency is what a slow line adds to the latency, one way, and slowRate its bytes a second.
	// A round trip stays below the 400 ms that docs/cluster-days.md permits between agents.
	slowLatency, slowRate = 150 * time.Millisecond, 50_000
	// replicatedAfter is how long after a return or a takeover all hosts have two copies again.
	replicatedAfter = 20 * time.Second
)

// play makes the faults happen, one after the other.
func (s *story) play() {
	var before time.Time
	for _, f := range s.plan.Faults {
		for s.judge.share() < f.At && !s.isOver() {
			time.Sleep(10 * time.Millisecond)
		}
		if wait := time.Until(before.Add(f.After)); !before.IsZero() && wait > 0 {
			time.Sleep(wait)
		}
		if s.isOver() {
			s.log("over before: %s", f)
			continue
		}
		before = time.Now()
		s.log("fault: %s", f)
		if s.strike(f) {
			s.struck = append(s.struck, f.Kind)
			if f.Kind == Seed || f.Kind == Orders { // the next fault is After its answer
				<-s.answered
				before = time.Now()
			}
		}
	}
}

// isOver is over for callers that do not hold stage.
func (s *story) isOver() bool {
	s.stage.Lock()
	defer s.stage.Unlock()
	return s.over()
}

// over reports whether all agents have ended and none will start again. The caller holds stage.
func (s *story) over() bool {
	if s.pending.Load() > 0 {
		return false
	}
	for _, a := range s.actors {
		if a.lives() {
			return false
		}
	}
	return true
}

// alive reports whether any agent runs. The caller holds stage.
func (s *story) alive() bool {
	for _, a := range s.actors {
		if a.lives() {
			return true
		}
	}
	return false
}

// joining returns a new agent that looks for an agent to join and can find only one, or nil.
func (s *story) joining(only *actor) (looks *actor) {
	for _, o := range s.actors {
		switch {
		case o == only || !o.lives():
		case o.newcomer && time.Since(o.run.began) < restartTime:
			looks = o
		default:
			return nil
		}
	}
	return looks
}

// later runs f after d. The story does not end before.
func (s *story) later(d time.Duration, f func()) {
	s.pending.Add(1)
	s.running.Go(func() {
		time.Sleep(d)
		s.stage.Lock()
		defer s.stage.Unlock()
		f()
		s.pending.Add(-1)
	})
}

// lives reports whether the actor has a process that has not ended.
func (a *actor) lives() bool { return a.run != nil && !a.run.killed && !a.run.ended() }

// strike makes a fault happen. It returns false if the fault's agent does not run.
func (s *story) strike(f Fault) bool {
	s.stage.Lock()
	defer s.stage.Unlock()
	now := time.Now()
	if _, is := ofCoordinators[f.Kind]; is {
		return s.strikeCoordinators(f)
	}
	var a *actor
	if f.Agent > 0 {
		a = s.actors[f.Agent-1]
	}
	span := excuse{from: now, to: now.Add(f.For)}
	switch f.Kind {
	case Join:
		left := a.run != nil && a.run.ended() && !a.run.killed && a.run.result.Stop == crawl.Left
		if (a.run == nil || left) && s.alive() {
			if left {
				a.leaving, a.left = false, a.mem
			}
			a.newDisk()
			a.newcomer = true
			a.start(false, 1)
			return true
		}
		return false
	case Disaster, Ruin:
		if f.Kind == Ruin {
			s.ruinCoordinators(f.For)
		}
		s.strikeAll(f.For, f.Agent)
		return true
	case KillAll:
		rng := rand.New(rand.NewPCG(s.plan.Seed, uint64(now.Sub(start))))
		for _, a := range s.actors {
			if a.lives() {
				a.repeats(killedRepeats)
				a.down, a.up, a.untold = now, time.Time{}, a.separatedSince()
				a.mark()
				a.kill()
				s.comesBack(a, time.Duration(rng.Int64N(int64(f.For)+1)))
			}
		}
		s.still = append(s.still, excuse{from: now, to: span.to.Add(restartTime)})
		return true
	case Lossy:
		s.overlay(f.For, func(from, to int, p simnet.Path) simnet.Path {
			if from != 0 && to != 0 {
				p.Loss, p.Latency = max(p.Loss, 0.2), p.Latency+200*time.Millisecond
			}
			return p
		})
		s.separate(f.For, func(a, b int) bool { return true })
		return true
	case NoDNS, NoWeb:
		if f.Kind == NoDNS { // coordinators look hosts up again after a minute
			s.unassigned = append(s.unassigned, excuse{from: now, to: span.to.Add(time.Minute + startsIn)})
		}
		s.web.set(f.Kind == NoWeb, f.Kind == NoDNS)
		s.later(f.For, func() { s.web.set(false, false) })
		s.unreachable(span)
		return true
	case Clock:
		a.forward = a.forward || f.For > a.clock.by()
		a.clock.set(f.For)
		return true
	}
	if !a.lives() {
		s.log("%s does not run", a.name)
		return false
	}
	switch f.Kind {
	case Kill:
		a.goesDown(time.Time{})
		a.repeats(killedRepeats)
		a.kill()
		s.comesBack(a, f.For)
	case Power:
		a.goesDown(time.Time{})
		a.repeats(powerRepeats)
		a.power(s.plan.Seed + uint64(now.Sub(start)))
		s.comesBack(a, f.For)
	case Pause:
		s.pauses(a, f.For)
	case Exclude:
		s.excludes(a, f.For)
	case Orders:
		s.givesMany(a)
	case Seed:
		s.seeds(a)
	case Lose:
		if o := s.joining(a); o != nil {
			s.log("%s is not lost: %s could not join any other agent", a.name, o.name)
			return true
		}
		a.lose()
	case Orphan:
		a.down, a.up, a.untold = now, time.Time{}, a.separatedSince()
		a.end(testdisk.NewMem(), (*simnet.Machine).Vanish)
		a.isOrphaned(now, false)
	case Restore:
		a.isRestoredFromStore(f.For)
	case Replace:
		a.lose()
		s.later(f.For, func() {
			if !s.alive() {
				s.log("no agent is left that the new %s could join", a.name)
				return
			}
			a.gone = false
			a.comesUp()
			a.newDisk()
			a.newcomer = true
			a.start(false, s.plan.Agents)
		})
	case Old:
		copied := a.mem.Clone()
		s.later(f.For, func() {
			if !a.lives() {
				return
			}
			s.log("%s is killed, and gets its disk of %s before", a.name, f.For)
			a.isRestored(now)
			a.goesDown(now.Add(-acceptedAfter))
			s.judge.forgets(a.number, excuse{from: now.Add(-acceptedAfter), to: time.Now()})
			a.repeats(time.Since(now) + killedRepeats)
			a.end(copied, (*simnet.Machine).Kill)
			a.comesUp()
			a.start(a.begun(), s.plan.Agents)
		})
	case Full, Fail:
		run, full, stops := a.run, testdisk.FullAfter(20_000), disk.IsFull
		if f.Kind == Fail {
			full, stops = failing(s.plan.Seed+uint64(now.Sub(start))), isFailing
		}
		a.faulty.Break(func(c testdisk.Call) testdisk.Fault {
			f := full(c)
			if f.Err != nil {
				run.failed.CompareAndSwap(0, int64(time.Since(start)))
			}
			return f
		})
		s.pending.Add(1)
		s.running.Go(func() {
			<-run.done
			s.stage.Lock()
			if run.failed.Load() > 0 && !run.killed {
				a.goesDown(time.Time{})
				a.repeats(killedRepeats)
			}
			s.stage.Unlock()
			s.later(f.For, func() {
				a.faulty.Heal()
				if a.run == run && stops(run.err) {
					s.startAgain(a)
				}
			})
			s.pending.Add(-1)
		})
	case Stop:
		run := a.run
		s.order(Stop, a)
		run.cancel()
		s.pending.Add(1)
		s.running.Go(func() {
			<-run.done
			s.stage.Lock()
			if !run.killed && run.result.Stop == crawl.Signal {
				a.goesDown(time.Time{}) // what it knows is away with it
				a.repeats(0)
			}
			s.stage.Unlock()
			s.later(f.For, func() {
				if a.run == run && run.result.Stop == crawl.Signal {
					s.startAgain(a)
				}
			})
			s.pending.Add(-1)
		})
	case Leave:
		a.leaving = true
		if agent := a.run.open(); agent != nil {
			o := s.order(Leave, a)
			s.running.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				text, err := agent.Leave(ctx)
				s.log("%s leaves: %s %v", a.name, text, err)
				o.answered(err)
				if err == nil {
					s.running.Go(func() { o.tellsLeaving(agent) })
				}
			})
		}
	case Cut:
		s.overlay(f.For, func(from, to int, p simnet.Path) simnet.Path {
			if from != 0 && to != 0 && (from <= a.number) != (to <= a.number) {
				p.Cut = true
			}
			return p
		})
		s.separate(f.For, func(x, y int) bool {
			// The coordinators take those off the roster that they do not reach. These return one after the other.
			// An agent that is back first may own a host of another one that knows what it has fetched.
			return (x <= a.number) != (y <= a.number) || s.plan.Partition == sites && x <= a.number
		})
	case OneWay:
		s.overlay(f.For, func(from, to int, p simnet.Path) simnet.Path {
			if from == a.number && to != 0 {
				p.Cut = true
			}
			return p
		})
		s.separate(f.For, of(a.number))
	case Offline:
		a.run.machine.Drop(s.web.self)
		s.overlay(f.For, func(from, to int, p simnet.Path) simnet.Path {
			p.Cut = p.Cut || from == a.number || to == a.number
			return p
		})
		s.separate(f.For, of(a.number))
		s.judge.excuse(excuse{agent: a.number, from: now.Add(-2 * webLatency), to: now.Add(webLatency)}) // on the way
		s.unreachable(span)
	case Slow:
		a.slow = now.Add(f.For + slowLag)
		s.bad = append(s.bad, span)
		s.overlay(f.For, func(from, to int, p simnet.Path) simnet.Path {
			switch {
			case from == 0 || to == 0:
			case from == a.number: // all that the machine sends shares one line
				p.Latency, p.Rate, p.Line = p.Latency+slowLatency, slowRate, a.number
			case to == a.number: // and all that it receives another one
				p.Latency, p.Rate, p.Line = p.Latency+slowLatency, slowRate, -a.number
			}
			return p
		})
	default:
		s.t.Fatalf("no such fault: %s", f.Kind)
	}
	return true
}

// failing returns a hook for a disk that fails: from now on no file can be synced. The seed decides
// whether writes still succeed.
func failing(seed uint64) func(testdisk.Call) testdisk.Fault {
	writes := rand.New(rand.NewPCG(seed, 0)).IntN(2) == 0
	return func(c testdisk.Call) testdisk.Fault {
		if c.Op == testdisk.OpSync || c.Op == testdisk.OpWrite && !writes {
			return testdisk.Fault{Err: syscall.EIO, Short: c.Bytes / 2}
		}
		return testdisk.Fault{}
	}
}

// isFailing reports whether an agent has ended for a failing disk.
func isFailing(err error) bool { return errors.Is(err, syscall.EIO) }

// repeats excuses the actor's fetches of the time last before now. A page is finished when its links
// are on the disks of two agents, and the agent that knows pages by their contents has answered
// (with the partition hash). If such an agent is down, the page waits until the others have noticed
// that, or until the agent is back.
func (a *actor) repeats(last time.Duration) {
	for _, other := range a.s.actors {
		away := time.Since(other.down)
		switch {
		case other == a || other.down.IsZero() || away == 0:
		case other.up.IsZero() && away < a.s.notices():
			last = max(last, away+lostRepeats)
		case !other.up.IsZero() && time.Since(other.up) < backAfter:
			last = max(last, min(away, time.Since(other.up)+a.s.notices())+lostRepeats)
		}
	}
	for _, e := range a.s.apart { // likewise while another agent cannot be heard
		away := time.Since(e.from)
		if away < a.s.notices()+backAfter && slices.ContainsFunc(a.s.actors, func(o *actor) bool {
			return e.between(a.number, o.number) && a != o
		}) {
			last = max(last, min(away, a.s.notices())+lostRepeats)
		}
	}
	last += a.s.unsafe()
	if time.Now().Before(a.slow) {
		last += slowLag
	}
	if at := a.run.failed.Load(); at > 0 { // nothing was written since then
		last += time.Since(start) - time.Duration(at)
	}
	a.s.judge.excuse(excuse{agent: a.number, from: time.Now().Add(-last), to: time.Now()})
}

// lose loses the actor's machine and disk.
func (a *actor) lose() {
	a.goesDown(start)
	a.s.judge.forgets(a.number, excuse{from: start, to: time.Now()})
	a.repeats(lostRepeats)
	if !a.untold.IsZero() { // nobody else knows what it fetched while it was apart
		a.repeats(time.Since(a.untold))
	}
	a.lost = a.mem.Clone()
	if a.s.judge.refetches && (a.s.judge.moves || a.s.judge.anyHost) {
		a.s.judge.loses(recordsOn(a.s.t, a.lost))
	}
	a.end(testdisk.NewMem(), (*simnet.Machine).Vanish)
	a.gone = true
}

// finishedBy reports whether the crawl had ended for an agent by a time.
func (s *story) finishedBy(t time.Time) bool {
	return slices.ContainsFunc(s.actors, func(a *actor) bool {
		p := a.run
		return p != nil && p.ended() && !p.killed && p.result.Stop == crawl.Finished && !p.at.After(t)
	})
}

// comesBack starts the actor's process again after d.
func (s *story) comesBack(a *actor, d time.Duration) {
	run := a.run
	s.later(d, func() {
		if a.run == run && !a.gone {
			s.startAgain(a)
		}
	})
}

// startAgain starts an actor that was killed or stopped. It does not start the actor if the others
// have ended the crawl and two replicas of everything existed. If an agent fails at the end of the crawl, it
// starts again: the others rely on it, but it could not write its last records.
func (s *story) startAgain(a *actor) {
	if a.gone { // it was lost meanwhile
		return
	}
	alone := true
	for _, other := range s.actors {
		alone = alone && !(other.lives() && s.judge.by(other.number, other.run.began) > 0)
	}
	if alone {
		s.still = append(s.still, excuse{from: a.down, to: time.Now().Add(restartTime)})
	}
	failed := !a.run.killed && a.run.err != nil && a.run.result.Stop == crawl.Finished
	if alone && s.finished() && !failed {
		if s.plan.Replicas >= 2 && !s.judge.hasLost() {
			s.log("%s is not needed any more", a.name)
			a.gone = true
			return
		}
	}
	a.comesUp()
	if a.forward { // pauses end by the wall clock if a process does not live as long
		a.forward = false
		s.judge.skips(a.number, time.Now())
	}
	a.start(a.begun(), s.plan.Agents)
}

// finished reports whether an agent has ended without an error because the crawl was finished.
func (s *story) finished() bool {
	for _, a := range s.actors {
		if a.run != nil && a.run.ended() && !a.run.killed && a.run.err == nil && a.run.result.Stop == crawl.Finished {
			return true
		}
	}
	return false
}

// overlay changes the rules of the network for d.
func (s *story) overlay(d time.Duration, change func(from, to int, p simnet.Path) simnet.Path) {
	i := len(s.overlays)
	s.overlays = append(s.overlays, change)
	s.compose()
	s.later(d, func() {
		s.log("the network is well again")
		s.overlays[i] = nil
		s.compose()
	})
}

// compose makes the rules of the network from the plan and all overlays.
func (s *story) compose() {
	overlays := append([]func(int, int, simnet.Path) simnet.Path(nil), s.overlays...)
	latency := s.plan.Latency
	s.net.Follow(func(from, to int) simnet.Path {
		p := simnet.Path{Latency: latency}
		if from == 0 || to == 0 {
			p.Latency = webLatency
		}
		for _, o := range overlays {
			if o != nil {
				p = o(from, to, p)
			}
		}
		return p
	})
}

const webLatency = 2 * time.Millisecond
