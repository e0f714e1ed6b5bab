package crawl

import (
	"context"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Drop discards all waiting links of host, in its queue, in the pools and among the
// retries. From now on the crawl fetches none of them, and it finishes them one after the
// other. It accepts links that it finds later as before, unless the host is blocked. Drop
// returns a message that says how many links waited in the queue; links in the pools are
// not counted by host. Otherwise it is like Block.
func (c *Crawler) Drop(ctx context.Context, host string) (string, error) {
	return c.order(ctx, "drop", host, func(now time.Time) (string, error) {
		e, n, _ := c.waiting(host, now)
		if err := c.drop(host, now); err != nil {
			c.run.Fail(err)
			return "", err
		}
		c.Events.Write("host-dropped", report.F("host", host), report.F("links", n))
		if err := c.secure(); err != nil {
			return "", err
		}
		s := host + ": " + links(n) + " dropped"
		if p := c.Frontier.Stats().Pooled; p > 0 {
			s += "; those among the " + links(p) + " of all hosts in the pools on disk follow as the pools are read"
		}
		return s + underWay(e), nil
	})
}

func (c *Crawler) drop(host string, now time.Time) error {
	c.run.Stir()
	c.ledger.Add(state.Drop, c.gate.Drop(host, c.ledger.Accepted(), now))
	c.Frontier.Withdraw(host)
	c.Frontier.ReviewAside()
	if err := c.origins.Withdraw(host); err != nil {
		return fmt.Errorf("drop %s: %w", host, err)
	}
	c.plan.forget(host, now)
	return nil
}

// begins and ends count the visits in progress.
func (c *Crawler) begins(v *visit.Attempt) {
	c.gate.Begins(v)
	if c.Cluster.Turns != nil {
		v.Permit = c.Cluster.Turns.Permit(v.Task.Host)
	}
}

func (c *Crawler) ends(v *visit.Attempt) {
	c.gate.Ends(v)
	v.Permit.Release()
}

// dropSlice bounds the dropped links that are finished in one turn of the dispatcher, which
// takes a few milliseconds. It is a variable so that tests can make it small.
var dropSlice = 256

// giveUp finishes some dropped links, and reports whether more of them wait.
func (c *Crawler) giveUp(now time.Time) (more bool) {
	if c.progress.stop != notStopping || c.run.Failed() {
		return false
	}
	done, err := c.Frontier.Withdrawn(dropSlice, func(w frontier.Waiting) error {
		if visit.IsErrand(w.Link) { // hosts that need the robots.txt ask for it again
			c.errands.end(w.Link)
			return nil
		}
		t := frontier.Task{Link: w.Link, Host: w.Link.URL.Host(), Attempt: w.Attempt, Number: w.Number}
		k := t.Link.Key()
		if c.Cluster.Moves != nil {
			if sent, err := c.Cluster.Moves.SendAway(w); sent || err != nil {
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
	if err := c.Frontier.PushWithdrawn([]frontier.Waiting{{Link: l, Number: number, Attempt: attempt}}); err != nil &&
		!c.run.Failed() {
		c.run.Fail(fmt.Errorf("frontier: %w", err))
	}
}

// finishDropped finishes a dropped link that is in no queue.
func (c *Crawler) finishDropped(t frontier.Task, now time.Time) {
	v := c.visits.New(t)
	v.Plan().Before, v.Outcome = c.plan.before(t.Link.Key()), visit.Dropped
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
	c.finishDropped(frontier.Task{Link: l, Host: l.URL.Host(), Number: number}, c.cfg.Now())
	c.skips.counted = others
	return c.run.Err()
}
