package crawl

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// pausing says whether the operator has paused the crawl. Then no visit begins. Visits in progress end as usual, and
// accepted links wait. The time limit stands still.
type pausing struct {
	wanted atomic.Bool
	total  atomic.Int64 // of all pauses of this run at the last Status, in nanoseconds

	// The dispatcher owns the fields below.
	on    bool
	since time.Time
	past  time.Duration // of earlier pauses in this run
}

// pauseLook is how long a paused dispatcher may sleep. It looks again at each command and at each Status.
const pauseLook = time.Hour

// Pause keeps visits from beginning while on is set, also before Run. When it returns, no visit begins any more. Safe
// for concurrent use; ctx bounds the wait.
func (c *Crawler) Pause(ctx context.Context, on bool) error {
	c.pause.wanted.Store(on)
	if c.Status() == nil {
		return nil // Run begins with it
	}
	err := c.ask(ctx, "pause", func() { c.heedPause(c.cfg.Now()) })
	if errors.Is(err, ErrNotRunning) {
		return nil
	}
	return err
}

// heedPause begins or ends a pause.
func (c *Crawler) heedPause(now time.Time) {
	p := &c.pause
	on := p.wanted.Load()
	if on == p.on {
		return
	}
	if p.on = on; on {
		p.since = now
		c.Events.Write("crawl-paused")
		return
	}
	p.past += now.Sub(p.since)
	c.Events.Write("crawl-continued")
}

// paused reports whether no visit may begin, and when to look again.
func (c *Crawler) paused(now time.Time) (paused bool, ask time.Time) {
	if c.heedPause(now); !c.pause.on {
		return false, ask
	}
	if c.Frontier.Pending() > 0 || len(c.later) > 0 { // the run must not end
		ask = now.Add(pauseLook)
	}
	return true, ask
}

// PausedFor returns how long this run has been paused. Safe for concurrent use.
func (c *Crawler) PausedFor() time.Duration { return time.Duration(c.pause.total.Load()) }

// active returns how long this run has been going on without pauses.
func (c *Crawler) active(now time.Time) time.Duration {
	d := now.Sub(c.began) - c.pause.past
	if c.pause.on {
		d -= now.Sub(laterOf(c.pause.since, c.began))
	}
	return d
}
