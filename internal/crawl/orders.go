package crawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/orders"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// A Bar keeps the crawl from a host, from the hosts of a domain, or from a range of addresses.
type Bar = orders.Bar

// An Exclusion is a rule for links that must wait.
type Exclusion = orders.Exclusion

// heed lets the dispatcher obey orders that have changed. Before Run it does nothing, because Run begins with them. ctx
// bounds the wait.
func (c *Crawler) heed(ctx context.Context, name string, f func()) error {
	if c.Status() == nil {
		return nil
	}
	err := c.ask(ctx, name, f)
	if errors.Is(err, ErrNotRunning) {
		return nil
	}
	return err
}

// Bar replaces the Bars that are in force. The links of a blocked host stay and wait, and new ones are accepted. A
// visit under way ends as usual. Safe for concurrent use, also before Run; ctx bounds the wait.
func (c *Crawler) Bar(ctx context.Context, list []Bar) error {
	c.gate.SetBars(list)
	return c.heed(ctx, "bar", c.gate.HeedBars)
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
	return c.heed(ctx, "exclude", c.gate.HeedExclusions)
}

// Pause keeps visits from beginning while on is set, also before Run. When it returns, no visit begins any more. Safe
// for concurrent use; ctx bounds the wait.
func (c *Crawler) Pause(ctx context.Context, on bool) error {
	c.gate.SetPause(on)
	return c.heed(ctx, "pause", func() { c.gate.HeedPause(c.cfg.Now()) })
}

// PausedFor returns how long this run has been paused. Safe for concurrent use.
func (c *Crawler) PausedFor() time.Duration { return time.Duration(c.shown.paused.Load()) }

// Repace tells the Frontier of domains that its PaceOf may hold back; see Frontier.Repace. Safe for concurrent use,
// also before Run; ctx bounds the wait.
func (c *Crawler) Repace(ctx context.Context, domains []string) error {
	c.gate.SetPaced(domains)
	return c.heed(ctx, "pace", func() {
		c.run.Stir()
		c.gate.HeedPaces(c.cfg.Now())
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

// gateLoop is a Crawler, as its gate sees it.
type gateLoop struct{ c *Crawler }

func (l gateLoop) Foreign(host string) bool { return l.c.agentOf(host) != "" }
func (l gateLoop) HostBlocked(host string)  { l.c.origins.OpenHost(host) } // no try of an origin may come

func (l gateLoop) Hides() bool {
	c := l.c
	return c.planner != nil || c.planned || c.Seen.Holds() || !c.Cluster.settled()
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

// active returns how long this run has been going on without pauses.
func (c *Crawler) active(now time.Time) time.Duration {
	return now.Sub(c.began) - c.gate.Pauses(now)
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
		delete(c.errands, errandID(t.Link))
		c.failErrand(t.Link, theyBlocked, now)
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
	p, ok := c.planner.(visit.Postponer)
	before, again := c.revisiting[k]
	switch {
	case err != nil:
	case again && ok: // it would take the place of a page that may be visited
		c.retries.Leave(k)
		c.revisited(t.Link)
		err = p.PutOff(&visit.Wanted{Link: t.Link, Before: before}, now.Add(excludedWait))
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
	if s := c.Frontier.Stats(); c.stop != notStopping || c.run.Failed() || s.Aside == 0 ||
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
