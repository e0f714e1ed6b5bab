// Package termination answers: has no agent of the crawl any work left, and how do all agents end together?
//
// A cluster ends when all of its agents are idle. They must be idle in two consecutive rounds, with the same view and
// no activity in between. Of the agents that are up, the first by name asks. It ends the crawl in two steps:
//
//	prepare  each agent says whether it would end, and admits no agent for prepareTime
//	end      if all agreed, each agent ends, whatever changes in its view
//
// An agent that has lists of lost archives does not agree, but accepts their URLs (Agent.Refetch).
//
// With one step, an agent that refuses would continue without those that have ended, and would
// fetch their pages again. If the asking agent dies, the next one by name asks.
package termination

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/cluster/sites/follower"
)

// A Pulse reports whether an agent of a cluster has work left. The cluster ends when no agent has
// any.
type Pulse struct {
	// Idle reports that no work is left here. Blocked reports that links of blocked hosts wait.
	Idle, Blocked bool
	// Activity grows with each event that gives an agent work. If an idle agent has the same
	// Activity twice, it was idle in between.
	Activity uint64
	// Answered counts the pages that seeds gave in all runs.
	Answered int64
}

// A Crawl is the crawl loop of this agent. The errors mean that it does not run, or that ctx is done.
type Crawl interface {
	Pulse(ctx context.Context) (Pulse, error)
	// End ends the run if the agent is idle and has been since activity. It reports whether it did.
	End(ctx context.Context, activity uint64) (agreed bool, err error)
	// EndWithoutLinks ends the run if no link waits at this agent. It reports whether links wait.
	EndWithoutLinks(ctx context.Context) (left bool, err error)
}

// An Agent is what this agent has to do beside its crawl loop.
type Agent interface {
	// Settled reports that the agent has applied the current view and nothing is left to do.
	Settled() bool
	// Missing reports that an agent is gone whose counts are not known.
	Missing() bool
	// Claimed reports that no saved state of an agent waits for another agent to continue it. It is asked when the
	// crawl would end.
	Claimed() bool
	// Expected reports whether an agent that was told that it may join can still arrive.
	Expected(v *gossip.View, now time.Time) bool
	// Hold admits no agent before a time, and Close none from now on: the crawl has ended.
	Hold(until time.Time)
	Close()
	// Lost reports whether the pages of a lost archive are to be fetched again. Refetch begins to accept them if they
	// are.
	Lost(v *gossip.View) bool
	Refetch(v *gossip.View) bool
}

// Others are the agents of the crawl, as this agent sees them. Safe for concurrent use.
type Others interface {
	// View returns the agents that are there now, with this one.
	View() *gossip.View
	// Pulse and End make PulseCall and EndCall. They block until the agent answers, or ctx is done.
	Pulse(ctx context.Context, to gossip.Agent, q *pb.PulseRequest) (*pb.PulseResponse, error)
	End(ctx context.Context, to gossip.Agent, q *pb.EndRequest) (*pb.EndResponse, error)
}

// A Stream is what the coordinators have decided, as far as this agent has applied it. See follower.Follower. Safe for
// concurrent use.
type Stream interface {
	At() follower.Point
	Finish(ctx context.Context, p follower.Point) (agreed bool)
	Over() <-chan struct{}
}

// Config configures an Agreement.
type Config struct {
	Self   string // the name of this agent
	Others Others
	Sites  Stream // may be a nil *follower.Follower: no coordinator assigns the hosts
	Agent  Agent
	Clock  clock.Clock
}

// An Agreement is this agent's part in the common end of the crawl. Safe for concurrent use.
type Agreement struct {
	cfg       Config
	crawl     Crawl
	prepared  atomic.Pointer[time.Time]      // until when it waits for the order to end; nil: it does not wait
	agreed    atomic.Pointer[follower.Point] // the point at which it has agreed to end; nil: it has not
	preparing atomic.Int32                   // number of calls under way that prepare the end, or carry it out
	ended     atomic.Bool                    // the agents have ended the crawl together
	nothing   atomic.Bool                    // at the end: no agent has fetched anything
}

// New returns the Agreement of an agent.
func New(cfg Config) *Agreement { return &Agreement{cfg: cfg} }

// Serve makes a server answer the calls of other agents about a crawl loop, before it runs.
func (d *Agreement) Serve(s *rpc.Server, c Crawl) {
	d.crawl = c
	PulseCall.Serve(s, d.pulse)
	EndCall.Serve(s, d.end)
}

// Nothing reports that the agents have ended the crawl, and no seed has given a page.
func (d *Agreement) Nothing() bool { return d.nothing.Load() }

// pulse answers whether this agent is idle.
func (d *Agreement) pulse(ctx context.Context, _ rpc.Caller, _ *pb.PulseRequest) (*pb.PulseResponse, error) {
	p, err := d.crawl.Pulse(ctx)
	if err != nil {
		return nil, rpc.ErrAgain // not begun, or ended
	}
	v, at := d.cfg.Others.View(), d.cfg.Sites.At()
	idle := p.Idle && d.cfg.Agent.Settled() && !d.cfg.Agent.Expected(v, d.cfg.Clock.Now())
	return &pb.PulseResponse{View: at.Digest(v), Activity: p.Activity, Pages: d.answered(p), Idle: idle,
		Stopped: p.Blocked, Lost: idle && d.cfg.Agent.Lost(v)}, nil
}

