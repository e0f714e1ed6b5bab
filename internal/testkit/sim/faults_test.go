package sim

import (
	"testing"
	"time"
)

// TestFaults runs each fault that an operator must expect, and pairs of faults that meet at a bad
// moment. The bounds of the judge and of the case apply.
func TestFaults(t *testing.T) {
	const sec, ms = time.Second, time.Millisecond
	for name, c := range map[string]struct {
		faults []Fault
		twice  int64 // bound of the repeated fetches
		void   bool  // more is lost than two copies of everything survive
	}{
		"killed and back at once":   {[]Fault{{Kind: Kill, Agent: 2, At: 0.3, For: 300 * ms}}, 20, false},
		"killed and taken over":     {[]Fault{{Kind: Kill, Agent: 2, At: 0.3, For: 30 * sec}}, 20, false},
		"power failure":             {[]Fault{{Kind: Power, Agent: 2, At: 0.3, For: 2 * sec}}, 30, false},
		"machine lost":              {[]Fault{{Kind: Lose, Agent: 3, At: 0.4}}, 20, false},
		"replaced before its death": {[]Fault{{Kind: Replace, Agent: 3, At: 0.4, For: sec}}, 20, false},
		"replaced after its death":  {[]Fault{{Kind: Replace, Agent: 3, At: 0.4, For: 20 * sec}}, 20, false},
		"killed while it joins": {[]Fault{{Kind: Join, Agent: 5, At: 0.3},
			{Kind: Kill, Agent: 5, At: 0.3, After: 400 * ms, For: sec}}, 20, false},
		"another is killed during a join": {[]Fault{{Kind: Join, Agent: 5, At: 0.3},
			{Kind: Kill, Agent: 2, At: 0.3, After: 400 * ms, For: sec}}, 20, false},
		"killed while it leaves": {[]Fault{{Kind: Leave, Agent: 4, At: 0.3},
			{Kind: Kill, Agent: 4, At: 0.3, After: 300 * ms, For: 2 * sec}}, 20, false},
		"another is lost during a leave": {[]Fault{{Kind: Leave, Agent: 4, At: 0.3},
			{Kind: Lose, Agent: 2, At: 0.3, After: 300 * ms}}, 20, false},
		"an heir is killed during the takeover": {[]Fault{{Kind: Lose, Agent: 3, At: 0.3},
			{Kind: Kill, Agent: 2, At: 0.3, After: 8 * sec, For: sec}}, 400, true},
		"two lost within a second": {[]Fault{{Kind: Lose, Agent: 3, At: 0.3},
			{Kind: Lose, Agent: 2, At: 0.3, After: 700 * ms}}, 400, true},
		"kill of all":         {[]Fault{{Kind: KillAll, At: 0.4, For: 3 * sec}}, 40, false},
		"disk full":           {[]Fault{{Kind: Full, Agent: 2, At: 0.3, For: 5 * sec}}, 30, false},
		"disk fails":          {[]Fault{{Kind: Fail, Agent: 2, At: 0.3, For: 5 * sec}}, 30, false},
		"off the network":     {[]Fault{{Kind: Offline, Agent: 2, At: 0.3, For: 5 * sec}}, 30, false},
		"disk old":            {[]Fault{{Kind: Old, Agent: 2, At: 0.3, For: 3 * sec}}, 100, true},
		"no dns":              {[]Fault{{Kind: NoDNS, At: 0.3, For: 20 * sec}}, 0, false},
		"no web":              {[]Fault{{Kind: NoWeb, At: 0.3, For: 20 * sec}}, 0, false},
		"left":                {[]Fault{{Kind: Leave, Agent: 1, At: 0.4}}, 0, false},
		"joined":              {[]Fault{{Kind: Join, Agent: 5, At: 0.4}}, 0, false},
		"stopped and resumed": {[]Fault{{Kind: Stop, Agent: 2, At: 0.3, For: 2 * sec}}, 0, false},
	} {
		runNamed(t, name, func(t *testing.T) {
			v := tell(t, Plan{Seed: 7, Agents: 4, Spare: 1, Hosts: 30, Pages: 10, Delay: 150 * ms, Latency: 5 * ms,
				Faults: c.faults})
			if v.Twice > c.twice || v.Lost > 0 && !c.void {
				t.Errorf("%d pages fetched again, want at most %d; %d hosts lost", v.Twice, c.twice, v.Lost)
			}
		})
	}
}
