package cluster

import (
	"context"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/termination"
	"github.com/orbweaver/orbweaver/internal/crawl"
)

// A crawl of several agents ends when no agent has work left. A link under way is pending at its
// sender until it is durable at its receiver, so then no link is under way either. An agent without
// work rests: only links from other agents wake it. The agents ask each other whether all rest
// (Pulse). If all rested twice, with no activity in between, they agree to end (End).

// settled reports that no links are on their way to other agents or wait for a sync.
func (cl *Clustered) settled() bool {
	return cl.Outgoing() == 0 && cl.tenants.settled() && cl.receipts.waiting() == 0 && cl.recalls.settled()
}

func (cl *Clustered) Waits(now time.Time) bool {
	if cl.run.Halted() {
		return cl.shipping.lingers(now)
	}
	return !cl.settled() || cl.resting()
}

func (cl *Clustered) resting() bool {
	return cl.rested != nil && *cl.rested == cl.run.Activity() && cl.loop.Idle() &&
		cl.loop.Frontier.Pending() == 0 && cl.settled()
}

// Rest records that no work is left. The agents end the crawl together.
func (cl *Clustered) Rest() {
	at := cl.run.Activity()
	cl.rested = &at
}

func (cl *Clustered) Ending() bool { return cl.Others.End != nil && cl.Others.End.Ending() }

// Pulse returns the agent's Pulse. Safe for concurrent use; ctx bounds the wait.
func (cl *Clustered) Pulse(ctx context.Context) (p termination.Pulse, err error) {
	err = cl.run.Do(ctx, "pulse", func(time.Time) {
		// A task that this agent has to begin is work, unless the agents are ending already.
		idle := cl.resting() && (!cl.recalls.stale || cl.loop.Sharer == nil)
		p = termination.Pulse{Idle: idle, Blocked: cl.loop.Frontier.Len() > 0, Activity: cl.run.Activity(),
			Answered: cl.loop.Tally.SeedPages()}
	})
	return p, err
}

// End ends the run if the agent is idle and has been since activity, because all agents are
// idle. It reports whether it did. Safe for concurrent use; ctx bounds the wait.
func (cl *Clustered) End(ctx context.Context, activity uint64) (agreed bool, err error) {
	err = cl.run.Do(ctx, "end", func(time.Time) {
		if agreed = cl.resting() && cl.run.Activity() == activity; agreed && !cl.run.Halted() {
			cl.loop.Stop(crawl.Finished)
		}
	})
	return agreed, err
}

// EndWithoutLinks ends the run if no link waits at this agent, whatever else it waits for, because the crawl is over.
// It reports whether links wait. Safe for concurrent use; ctx bounds the wait.
func (cl *Clustered) EndWithoutLinks(ctx context.Context) (left bool, err error) {
	err = cl.run.Do(ctx, "end", func(time.Time) {
		f := cl.loop.Frontier
		none := func() bool {
			return cl.loop.Idle() && f.Pending() == 0 && f.Stats().Withdrawn == 0 && cl.Outgoing() == 0
		}
		if left = !none(); left {
			return
		}
		cl.run.Fail(cl.loop.Ledger.Flush()) // may bring more links
		if left = !none(); !left && !cl.run.Failed() && !cl.run.Halted() {
			cl.loop.Stop(crawl.Finished)
		}
	})
	return left, err
}
