package sim

import (
	"bytes"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// TestArchiveCopies: with --archive-copies 2 and --on-loss refetch, every page is in some archive or copy at the end.
// The pages of copied files are not fetched again, unless the copy is lost or damaged.
func TestArchiveCopies(t *testing.T) {
	const s, restart = time.Second, 200 * time.Millisecond
	p := Plan{Seed: 61, Agents: 3, Hosts: 45, Pages: 20, Delay: 400 * time.Millisecond, Latency: time.Millisecond,
		OnLoss: membership.LossRefetch, Copies: 2, FileBytes: 60_000}
	with := func(p Plan, fs ...Fault) Plan { p.Faults = fs; return p }
	late := Fault{Kind: Lose, Agent: 2, At: 0.9}
	four, keep, more := p, p, p
	four.Agents, keep.OnLoss, more.Spare = 4, "", 1
	byTopic, byHash := p, p
	byTopic.Partition, byTopic.Topics = topic, 8
	byHash.Partition, byHash.Boundary = membership.PartitionHash, membership.BoundaryContents
	for _, c := range []struct {
		name  string
		plan  Plan
		began func(*story)
		least int // pages of lost agents in copies when the agents were lost
	}{
		{"late", with(p, late), nil, 100},
		{"topic", with(byTopic, late), nil, 100},
		{"hash, pages move", with(byHash, late), nil, 100},
		{"keep", with(keep, late), nil, 100},
		{"restarts", with(p, Fault{Kind: Kill, Agent: 1, At: 0.4, For: restart}, Fault{Kind: Kill, Agent: 3, At: 0.5,
			For: restart}, Fault{Kind: Kill, Agent: 2, At: 0.6, For: restart}, late), nil, 100},
		{"all keepers in turn", with(four, Fault{Kind: Lose, Agent: 1, At: 0.5}, Fault{Kind: Lose, Agent: 3,
			After: 60 * s}, Fault{Kind: Lose, Agent: 2, After: 60 * s}), nil, 50},
		{"a newcomer", with(more, Fault{Kind: Join, Agent: 4, At: 0.4}, late), nil, 50},
		{"no room for copies", with(p, late), noRoom, 0},
		{"damaged", with(p, late), flipped, 100},
	} {
		runNamed(t, c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				story, v := tellFrom(t, c.plan, nil, c.began)
				story.checkCopies(t, v, c.least)
			})
		})
	}
}

// noRoom lets no agent store copies.
func noRoom(s *story) {
	for _, a := range s.actors {
		a.faulty.Break(func(c testdisk.Call) testdisk.Fault {
			if c.Op == testdisk.OpWrite && strings.Contains(c.Name, "/copies/") {
				return testdisk.Fault{Err: syscall.ENOSPC}
			}
			return testdisk.Fault{}
		})
	}
}

// flipped flips a bit in each copy of a2's files as soon as a2 is lost.
func flipped(s *story) {
	s.running.Go(func() {
		for lost := false; !lost; time.Sleep(10 * time.Millisecond) {
			s.stage.Lock()
			if lost = s.actors[1].gone || s.over(); lost {
				for _, a := range s.actors {
					a.flipCopies(s.actors[1])
				}
			}
			s.stage.Unlock()
		}
	})
}

// flipCopies flips a bit in each of an actor's copies of another one's files.
func (a *actor) flipCopies(other *actor) {
	const dir = crawlDir + "/copies/"
	folders, _ := a.mem.ReadDir(dir) // most have none
	for _, folder := range folders {
		files, err := a.mem.ReadDir(dir + folder.Name() + "/archive")
		if err != nil {
			a.s.t.Error(err)
		}
		for _, f := range files {
			name := dir + folder.Name() + "/archive/" + f.Name()
			if !strings.HasPrefix(folder.Name(), other.name+"-") {
				continue
			}
			b, err := disk.ReadFile(a.mem, name, 1<<30)
			if err == nil {
				b = bytes.Clone(b)
				b[len(b)/2] ^= 1
				err = disk.WriteFile(a.mem, name, b)
			}
			if err != nil {
				a.s.t.Error(err)
			}
		}
	}
}

// checkCopies fails if a page is in no archive and in no copy, if a page in a copy was fetched again, or if fewer than
// least pages of lost agents were in copies.
func (s *story) checkCopies(t *testing.T, v *Verdict, least int) {
	t.Helper()
	t.Log(s.plan)
	t.Log(v)
	if v.Bad() || len(v.Struck) < len(s.plan.Faults) {
		t.Errorf("the story broke a promise, or had only the faults %v", v.Struck)
	}
	has := s.archives().has
	named := map[string]bool{}
	for _, a := range s.actors {
		if a.lost == nil {
			for _, u := range listed(t, a.mem) {
				named[u] = true
			}
		}
	}
	copied, again, missing := 0, 0, 0
	s.judge.truth.Each(func(host, number int64) {
		url := s.judge.truth.URL(host, number)
		if !has[url] && !(s.plan.OnLoss == "" && named[url]) {
			if missing++; missing <= 5 {
				t.Errorf("no archive and no copy has %s", url)
			}
		}
		for _, a := range s.actors {
			keeper := a.copied[url]
			if keeper == nil {
				continue
			}
			is := func(r record) bool { return r.url == url }
			if copied++; keeper.gone || !slices.ContainsFunc(keeper.copiesOf(a), is) {
				continue
			}
			if named[url] {
				t.Errorf("a list has %s, which is in a copy", url)
			}
			if at, ok := s.judge.after(host, number, a); ok {
				if again++; again <= 5 {
					t.Errorf("%s is in a copy at %s, and was fetched again at %s", url, keeper.name, at)
				}
			}
		}
	})
	if copied < least {
		t.Errorf("only %d pages were in copies", copied)
	}
	t.Logf("%d pages were in copies, %d of them fetched again; %d are missing; %d on lists", copied, again, missing,
		len(named))
	if t.Failed() {
		t.Log(strings.Join(v.Log, "\n"))
		t.Log(strings.Join(s.agentEvents(), "\n"))
	}
}

// after returns when a page was fetched after an actor was lost, if nothing explains it: the actor's last moments, or
// another loss since.
func (j *judge) after(host, number int64, a *actor) (at time.Duration, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var lost time.Time
	for _, e := range j.forgotten {
		if e.agent == a.number {
			lost = e.to
		}
	}
	fs := j.pages[page{host, number}]
	i := slices.IndexFunc(fs, func(f fetched) bool { return f.at.After(lost) })
	if i <= 0 || slices.ContainsFunc(j.forgotten, func(e excuse) bool { return e.to.After(lost) }) {
		return 0, false
	}
	before := fs[i-1]
	last := slices.ContainsFunc(j.excuses, func(e excuse) bool { return e.covers(before.agent, before.at) })
	return fs[i].at.Sub(start), !last && !j.moves && !j.anyHost
}
