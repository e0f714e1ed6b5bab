package sim

import (
	"context"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/saving"
	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
)

// storeURL names the store of a story, and crawlName the crawl in it.
const storeURL, crawlName = "s3://bucket/", "web"

// savesEvery is the time from one state of the first agent to the next one.
const savesEvery = 10 * time.Second

// claimWait bounds how long an agent waits until the process before it has stopped, by its claim in the store.
const claimWait = 90 * time.Second

// newStore returns the store of a story whose agents save their states; nil if they do not.
func (p Plan) newStore() *teststore.Sim {
	if !slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == Disaster || f.Kind == Ruin }) {
		return nil
	}
	s := teststore.NewSim(p.Seed, teststore.Traits{})
	s.Fail(teststore.Faults{Delay: 50 * time.Millisecond, Busy: 0.01, Broken: 0.01, LostRequest: 0.01, LostAnswer: 0.01,
		Lying: 0.01, Torn: 0.01, TornAnswer: 0.01})
	return s
}

// saves makes the agent save its state.
func (a *actor) saves(cfg *node.Config) {
	if a.s.store == nil {
		return
	}
	cfg.Archive.Segments.Crawl, cfg.Archive.Segments.Bytes = crawlName, 1<<20
	cfg.Store.URL, cfg.Store.Backend = storeURL, a.s.store
	// The states of the agents are of different ages: each agent saves less often than the one before.
	cfg.StoreState = savesEvery * time.Duration(a.number*a.number)
}

// strikeAll loses all machines and disks. Each agent starts on a new machine within d, from its newest saved state.
// Before its first state it starts anew. The caller holds stage.
func (s *story) strikeAll(d time.Duration) {
	now := time.Now()
	rng := rand.New(rand.NewPCG(s.plan.Seed, uint64(now.Sub(start))))
	for _, a := range s.actors {
		if !a.lives() {
			continue
		}
		a.down, a.up, a.untold = now, time.Time{}, a.separatedSince()
		a.end(testdisk.NewMem(), (*simnet.Machine).Vanish)
		wait := time.Duration(rng.Int64N(int64(d) + 1))
		s.pending.Add(1)
		s.running.Go(func() {
			time.Sleep(wait)
			a.fromStore(now)
			s.pending.Add(-1)
		})
	}
	s.still = append(s.still, excuse{from: now, to: now.Add(d + claimWait + restartTime)})
}

// ruinCoordinators loses the machines and disks of all coordinators. Each starts on a new machine within d, with
// nothing but its keys. The caller holds stage.
func (s *story) ruinCoordinators(d time.Duration) {
	now := time.Now()
	rng := rand.New(rand.NewPCG(s.plan.Seed+1, uint64(now.Sub(start))))
	for _, c := range s.coordinators {
		if c.lives() {
			c.end(nil, (*simnet.Machine).Vanish)
		}
		c.newDisk()
		run := c.run
		s.later(time.Duration(rng.Int64N(int64(d)+1)), func() {
			if c.run == run {
				c.start()
			}
		})
	}
	trouble := excuse{from: now, to: now.Add(d + startsIn + electedAfter)}
	s.bad, s.unassigned = append(s.bad, trouble), append(s.unassigned, trouble)
}

// fromStore starts an agent, whose machine was lost at a time, on a new one.
func (a *actor) fromStore(lost time.Time) {
	mem := a.s.keys[a.name].Clone()
	series := saving.Series{Crawl: crawlName, FS: mem, Dir: crawlDir, Clock: &a.clock}
	series.Store.URL, series.Store.Backend = storeURL, a.s.store
	if !a.s.plan.alone() {
		series.Agent = a.name
	}
	v, err := saving.Fetch(context.Background(), series)
	none := err != nil && strings.Contains(err.Error(), "no saved state")
	if err != nil && !none {
		a.s.t.Errorf("%s: %v", a.name, err)
	}
	a.s.stage.Lock()
	defer a.s.stage.Unlock()
	since := start
	if !none {
		since = v.Taken.Add(-killedRepeats)
	}
	a.s.log("%s gets its state of %s", a.name, since.Sub(start))
	a.s.judge.excuse(excuse{agent: a.number, from: since.Add(-a.s.unsafe()), to: lost})
	a.s.judge.forgets(a.number, excuse{from: since, to: lost})
	a.comesUp()
	a.setDisk(mem)
	a.start(a.begun(), a.s.plan.Agents)
}

// stored returns the WARC files of an agent that are in the store, as its disk knows them: their contents by their
// names in an index.
func (a *actor) stored() map[string][]byte {
	files := map[string][]byte{}
	if a.s.store == nil {
		return files
	}
	own := map[string]bool{}
	indexes, err := a.mem.ReadDir(crawlDir + "/state/index")
	if err != nil {
		return files // it has not begun
	}
	for _, e := range indexes {
		if name, ok := strings.CutSuffix(e.Name(), ".cdxj"); ok {
			own[name+".warc.gz"] = true
		}
	}
	for _, key := range a.s.store.Keys() {
		if own[path.Base(key)] {
			files[path.Base(key)] = a.s.store.Content(key)
		}
	}
	return files
}
