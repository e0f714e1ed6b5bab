package crawl

import (
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/plan"
	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// gateLoop is a crawl loop, as its gate sees it.
type gateLoop struct {
	cluster *Cluster
	seen    *keyset.Store
	origins *retry.Origins
	plan    *plan.Plan
}

func (l gateLoop) Foreign(host string) bool { return l.cluster.agentOf(host) != "" }
func (l gateLoop) Ending() bool             { return l.cluster.Ending() }
func (l gateLoop) HostBlocked(host string)  { l.origins.OpenHost(host) } // no try of an origin may come

func (l gateLoop) Hides() bool {
	return l.plan.Planner != nil || l.plan.Kept || l.seen.Holds() || l.cluster.outgoing() > 0
}

// begins and ends count the visits in progress.
func (c *Crawler) begins(v *visit.Attempt) {
	c.gate.Begins(v)
	if c.cluster.Turns != nil {
		v.Permit = c.cluster.Turns.Permit(v.Task.Host)
	}
}

func (c *Crawler) ends(v *visit.Attempt) {
	c.gate.Ends(v)
	v.Permit.Release()
}

// theyBlocked is why a robots.txt on a blocked host cannot be fetched.
const theyBlocked = "the operator has blocked the host"

// bar blocks the host of a task that was just taken from the frontier, and puts the task back, if a Bar holds for it.
func (c *Crawler) bar(t *frontier.Task, now time.Time) (barred bool) {
	if !c.gate.Bars(t.Host, t.Addr) {
		return false
	}
	done := frontier.Done{NoRequest: true}
	if visit.IsErrand(t.Link) { // another host waits for this robots.txt
		c.errands.end(t.Link)
		c.errands.fail(t.Link, theyBlocked, now)
	} else {
		back := t.Link
		done.Again, done.Attempt = &back, t.Attempt
	}
	if err := c.frontier.Done(t.Host, done, now); err != nil {
		c.run.Fail(fmt.Errorf("frontier: %w", err))
		return true
	}
	c.gate.Block(t.Host, t.Addr)
	return true
}

// setAside sets a task aside that was just taken from the frontier, if an Exclusion holds for it or it
// waits for another run.
func (c *Crawler) setAside(t *frontier.Task, now time.Time) bool {
	if !c.gate.Excludes(&t.Link) && !c.limits.leaves(&t.Link) || c.gate.Dropped(t.Host, t.Number) {
		return false
	}
	k := t.Link.Key()
	err := c.frontier.Done(t.Host, frontier.Done{NoRequest: true}, now)
	off := false
	if err == nil { // a page that the Planner wants again would take the place of one that may be visited
		off, err = c.plan.PutOff(t.Link, now.Add(excludedWait))
	}
	switch {
	case err != nil:
	case off:
		c.retries.Leave(k)
	default:
		c.retries.SetAttempts(k, t.Attempt+c.retries.Attempts(k))
		err = c.frontier.SetAside(t.Link, t.Number)
	}
	if err != nil {
		c.run.Fail(fmt.Errorf("frontier: %w", err))
	}
	return true
}

const (
	// excludedWait is how long a page waits that a Planner wants to visit again, before its turn comes again.
	excludedWait = 10 * time.Minute
	// reviewSlice bounds the links that are reviewed in one turn of the dispatcher.
	reviewSlice = 256
	// reviewHosts is the number of hosts with links above which no link is put back, so that their memory is bounded.
	reviewHosts = 1 << 16
)

// review puts some of the links that were set aside back into their queues, unless they must still wait. Links of hosts
// that another agent owns go back, too: the host is given away when it is due. It reports whether it has looked at any.
func (c *Crawler) review() (any bool) {
	if s := c.frontier.Stats(); c.progress.stop != notStopping || c.run.Failed() || s.Aside == 0 ||
		s.Ready+s.Resting > reviewHosts {
		return false
	}
	_, err := c.frontier.Reviewed(reviewSlice, func(l link.Link, number uint64) error {
		any = true
		host, k := l.URL.Host(), l.Key()
		accept := c.retries.Number(k, number)
		if c.gate.Dropped(host, accept) {
			attempt := c.retries.Attempts(k)
			c.retries.Leave(k)
			c.withdrawLink(l, accept, attempt)
			return nil
		}
		if _, mine := c.cluster.peek(host); mine && c.gate.Excludes(&l) {
			return c.frontier.SetAside(l, number)
		}
		return c.frontier.PutBack(l, number)
	})
	if err != nil {
		c.run.Fail(fmt.Errorf("frontier: %w", err))
	}
	return any
}
