package node

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/crawl"
)

// A cluster ends when all of its agents are idle: asked twice, with nothing done
// in between and one view. The first by name of those that are up asks; when it
// goes, the next one does.

// pulse answers whether this agent is idle.
func (c *membership) pulse(ctx context.Context, _ rpc.Caller, _ uint64) (rpc.Pulse, error) {
	p, err := c.a.crawler.Pulse(ctx)
	if err != nil {
		return rpc.Pulse{}, rpc.ErrAgain // not begun, or over
	}
	v := c.member.Load().View()
	idle := p.Idle && c.settled() && !c.admissions.expected(v, time.Now())
	return rpc.Pulse{View: v.Digest(), Activity: p.Activity, Pages: c.answered(p), Idle: idle,
		Stopped: p.Blocked}, nil
}

// answered returns how many HTTP responses other than redirects this agent got. It adds
// one if an agent is gone: nobody knows what that agent got.
func (c *membership) answered(p crawl.Pulse) uint64 {
	if c.absent.Load() {
		return uint64(p.Answered) + 1
	}
	return uint64(p.Answered)
}

// end answers one who found all to be idle.
func (c *membership) end(ctx context.Context, _ rpc.Caller, e rpc.End) (bool, error) {
	if c.ended.Load() {
		return true, nil
	}
	c.admissions.set(ending)
	next := open
	defer func() { c.admissions.set(next) }()
	if c.admissions.expected(c.member.Load().View(), time.Now()) {
		return false, nil
	}
	c.nothing.Store(e.Reason == endedEmpty) // before the run can end
	agreed, err := c.a.crawler.End(ctx, e.Activity)
	if errors.Is(err, crawl.ErrNotRunning) {
		next = ending
		return c.ended.Load(), nil
	}
	if agreed {
		c.ended.Store(true)
		next = ended
	}
	return agreed, err
}

const (
	// endPatience is how long an agent tries to end its own run when all others have ended.
	endPatience = 2 * time.Second
	// endAgain is the time between two tries.
	endAgain = 10 * time.Millisecond
)

// endedEmpty is the reason of an End if no agent got an HTTP response other than a
// redirect.
const endedEmpty = "nothing-fetched"

// seekEnd asks all agents whether they are idle, if that is ours to do.
func (c *membership) seekEnd(ctx context.Context) {
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	var before map[string]uint64
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		v := c.member.Load().View()
		now, answered, idle := c.round(ctx, v)
		if !idle {
			before = nil
			continue
		}
		if !maps.Equal(before, now) {
			before = now
			continue
		}
		before = nil
		if c.close(ctx, v, now, answered == 0) {
			return
		}
	}
}

// round is one question to all agents of a view: what each has done so far, and how many
// HTTP responses other than redirects they got together, if all are idle.
func (c *membership) round(ctx context.Context,
	v *gossip.View) (activity map[string]uint64, answered uint64, idle bool) {
	for _, a := range v.Agents {
		if a.State == gossip.Up && a.Name < c.self.Name {
			return nil, 0, false // it asks
		}
	}
	own, err := c.a.crawler.Pulse(ctx)
	if err != nil || !own.Idle || !c.settled() || c.admissions.expected(v, time.Now()) {
		return nil, 0, false
	}
	answered = c.answered(own)
	activity = map[string]uint64{c.self.Name: own.Activity}
	for _, a := range v.Agents {
		if a.Name == c.self.Name {
			continue
		}
		p, err := c.client.Peer(a.Name, a.Addr).Pulse(ctx, v.Digest())
		if err != nil || !p.Idle || p.View != v.Digest() {
			return nil, 0, false
		}
		activity[a.Name] = p.Activity
		answered += p.Pages
	}
	return activity, answered, true
}

// close ends the crawl of all, the own one last. An agent that does not agree is asked
// again in the next round. empty: no agent has fetched anything.
func (c *membership) close(ctx context.Context, v *gossip.View, activity map[string]uint64, empty bool) (over bool) {
	reason := string(crawl.Finished)
	if empty {
		reason = endedEmpty
	}
	c.admissions.set(ending)
	defer func() {
		if !over {
			c.admissions.set(open)
		}
	}()
	if c.admissions.expected(c.member.Load().View(), time.Now()) {
		return false
	}
	for _, a := range v.Agents {
		if a.Name == c.self.Name {
			continue
		}
		agreed, err := c.client.Peer(a.Name, a.Addr).End(ctx,
			rpc.End{View: v.Digest(), Activity: activity[a.Name], Reason: reason})
		if err != nil || !agreed {
			return false
		}
	}
	c.nothing.Store(empty) // before the run can end
	if !c.endOwn(ctx, activity[c.self.Name]) {
		return false
	}
	c.admissions.set(ended)
	return true
}

// endOwn ends this agent's run after all others have agreed to end theirs. The others leave
// at once, and each change of the view counts as activity here. So endOwn ends the run as
// long as it is idle: an agent that went on alone would fetch again what the others had
// fetched.
func (c *membership) endOwn(ctx context.Context, activity uint64) bool {
	for until := time.Now().Add(endPatience); ; {
		agreed, err := c.a.crawler.End(ctx, activity)
		if err != nil || agreed {
			return agreed
		}
		p, err := c.a.crawler.Pulse(ctx)
		if err != nil || time.Now().After(until) {
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
