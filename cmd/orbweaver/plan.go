package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/cost"
	"github.com/orbweaver/orbweaver/internal/quantity"
)

// planHelp holds the help texts of "plan".
var planHelp = cli.Texts{
	"plan_pages": "Plan a crawl of N pages, such as 5000000 or 30e9.",
	"plan_page_size": "Assume pages of BYTES on the line, on average (default: 22.3KB, as in the paper; with --fit, " +
		"that of the crawls).",
	"plan_bandwidth": "Let all agents together receive at most RATE, such as 10Gbit or 400MB a second (default: no " +
		"limit).",
	"plan_agents": "Plan for N agents (default: the number for which the crawl is fastest).",
	"plan_agent_speed": "Assume that one agent alone fetches N pages a second (default: the speed of the constants; " +
		"less in proportion if the pages are larger than theirs).",
	"plan_urls":  "Assume that the crawl knows N different URLs at its end (default: as many as pages).",
	"plan_hosts": "Assume N hosts, whose counts each agent has in memory (default: 0, not counted).",
	"plan_replicas": "Assume --replicas N of crawl: the number of agents that know each host, the owner " +
		"included.",
	"plan_machine_price": "Count PRICE for a machine an hour (default: 0, not counted).",
	"plan_disk_price": "Count PRICE for a terabyte of disk a month, while the crawl runs (default: 0, not " +
		"counted).",
	"plan_traffic_price": "Count PRICE for a gigabyte received from the web (default: 0, not counted).",
	"plan_constants": "Use these constants of the speed model: those of our crawler with --partition rendezvous or " +
		"sites, or those of the paper on FC2L-UDCbot.",
	"plan_fit": "Fit the constants to your own crawls instead. DIR is the directory of a crawl, or has a folder for " +
		"each of its agents. Repeatable.",
}

// PlanCmd implements "plan".
type PlanCmd struct {
	Pages        float64            `help:"${plan_pages}" placeholder:"N"`
	PageSize     *quantity.ByteSize `help:"${plan_page_size}" placeholder:"BYTES"`
	Bandwidth    quantity.Bandwidth `help:"${plan_bandwidth}" placeholder:"RATE"`
	Agents       *int               `help:"${plan_agents}" placeholder:"N"`
	AgentSpeed   *float64           `help:"${plan_agent_speed}" placeholder:"N"`
	URLs         float64            `name:"urls" help:"${plan_urls}" placeholder:"N"`
	Hosts        float64            `help:"${plan_hosts}" placeholder:"N"`
	Replicas     int                `help:"${plan_replicas}" default:"2" placeholder:"N"`
	MachinePrice float64            `help:"${plan_machine_price}" placeholder:"PRICE"`
	DiskPrice    float64            `help:"${plan_disk_price}" placeholder:"PRICE"`
	TrafficPrice float64            `help:"${plan_traffic_price}" placeholder:"PRICE"`
	Constants    string             `help:"${plan_constants}" default:"rendezvous" enum:"${plan_models}" placeholder:"NAME"`
	Fit          []string           `help:"${plan_fit}" placeholder:"DIR"`
	JSON         bool               `help:"Print one JSON object."`
}

// Help explains the answer.
func (PlanCmd) Help() string {
	return `The command says how long a crawl takes, and what it needs. It reads no network.

  orbweaver plan --pages 30e9 --bandwidth 10Gbit --page-size 22KB --agents 31
  orbweaver plan --pages 30e9 --bandwidth 10Gbit --page-size 22KB
  orbweaver plan --pages 1e9 --fit two,four,two-long --agents 8

Without --agents it prints a table around the best number of agents. That is the
number for which the crawl is fastest. If the bandwidth bounds the speed, it is the
smallest number of agents that fill the line. If it is far more than the constants
know, the table has 1 to 256 agents instead.

In a cluster each agent fetches a little less than one alone, because the messages
between agents take a part of its line. What it loses grows with the number of
agents, so the speed of the cluster has a peak. One agent alone is taken to fill a
line of 320 Mbit/s: --agent-speed says what your machine does. --fit measures your
own machines: docs/plan.md says which crawls it takes.

The speed does not know about politeness. A crawl of few hosts is bounded by
--delay: a host gives at most one page for each delay.`
}

