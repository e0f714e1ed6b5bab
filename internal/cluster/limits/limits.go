// Package limits answers: how much is left to this agent of the limits that hold for all agents together?
//
//	Rationed.Ration -> rationer -> (a call) -> the counter's pageBudget -> Rationed.Ration
//
// One agent, the counter, counts the pages of all agents and divides the page limit among them. The placement names it,
// so it changes with the view of the cluster, and each agent knows it without asking. An agent begins a visit only if
// it holds the page that the visit may bring. So the agents never exceed the limit. The time limit counts from the
// start of the first agent (Age).
package limits

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

const (
	// rationEvery is how often an agent checks whether it needs more pages.
	rationEvery = 100 * time.Millisecond
	// tellEvery is how often an agent that needs no pages reports what it holds. A new counter needs these reports.
	tellEvery = time.Second
	// rationAhead is how long an agent's pages should last.
	rationAhead = time.Second
	// rationLeast is the least number of spare pages of an agent that has links, while there are pages left.
	rationLeast = 8
	// spentTime is how long the counter waits, before it stops, until the others have heard that the limit is reached.
	spentTime = 3 * time.Second
)

// Pages keep the page limit of all agents in force at this agent. Safe for concurrent use.
type Pages struct {
	cfg Config

	mu     sync.Mutex        // guards the fields below; never held across a call
	budget *pageBudget       // nil: another agent is the counter
	heard  map[string]uint64 // pages held, by agent
}

// Config configures Pages.
type Config struct {
	// Limit is the number of pages that all agents together may fetch. Zero: there is no limit.
	Limit   int64
	Members *members.Members
	Owners  Owners
	Clock   clock.Clock
	Events  *report.Events
}

// Owners are the agents that own hosts.
type Owners interface {
	// Load returns them by the view that this agent applied last, or nil before the first view.
	Load() *placement.View
}

// A Need reports what an agent has used of its ration, and the links that it has left.
type Need struct {
	// Pages is the number of fetched pages over all runs. Busy is the number of visits in
	// progress, each of which may become a page. Allowed is the ration, at least Pages+Busy.
	Pages, Busy, Allowed int64
	// Pending is the number of links that wait for a visit.
	Pending int64
}

// Rationed is a crawl that fetches no more pages than it may.
type Rationed interface {
	// Ration calls f with the present Need, and sets the ration to the result of f, or to what is used of it if that is
	// more. It returns an error if ctx is done, or if the crawl does not run any more.
	Ration(ctx context.Context, f func(Need) (allowed int64)) error
}

// New returns the Pages of an agent.
func New(cfg Config) *Pages { return &Pages{cfg: cfg, heard: map[string]uint64{}} }

// counterOf returns the name of the counter.
func counterOf(v *placement.View) string { return v.Owner(link.HostKey("limit")).Name }

// counts reports whether this agent is the counter.
func (p *Pages) counts() bool { return counterOf(p.cfg.Owners.Load()) == p.cfg.Members.Self.Name }

// Answer answers the report of another agent.
func (p *Pages) Answer(_ context.Context, from rpc.Caller, q *pb.BudgetRequest) (*pb.BudgetResponse, error) {
	return p.give(from.Name, from.Boot, q)
}