// answered returns how many HTTP responses other than redirects this agent got. It adds one if an
// agent is gone, because the count of that agent is unknown.
func (d *Agreement) answered(p Pulse) uint64 {
	if d.cfg.Agent.Missing() {
		return uint64(p.Answered) + 1
	}
	return uint64(p.Answered)
}

// end answers the agent that found all agents idle.
func (d *Agreement) end(ctx context.Context, _ rpc.Caller, e *pb.EndRequest) (*pb.EndResponse, error) {
	agreed, err := d.agree(ctx, e)
	return &pb.EndResponse{Agreed: agreed}, err
}

// agree does the work of end.
func (d *Agreement) agree(ctx context.Context, e *pb.EndRequest) (bool, error) {
	d.preparing.Add(1) // the agreement must not lapse while it is carried out
	defer d.preparing.Add(-1)
	if d.ended.Load() {
		return true, nil
	}
	if e.Prepare {
		return d.prepare(ctx, e)
	}
	if until := d.prepared.Load(); until == nil || d.cfg.Clock.Now().After(*until) {
		if agreed, err := d.prepare(ctx, e); err != nil || !agreed {
			return false, err
		}
	}
	d.nothing.Store(e.Reason == endedEmpty) // before the run can end
	if !d.cfg.Sites.Finish(ctx, *d.agreed.Load()) {
		return false, nil
	}
	if !d.endOwn(ctx, e.Activity) {
		return d.ended.Load(), nil
	}
	d.ended.Store(true)
	d.cfg.Agent.Close()
	return true, nil
}

// Ending reports that this agent has agreed to end, or is about to. Safe for concurrent use.
func (d *Agreement) Ending() bool {
	until := d.prepared.Load()
	return d.ended.Load() || d.preparing.Load() > 0 || until != nil && !d.cfg.Clock.Now().After(*until)
}

// prepare reports whether this agent would end. If so, it admits no agent for prepareTime.
func (d *Agreement) prepare(ctx context.Context, e *pb.EndRequest) (bool, error) {
	d.preparing.Add(1) // before the agent looks whether it is idle; see cluster.Others
	defer d.preparing.Add(-1)
	now := d.cfg.Clock.Now()
	d.cfg.Agent.Hold(now.Add(prepareTime))
	v, at := d.cfg.Others.View(), d.cfg.Sites.At()
	p, err := d.crawl.Pulse(ctx)
	if err != nil {
		return false, rpc.ErrAgain // ended
	}
	if !p.Idle || p.Activity != e.Activity || at.Digest(v) != e.View || !d.cfg.Agent.Settled() ||
		d.cfg.Agent.Expected(v, now) {
		d.cfg.Agent.Hold(time.Time{})
		return false, nil
	}
	if !d.cfg.Agent.Claimed() || d.cfg.Agent.Refetch(v) {
		d.cfg.Agent.Hold(time.Time{})
		return false, nil
	}
	until := now.Add(prepareTime)
	d.agreed.Store(&at)
	d.prepared.Store(&until)
	return true, nil
}

const (
	// pulseEvery is the interval at which the agents are asked whether all are idle.
	pulseEvery = 250 * time.Millisecond
	// refetchWait is how long all agents have no other work before they fetch the pages of lost archives again. A
	// machine that restarts is back by then.
	refetchWait = time.Minute
	// prepareTime is how long an agent that has agreed waits for the order to end.
	prepareTime = 10 * time.Second
	// endPatience is how long an agent tries to end its own run, and to tell another agent to end.
	endPatience = 5 * time.Second
	// endAgain is the pause between two attempts.
	endAgain = 10 * time.Millisecond
)

// The reasons of an end.
const (
	finished = "finished"
	// endedEmpty: no seed gave a page.
	endedEmpty = "nothing-fetched"
)

// standstill is what the agents of a view said when all of them were idle.
type standstill struct {
	activity map[string]uint64
	answered uint64 // HTTP responses other than redirects, of all agents
	lost     []gossip.Agent
}