// A planAnswer is the JSON of "plan".
type planAnswer struct {
	Type       string          `json:"type"` // "plan"
	Constants  string          `json:"constants"`
	Single     float64         `json:"agent_alone_pages_per_s"`
	Overheads  []cost.Overhead `json:"overheads"`
	MostAgents int             `json:"measured_agents"`          // of the largest cluster behind the constants
	MostPages  float64         `json:"measured_pages,omitempty"` // beyond, overheads stay as with so many
	FitRuns    int             `json:"fit_runs,omitempty"`
	FitError   float64         `json:"fit_error_pages_per_s,omitempty"`
	Pages      float64         `json:"pages"`
	PageBytes  float64         `json:"page_bytes"`
	Bandwidth  float64         `json:"bandwidth_bytes_per_s,omitempty"`
	BestAgents int             `json:"best_agents,omitempty"` // missing with --agents, and without a peak
	Plans      []plannedAgents `json:"plans"`

	table   bool // of several numbers of agents
	doubled bool // which are not around the best one, because that is a guess
}

// plannedAgents is the plan for one number of agents. The bounds are those of a confidence band of 95 %, with --fit.
type plannedAgents struct {
	cost.Plan
	LowPagesPerS  float64 `json:"pages_per_s_low,omitempty"`
	HighPagesPerS float64 `json:"pages_per_s_high,omitempty"`
}

// Run prints the plan.
func (c *PlanCmd) Run(out io.Writer) error {
	if err := c.check(); err != nil {
		return err
	}
	m, fitted, err := c.model()
	if err != nil {
		return err
	}
	q := c.question()
	a := planAnswer{
		Type: "plan", Constants: m.Name, Single: m.Single, Overheads: m.Overheads, Pages: q.Pages,
		PageBytes: m.PageBytes, Bandwidth: q.Bandwidth, MostAgents: m.MostAgents, MostPages: m.MostPages,
	}
	if q.PageBytes > 0 {
		a.PageBytes = q.PageBytes
	}
	if fitted != nil {
		if a.FitRuns = fitted.Runs; !math.IsNaN(fitted.Error()) {
			a.FitError = fitted.Error()
		}
	}
	var around []int
	if c.Agents != nil {
		around = []int{*c.Agents}
	} else {
		n, peak := m.Best(q)
		if peak {
			a.BestAgents = n
		}
		a.table = true
		if a.doubled = n > farAgents*m.MostAgents && !m.Answer(q, n).LineFull; a.doubled {
			around = doubled()
		} else {
			around = aroundBest(n)
		}
	}
	for _, n := range around {
		p := m.Answer(q, n)
		if p.PagesPerS <= 0 {
			if c.Agents != nil {
				return bad("--agents %d: by the model so many agents are busy only with each other; give fewer", n)
			}
			continue
		}
		a.Plans = append(a.Plans, c.banded(p, fitted, q))
	}
	if c.JSON {
		js, err := json.Marshal(a)
		if err != nil {
			return fmt.Errorf("plan: %w", err)
		}
		_, err = fmt.Fprintf(out, "%s\n", js)
		return err
	}
	return a.print(out, fitted, q)
}

