package crawl

import (
	"context"
	"fmt"
	"time"
)

// A crawl of several agents ends when no agent has work left. A link under way is pending at its
// sender until it is durable at its receiver, so then no link is under way either. An agent without
// work rests: only links from other agents wake it. The agents ask each other whether all rest
// (Pulse). If all rested twice, with no activity in between, they agree to end (End).

// A Pulse reports whether an agent of a cluster has work left. The cluster ends when no agent has
// any.
type Pulse struct {
	// Idle reports that no work is left here. Blocked reports that links of blocked hosts wait.
	Idle, Blocked bool
	// Activity grows with each event that gives an agent work. If an idle agent has the same
	// Activity twice, it was idle in between.
	Activity uint64
	// Answered counts the HTTP responses of all runs, without redirects and robots.txt.
	Answered int64
}

// settledElsewhere reports that no links are on their way to other agents or wait for a sync.
func (c *Crawler) settledElsewhere() bool {
	return c.Partition == nil ||
		c.Outbox.Len() == 0 && c.tenants.settled() && len(c.remote.unsynced) == 0 && len(c.remote.due) == 0 &&
			(c.syncing == nil || len(c.syncing.receipts) == 0)
}

// idle reports that no work is left.
func (c *Crawler) idle() bool {
	return c.Partition != nil && (!c.settledElsewhere() || c.resting())
}

func (c *Crawler) resting() bool {
	a := &c.remote
	return a.resting && a.restedAt == a.activity && c.busy == 0 && c.resolving == 0 && len(c.later) == 0 &&
		c.Frontier.Pending() == 0 && c.settledElsewhere()
}

// rest records that no work is left.
func (c *Crawler) rest() { c.remote.resting, c.remote.restedAt = true, c.remote.activity }

// Pulse returns the agent's Pulse. Safe for concurrent use; ctx bounds the wait.
func (c *Crawler) Pulse(ctx context.Context) (p Pulse, err error) {
	err = c.ask(ctx, "pulse", func() {
		p = Pulse{Idle: c.resting(), Blocked: c.Frontier.Len() > 0, Activity: c.remote.activity,
			Answered: c.Tally.Answered()}
	})
	return p, err
}

// End ends the run if the agent is idle and has been since activity, because all agents are
// idle. It reports whether it did. Safe for concurrent use; ctx bounds the wait.
func (c *Crawler) End(ctx context.Context, activity uint64) (agreed bool, err error) {
	err = c.ask(ctx, "end", func() {
		if agreed = c.resting() && c.remote.activity == activity; !agreed || c.stop != notStopping {
			return
		}
		c.stop = Finished
		if c.Frontier.Len() > 0 {
			c.stop = OnlyBlocked
		}
	})
	return agreed, err
}

// ask runs question on the dispatcher and waits for it.
func (c *Crawler) ask(ctx context.Context, name string, question func()) error {
	done := make(chan struct{})
	select {
	case c.commands <- func(time.Time) { question(); close(done) }:
		<-done // the dispatcher has it
		return nil
	case <-c.ended:
		return ErrNotRunning
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", name, ctx.Err())
	}
}
