package crawl

import (
	"context"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/orders"
	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// A Bar keeps the crawl from a host, from the hosts of a domain, or from a range of addresses.
type Bar = orders.Bar

// An Exclusion is a rule for links that must wait.
type Exclusion = orders.Exclusion

// Bar replaces the Bars that are in force. The links of a blocked host stay and wait, and new ones are accepted. A
// visit under way ends as usual. Safe for concurrent use, also before Run; ctx bounds the wait.
func (c *Crawler) Bar(ctx context.Context, list []Bar) error {
	c.gate.SetBars(list)
	return c.run.Heed(ctx, "bar", func(time.Time) { c.gate.HeedBars() })
}

// HeedBars blocks the hosts of the Bars that the frontier has, so that its Stats count them. Call it between Recover
// and Run, which does it as well.
func (c *Crawler) HeedBars() { c.gate.HeedBars() }

// CheckExclusion returns the error of a pattern, for people.
func CheckExclusion(pattern string) error { return sheet.CheckPattern(pattern) }

// Excluded returns why a link must wait; "" if it need not. Safe for concurrent use.
func (c *Crawler) Excluded(l link.Link) (why string) { return c.gate.WhyExcluded(&l) }

// Exclude replaces the Exclusions that are in force. When it returns, no visit of a URL that they exclude begins any
// more; visits in progress end as usual. Safe for concurrent use, also before Run; ctx bounds the wait.
func (c *Crawler) Exclude(ctx context.Context, list []Exclusion) error {
	if err := c.gate.SetExclusions(list); err != nil {
		return err
	}
	return c.run.Heed(ctx, "exclude", func(time.Time) { c.gate.HeedExclusions() })
}

// Pause keeps visits from beginning while on is set, also before Run. When it returns, no visit begins any more. Safe
// for concurrent use; ctx bounds the wait.
func (c *Crawler) Pause(ctx context.Context, on bool) error {
	c.gate.SetPause(on)
	return c.run.Heed(ctx, "pause", func(now time.Time) { c.gate.HeedPause(now) })
}

// PausedFor returns how long this run has been paused. Safe for concurrent use.
func (c *Crawler) PausedFor() time.Duration { return time.Duration(c.shown.paused.Load()) }

// Repace tells the Frontier of domains that its PaceOf may hold back; see Frontier.Repace. Safe for concurrent use,
// also before Run; ctx bounds the wait.
func (c *Crawler) Repace(ctx context.Context, domains []string) error {
	c.gate.SetPaced(domains)
	return c.run.Heed(ctx, "pace", func(now time.Time) {
		c.run.Stir()
		c.gate.HeedPaces(now)
	})
}

// Redelay applies delays that the Frontier's DelayOf has changed to the hosts that rest now; see Frontier.Redelay. Safe
// for concurrent use, also before Run; ctx bounds the wait.
func (c *Crawler) Redelay(ctx context.Context, was func(host string) (d time.Duration, ok bool)) error {
	return c.run.Heed(ctx, "delay", func(now time.Time) {
		c.run.Stir()
		c.Frontier.Redelay(was, now)
	})
}

// explainPace says at which rate the domain of a host is visited at most.
func (c *Crawler) explainPace(host string) string {
	if c.cfg.WhyPace == nil {
		return ""
	}
	if why := c.cfg.WhyPace(host); why != "" {
		return "  rate: " + why + "\n"
	}
	return ""
}

// gateLoop is a crawl loop, as its gate sees it.
type gateLoop struct {
	cluster *Cluster
	seen    *keyset.Store
	origins *retry.Origins
	plan    *plan
}

func (l gateLoop) Foreign(host string) bool { return l.cluster.agentOf(host) != "" }
func (l gateLoop) HostBlocked(host string)  { l.origins.OpenHost(host) } // no try of an origin may come

func (l gateLoop) Hides() bool {
	return l.plan.planner != nil || l.plan.kept || l.seen.Holds() || l.cluster.outgoing() > 0
}

// pauseLook is how long a paused dispatcher may sleep. It looks again at each command and at each Status.
const pauseLook = time.Hour

// paused reports whether no visit may begin, and when to look again.
func (c *Crawler) paused(now time.Time) (paused bool, ask time.Time) {
	if !c.gate.HeedPause(now) {
		return false, ask
	}
	if c.Frontier.Pending() > 0 || c.retries.Waiting() > 0 { // the run must not end
		ask = now.Add(pauseLook)
	}
	return true, ask
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
	if err := c.Frontier.Done(t.Host, done, now); err != nil {
		c.run.Fail(fmt.Errorf("frontier: %w", err))
		return true
	}
	c.gate.Block(t.Host, t.Addr)
	return true
}

// setAside sets a task aside that was just taken from the frontier, if an Exclusion holds for it.
func (c *Crawler) setAside(t *frontier.Task, now time.Time) bool {
	if !c.gate.Excludes(&t.Link) || c.gate.Dropped(t.Host, t.Number) {
		return false
	}
	k := t.Link.Key()
	err := c.Frontier.Done(t.Host, frontier.Done{NoRequest: true}, now)
	off := false
	if err == nil { // a page that the Planner wants again would take the place of one that may be visited
		off, err = c.plan.putOff(t.Link, now.Add(excludedWait))
	}
	switch {
	case err != nil:
	case off:
		c.retries.Leave(k)
	default:
		c.retries.SetAttempts(k, t.Attempt+c.retries.Attempts(k))
		err = c.Frontier.SetAside(t.Link, t.Number)
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
	if s := c.Frontier.Stats(); c.progress.stop != notStopping || c.run.Failed() || s.Aside == 0 ||
		s.Ready+s.Resting > reviewHosts {
		return false
	}
	_, err := c.Frontier.Reviewed(reviewSlice, func(l link.Link, number uint64) error {
		any = true
		host, k := l.URL.Host(), l.Key()
		accept := c.retries.Number(k, number)
		if c.gate.Dropped(host, accept) {
			attempt := c.retries.Attempts(k)
			c.retries.Leave(k)
			c.withdrawLink(l, accept, attempt)
			return nil
		}
		if _, mine := c.Cluster.peek(host); mine && c.gate.Excludes(&l) {
			return c.Frontier.SetAside(l, number)
		}
		return c.Frontier.PutBack(l, number)
	})
	if err != nil {
		c.run.Fail(fmt.Errorf("frontier: %w", err))
	}
	return any
}
