package node

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/sites/follower"
	"github.com/orbweaver/orbweaver/internal/crawl"
)

// A cluster ends when all of its agents are idle. They must be idle in two consecutive rounds, with the same view and
// no activity in between. Of the agents that are up, the first by name asks. It ends the crawl in two steps:
//
//	prepare  each agent says whether it would end, and admits no agent for prepareTime
//	end      if all agreed, each agent ends, whatever changes in its view
//
// An agent that has lists of lost archives does not agree, but accepts their URLs (see lost.Refetch).
//
// With one step, an agent that refuses would continue without those that have ended, and would
// fetch their pages again. If the asking agent dies, the next one by name asks.

// commonEnd is this agent's part in the common end of the crawl. Safe for concurrent use.
type commonEnd struct {
	c         *membership
	prepared  atomic.Pointer[time.Time]      // until when it waits for the order to end; nil: it does not wait
	agreed    atomic.Pointer[follower.Point] // the point at which it has agreed to end; nil: it has not
	preparing atomic.Int32                   // number of calls of prepare under way
	ended     atomic.Bool                    // the agents have ended the crawl together
	nothing   atomic.Bool                    // at the end: no agent has fetched anything
}

// pulse answers whether this agent is idle.
func (d *commonEnd) pulse(ctx context.Context, _ rpc.Caller, _ uint64) (rpc.Pulse, error) {
	p, err := d.c.a.cluster.Pulse(ctx)
	if err != nil {
		return rpc.Pulse{}, rpc.ErrAgain // not begun, or ended
	}
	v, at := d.c.members.View(), d.c.sites.At()
	idle := p.Idle && d.c.settled() && !d.c.joining.admissions.expected(v, d.c.a.now())
	return rpc.Pulse{View: at.Digest(v), Activity: p.Activity, Pages: d.answered(p), Idle: idle,
		Stopped: p.Blocked, Lost: idle && d.c.refetch.Wanted(v)}, nil
}

// answered returns how many HTTP responses other than redirects this agent got. It adds one if an
// agent is gone, because the count of that agent is unknown.
func (d *commonEnd) answered(p cluster.Pulse) uint64 {
	if len(d.c.joining.gone()) > 0 {
		return uint64(p.Answered) + 1
	}
	return uint64(p.Answered)
}

// end answers the agent that found all agents idle.
func (d *commonEnd) end(ctx context.Context, _ rpc.Caller, e rpc.End) (bool, error) {
	if d.ended.Load() {
		return true, nil
	}
	if e.Prepare {
		return d.prepare(ctx, e)
	}
	if until := d.prepared.Load(); until == nil || d.c.a.now().After(*until) {
		if agreed, err := d.prepare(ctx, e); err != nil || !agreed {
			return false, err
		}
	}
	d.nothing.Store(e.Reason == endedEmpty) // before the run can end
	if !d.c.sites.Finish(ctx, *d.agreed.Load()) {
		return false, nil
	}
	if !d.endOwn(ctx, e.Activity) {
		return d.ended.Load(), nil
	}
	d.ended.Store(true)
	d.c.joining.admissions.set(ended)
	return true, nil
}

// ending reports that this agent has agreed to end, or is about to. Safe for concurrent use.
func (d *commonEnd) ending() bool {
	until := d.prepared.Load()
	return d.ended.Load() || d.preparing.Load() > 0 || until != nil && !d.c.a.now().After(*until)
}

// prepare reports whether this agent would end. If so, it admits no agent for prepareTime.
func (d *commonEnd) prepare(ctx context.Context, e rpc.End) (bool, error) {
	d.preparing.Add(1) // before the agent looks whether it is idle; see cluster.Others
	defer d.preparing.Add(-1)
	now := d.c.a.now()
	d.c.joining.admissions.hold(now.Add(prepareTime))
	v, at := d.c.members.View(), d.c.sites.At()
	p, err := d.c.a.cluster.Pulse(ctx)
	if err != nil {
		return false, rpc.ErrAgain // ended
	}
	if !p.Idle || p.Activity != e.Activity || at.Digest(v) != e.View || !d.c.settled() ||
		d.c.joining.admissions.expected(v, now) {
		d.c.joining.admissions.hold(time.Time{})
		return false, nil
	}
	if d.c.refetch.Begin(v) {
		d.c.joining.admissions.hold(time.Time{})
		return false, nil
	}
	until := now.Add(prepareTime)
	d.agreed.Store(&at)
	d.prepared.Store(&until)
	return true, nil
}

const (
	// prepareTime is how long an agent that has agreed waits for the order to end.
	prepareTime = 10 * time.Second
	// endPatience is how long an agent tries to end its own run, and to tell another agent to end.
	endPatience = 5 * time.Second
	// refetchWait is how long all agents have no other work before they fetch the pages of lost archives again. A
	// machine that restarts is back by then.
	refetchWait = time.Minute
	// endAgain is the pause between two attempts.
	endAgain = 10 * time.Millisecond
)

