package main

import (
	"encoding/json"
	"io"
	"time"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/robots"
)

// The objects of "crawl --dry-run --json". docs/reference/json.md describes them.

// A plannedSeed is what would become of a seed.
type plannedSeed struct {
	Type       string  `json:"type"` // seed
	URL        string  `json:"url"`
	Asked      string  `json:"asked_url,omitempty"`
	InScope    bool    `json:"in_scope"`
	Reason     string  `json:"reason,omitempty"`
	Address    string  `json:"address,omitempty"`
	Robots     string  `json:"robots,omitempty"`
	Status     int     `json:"robots_status,omitempty"`
	Rule       string  `json:"rule,omitempty"`
	Line       int     `json:"line,omitempty"`
	CrawlDelay float64 `json:"crawl_delay_s,omitempty"`
	Error      string  `json:"error,omitempty"`
	Visitable  bool    `json:"visitable"`

	delay time.Duration // CrawlDelay
}

// planned returns a seed in scope with what was found out about it.
func planned(url string, p node.Prospect) plannedSeed {
	s := plannedSeed{Type: "seed", URL: url, InScope: true, Address: p.Addr, Status: p.Status,
		Error: report.OneLine(p.Failed)}
	if p.URL.String() != url {
		s.Asked = p.URL.String()
	}
	if p.Failed != "" {
		return s
	}
	s.Robots, s.Visitable = "allowed", true
	if p.Robots.Verdict != robots.Allowed {
		s.Robots, s.Visitable = "forbidden", false
	}
	if p.Status == 0 || p.Status/100 == 2 {
		s.Rule, s.Line = report.OneLine(p.Robots.Rule), p.Robots.Line
	}
	s.delay, s.CrawlDelay = p.Robots.Delay, p.Robots.Delay.Seconds()
	return s
}

// A plannedExample is the verdict about a URL of --example.
type plannedExample struct {
	Type    string   `json:"type"` // example
	URL     string   `json:"url"`
	InScope bool     `json:"in_scope"`
	Reason  string   `json:"reason,omitempty"`
	Rules   []string `json:"rules"`
}

// A plannedCrawl is the crawl as a whole. The tag setting is that of settings.Fill.
type plannedCrawl struct {
	Type          string           `json:"type"` // dry-run
	Dir           string           `json:"dir"`
	Action        string           `json:"action"`
	Queued        int64            `json:"urls_queued,omitempty"`
	Contact       string           `json:"contact,omitempty" setting:"contact"`
	UserAgent     string           `json:"user_agent"`
	RobotsAgent   string           `json:"robots_agent"`
	Scope         string           `json:"scope" setting:"scope"`
	Depth         *int             `json:"depth,omitempty" setting:"depth"`
	HostDepth     *int             `json:"host_depth,omitempty" setting:"host-depth"`
	SeedRoots     bool             `json:"seed_roots,omitempty" setting:"seed-roots"`
	Delay         float64          `json:"delay_s"`
	PageLimit     int64            `json:"page_limit,omitempty" setting:"page-limit"`
	HostPageLimit int64            `json:"host_page_limit,omitempty" setting:"host-page-limit"`
	SizeLimit     int64            `json:"size_limit_bytes,omitempty" setting:"size-limit"`
	TimeLimit     float64          `json:"time_limit_s,omitempty" setting:"time-limit"`
	Agent         string           `json:"agent,omitempty"`
	Waits         string           `json:"waiting_for,omitempty"`
	Join          []plannedJoin    `json:"join,omitempty"`
	Coordinators  []plannedJoin    `json:"coordinators,omitempty"`
	Settings      []plannedSetting `json:"settings"`
	Seeds         int              `json:"seeds"`
	Visitable     int              `json:"visitable_seeds"`
	Possible      bool             `json:"possible"`
}

// A plannedJoin is an address of --join or --coordinator.
type plannedJoin struct {
	Address string `json:"address"`
	Self    bool   `json:"self,omitempty"`
	Error   string `json:"error,omitempty"`
}

// A plannedSetting is a setting that was given.
type plannedSetting struct {
	Name   string  `json:"name"`
	Value  string  `json:"value"`
	From   string  `json:"from"`
	Before *string `json:"before,omitempty"` // of a crawl that continues, if it had another value
}

func plannedJoins(replies []membership.JoinReply) (all []plannedJoin) {
	for _, j := range replies {
		planned := plannedJoin{Address: j.Addr, Self: j.Self}
		if j.Err != nil {
			planned.Error = words(j.Err)
		}
		all = append(all, planned)
	}
	return all
}

// summary returns the object of the crawl, which comes last.
func (d *dryRun) summary(given []plannedSetting, visitable int) plannedCrawl {
	c, r := d.cmd, d.r
	p := plannedCrawl{Type: "dry-run", Dir: c.Dir, Action: "create", Waits: d.meeting.Waits, Settings: given,
		Seeds: len(r.Seeds), Visitable: visitable, Possible: d.possible(visitable)}
	c.Settings.Fill(&p)
	p.UserAgent, p.RobotsAgent, p.Delay = r.UserAgent, r.Token, c.Settings.Politeness.Least().Seconds()
	p.Join, p.Coordinators = plannedJoins(d.meeting.Join), plannedJoins(d.meeting.Coordinators)
	switch {
	case c.Resume:
		p.Action, p.Queued = "continue", r.Waiting
	case r.Exists:
		p.Action = "overwrite"
	}
	if d.cfg.Cluster != nil {
		p.Agent = d.cfg.Cluster.Name
	}
	return p
}

// printJSON writes an object as a line.
func (d *dryRun) printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