// Seek looks for the end of the crawl, while this agent is the one that asks.
func (d *Agreement) Seek(ctx context.Context) {
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
		v := d.cfg.Others.View()
		at := d.cfg.Sites.At()
		s, idle := d.round(ctx, v, at)
		if !idle {
			before, since = nil, time.Time{}
			continue
		}
		if !maps.Equal(before, s.activity) {
			before, since = s.activity, time.Time{}
			continue
		}
		if !d.cfg.Agent.Claimed() {
			continue
		}
		if now := d.cfg.Clock.Now(); len(s.lost) > 0 {
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

// round asks all agents of a view whether they are idle, and have applied the stream up to a point. If all are, it
// returns what they said.
func (d *Agreement) round(ctx context.Context, v *gossip.View, at follower.Point) (s standstill, idle bool) {
	for _, a := range v.Agents {
		if a.State == gossip.Up && a.Name < d.cfg.Self {
			return s, false // that agent asks
		}
	}
	own, err := d.crawl.Pulse(ctx)
	if err != nil || !own.Idle || !d.cfg.Agent.Settled() || d.cfg.Agent.Expected(v, d.cfg.Clock.Now()) {
		return s, false
	}
	s = standstill{map[string]uint64{d.cfg.Self: own.Activity}, d.answered(own), nil}
	for _, a := range v.Agents {
		if a.Name == d.cfg.Self {
			if d.cfg.Agent.Lost(v) {
				s.lost = append(s.lost, a)
			}
			continue
		}
		p, err := d.cfg.Others.Pulse(ctx, a, &pb.PulseRequest{View: at.Digest(v)})
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
func (d *Agreement) close(ctx context.Context, v *gossip.View, digest uint64, activity map[string]uint64,
	empty bool) (over bool) {
	d.preparing.Add(1) // the agreement must not lapse while it is carried out
	defer d.preparing.Add(-1)
	reason := finished
	if empty {
		reason = endedEmpty
	}
	would, err := d.prepare(ctx, &pb.EndRequest{View: digest, Activity: activity[d.cfg.Self],
		Prepare: true})
	if err != nil || !would {
		return false
	}
	defer func() {
		if !over {
			d.prepared.Store(nil)
			d.cfg.Agent.Hold(time.Time{})
		}
	}()
	others := slices.DeleteFunc(slices.Clone(v.Agents),
		func(a gossip.Agent) bool { return a.Name == d.cfg.Self })
	for _, a := range others {
		r, err := d.cfg.Others.End(ctx, a,
			&pb.EndRequest{View: digest, Activity: activity[a.Name], Reason: reason, Prepare: true})
		if err != nil || !r.Agreed {
			return false
		}
	}
	d.nothing.Store(empty) // before the run can end
	var told sync.WaitGroup
	for _, a := range others {
		told.Go(func() {
			d.tellEnd(ctx, a, &pb.EndRequest{View: digest, Activity: activity[a.Name], Reason: reason})
		})
	}
	agreed := d.cfg.Sites.Finish(ctx, *d.agreed.Load())
	told.Wait()
	if !agreed || !d.endOwn(ctx, activity[d.cfg.Self]) {
		return false
	}
	d.cfg.Agent.Close()
	return true
}

// tellEnd tells an agent to end, until it has ended or endPatience has passed.
func (d *Agreement) tellEnd(ctx context.Context, a gossip.Agent, e *pb.EndRequest) {
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	for ctx.Err() == nil {
		if r, err := d.cfg.Others.End(ctx, a, e); err == nil && r.Agreed {
			return
		}
		if now, there := d.cfg.Others.View().Agent(a.Name); !there || now.Instance != a.Instance {
			return // it has ended, and its answer was lost
		}
		clock.Pause(ctx, endAgain)
	}
}

// endOwn ends this agent's run after all agents have agreed to end. Other agents may have left since, and every change
// of the view counts as activity. So endOwn ends the run as soon as it is idle.
func (d *Agreement) endOwn(ctx context.Context, activity uint64) bool {
	for until := d.cfg.Clock.Now().Add(endPatience); ; {
		agreed, err := d.crawl.End(ctx, activity)
		if err != nil || agreed {
			return agreed
		}
		p, err := d.crawl.Pulse(ctx)
		if err != nil || d.cfg.Clock.Now().After(until) {
			return false
		}
		if activity = p.Activity; !p.Idle {
			if !clock.Pause(ctx, endAgain) {
				return false
			}
		}
	}
}

// refetchAll lets the agents that have lists of lost archives accept the URLs.
func (d *Agreement) refetchAll(ctx context.Context, digest uint64, s standstill) {
	for _, a := range s.lost {
		e := &pb.EndRequest{View: digest, Activity: s.activity[a.Name], Prepare: true}
		if a.Name == d.cfg.Self {
			_, _ = d.prepare(ctx, e) // the next round asks again
			continue
		}
		_, _ = d.cfg.Others.End(ctx, a, e)
	}
}

// Obey ends this agent's run when the coordinators have ended the crawl, unless ctx is done before. Nothing waits then,
// unless the agent was not in the crawl at its end. Such an agent cannot ask the others about its hosts. It need not if
// it has no URLs. left reports that it has some: then the run goes on.
func (d *Agreement) Obey(ctx context.Context) (left bool) {
	select {
	case <-d.cfg.Sites.Over():
	case <-ctx.Done():
		return false
	}
	p, err := d.crawl.Pulse(ctx)
	if err != nil {
		return false
	}
	if !d.endOwn(ctx, p.Activity) {
		if left, err = d.crawl.EndWithoutLinks(ctx); err != nil || left {
			return left && err == nil
		}
	}
	d.ended.Store(true)
	d.cfg.Agent.Close()
	return false
}
