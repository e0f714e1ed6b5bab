package node

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/crawl"
)

// A cluster ends when all of its agents are idle. They must be idle in two consecutive rounds, with the same view and
// no activity in between. Of the agents that are up, the first by name asks. It ends the crawl in two steps:
//
//	prepare  each agent says whether it would end, and admits no agent for prepareTime
//	end      if all agreed, each agent ends, whatever changes in its view
//
// An agent that has lists of lost archives does not agree, but accepts their URLs (see refetch.go).
//
// With one step, an agent that refuses would continue without those that have ended, and would
// fetch their pages again. If the asking agent dies, the next one by name asks.

// pulse answers whether this agent is idle.
func (c *membership) pulse(ctx context.Context, _ rpc.Caller, _ uint64) (rpc.Pulse, error) {
	p, err := c.a.cluster.Pulse(ctx)
	if err != nil {
		return rpc.Pulse{}, rpc.ErrAgain // not begun, or ended
	}
	v, at := c.member.Load().View(), c.sites.at()
	idle := p.Idle && c.settled() && !c.admissions.expected(v, c.a.now())
	return rpc.Pulse{View: at.digest(v), Activity: p.Activity, Pages: c.answered(p), Idle: idle,
		Stopped: p.Blocked, Lost: idle && c.refetch.wanted(v)}, nil
}

// answered returns how many HTTP responses other than redirects this agent got. It adds one if an
// agent is gone, because the count of that agent is unknown.
func (c *membership) answered(p cluster.Pulse) uint64 {
	if len(c.gone()) > 0 {
		return uint64(p.Answered) + 1
	}
	return uint64(p.Answered)
}

// end answers the agent that found all agents idle.
func (c *membership) end(ctx context.Context, _ rpc.Caller, e rpc.End) (bool, error) {
	if c.ended.Load() {
		return true, nil
	}
	if e.Prepare {
		return c.prepare(ctx, e)
	}
	if until := c.prepared.Load(); until == nil || c.a.now().After(*until) {
		if agreed, err := c.prepare(ctx, e); err != nil || !agreed {
			return false, err
		}
	}
	c.nothing.Store(e.Reason == endedEmpty) // before the run can end
	if !c.sites.finish(ctx, *c.agreed.Load()) {
		return false, nil
	}
	if !c.endOwn(ctx, e.Activity) {
		return c.ended.Load(), nil
	}
	c.ended.Store(true)
	c.admissions.set(ended)
	return true, nil
}

// ending reports that this agent has agreed to end, or is about to. Safe for concurrent use.
func (c *membership) ending() bool {
	until := c.prepared.Load()
	return c.ended.Load() || c.preparing.Load() > 0 || until != nil && !c.a.now().After(*until)
}

// prepare reports whether this agent would end. If so, it admits no agent for prepareTime.
func (c *membership) prepare(ctx context.Context, e rpc.End) (bool, error) {
	c.preparing.Add(1) // before the agent looks whether it is idle; see cluster.Others
	defer c.preparing.Add(-1)
	now := c.a.now()
	c.admissions.hold(now.Add(prepareTime))
	v, at := c.member.Load().View(), c.sites.at()
	p, err := c.a.cluster.Pulse(ctx)
	if err != nil {
		return false, rpc.ErrAgain // ended
	}
	if !p.Idle || p.Activity != e.Activity || at.digest(v) != e.View || !c.settled() || c.admissions.expected(v, now) {
		c.admissions.hold(time.Time{})
		return false, nil
	}
	if c.refetch.begin(v) {
		c.admissions.hold(time.Time{})
		return false, nil
	}
	until := now.Add(prepareTime)
	c.agreed.Store(&at)
	c.prepared.Store(&until)
	return true, nil
}

const (
	// prepareTime is how long an agent that has agreed waits for the order to end.
	prepareTime = 10 * time.Second
	// endPatience is how long an agent tries to end its own run, and to tell another agent to end.
	endPatience = 5 * time.Second
	// endAgain is the pause between two attempts.
	endAgain = 10 * time.Millisecond
)

// endedEmpty is the reason of an End if no agent got an HTTP response other than a redirect.
const endedEmpty = "nothing-fetched"

