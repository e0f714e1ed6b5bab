package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/frontier"
)

// A Bar keeps the crawl from a host, the hosts of a domain, or those of a range of addresses.
type Bar struct {
	Host   string       // this host alone; empty: none
	Domain string       // this host and all below it, such as example.org; empty: none
	Prefix netip.Prefix // addresses; invalid: none
	Why    string       // for people: which order it is
}

// bars are the Bars in force. They never change.
type bars struct {
	hosts    map[string]*Bar
	domains  map[string]*Bar
	prefixes []Bar
}

// of returns the Bar that holds for a host at an address, which may be unknown; or nil.
func (b *bars) of(host string, addr netip.Addr) *Bar {
	if b == nil {
		return nil
	}
	if bar := b.hosts[host]; bar != nil {
		return bar
	}
	for domain, more := host, len(b.domains) > 0; more; _, domain, more = strings.Cut(domain, ".") {
		if bar := b.domains[domain]; bar != nil {
			return bar
		}
	}
	for i := range b.prefixes {
		if addr.IsValid() && b.prefixes[i].Prefix.Contains(addr.Unmap()) {
			return &b.prefixes[i]
		}
	}
	return nil
}

// theyBlocked is why a robots.txt on a blocked host cannot be fetched.
const theyBlocked = "the operator has blocked the host"

// Bar replaces the Bars that are in force. A host is blocked when it is due: its links stay and wait, and nothing about
// it is in the journal. Safe for concurrent use, also before Run; ctx bounds the wait.
func (c *Crawler) Bar(ctx context.Context, list []Bar) error {
	b := &bars{hosts: map[string]*Bar{}, domains: map[string]*Bar{}}
	for _, bar := range list {
		if bar.Host != "" {
			b.hosts[bar.Host] = &bar
		}
		if bar.Domain != "" {
			b.domains[bar.Domain] = &bar
		}
		if bar.Prefix.IsValid() {
			b.prefixes = append(b.prefixes, bar)
		}
	}
	c.bars.Store(b)
	if c.Status() == nil {
		return nil
	}
	err := c.ask(ctx, "bar", c.heedBars)
	if errors.Is(err, ErrNotRunning) {
		return nil
	}
	return err
}

// heedBars lifts the blocks of hosts that no Bar holds for any more.
func (c *Crawler) heedBars() {
	b := c.bars.Load()
	if b == c.heeded {
		return
	}
	c.heeded = b
	for host, addr := range c.barred {
		if b.of(host, addr) != nil {
			continue
		}
		delete(c.barred, host)
		if !c.isBlocked(host) {
			c.activity++
			c.Frontier.Unblock(host) // a host that is held for other agents is held again when it is due
		}
	}
}

// bar blocks the host of a task that was just taken from the frontier, and puts the task back, if a Bar holds for it.
func (c *Crawler) bar(t *frontier.Task, now time.Time) (barred bool) {
	if c.bars.Load().of(t.Host, t.Addr) == nil {
		return false
	}
	done := frontier.Done{NoRequest: true}
	if IsErrand(t.Link) { // another host waits for this robots.txt
		delete(c.errands, errandID(t.Link))
		c.failErrand(t.Link, theyBlocked, now)
	} else {
		back := t.Link
		done.Again, done.Attempt = &back, t.Attempt
	}
	if err := c.Frontier.Done(t.Host, done, now); err != nil {
		c.fatal = fmt.Errorf("frontier: %w", err)
		return true
	}
	host := strings.Clone(t.Host)
	c.Frontier.Block(host)
	if c.barred == nil {
		c.barred = map[string]netip.Addr{}
	}
	c.barred[host] = t.Addr
	return true
}
