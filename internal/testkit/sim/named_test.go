package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// TestLostArchivesAreNamed: the agents that stay have lists of the URLs that were in the archives of lost
// agents. A second loss does not lose a name: what an heir has got before from the lost agent, or has on a
// list, its next heir gets. A list names nothing else.
func TestLostArchivesAreNamed(t *testing.T) {
	const s, restart = time.Second, 200 * time.Millisecond
	p := Plan{Seed: 51, Agents: 4, Hosts: 80, Pages: 20, Delay: s, Latency: time.Millisecond}
	lose := func(agent int, at float64) Fault { return Fault{Kind: Lose, Agent: agent, At: at, After: 40 * s} }
	kill := func(agent int, at float64) Fault {
		return Fault{Kind: Kill, Agent: agent, At: at, After: 40 * s, For: restart}
	}
	byHash := p // pages move between agents, too
	byHash.Partition, byHash.Boundary = membership.PartitionHash, membership.BoundaryContents
	byTopic := byHash
	byTopic.Partition, byTopic.Topics = topic, 8
	heirFirst := []Fault{kill(2, 0.1), lose(1, 0.2), lose(2, 0.4)}
	for _, c := range []struct {
		name   string
		plan   Plan
		faults []Fault
	}{
		{"one", p, []Fault{lose(2, 0.5)}},
		{"one that was restarted", p, []Fault{kill(2, 0.1), lose(2, 0.3)}},
		{"one that was away for long", p, []Fault{{Kind: Kill, Agent: 2, At: 0.1, For: 30 * s}, lose(2, 0.3)}},
		{"an heir first", p, heirFirst},
		{"an heir leaves, late", p, []Fault{lose(2, 0.2), {Kind: Leave, Agent: 1, At: 0.4}}},
		{"an heir leaves at once", p, []Fault{lose(2, 0.2), {Kind: Leave, Agent: 3, After: 200 * time.Millisecond}}},
		{"all but one", p, []Fault{kill(2, 0.1), lose(1, 0.2), kill(2, 0.25), lose(3, 0.3), lose(2, 0.35)}},
		{"one, hash", byHash, []Fault{lose(2, 0.5)}},
		{"an heir first, hash", byHash, heirFirst},
		{"one, topic", byTopic, []Fault{lose(2, 0.5)}},
		{"an heir first, topic", byTopic, heirFirst},
	} {
		runNamed(t, c.name, func(t *testing.T) {
			p := c.plan
			p.Faults = c.faults
			synctest.Test(t, func(t *testing.T) {
				s, v := tellAll(t, p, nil)
				if len(v.Struck) != len(p.Faults) {
					t.Fatalf("the faults %v happened, of %v", v.Struck, p.Faults)
				}
				for _, a := range s.actors {
					if a.run != nil && a.lost == nil && a.run.result.Stop == crawl.Left && len(listed(t, a.mem)) > 0 {
						t.Errorf("a%d has left with lists in its reports", a.number)
					}
				}
				if s.checkNamed(t); t.Failed() {
					t.Log(v)
					t.Log(strings.Join(v.Log, "\n"))
				}
			})
		})
	}
}

// TestKeptArchivesAreNotNamed: no list in the reports names the pages of an agent that has left, was stopped, or is
// back, and no page is fetched again, whenever its heirs restart. The agents do not wait for that.
func TestKeptArchivesAreNotNamed(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	p := Plan{Seed: 52, Agents: 3, Hosts: 30, Pages: 10, Delay: s, Latency: ms, OnLoss: membership.LossRefetch}
	leave := Fault{Kind: Leave, Agent: 2, At: 0.4}
	kill := func(agent int, after, away time.Duration) Fault {
		return Fault{Kind: Kill, Agent: agent, After: after, For: away}
	}
	stop := func(agent int, at float64, away time.Duration) Fault {
		return Fault{Kind: Stop, Agent: agent, At: at, For: away}
	}
	type story struct {
		name   string
		agents int
		faults []Fault
	}
	stories := []story{
		{"leave", 3, []Fault{leave}},
		{"leave with an heir away", 3, []Fault{{Kind: Kill, Agent: 3, At: 0.3, For: 30 * s},
			{Kind: Leave, Agent: 2, After: 10 * s}}},
		{"leave with an heir away, the other one restarts", 3, []Fault{{Kind: Kill, Agent: 3, At: 0.3, For: 40 * s},
			{Kind: Leave, Agent: 2, After: 10 * s}, kill(1, 15*s, 200*ms)}},
		{"leave, the heir loses power", 2, []Fault{leave, {Kind: Power, Agent: 1, After: 300 * ms, For: 300 * ms}}},
		{"leave, and another agent gets the name", 3, []Fault{leave, {Kind: Join, Agent: 2, After: 20 * s}}},
		{"leave, and another agent gets the name, with an heir away", 3, []Fault{
			{Kind: Kill, Agent: 3, At: 0.3, For: 60 * s}, {Kind: Leave, Agent: 2, After: 10 * s},
			{Kind: Join, Agent: 2, After: 25 * s}}},
		{"stop", 3, []Fault{stop(2, 0.3, time.Hour)}},
		{"stop and resume", 3, []Fault{stop(2, 0.3, 20*s)}},
		{"stop, the heir restarts", 2, []Fault{stop(2, 0.3, 40*s), kill(1, 3*s, 200*ms)}},
		{"disk full and resumed", 3, []Fault{{Kind: Full, Agent: 2, At: 0.3, For: 20 * s}}},
		{"killed and back", 3, []Fault{{Kind: Kill, Agent: 2, At: 0.3, For: 20 * s}}},
		{"killed and back, the heir was restarted", 3, []Fault{{Kind: Kill, Agent: 2, At: 0.3, For: 30 * s},
			kill(1, 20*s, 200*ms)}},
		{"rolling upgrade", 3, []Fault{stop(1, 0.1, 8*s), {Kind: Stop, Agent: 2, After: 20 * s, For: 8 * s},
			{Kind: Stop, Agent: 3, After: 20 * s, For: 8 * s}}},
	}
	for _, after := range []time.Duration{0, 50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1200 * ms, 1800 * ms,
		2500 * ms, 4 * s, 6 * s} {
		stories = append(stories,
			story{fmt.Sprintf("leave, an heir restarts after %s", after), 3, []Fault{leave, kill(3, after, 200*ms)}},
			story{fmt.Sprintf("leave, the heir restarts after %s", after), 2, []Fault{leave, kill(1, after, 200*ms)}})
	}
	for _, c := range stories {
		runNamed(t, c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := p
				p.Agents, p.Faults = c.agents, c.faults
				s, v := tellAll(t, p, nil)
				t.Log(v)
				if v.Bad() || v.Twice > 25 { // of the last moments before a kill
					t.Errorf("%d pages were fetched twice, and %v happened", v.Twice, v.Struck)
				}
				var end time.Time
				for _, a := range s.actors {
					if a.run.result.Stop != crawl.Finished { // others may have been away when it ended
						continue
					}
					if urls := listed(t, a.mem); len(urls) > 0 {
						t.Errorf("agent a%d has %d URLs on lists", a.number, len(urls))
					}
					end = later(end, a.run.at)
				}
				if last, _ := s.judge.lastPage(); end.IsZero() || end.Sub(last) > refetchWait {
					t.Errorf("the last page came after %s, and the end after %s", last.Sub(start), end.Sub(start))
				}
				if t.Failed() {
					t.Log(strings.Join(v.Log, "\n"))
					t.Log(strings.Join(s.agentEvents(), "\n"))
				}
			})
		})
	}
}

