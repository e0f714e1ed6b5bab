package crawl

import (
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// dropSlice bounds the dropped links that are finished in one turn of the dispatcher, which
// takes a few milliseconds. It is a variable so that tests can make it small.
var dropSlice = 256

// giveUp finishes some dropped links, and reports whether more of them wait.
func (c *Crawler) giveUp(now time.Time) (more bool) {
	if c.progress.stop != notStopping || c.run.Failed() {
		return false
	}
	done, err := c.frontier.Withdrawn(dropSlice, func(w frontier.Waiting) error {
		if visit.IsErrand(w.Link) { // hosts that need the robots.txt ask for it again
			c.errands.end(w.Link)
			return nil
		}
		t := frontier.Task{Link: w.Link, Host: w.Link.URL.Host(), Attempt: w.Attempt, Number: w.Number}
		k := t.Link.Key()
		if c.cluster.Moves != nil {
			if sent, err := c.cluster.Moves.SendAway(w); sent || err != nil {
				return err
			}
		}
		t.Attempt += c.retries.Attempts(k)
		t.Number = c.retries.Number(k, t.Number)
		c.retries.SetAttempts(k, 0)
		c.finishDropped(t, now)
		return c.run.Err()
	})
	if err != nil {
		c.run.Fail(fmt.Errorf("frontier: %w", err))
	}
	c.append()
	return !done
}

// withdraw finishes the link of a visit that ended without a finish and whose host was
// dropped meanwhile.
func (c *Crawler) withdraw(v *visit.Attempt) {
	c.withdrawLink(v.Task.Link, v.Task.Number, v.Task.Attempt)
}

func (c *Crawler) withdrawLink(l link.Link, number uint64, attempt int) {
	if err := c.frontier.PushWithdrawn([]frontier.Waiting{{Link: l, Number: number, Attempt: attempt}}); err != nil &&
		!c.run.Failed() {
		c.run.Fail(fmt.Errorf("frontier: %w", err))
	}
}

// finishDropped finishes a dropped link that is in no queue.
func (c *Crawler) finishDropped(t frontier.Task, now time.Time) {
	v := c.visits.New(t)
	v.Plan().Before, v.Outcome = c.plan.Before(t.Link.Key()), visit.Dropped
	c.finish(v, now)
	c.visits.Recycle(v)
}

// acceptDropped accepts and finishes a link that was found before its host was dropped. Its
// finish does not belong to the visit whose links are being accepted.
func (c *Crawler) acceptDropped(enc []byte, number uint64) error {
	l, _, err := link.Decode(enc)
	if err != nil {
		return fmt.Errorf("link from seen: %w", err)
	}
	others := c.skips.counted
	c.skips.counted = nil
	c.finishDropped(frontier.Task{Link: l, Host: l.URL.Host(), Number: number}, c.cfg.Clock.Now())
	c.skips.counted = others
	return c.run.Err()
}
