package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
	if !slices.ContainsFunc(p.Faults, func(f Fault) bool {
		return f.Kind == Disaster || f.Kind == Ruin || f.Kind == Orphan || f.Kind == Restore
	}) {
		return nil
	}
	return newStore(p.Seed)
}

// has reports whether the plan has a fault of a kind.
func (p Plan) has(kind Kind) bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == kind })
}

// newStore returns a store that fails now and then.
func newStore(seed uint64) *teststore.Sim {
	s := teststore.NewSim(seed, teststore.Traits{})
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
// Before its first state it starts anew. If up is above 0, the agents after the first ones, up in number, do not start
// again: one of those that do adopts their states. The caller holds stage.
func (s *story) strikeAll(d time.Duration, up int) {
	now := time.Now()
	rng := rand.New(rand.NewPCG(s.plan.Seed, uint64(now.Sub(start))))
	for _, a := range s.actors {
		if !a.lives() {
			continue
		}
		a.down, a.up, a.untold = now, time.Time{}, a.separatedSince()
		a.end(testdisk.NewMem(), (*simnet.Machine).Vanish)
		if up > 0 && a.number > up {
			a.isOrphaned(now, true)
			continue
		}
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

// givesKeys puts the keys of the actor on the disk of an agent that may adopt its state.
func (a *actor) givesKeys(to *testdisk.Mem) {
	if err := copyDir(to, "/"+a.name, a.s.keys[a.name], keysDir); err != nil {
		a.s.t.Error(err)
	}
}

// isOrphaned notes that the actor, whose machine was lost at a time, does not come back. If the others go on meanwhile,
// they do not know what it has fetched until its state is adopted.
func (a *actor) isOrphaned(lost time.Time, wait bool) {
	s := a.s
	a.gone, a.orphan = true, true
	for _, o := range s.actors {
		if o != a && o.lives() {
			a.givesKeys(o.mem)
		}
	}
	s.pending.Add(1)
	s.running.Go(func() {
		defer s.pending.Add(-1)
		v, err := saving.Newest(context.Background(), a.series(testdisk.NewMem()))
		if err != nil {
			s.t.Errorf("%s: %v", a.name, err)
		}
		since := v.Taken.Add(-killedRepeats)
		s.judge.excuse(excuse{agent: a.number, from: since.Add(-s.unsafe()), to: lost})
		s.judge.forgets(a.number, excuse{from: since, to: lost})
	})
	if wait {
		return
	}
	s.judge.mu.Lock()
	s.judge.unread = append(s.judge.unread, excuse{a.number, lost, lost.Add(24 * time.Hour)})
	n := len(s.judge.unread) - 1
	s.judge.mu.Unlock()
	s.running.Go(func() {
		for time.Since(lost) < adoptedWithin && !a.adopted() {
			time.Sleep(time.Second)
		}
		s.judge.mu.Lock()
		defer s.judge.mu.Unlock()
		s.judge.unread[n].to = time.Now()
	})
}

// adoptions returns the times in which agents waited until they could adopt the state of another one, by their events.
func adoptions(actors []*actor) (all []excuse) {
	for _, a := range actors {
		var from time.Time
		for line := range bytes.Lines(a.events()) {
			var e struct {
				Time  time.Time
				Event string
			}
			if json.Unmarshal(line, &e) != nil {
				continue // the last line of an agent that was killed
			}
			if from.IsZero() && e.Event == "state-unclaimed" {
				from = e.Time
			}
			if e.Event == "state-adopted" {
				all = append(all, excuse{from: from, to: e.Time.Add(restartTime)})
			}
		}
	}
	return all
}

// adoptedWithin bounds the time from the loss of an agent until another one has adopted its state.
const adoptedWithin = time.Hour

// unadopted returns what is wrong if nobody has adopted the state of an actor.
func unadopted(actors []*actor) (wrong []string) {
	for _, a := range actors {
		if a.orphan && !a.adopted() {
			wrong = append(wrong, "the crawl ended, and nobody had adopted the state of "+a.name)
		}
	}
	return wrong
}

// adopted reports that an agent has adopted the state of the actor.
func (a *actor) adopted() bool {
	return slices.ContainsFunc(a.s.actors, func(o *actor) bool {
		return bytes.Contains(o.events(), []byte(`"event":"state-adopted","agent":"`+a.name+`"`))
	})
}

// isRestoredFromStore loses the actor's machine and disk. The actor starts on a new machine after d, from its newest
// saved state. The others go on meanwhile, and know what it has fetched. The caller holds stage.
func (a *actor) isRestoredFromStore(d time.Duration) {
	s, now := a.s, time.Now()
	a.goesDown(start)
	a.repeats(lostRepeats)
	a.end(testdisk.NewMem(), (*simnet.Machine).Vanish)
	a.gone = true
	s.pending.Add(1)
	s.running.Go(func() {
		defer s.pending.Add(-1)
		time.Sleep(d)
		a.fromStore(now)
	})
}

// unstored returns the pages that agents have fetched and that no complete segment of the store has.
func (j *judge) unstored(store *teststore.Sim) (wrong []string) {
	all, err := inStore(store, func(string) bool { return true })
	if err != nil {
		return []string{err.Error()}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for p, fs := range j.pages {
		if url := j.truth.URL(p.host, p.number); j.truth.Has(p.host, p.number) && !all[url] {
			text := "no segment in the store has " + url
			for _, f := range fs {
				text += fmt.Sprintf(", a%d at %s", f.agent, f.at.Sub(start))
			}
			wrong = append(wrong, text)
		}
	}
	slices.Sort(wrong)
	return wrong
}

// series returns the series of the actor's states, for a disk.
func (a *actor) series(mem *testdisk.Mem) saving.Series {
	series := saving.Series{Crawl: crawlName, FS: mem, Dir: crawlDir, Clock: &a.clock}
	series.Store.URL, series.Store.Backend = storeURL, a.s.store
	if !a.s.plan.alone() {
		series.Agent = a.name
	}
	return series
}

// fromStore starts an agent, whose machine was lost at a time, on a new one.
func (a *actor) fromStore(lost time.Time) {
	mem := a.s.keys[a.name].Clone()
	for _, o := range a.s.actors {
		o.givesKeys(mem)
	}
	v, err := saving.Fetch(context.Background(), a.series(mem))
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
	a.gone = false
	a.comesUp()
	a.setDisk(mem)
	a.start(a.begun(), a.s.plan.Agents)
}

// inStore returns the pages with status 200 in the complete segments of the agents with such names.
func inStore(store *teststore.Sim, of func(agent string) bool) (map[string]bool, error) {
	urls := map[string]bool{}
	for name, file := range segmentsOf(store, of) {
		list, err := readWARC(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, r := range list {
			if r.status == 200 {
				urls[r.url] = true
			}
		}
	}
	return urls, nil
}

// segmentsOf returns the WARC files in the complete segments of some agents, by their names.
func segmentsOf(store *teststore.Sim, of func(agent string) bool) map[string][]byte {
	files := map[string][]byte{}
	for _, key := range store.Keys() {
		agent, is := strings.CutSuffix(key[strings.LastIndexByte(key, '-')+1:], ".warc.gz")
		if is && of(agent) && store.Content(path.Dir(path.Dir(key))+"/_SUCCESS") != nil {
			files[path.Base(key)] = store.Content(key)
		}
	}
	return files
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
	if err != nil && !a.orphan { // it has not begun, or its disk is lost for good
		return segmentsOf(a.s.store, func(agent string) bool { return agent == a.name })
	}
	for _, e := range indexes {
		if name, ok := strings.CutSuffix(e.Name(), ".cdxj"); ok {
			own[name+".warc.gz"] = true
		}
	}
	for _, key := range a.s.store.Keys() {
		if own[path.Base(key)] || a.orphan && strings.HasSuffix(key, ".warc.gz") && strings.Contains(key, a.name) {
			files[path.Base(key)] = a.s.store.Content(key)
		}
	}
	return files
}
