package crawl

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func errandID(l link.Link) string { return l.URL.String() + " " + l.Via }

// runErrand queues, once, the fetch of a robots.txt on another host. It does not queue it if
// the operator has blocked that host.
func (c *Crawler) runErrand(l link.Link, now time.Time) {
	if host := l.URL.Host(); c.gate.Bars(host, netip.Addr{}) {
		c.failErrand(l, theyBlocked, now)
		return
	}
	id := errandID(l)
	if c.errands[id]++; c.errands[id] > 1 {
		return
	}
	if err := c.Frontier.PushFront(l); err != nil {
		c.run.Fail(fmt.Errorf("frontier: %w", err))
	}
}

func (c *Crawler) settleErrand(v *visit.Attempt, now time.Time) {
	l := v.Task.Link
	delete(c.errands, errandID(l))
	switch v.Outcome {
	case visit.Prerequisite:
		c.logRobots(v, now)
	default:
		why := v.ErrorKind()
		if cause := c.failures.CauseOf(v); cause != "" {
			why += ": " + cause
		}
		c.failErrand(l, why, now)
	}
}

// failErrand records that the fetch of a robots.txt from another host failed, and why. The
// rules of that file stay unknown.
func (c *Crawler) failErrand(l link.Link, why string, now time.Time) {
	c.failures.RobotsFailed(l.URL.Origin(), why)
	if about, err := weburl.Parse(l.Via); err == nil {
		c.Robots.Learn(about, weburl.URL{}, robots.Reply{Failed: true}, now)
	}
}
