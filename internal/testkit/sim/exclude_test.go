package sim

import (
	"testing"
	"time"
)

// TestNamedExclusions: while an operator excludes half of the pages, no agent asks for one of them, whatever happens to
// the agents. That holds also for one that comes back, or joins, meanwhile. Afterwards the crawl fetches all pages.
func TestNamedExclusions(t *testing.T) {
	const s = time.Second
	base := Plan{Seed: 62, Agents: 3, Hosts: 20, Pages: 20, Delay: 3 * s, Latency: time.Millisecond}
	byTopic := base
	byTopic.Partition = topic
	alone := base
	alone.Agents = 1
	with := func(p Plan, fs ...Fault) Plan {
		p.Faults = append([]Fault{{Kind: Exclude, Agent: 1, At: 0.15, For: 70 * s}}, fs...)
		return p
	}
	after := func(p Plan, fs ...Fault) Plan { p.Faults = fs; return p }
	spare := func(p Plan) Plan { p.Spare = 1; return p }
	during := func(kind Kind, agent int, after, d time.Duration) Fault {
		return Fault{Kind: kind, Agent: agent, At: 0.15, After: after, For: d}
	}
	for _, c := range []struct {
		name string
		plan Plan
		may  bound
	}{
		{"one agent", with(alone), bound{}},
		{"one agent, killed", with(alone, during(Kill, 1, 10*s, s)), bound{twice: 5}},
		{"no fault", with(base), bound{}},
		{"the agent that was told is killed", with(base, during(Kill, 1, s, 5*s)), bound{twice: 10}},
		{"another one loses its power", with(base, during(Power, 2, s, 10*s)), bound{twice: 15}},
		{"all are killed", with(base, during(KillAll, 0, 10*s, 5*s)), bound{twice: 15}},
		{"the agent that was told is lost", with(base, during(Lose, 1, 10*s, 0)), bound{twice: 25, lost: true}},
		{"join", with(spare(base), during(Join, 4, 10*s, 0)), bound{}},
		{"join and kill", with(spare(base), during(Join, 4, 6*s, 0), during(Kill, 2, 15*s, 5*s)), bound{twice: 15}},
		{"join after many orders", spare(after(base, Fault{Kind: Orders, Agent: 1, At: 0.05},
			Fault{Kind: Exclude, Agent: 1, At: 0.15, For: 70 * s}, during(Join, 4, 6*s, 0))), bound{}},
		{"leave", with(base, during(Leave, 2, 10*s, 0)), bound{}},
		{"topic", with(byTopic, during(Kill, 2, 10*s, 5*s)), bound{twice: 200}},
	} {
		runNamed(t, c.name, func(t *testing.T) {
			v := tell(t, c.plan)
			c.may.hold(t, v)
			if len(v.Struck) != len(c.plan.Faults) {
				t.Errorf("the faults %v happened, of %v", v.Struck, c.plan.Faults)
			}
			if v.Spared < 60 {
				t.Errorf("%d other pages were fetched during the exclusion: it was too short", v.Spared)
			}
		})
	}
}
