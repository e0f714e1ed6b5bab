package sim

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// TestCrawlDelay checks that the judge sees requests before the end of a Crawl-delay. A robots.txt may
// be asked for at any time, because it is what tells the delay.
func TestCrawlDelay(t *testing.T) {
	j := newJudge(nil, nil, 100*time.Millisecond, 0, 0)
	h := testweb.OriginHost{Name: "a.example", CrawlDelay: 300 * time.Millisecond}
	at := start
	for _, c := range []struct {
		after  int // ms since the end of the request before
		target string
		want   int // violations until then
	}{
		{0, "/robots.txt", 0}, {300, "/", 0}, {299, "/1", 0}, {290, "/2", 1}, {100, "/robots.txt", 1}, {100, "/3", 2},
	} {
		at = at.Add(time.Duration(c.after) * time.Millisecond)
		v := j.begin(h, 1, c.target, at)
		v.end(0, testweb.Reply{Page: -1, Status: 404}, at, true)
		if len(j.violations) != c.want {
			t.Errorf("%s: %v, want %d violations", c.target, j.violations, c.want)
		}
	}
}

// TestBusyWeb has a web with everything that Random may give it, for one agent and for three, of
// which one goes down and one joins.
func TestBusyWeb(t *testing.T) {
	p := Plan{Seed: 8, Agents: 3, Spare: 1, Hosts: 20, Pages: 8, Delay: 150 * time.Millisecond,
		Busy: 0.06, Failing: 0.02, Broken: 0.03, Redirects: 0.05, Delays: 0.3, Pause: time.Second,
		Faults: []Fault{
			{Kind: Kill, Agent: 2, At: 0.3, For: 20 * time.Second}, {Kind: Join, Agent: 4, At: 0.5},
		}}
	tell(t, p)
	p.Agents, p.Spare, p.Faults = 1, 0, []Fault{{Kind: Kill, Agent: 1, At: 0.3, For: time.Second}}
	tell(t, p)
}

// TestAutoDelay has delays that follow the response times, and are four times as long as the setting. They hold while
// hosts move to an agent that joins, from one that leaves, and over a stop, a kill and a loss.
func TestAutoDelay(t *testing.T) {
	p := Plan{Seed: 9, Agents: 3, Spare: 1, Hosts: 20, Pages: 8, Delay: 100 * time.Millisecond, Auto: 100,
		Faults: []Fault{{Kind: Join, Agent: 4, At: 0.2}, {Kind: Stop, Agent: 2, At: 0.3, For: 3 * time.Second},
			{Kind: Leave, Agent: 1, At: 0.5}, {Kind: Kill, Agent: 3, At: 0.6, For: time.Second}}}
	tell(t, p)
	p.Faults = []Fault{{Kind: Join, Agent: 4, At: 0.2}, {Kind: Lose, Agent: 2, At: 0.4}}
	tell(t, p)
	p.Agents, p.Spare = 1, 0
	p.Faults = []Fault{{Kind: Kill, Agent: 1, At: 0.3, For: time.Second},
		{Kind: Power, Agent: 1, At: 0.6, For: time.Second}}
	tell(t, p)
}
