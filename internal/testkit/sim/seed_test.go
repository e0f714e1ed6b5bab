package sim

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestNamedSeeds: an operator adds seeds at any agent while agents die, restart, leave and join. No accepted seed is
// lost. Each is fetched once, but for those that a killed or lost agent had just fetched.
func TestNamedSeeds(t *testing.T) {
	const s = time.Second
	base := Plan{Seed: 63, Agents: 3, Hosts: 20, Pages: 20, Delay: 2 * s, Latency: time.Millisecond}
	byTopic := base
	byTopic.Partition = topic
	alone := base
	alone.Agents = 1
	far := base
	far.Latency = 100 * time.Millisecond
	with := func(p Plan, fs ...Fault) Plan { p.Faults = fs; return p }
	spare := func(p Plan) Plan { p.Spare = 1; return p }
	seed := func(agent int, after time.Duration) Fault {
		return Fault{Kind: Seed, Agent: agent, At: 0.15, After: after}
	}
	during := func(kind Kind, agent int, after, d time.Duration) Fault {
		return Fault{Kind: kind, Agent: agent, At: 0.15, After: after, For: d}
	}
	const soon = time.Millisecond
	for _, c := range []struct {
		name  string
		plan  Plan
		may   bound
		twice int
	}{
		{"one agent", with(alone, seed(1, 0), seed(1, s)), bound{}, 0},
		{"one agent, killed", with(alone, seed(1, 0), during(Kill, 1, soon, s), seed(1, 10*s)), bound{twice: 5}, 2},
		{"at each agent", with(base, seed(1, 0), seed(2, 0), seed(3, 0)), bound{}, 0},
		{"the agent that was told is killed", with(base, seed(1, 0), during(Kill, 1, soon, 5*s), seed(2, s)),
			bound{twice: 10}, 2},
		{"the agent that was told loses its power", with(base, seed(1, 0), during(Power, 1, soon, 5*s)),
			bound{twice: 15}, 2},
		{"the agent that was told is lost", with(base, seed(1, 0), during(Lose, 1, soon, 0), seed(2, s), seed(3, 20*s)),
			bound{twice: 25, lost: true}, 3},
		{"the agent that was told is lost, far", with(far, seed(1, 0), during(Lose, 1, soon, 0), seed(2, s)),
			bound{twice: 40, lost: true}, 3},
		{"the agent that was told is lost, slow line", with(base, during(Slow, 1, 0, 30*s), seed(1, s),
			during(Lose, 1, soon, 0), seed(2, s)), bound{twice: 40, lost: true}, 3},
		{"another agent is lost", with(base, seed(1, 0), during(Lose, 2, soon, 0), seed(1, s), seed(3, 20*s)),
			bound{twice: 25, lost: true}, 3},
		{"an agent is lost, then the one that was told", with(base, during(Lose, 2, 0, 0), seed(1, s), seed(3, 15*s),
			during(Lose, 3, soon, 0)), bound{twice: 40, lost: true}, 4},
		{"all are killed", with(base, seed(1, 0), seed(3, soon), during(KillAll, 0, soon, 5*s)), bound{twice: 15}, 3},
		{"join", with(spare(base), seed(1, 0), during(Join, 4, soon, 0), seed(4, 10*s)), bound{}, 0},
		{"leave", with(base, seed(2, 0), during(Leave, 2, soon, 0), seed(1, soon), seed(3, 5*s)), bound{}, 0},
		{"stop", with(base, seed(2, 0), during(Stop, 2, soon, 10*s), seed(1, soon)), bound{twice: 5}, 0},
		{"topic", with(byTopic, seed(1, 0), during(Kill, 1, soon, 5*s), seed(2, 10*s)), bound{twice: 200}, 20},
	} {
		runNamed(t, c.name, func(t *testing.T) {
			v := tell(t, c.plan)
			c.may.hold(t, v)
			seeds := 0
			for _, f := range c.plan.Faults {
				if f.Kind == Seed {
					seeds += seedsAtOnce
				}
			}
			t.Logf("%d of %d seeds were accepted, %d fetched again", v.Seeded, seeds, v.SeedsTwice)
			if len(v.Struck) != len(c.plan.Faults) {
				t.Errorf("the faults %v happened, of %v", v.Struck, c.plan.Faults)
			}
			if v.Seeded < seedsAtOnce || v.SeedsTwice > c.twice || len(v.SeedsMissed) > 0 {
				t.Errorf("%d seeds were accepted, %d fetched again; missed:\n%s", v.Seeded, v.SeedsTwice,
					strings.Join(v.SeedsMissed, "\n"))
			}
		})
	}
}

// TestSeedsAtTheEnd: an operator adds seeds just before, and while, the agents agree to end the crawl over a slow
// line. Seeds that come too late are refused. No agent goes on alone with those that it has accepted.
func TestSeedsAtTheEnd(t *testing.T) {
	const step = 100 * time.Millisecond
	taken, refused := 0, 0
	for i := 20; i < 28; i++ { // the agents agree 2.2 to 2.7 s after the last page
		agent := 1 + i%3
		p := Plan{Seed: 64, Agents: 3, Hosts: 6, Pages: 3, Delay: step, Latency: step, Faults: []Fault{
			{Kind: Seed, Agent: agent, At: 1}, {Kind: Seed, Agent: agent, At: 1, After: time.Duration(i) * step}}}
		synctest.Test(t, func(t *testing.T) {
			s, v := tellAll(t, p, nil)
			var ends []time.Time
			for _, a := range s.actors {
				ends = append(ends, a.run.at)
			}
			slices.SortFunc(ends, time.Time.Compare)
			if apart := ends[len(ends)-1].Sub(ends[0]); v.Bad() || len(v.SeedsMissed) > 0 || apart > 3*time.Second {
				t.Errorf("%s\n%s; missed %v; the agents end at %v", p, v, v.SeedsMissed, ends)
			}
			switch {
			case v.Seeded == 2*seedsAtOnce:
				taken++
			case len(v.Struck) == 2:
				refused++
			}
		})
	}
	t.Logf("taken at the end in %d stories, refused in %d, and too late in the others", taken, refused)
	if taken == 0 || refused == 0 {
		t.Error("no story gave the seeds at the end")
	}
}
