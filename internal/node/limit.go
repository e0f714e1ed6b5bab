package node

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/crawl"
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

// limits is this agent's knowledge of the cluster's limits.
type limits struct {
	mu         sync.Mutex       // guards the fields below
	began      time.Time        // when the first agent began, by our clock
	pageBudget *pageBudget      // nil: another agent is the counter
	heard      map[string]int64 // pages held, by agent; never nil
}

// since records that the crawl has been running for d as of now.
func (l *limits) since(d time.Duration, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := now.Add(-d); l.began.IsZero() || at.Before(l.began) {
		l.began = at
	}
}

// running returns how long the crawl has been running.
func (l *limits) running(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began.IsZero() {
		return 0
	}
	return now.Sub(l.began)
}

// counts returns the name of the counter: the agent that counts the pages of all agents.
func (c *membership) counts() string { return c.owners().Owner(link.HostKey("limit")).Name }

// budget answers the report of another agent.
func (c *membership) budget(_ context.Context, from rpc.Caller, b rpc.Budget) (rpc.Grant, error) {
	if c.owners() == nil {
		return rpc.Grant{}, rpc.ErrAgain
	}
	return c.give(from.Name, from.Boot, b)
}

// give records an agent's report and grants it pages. The error rpc.ErrAgain means that this
// agent is not the counter or cannot answer yet.
func (c *membership) give(name string, boot uint64, b rpc.Budget) (g rpc.Grant, err error) {
	owners := c.owners()
	there := make([]string, 0, len(owners.Agents()))
	for _, a := range owners.Agents() {
		there = append(there, a.Name)
	}
	l := &c.limits
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.counts() != c.members.Self.Name:
		l.pageBudget = nil
		return g, rpc.ErrAgain
	case !slices.Contains(there, name):
		return g, rpc.ErrAgain
	case l.pageBudget == nil:
		l.pageBudget = newPageBudget(c.a.cfg.Crawl.PageLimit)
		c.a.parts.Events.Write("counts-pages")
	}
	held, spent, ok := l.pageBudget.ask(request{name: name, boot: boot, seq: b.Seq, used: b.Used, held: b.Held,
		want: b.Want, known: b.Known}, there)
	if !ok {
		return g, rpc.ErrAgain
	}
	return rpc.Grant{Held: held, Spent: spent, Known: l.pageBudget.known()}, nil
}

// keepLimit reports to the counter until ctx is done or the page limit is reached.
func (c *membership) keepLimit(ctx context.Context) {
	if c.a.cfg.Crawl.PageLimit == 0 {
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
		var need cluster.Need
		var b rpc.Budget
		var now bool
		if err := c.a.cluster.Ration(ctx, func(n cluster.Need) (allowed int64) {
			need = n
			b, now = r.tell(n, c.a.now())
			return b.Held
		}); err != nil {
			return
		}
		if !now {
			continue
		}
		b.Known = c.limits.known()
		spent, err := c.tell(ctx, b)
		if err == nil {
			r.told = c.a.now()
		}
		if spent {
			c.reached(ctx, need)
			return
		}
	}
}

// known returns the pages that each agent held when this agent last heard.
func (l *limits) known() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.heard)
}

// tell reports to the counter and applies its grant.
func (c *membership) tell(ctx context.Context, b rpc.Budget) (spent bool, err error) {
	var g rpc.Grant
	if name := c.counts(); name == c.members.Self.Name {
		g, err = c.give(name, c.members.Self.Boot, b)
	} else if to, ok := c.members.View().Agent(name); ok {
		g, err = c.members.To(to).Budget(ctx, b)
	} else {
		err = rpc.ErrAgain
	}
	if err != nil {
		return false, err
	}
	c.limits.mu.Lock()
	maps.Copy(c.limits.heard, g.Known) // the counter may not have heard of all agents yet
	c.limits.mu.Unlock()
	if g.Held > b.Held {
		err = c.a.cluster.Ration(ctx, func(cluster.Need) int64 { return g.Held })
	}
	return g.Spent, err
}

// reached stops this agent because the page limit is reached. The counter stops last, so that the others hear of it.
func (c *membership) reached(ctx context.Context, n cluster.Need) {
	c.a.parts.Events.Write("limit-reached", report.F("limit", c.a.cfg.Crawl.PageLimit), report.F("pages", n.Pages))
	if c.counts() == c.members.Self.Name {
		late := time.After(spentTime)
		for !c.allKnow() {
			select {
			case <-late:
			case <-ctx.Done():
				return
			case <-time.After(rationEvery):
				continue
			}
			break
		}
	}
	c.admissions.set(ended)
	if err := c.a.crawler.Halt(ctx, crawl.PageLimit); err != nil && !errors.Is(err, crawl.ErrNotRunning) &&
		ctx.Err() == nil {
		c.a.parts.Events.Write("halt-failed", report.F("error", err))
	}
}

// allKnow reports whether every present agent knows that the limit is reached.
func (c *membership) allKnow() bool {
	var there []string
	for _, a := range agentsUp(c.members.View()) {
		there = append(there, a.Name)
	}
	c.limits.mu.Lock()
	defer c.limits.mu.Unlock()
	return c.limits.pageBudget == nil || c.limits.pageBudget.everybody(there)
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
func (r *rationer) tell(n cluster.Need, now time.Time) (b rpc.Budget, tell bool) {
	r.past = append(r.past, n.Pages)
	if most := int(rationAhead/rationEvery) + 1; len(r.past) > most {
		r.past = r.past[len(r.past)-most:]
	}
	used := n.Pages + n.Busy
	spare, ahead := n.Allowed-used, int64(0)
	if n.Pending > 0 {
		ahead = max(rationLeast, n.Pages-r.past[0])
	}
	b = rpc.Budget{Used: n.Pages, Held: n.Allowed}
	switch {
	case spare > 2*ahead:
		b.Held = used + ahead // other agents may need the rest
	case spare < (ahead+1)/2:
		b.Want = ahead - spare
	}
	tell = b.Want > 0 || b.Held < n.Allowed || now.Sub(r.told) >= tellEvery
	if tell {
		r.seq++
		b.Seq = r.seq
	}
	return b, tell
}