// endedEmpty is the reason of an End if no agent got an HTTP response other than a redirect.
const endedEmpty = "nothing-fetched"

// seekEnd looks for the end of the crawl, while this agent is the one that asks.
func (d *commonEnd) seekEnd(ctx context.Context) {
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
		v := d.c.members.View()
		at := d.c.sites.At()
		s, idle := d.round(ctx, v, at)
		if !idle {
			before, since = nil, time.Time{}
			continue
		}
		if !maps.Equal(before, s.activity) {
			before, since = s.activity, time.Time{}
			continue
		}
		if now := d.c.a.now(); len(s.lost) > 0 {
			if since.IsZero() {
				since = now
			}
			if now.Sub(since) >= refetchWait {
				d.refetchAll(ctx, at.Digest(v), s)
			}
			continue
		}
		before = nil
		if d.close(ctx, v, at.Digest(v), s.activity, s.answered == 0) {
			return
		}
	}
}

// standstill is what the agents of a view said when all of them were idle.
type standstill struct {
	activity map[string]uint64
	answered uint64 // HTTP responses other than redirects, of all agents
	lost     []gossip.Agent
}

// refetchAll lets the agents that have lists of lost archives accept the URLs.
func (d *commonEnd) refetchAll(ctx context.Context, digest uint64, s standstill) {
	for _, a := range s.lost {
		e := rpc.End{View: digest, Activity: s.activity[a.Name], Prepare: true}
		if a.Name == d.c.members.Self.Name {
			_, _ = d.prepare(ctx, e) // the next round asks again
			continue
		}
		_, _ = d.c.members.To(a).End(ctx, e)
	}
}

// round asks all agents of a view whether they are idle, and have applied the stream up to a point. If all are, it
// returns what they said.
func (d *commonEnd) round(ctx context.Context, v *gossip.View, at follower.Point) (s standstill, idle bool) {
	for _, a := range v.Agents {
		if a.State == gossip.Up && a.Name < d.c.members.Self.Name {
			return s, false // that agent asks
		}
	}
	own, err := d.c.a.cluster.Pulse(ctx)
	if err != nil || !own.Idle || !d.c.settled() || d.c.joining.admissions.expected(v, d.c.a.now()) {
		return s, false
	}
	s = standstill{map[string]uint64{d.c.members.Self.Name: own.Activity}, d.answered(own), nil}
	for _, a := range v.Agents {
		if a.Name == d.c.members.Self.Name {
			if d.c.refetch.Wanted(v) {
				s.lost = append(s.lost, a)
			}
			continue
		}
		p, err := d.c.members.To(a).Pulse(ctx, at.Digest(v))
		if err != nil || !p.Idle || p.View != at.Digest(v) {
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
func (d *commonEnd) close(ctx context.Context, v *gossip.View, digest uint64, activity map[string]uint64,
	empty bool) (over bool) {
	reason := string(crawl.Finished)
	if empty {
		reason = endedEmpty
	}
	would, err := d.prepare(ctx, rpc.End{View: digest, Activity: activity[d.c.members.Self.Name], Prepare: true})
	if err != nil || !would {
		return false
	}
	defer func() {
		if !over {
			d.prepared.Store(nil)
			d.c.joining.admissions.hold(time.Time{})
		}
	}()
	others := slices.DeleteFunc(slices.Clone(v.Agents),
		func(a gossip.Agent) bool { return a.Name == d.c.members.Self.Name })
	for _, a := range others {
		would, err := d.c.members.To(a).End(ctx,
			rpc.End{View: digest, Activity: activity[a.Name], Reason: reason, Prepare: true})
		if err != nil || !would {
			return false
		}
	}
	d.nothing.Store(empty) // before the run can end
	var told sync.WaitGroup
	for _, a := range others {
		told.Go(func() {
			d.tellEnd(ctx, a, rpc.End{View: digest, Activity: activity[a.Name], Reason: reason})
		})
	}
	agreed := d.c.sites.Finish(ctx, *d.agreed.Load())
	told.Wait()
	if !agreed || !d.endOwn(ctx, activity[d.c.members.Self.Name]) {
		return false
	}
	d.c.joining.admissions.set(ended)
	return true
}

// tellEnd tells an agent to end, until it has ended or endPatience has passed.
func (d *commonEnd) tellEnd(ctx context.Context, a gossip.Agent, e rpc.End) {
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	for ctx.Err() == nil {
		if agreed, err := d.c.members.To(a).End(ctx, e); err == nil && agreed {
			return
		}
		if now, there := d.c.members.View().Agent(a.Name); !there || now.Instance != a.Instance {
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
func (d *commonEnd) endOwn(ctx context.Context, activity uint64) bool {
	for until := d.c.a.now().Add(endPatience); ; {
		agreed, err := d.c.a.cluster.End(ctx, activity)
		if err != nil || agreed {
			return agreed
		}
		p, err := d.c.a.cluster.Pulse(ctx)
		if err != nil || d.c.a.now().After(until) {
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