// seekEnd looks for the end of the crawl, while this agent is the one that asks.
func (c *membership) seekEnd(ctx context.Context) {
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	var before map[string]uint64
	var since time.Time // all agents have been idle since then, and some of them have lists of lost archives
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		v := c.member.Load().View()
		at := c.sites.at()
		s, idle := c.round(ctx, v, at)
		if !idle {
			before, since = nil, time.Time{}
			continue
		}
		if !maps.Equal(before, s.activity) {
			before, since = s.activity, time.Time{}
			continue
		}
		if now := c.a.now(); len(s.lost) > 0 {
			if since.IsZero() {
				since = now
			}
			if now.Sub(since) >= refetchWait {
				c.refetchAll(ctx, at.digest(v), s)
			}
			continue
		}
		before = nil
		if c.close(ctx, v, at.digest(v), s.activity, s.answered == 0) {
			return
		}
	}
}

// round asks all agents of a view whether they are idle, and have applied the stream up to a point. If all are, it
// returns what they said.
func (c *membership) round(ctx context.Context, v *gossip.View, at point) (s standstill, idle bool) {
	for _, a := range v.Agents {
		if a.State == gossip.Up && a.Name < c.self.Name {
			return s, false // that agent asks
		}
	}
	own, err := c.a.cluster.Pulse(ctx)
	if err != nil || !own.Idle || !c.settled() || c.admissions.expected(v, c.a.now()) {
		return s, false
	}
	s = standstill{map[string]uint64{c.self.Name: own.Activity}, c.answered(own), nil}
	for _, a := range v.Agents {
		if a.Name == c.self.Name {
			if c.refetch.wanted(v) {
				s.lost = append(s.lost, a)
			}
			continue
		}
		p, err := c.client.Peer(a.Name, a.Addr).Pulse(ctx, at.digest(v))
		if err != nil || !p.Idle || p.View != at.digest(v) {
			return s, false
		}
		s.activity[a.Name] = p.Activity
		s.answered += p.Pages
		if p.Lost {
			s.lost = append(s.lost, a)
		}
	}
	return s, true
}

// close ends the crawl of all agents, this one last. over is false if an agent refuses; the next
// round asks again. empty reports that no agent has fetched anything.
func (c *membership) close(ctx context.Context, v *gossip.View, digest uint64, activity map[string]uint64,
	empty bool) (over bool) {
	reason := string(crawl.Finished)
	if empty {
		reason = endedEmpty
	}
	would, err := c.prepare(ctx, rpc.End{View: digest, Activity: activity[c.self.Name], Prepare: true})
	if err != nil || !would {
		return false
	}
	defer func() {
		if !over {
			c.prepared.Store(nil)
			c.admissions.hold(time.Time{})
		}
	}()
	others := slices.DeleteFunc(slices.Clone(v.Agents), func(a gossip.Agent) bool { return a.Name == c.self.Name })
	for _, a := range others {
		would, err := c.client.Peer(a.Name, a.Addr).End(ctx,
			rpc.End{View: digest, Activity: activity[a.Name], Reason: reason, Prepare: true})
		if err != nil || !would {
			return false
		}
	}
	c.nothing.Store(empty) // before the run can end
	var told sync.WaitGroup
	for _, a := range others {
		told.Go(func() {
			c.tellEnd(ctx, a, rpc.End{View: digest, Activity: activity[a.Name], Reason: reason})
		})
	}
	agreed := c.sites.finish(ctx, *c.agreed.Load())
	told.Wait()
	if !agreed || !c.endOwn(ctx, activity[c.self.Name]) {
		return false
	}
	c.admissions.set(ended)
	return true
}

// tellEnd tells an agent to end, until it has ended or endPatience has passed.
func (c *membership) tellEnd(ctx context.Context, a gossip.Agent, e rpc.End) {
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	for ctx.Err() == nil {
		if agreed, err := c.client.Peer(a.Name, a.Addr).End(ctx, e); err == nil && agreed {
			return
		}
		if now, there := c.member.Load().View().Agent(a.Name); !there || now.Instance != a.Instance {
			return // it has ended, and its answer was lost
		}
		select {
		case <-time.After(endAgain):
		case <-ctx.Done():
		}
	}
}

// endOwn ends this agent's run after all agents have agreed to end. Other agents may have left since, and every change
// of the view counts as activity. So endOwn ends the run as soon as it is idle.
func (c *membership) endOwn(ctx context.Context, activity uint64) bool {
	for until := c.a.now().Add(endPatience); ; {
		agreed, err := c.a.cluster.End(ctx, activity)
		if err != nil || agreed {
			return agreed
		}
		p, err := c.a.cluster.Pulse(ctx)
		if err != nil || c.a.now().After(until) {
			return false
		}
		if activity = p.Activity; !p.Idle {
			select {
			case <-time.After(endAgain):
			case <-ctx.Done():
				return false
			}
		}
	}
}
