package sim

import (
	"testing"
	"time"
)

// TestNamedPauses: while an operator pauses the crawl, no agent makes a request, whatever happens to the agents. That
// holds also for one that comes back, or joins, during the pause. Afterwards the crawl fetches all pages.
func TestNamedPauses(t *testing.T) {
	const s = time.Second
	base := Plan{Seed: 61, Agents: 3, Hosts: 20, Pages: 10, Delay: 200 * time.Millisecond, Latency: time.Millisecond}
	byTopic := base
	byTopic.Partition = topic
	alone := base
	alone.Agents = 1
	with := func(p Plan, fs ...Fault) Plan {
		p.Faults = append([]Fault{{Kind: Pause, Agent: 1, At: 0.3, For: 2 * time.Minute}}, fs...)
		return p
	}
	spare := func(p Plan) Plan { p.Spare = 1; return p }
	during := func(kind Kind, agent int, after, d time.Duration) Fault {
		return Fault{Kind: kind, Agent: agent, After: after, For: d}
	}
	for _, c := range []struct {
		name string
		plan Plan
		may  bound
	}{
		{"one agent", with(alone), bound{}},
		{"one agent, killed", with(alone, during(Kill, 1, 10*s, s)), bound{twice: 5}},
		{"no fault", with(base), bound{}},
		{"the agent that was told is killed", with(base, during(Kill, 1, s, 10*s)), bound{twice: 10}},
		{"another one loses its power", with(base, during(Power, 2, s, 20*s)), bound{twice: 15}},
		{"all are killed", with(base, during(KillAll, 0, 10*s, 5*s)), bound{twice: 15}},
		{"the agent that was told is lost", with(base, during(Lose, 1, 10*s, 0)), bound{twice: 25, lost: true}},
		{"join", with(spare(base), during(Join, 4, 10*s, 0)), bound{}},
		{"a new disk", with(base, during(Replace, 3, 10*s, 20*s)), bound{twice: 25, lost: true}},
		{"leave", with(base, during(Leave, 2, 10*s, 0)), bound{}},
		{"topic", with(byTopic, during(Kill, 2, 10*s, 5*s)), bound{twice: 200}},
		{"twice", with(base, Fault{Kind: Pause, Agent: 2, At: 0.6, For: time.Minute}), bound{}},
	} {
		runNamed(t, c.name, func(t *testing.T) {
			v := tell(t, c.plan)
			c.may.hold(t, v)
			if len(v.Struck) != len(c.plan.Faults) {
				t.Errorf("the faults %v happened, of %v", v.Struck, c.plan.Faults)
			}
			if v.Took < 2*time.Minute {
				t.Errorf("the crawl took %s: there was no pause", v.Took)
			}
		})
	}
}