// checkNamed compares the lists of lost URLs with the archives on the lost disks.
func (s *story) checkNamed(t *testing.T) {
	t.Helper()
	lists, all := map[string]bool{}, map[string]bool{}
	for _, a := range s.actors {
		if a.lost == nil {
			for _, u := range listed(t, a.mem) {
				lists[u] = true
			}
		}
	}
	for _, a := range s.actors {
		if a.lost == nil {
			continue
		}
		missing, excused := 0, 0
		imported := importedAt(t, a.lost)
		for _, r := range recordsOn(t, a.lost) {
			if strings.HasSuffix(r.url, "/robots.txt") {
				continue
			}
			all[r.url] = true
			switch {
			case lists[r.url]:
			case s.judge.unshipped(t, a.number, r.date), imported[r.url] != "" && s.judge.unshipped(t, a.number,
				imported[r.url]):
				excused++
			default:
				if missing++; missing <= 5 {
					t.Errorf("%s had a record of %s from %s, and no list names it", a.name, r.url, r.date)
				}
			}
		}
		t.Logf("%s: %d records are not named, %d more were too new", a.name, missing, excused)
	}
	if len(all) < 20 {
		t.Errorf("the lost archives had only %d pages", len(all))
	}
	for u := range lists {
		if !all[u] && !s.archivedBy(u) {
			t.Errorf("a list names %s, which no archive had", u)
		}
	}
}

// importedAt returns when the lines of an agent's imported pages were logged, by URL.
func importedAt(t *testing.T, mem *testdisk.Mem) map[string]string {
	t.Helper()
	log := must.Get(disk.ReadFile(mem, crawlDir+"/logs/crawl.log", 1<<30))(t)
	at := map[string]string{}
	for line := range strings.Lines(string(log)) {
		if f := strings.Fields(line); len(f) > 11 && strings.Contains(f[11], "imported:") {
			at[f[3]] = f[0]
		}
	}
	return at
}

// archivedBy reports whether an agent that may have been taken for lost has a record of a URL.
func (s *story) archivedBy(url string) bool {
	return slices.ContainsFunc(s.actors, func(a *actor) bool {
		for _, list := range a.records {
			if slices.ContainsFunc(list, func(r record) bool { return r.url == url }) {
				return true
			}
		}
		return false
	})
}

// unshipped reports whether nobody else may know of a record of an agent: it is from its last moments.
func (j *judge) unshipped(t *testing.T, agent int, date string) bool {
	at, err := time.Parse(time.RFC3339Nano, date)
	if err != nil {
		t.Error(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	const took = time.Second // from the date to the end of the response
	return slices.ContainsFunc(j.excuses, func(e excuse) bool {
		return e.covers(agent, at) || e.covers(agent, at.Add(took))
	})
}

// listed returns the URLs of the lists of an agent. Each list says in its first lines what it is.
func listed(t *testing.T, mem *testdisk.Mem) (urls []string) {
	t.Helper()
	const dir = crawlDir + "/reports/"
	entries := must.Get(mem.ReadDir(dir))(t)
	for _, e := range entries {
		of, is := strings.CutPrefix(e.Name(), "lost-")
		if !is {
			continue
		}
		text := must.Get(disk.ReadFile(mem, dir+e.Name(), 1<<30))(t)
		agent, _, _ := strings.Cut(of, "-")
		if want := fmt.Sprintf("archive of agent %s (", agent); !strings.Contains(string(text), want) {
			t.Errorf("%s: no comment has %q", e.Name(), want)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, "#") {
				urls = append(urls, line)
			}
		}
	}
	return urls
}