// give records an agent's report and grants it pages. The error rpc.ErrAgain means that this
// agent is not the counter or cannot answer yet.
func (p *Pages) give(name string, boot uint64, q *pb.BudgetRequest) (*pb.BudgetResponse, error) {
	owners := p.cfg.Owners.Load()
	if owners == nil {
		return nil, rpc.ErrAgain
	}
	there := make([]string, 0, len(owners.Agents()))
	for _, a := range owners.Agents() {
		there = append(there, a.Name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.counts():
		p.budget = nil
		return nil, rpc.ErrAgain
	case !slices.Contains(there, name):
		return nil, rpc.ErrAgain
	case p.budget == nil:
		p.budget = newPageBudget(p.cfg.Limit)
		p.cfg.Events.Write("counts-pages")
	}
	if g := p.budget.ask(name, boot, q, there); g != nil {
		return g, nil
	}
	return nil, rpc.ErrAgain
}

// Keep reports to the counter until ctx is done, the crawl does not run any more, or the page limit is reached. Then it
// calls stop, which stops the crawl. The counter stops last, so that the others hear of it.
func (p *Pages) Keep(ctx context.Context, crawl Rationed, stop func(context.Context) error) {
	if p.cfg.Limit == 0 {
		return
	}
	tick := time.NewTicker(rationEvery)
	defer tick.Stop()
	var r rationer
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		var need Need
		var q *pb.BudgetRequest
		var now bool
		if err := crawl.Ration(ctx, func(n Need) (allowed int64) {
			need = n
			q, now = r.tell(n, p.cfg.Clock.Now())
			return int64(q.Held)
		}); err != nil {
			return
		}
		if !now {
			continue
		}
		spent, err := p.tell(ctx, q, crawl)
		if err == nil {
			r.told = p.cfg.Clock.Now()
		}
		if !spent {
			continue
		}
		p.cfg.Events.Write("limit-reached", report.F("page_limit", p.cfg.Limit), report.F("pages", need.Pages))
		if p.counts() && !p.awaitOthers(ctx) {
			return
		}
		if err := stop(ctx); err != nil && ctx.Err() == nil {
			p.cfg.Events.Write("halt-failed", report.F("error", err))
		}
		return
	}
}

// tell reports to the counter and applies its grant.
func (p *Pages) tell(ctx context.Context, q *pb.BudgetRequest, crawl Rationed) (spent bool, err error) {
	p.mu.Lock()
	q.Known = maps.Clone(p.heard)
	p.mu.Unlock()
	var g *pb.BudgetResponse
	self := &p.cfg.Members.Self
	if name := counterOf(p.cfg.Owners.Load()); name == self.Name {
		g, err = p.give(name, self.Boot, q)
	} else if to, ok := p.cfg.Members.View().Agent(name); ok {
		g, err = Call.Ask(ctx, p.cfg.Members.To(to), q)
	} else {
		err = rpc.ErrAgain
	}
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	maps.Copy(p.heard, g.Known) // the counter may not have heard of all agents yet
	keepMost(p.heard)
	p.mu.Unlock()
	if g.Held > q.Held {
		err = crawl.Ration(ctx, func(Need) int64 { return int64(g.Held) })
	}
	return g.Spent, err
}

// awaitOthers waits for spentTime at most, until the others know that the limit is reached. It returns false if ctx is
// done.
func (p *Pages) awaitOthers(ctx context.Context) bool {
	late := time.After(spentTime)
	for !p.allKnow() {
		select {
		case <-late:
			return true
		case <-ctx.Done():
			return false
		case <-time.After(rationEvery):
		}
	}
	return true
}

// allKnow reports whether every present agent knows that the limit is reached.
func (p *Pages) allKnow() bool {
	there := p.cfg.Members.In(gossip.Up)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.budget == nil || p.budget.everybody(there)
}

// A rationer decides what an agent reports to the counter, and when.
type rationer struct {
	seq  uint64
	told time.Time
	// past has the number of pages fetched by the end of each of the last intervals, the newest last.
	past []int64
}

// tell returns the next report: the pages to hold from now on and the pages to ask for. tell is
// false if no report is due.
func (r *rationer) tell(n Need, now time.Time) (q *pb.BudgetRequest, tell bool) {
	r.past = append(r.past, n.Pages)
	if most := int(rationAhead/rationEvery) + 1; len(r.past) > most {
		r.past = r.past[len(r.past)-most:]
	}
	used := n.Pages + n.Busy
	spare, ahead := n.Allowed-used, int64(0)
	if n.Pending > 0 {
		ahead = max(rationLeast, n.Pages-r.past[0])
	}
	q = &pb.BudgetRequest{Used: uint64(n.Pages), Held: uint64(n.Allowed)}
	switch {
	case spare > 2*ahead:
		q.Held = uint64(used + ahead) // other agents may need the rest
	case spare < (ahead+1)/2:
		q.Want = uint32(ahead - spare)
	}
	tell = q.Want > 0 || q.Held < uint64(n.Allowed) || now.Sub(r.told) >= tellEvery
	if tell {
		r.seq++
		q.Seq = r.seq
	}
	return q, tell
}
