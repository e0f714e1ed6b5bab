package sim

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// TestDomainRate: an operator limits the requests to some domains, whose hosts are at several agents. From then on, in
// any ten seconds all agents together make at most as many requests to each domain as its limit allows, and one. It
// holds while agents join, leave, stop, are killed, and are lost with their disks.
func TestDomainRate(t *testing.T) {
	const s = time.Second
	base := Plan{Seed: 91, Agents: 3, Hosts: 60, Pages: 25, Delay: 50 * time.Millisecond, Latency: time.Millisecond}
	with := func(shared time.Duration, spare int, fs ...Fault) Plan {
		p := base
		p.Shared, p.Spare, p.Faults = shared, spare, fs
		return p
	}
	alone := with(0, 0, Fault{Kind: Kill, Agent: 1, At: 0.3, For: s}, Fault{Kind: Stop, Agent: 1, At: 0.5, For: s})
	alone.Agents = 1
	for name, p := range map[string]Plan{
		"one agent": alone,
		"handovers": with(0, 1, Fault{Kind: Join, Agent: 4, At: 0.2}, Fault{Kind: Leave, Agent: 1, At: 0.4}),
		"deaths": with(0, 0, Fault{Kind: Kill, Agent: 2, At: 0.2, For: 5 * s},
			Fault{Kind: Lose, Agent: 3, At: 0.4}),
		"no other delays": with(-1, 1, Fault{Kind: Join, Agent: 4, At: 0.2},
			Fault{Kind: Kill, Agent: 2, At: 0.3, For: 30 * s}, Fault{Kind: Leave, Agent: 1, At: 0.5}),
	} {
		runNamed(t, name, func(t *testing.T) {
			tellDomains(t, p)
		})
	}
}

// domainRates are the limits of requests a second, by the number of a host of the domain. Each has four hosts.
var domainRates = map[int64]string{5: "2/s", 15: "0.7/s", 25: "3/s 0:00-0:01, else 1/s", 35: "none"}

func tellDomains(t *testing.T, p Plan) {
	t.Log(p)
	synctest.Test(t, func(t *testing.T) {
		var ordered time.Time
		st, v := tellFrom(t, p, nil, func(st *story) {
			st.judge.mu.Lock()
			st.judge.sites = siteTimes{}
			for host := range domainRates {
				st.judge.sites[st.made.Host(host).Site] = nil
			}
			st.judge.mu.Unlock()
			go func() {
				for _, a := range st.actors[:p.Agents] {
					for a.run.open() == nil || a.run.open().Operator() == nil {
						time.Sleep(10 * time.Millisecond)
					}
				}
				for host, rate := range domainRates {
					a := st.actors[host%int64(p.Agents)].run.open()
					if _, err := a.Operator().Give(t.Context(), &pb.GiveRequest{Verb: "rate", Value: rate, Why: "story",
						About: st.made.Host(host).Site}); err != nil {
						t.Error(err)
					}
				}
				ordered = time.Now()
			}()
		})
		if t.Log(v); v.Bad() {
			t.Errorf("the story broke a promise: %v %v %v", v.Violations, v.Missed, v.Wrong)
			for _, l := range v.Log {
				t.Log(l)
			}
		}
		for host, rate := range domainRates {
			at := st.judge.sites[st.made.Host(host).Site]
			slices.SortFunc(at, time.Time.Compare)
			judgeDomain(t, rate, at, ordered)
		}
	})
}

// judgeDomain counts the requests to a domain, which were made at some times, since its limit was ordered.
func judgeDomain(t *testing.T, rate string, at []time.Time, ordered time.Time) {
	limit := func(from time.Time) float64 {
		switch {
		case rate == "2/s":
			return 2
		case rate == "0.7/s":
			return 0.7
		case rate == "none":
			return 1000
		case from.Sub(start) < time.Minute:
			return 3
		}
		return 1
	}
	most := 0
	for i, from := range at {
		if from.Before(ordered) {
			continue
		}
		n := 0
		for n < len(at)-i && at[i+n].Sub(from) < rateWindow {
			n++
		}
		most = max(most, n)
		if want := limit(from) * rateWindow.Seconds(); float64(n) > want+1 {
			t.Errorf("rate %s: %d requests in the 10 s from %s on, want at most %.0f", rate, n, from.Sub(start), want+1)
			return
		}
	}
	t.Logf("rate %s: %d requests until %s, at most %d in 10 s", rate, len(at), at[len(at)-1].Sub(start), most)
}