// check refuses flags whose values no crawl can have.
func (c *PlanCmd) check() error {
	const most = 1e18
	switch {
	case c.Pages == 0:
		return bad("--pages: give the number of pages, such as --pages 30e9")
	case c.Pages < 1 || c.Pages > most:
		return bad("--pages %g: give a number from 1 to 1e18", c.Pages)
	case c.PageSize != nil && (*c.PageSize < 1 || *c.PageSize > 1<<40):
		return bad("--page-size %s: give a size from 1 byte to 1TiB, such as 22KB", c.PageSize)
	case c.Agents != nil && (*c.Agents < 1 || *c.Agents > cost.MaxAgents):
		return bad("--agents %d: give a number from 1 to %d, or leave it out to get the best number", *c.Agents,
			cost.MaxAgents)
	case c.AgentSpeed != nil && !(*c.AgentSpeed > 0 && *c.AgentSpeed <= most):
		return bad("--agent-speed %g: give a number of pages a second above 0", *c.AgentSpeed)
	case c.Replicas < 1 || c.Replicas > 2:
		return bad("--replicas %d: give 1 or 2", c.Replicas)
	}
	for _, f := range []struct {
		flag  string
		value float64
	}{
		{"urls", c.URLs}, {"hosts", c.Hosts}, {"machine-price", c.MachinePrice}, {"disk-price", c.DiskPrice},
		{"traffic-price", c.TrafficPrice},
	} {
		if f.value < 0 || f.value > most {
			return bad("--%s %g: give a number from 0 to 1e18", f.flag, f.value)
		}
	}
	if c.URLs > 0 && c.URLs < c.Pages {
		return bad("--urls %g: a crawl knows at least the URLs of its pages; give at least %g, or leave it out", c.URLs,
			c.Pages)
	}
	return nil
}

// model returns the model of --constants or --fit. fitted is nil without --fit.
func (c *PlanCmd) model() (m *cost.Model, fitted *cost.Fitted, err error) {
	if len(c.Fit) > 0 {
		runs, err := readRuns(c.Fit)
		if err != nil {
			return nil, nil, err
		}
		if fitted, err = cost.Fit(runs); err != nil {
			return nil, nil, bad("--fit: %v", err)
		}
		return &fitted.Model, fitted, nil
	}
	all := cost.Models()
	return all[slices.IndexFunc(all, func(m *cost.Model) bool { return m.Name == c.Constants })], nil, nil
}

func (c *PlanCmd) question() *cost.Question {
	q := &cost.Question{
		Pages: c.Pages, Bandwidth: float64(c.Bandwidth), URLs: c.URLs, Hosts: c.Hosts, Replicas: c.Replicas,
		Prices: cost.Prices{Machine: c.MachinePrice, Disk: c.DiskPrice, Traffic: c.TrafficPrice},
	}
	if c.PageSize != nil {
		q.PageBytes = float64(*c.PageSize)
	}
	if c.AgentSpeed != nil {
		q.AgentSpeed = *c.AgentSpeed
	}
	return q
}

// farAgents times as many agents as were measured are a guess.
const farAgents = 50

// doubled returns the numbers of agents of the table if the best one is a guess.
func doubled() (list []int) {
	for n := 1; n <= 256; n *= 2 {
		list = append(list, n)
	}
	return list
}

// aroundBest returns the numbers of agents of the table: the best one, and smaller and larger ones.
func aroundBest(best int) []int {
	var list []int
	for _, part := range []float64{0.25, 0.5, 0.75, 1, 1.25, 1.5} {
		list = append(list, min(max(1, int(math.Round(part*float64(best)))), cost.MaxAgents))
	}
	return slices.Compact(list)
}

// banded adds the confidence band of a fit. The band is that of the agents; the line may be narrower.
func (c *PlanCmd) banded(p cost.Plan, fitted *cost.Fitted, q *cost.Question) plannedAgents {
	b := plannedAgents{Plan: p}
	if fitted == nil || p.LineFull {
		return b
	}
	if low, high, ok := fitted.Band(p.Agents, q.Pages); ok {
		scale := p.PagesPerS / fitted.Speed(p.Agents, q.Pages) // as --agent-speed and --page-size change it
		b.LowPagesPerS, b.HighPagesPerS = low*scale, high*scale
		if p.LineShare > 0 {
			b.HighPagesPerS = min(b.HighPagesPerS, p.PagesPerS/p.LineShare)
		}
	}
	return b
}
