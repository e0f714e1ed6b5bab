package sim

import (
	"cmp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// A rateStory is a crawl with a limit of requests a second, and what the web may see of it.
type rateStory struct {
	plan  Plan
	limit func(at time.Duration) float64 // requests a second; nil: always 40
	// acts happens beside the story.
	acts func(t *testing.T, s *story)
	// from is when the agents have enough work. The web is judged from then on, until they have little work left.
	from time.Duration
	// short is how much less than the rate may come in any ten seconds without a death; zero: 5 %.
	short float64
	bits  bool // the limit is one of bits
}

const (
	// rateWindow is the time in which requests are counted.
	rateWindow = 10 * time.Second
	// afterDeath is how long after a death the rate may be unused.
	afterDeath = 15 * time.Second
)

// tell runs the story, and counts the requests in all windows.
func (r rateStory) tell(t *testing.T) {
	if r.limit == nil {
		r.limit = func(time.Duration) float64 { return 40 }
	}
	t.Log(r.plan)
	synctest.Test(t, func(t *testing.T) {
		s, v := tellFrom(t, r.plan, nil, func(s *story) {
			if r.acts != nil {
				go r.acts(t, s)
			}
		})
		if t.Log(v); v.Bad() {
			t.Errorf("the story broke a promise: %v %v %v", v.Violations, v.Missed, v.Wrong)
			for _, l := range v.Log {
				t.Log(l)
			}
		}
		r.judge(t, s)
	})
}

// judge counts the requests that the web has seen, or the bits that the agents have read from it.
func (r rateStory) judge(t *testing.T, s *story) {
	var all []amount
	slack, unit := 1.0, "requests"
	if r.bits {
		all, slack, unit = s.judge.reads.all, 0, "bits"
	} else {
		for _, b := range s.judge.begins {
			all = append(all, amount{b.Sub(start), 1})
		}
	}
	slices.SortFunc(all, func(a, b amount) int { return cmp.Compare(a.at, b.at) })
	sums := []float64{0}
	for _, a := range all {
		sums = append(sums, sums[len(sums)-1]+a.n)
	}
	// until returns what has come before a time.
	until := func(at time.Duration) float64 {
		i, _ := slices.BinarySearchFunc(all, at, func(a amount, at time.Duration) int { return cmp.Compare(a.at, at) })
		return sums[i]
	}
	var deaths []time.Duration
	for _, a := range s.actors {
		if !a.down.IsZero() {
			deaths = append(deaths, a.down.Sub(start))
		}
	}
	allowed := func(from time.Duration) (sum float64) {
		for d := time.Duration(0); d < rateWindow; d += 10 * time.Millisecond {
			sum += r.limit(from+d) / 100
		}
		return sum
	}
	short := r.short
	if short == 0 {
		short = 0.05
	}
	most, least, wrong := 0.0, 9.0, 0
	busy := all[len(all)*2/3].at // afterwards, few hosts are left
	for from := time.Duration(0); from+rateWindow < busy; from += 50 * time.Millisecond {
		n, want := until(from+rateWindow)-until(from), allowed(from)
		most = max(most, n/want)
		dead := slices.ContainsFunc(deaths, func(d time.Duration) bool {
			return from < d+afterDeath && from+rateWindow > d
		})
		if from >= r.from && !dead {
			least = min(least, n/want)
		}
		if n > 1.05*want+slack || from >= r.from && !dead && n < (1-short)*want-slack {
			if wrong++; wrong < 10 {
				t.Errorf("%.0f %s in the 10 s from %s on, %.1f %% of the rate", n, unit, from, 100*n/want)
			}
		}
	}
	t.Logf("%.0f %s, most of them until %s: %.1f to %.1f %% of the rate in 10 s; deaths at %v", sums[len(sums)-1], unit,
		busy, 100*least, 100*most, deaths)
	if wrong > 0 {
		var each []int
		for from := time.Duration(0); from < busy; from += time.Second {
			each = append(each, int(until(from+time.Second)-until(from)))
		}
		t.Logf("%d windows are wrong; %s in each second: %v", wrong, unit, each)
	}
}

// TestRate: in any ten seconds, the web gets at most 105 % of the rate from all agents together, and less than 95 %
// only within 15 s of a death.
func TestRate(t *testing.T) {
	const s = time.Second
	base := Plan{Seed: 81, Agents: 4, Hosts: 200, Pages: 25, Delay: 50 * time.Millisecond, Shared: -1,
		Latency: time.Millisecond, Rate: "40/s"}
	with := func(spare int, fs ...Fault) Plan {
		p := base
		p.Spare, p.Faults = spare, fs
		return p
	}
	alone := base
	alone.Agents = 1
	waves := base
	waves.Waves, waves.Failing, waves.Busy, waves.Pause = true, 0.02, 0.05, s
	few := base
	few.Hosts, few.Pages, few.Delay = 3, 1200, 2*time.Millisecond
	for name, r := range map[string]rateStory{
		"one agent":   {plan: alone},
		"four agents": {plan: base},
		"waves":       {plan: waves},
		"join": {plan: with(2, Fault{Kind: Join, Agent: 5, At: 0.3},
			Fault{Kind: Join, Agent: 6, At: 0.4})},
		"leave": {plan: with(0, Fault{Kind: Leave, Agent: 2, At: 0.3},
			Fault{Kind: Leave, Agent: 1, At: 0.5})},
		"killed": {plan: with(0, Fault{Kind: Kill, Agent: 3, At: 0.3, For: 40 * s})},
		"each is killed": {plan: with(0, Fault{Kind: Kill, Agent: 1, At: 0.15, For: 30 * s},
			Fault{Kind: Kill, Agent: 2, At: 0.35, For: 30 * s}, Fault{Kind: Kill, Agent: 4, At: 0.55, For: 30 * s})},
		"killed and back at once": {plan: with(0, Fault{Kind: Kill, Agent: 2, At: 0.3, For: 100 * time.Millisecond})},
		"two of four are lost": {plan: with(0, Fault{Kind: Lose, Agent: 4, At: 0.3},
			Fault{Kind: Lose, Agent: 2, At: 0.5})},
		"agents without work":      {plan: few},
		"a bad network of agents":  {plan: with(0, Fault{Kind: Lossy, At: 0.3, For: 30 * s}), short: 1},
		"one agent on a slow line": {plan: with(0, Fault{Kind: Slow, Agent: 2, At: 0.3, For: 20 * s}), short: 1},
		"one agent cut off":        {plan: with(0, Fault{Kind: OneWay, Agent: 2, At: 0.3, For: 3 * s}), short: 1},
	} {
		if r.from == 0 {
			r.from = 20 * s
		}
		runNamed(t, name, func(t *testing.T) {
			r.tell(t)
		})
	}
}

// TestRateOfBits is TestRate with a limit of bits. In some stories servers change every seven seconds: answers have
// 3 KB or 53 KB, or come 600 ms later.
func TestRateOfBits(t *testing.T) {
	const s = time.Second
	// There are so many hosts that enough of them have no open request while each response takes 600 ms.
	base := Plan{Seed: 83, Agents: 4, Hosts: 500, Pages: 10, Delay: 50 * time.Millisecond, Shared: -1,
		Latency: time.Millisecond, Rate: "1Mbit"}
	with := func(waves bool, spare int, fs ...Fault) Plan {
		p := base
		p.Waves, p.Spare, p.Faults = waves, spare, fs
		return p
	}
	for name, p := range map[string]Plan{
		"four agents": with(false, 0),
		"waves":       with(true, 0),
		"join and leave": with(true, 2, Fault{Kind: Join, Agent: 5, At: 0.2}, Fault{Kind: Join, Agent: 6, At: 0.3},
			Fault{Kind: Leave, Agent: 1, At: 0.5}),
		"deaths": with(true, 0, Fault{Kind: Kill, Agent: 1, At: 0.15, For: 30 * s},
			Fault{Kind: Lose, Agent: 3, At: 0.45}),
	} {
		runNamed(t, name, func(t *testing.T) {
			rateStory{plan: p, from: 20 * s, bits: true, limit: func(time.Duration) float64 { return 1e6 }}.tell(t)
		})
	}
}

// TestRateByTime: the limit changes by the time of day, and by an operator's orders at any agent.
func TestRateByTime(t *testing.T) {
	testtier.OnlySoak(t, "TestRate is shorter")
	const s = time.Second
	base := Plan{Seed: 82, Agents: 4, Hosts: 200, Pages: 25, Delay: 50 * time.Millisecond, Shared: -1,
		Latency: time.Millisecond}
	day := base
	day.Rate = "20/s 0:01-0:02, else 50/s"
	rateStory{plan: day, from: 20 * s, limit: func(at time.Duration) float64 {
		if at >= time.Minute && at < 2*time.Minute {
			return 20
		}
		return 50
	}}.tell(t)

	orders := base
	orders.Rate = "60/s"
	rateStory{plan: orders, from: 20 * s, limit: func(at time.Duration) float64 {
		switch {
		case at >= 30*s && at < 60*s:
			return 15
		case at >= 60*s && at < 90*s:
			return 40
		}
		return 60
	}, acts: func(t *testing.T, st *story) {
		var id string
		for i, text := range []string{"15/s", "40/s"} {
			time.Sleep(30 * s)
			r, err := st.actors[i].run.open().Operator().Give(t.Context(), &pb.GiveRequest{Verb: "rate",
				Value: text, Why: "story"})
			if err != nil {
				t.Error(err)
			}
			id = r.GetOrder().GetId()
		}
		time.Sleep(30 * s)
		if _, err := st.actors[2].run.open().Operator().TakeBack(t.Context(), &pb.TakeBackRequest{Id: id}); err != nil {
			t.Error(err)
		}
	}}.tell(t)
}
