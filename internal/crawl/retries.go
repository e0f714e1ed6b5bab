package crawl

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// later lets a URL wait beside the queues, unless there are too many.
func (c *Crawler) later(d retry.Delayed) bool {
	if !c.retries.Put(d) {
		return false
	}
	if e := c.origins.of(d.Link.URL); d.First && e != nil {
		e.next = true
	}
	return true
}

// release puts due retries back into their host queues, and returns when the next one is due.
func (c *Crawler) release(now time.Time) (next time.Time) {
	for !c.run.Failed() {
		d, next, ok := c.retries.Due(now)
		if !ok {
			return next
		}
		if d.First {
			if e := c.origins.of(d.Link.URL); e != nil {
				e.next = false
			}
			c.run.Fail(c.Frontier.PushFront(d.Link))
		} else {
			c.run.Fail(c.requeue(d.Link, d.Number))
		}
	}
	return time.Time{}
}

// requeue puts a link to the end of its queue. The link was accepted before, or is visited again.
// number is the number of its accept, or 0 if the URL is finished.
func (c *Crawler) requeue(l link.Link, number uint64) error {
	c.retries.SetNumber(l.Key(), number)
	return c.Frontier.PushAt([]link.Link{l}, []uint64{c.ledger.Accepted()})
}

// withdrawLater moves the URLs of a host that wait for a retry, or for that of another URL, to the frontier, as
// withdrawn.
func (c *Crawler) withdrawLater(host string) error {
	c.origins.withdraw(host)
	return c.Frontier.PushWithdrawn(c.retries.Withdraw(host))
}
