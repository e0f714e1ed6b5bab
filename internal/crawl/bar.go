package crawl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
)

// A Bar keeps the crawl from a host, from the hosts of a domain, or from a range of addresses. It is an operator's
// order, which all agents have, or an entry of this agent's blacklist. Nothing about it is in the journal.
type Bar struct {
	Host   string       // this host alone; empty: none
	Domain string       // this host and all below it, such as example.org; empty: none
	Prefix netip.Prefix // addresses; invalid: none
	Why    string       // for people: which order it is

	also *Bar // another one for the same; nil: none
}

// bars are the Bars in force. They never change.
type bars struct {
	hosts    map[string]*Bar
	domains  map[string]*Bar
	prefixes map[netip.Prefix]*Bar
	lengths  []int // of the prefixes, each once
}

// of returns the Bar that holds for a host at an address, which may be unknown; or nil.
func (b *bars) of(host string, addr netip.Addr) *Bar {
	for bar := range b.all(host, addr) {
		return bar
	}
	return nil
}

// all yields each Bar that holds for a host at an address, which may be unknown.
func (b *bars) all(host string, addr netip.Addr) iter.Seq[*Bar] {
	return func(yield func(*Bar) bool) {
		if b == nil {
			return
		}
		each := func(bar *Bar) bool {
			for ; bar != nil; bar = bar.also {
				if !yield(bar) {
					return false
				}
			}
			return true
		}
		if !each(b.hosts[host]) {
			return
		}
		for domain, more := host, len(b.domains) > 0; more; _, domain, more = strings.Cut(domain, ".") {
			if !each(b.domains[domain]) {
				return
			}
		}
		addr = addr.Unmap()
		for _, length := range b.lengths {
			if p, err := addr.Prefix(length); err == nil && !each(b.prefixes[p]) {
				return
			}
		}
	}
}

// whyBlocked says, for people, of each Bar that holds for a host which one it is.
func (c *Crawler) whyBlocked(host string) (why []string) {
	for bar := range c.bars.Load().all(host, c.barred[host]) {
		why = append(why, bar.Why)
	}
	return why
}

// before returns a copy of the Bar, with another one for the same behind it.
func (b Bar) before(also *Bar) *Bar {
	b.also = also
	return &b
}

// theyBlocked is why a robots.txt on a blocked host cannot be fetched.
const theyBlocked = "the operator has blocked the host"

// Bar replaces the Bars that are in force. The links of a blocked host stay and wait, and new ones are accepted. A
// visit under way ends as usual. Safe for concurrent use, also before Run; ctx bounds the wait.
func (c *Crawler) Bar(ctx context.Context, list []Bar) error {
	b := &bars{hosts: map[string]*Bar{}, domains: map[string]*Bar{}, prefixes: map[netip.Prefix]*Bar{}}
	for _, bar := range list {
		if bar.Host != "" {
			b.hosts[bar.Host] = bar.before(b.hosts[bar.Host])
		}
		if bar.Domain != "" {
			b.domains[bar.Domain] = bar.before(b.domains[bar.Domain])
		}
		if bar.Prefix.IsValid() {
			p := bar.Prefix.Masked()
			b.prefixes[p] = bar.before(b.prefixes[p])
			if !slices.Contains(b.lengths, bar.Prefix.Bits()) {
				b.lengths = append(b.lengths, bar.Prefix.Bits())
			}
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

// HeedBars blocks the hosts of the Bars that the frontier has, so that its Stats count them. Call it between Recover
// and Run, which does it as well.
func (c *Crawler) HeedBars() { c.heedBars() }

// isBlocked reports whether a Bar holds for a host, whatever its address is. Safe for concurrent use.
func (c *Crawler) isBlocked(host string) bool { return c.bars.Load().of(host, netip.Addr{}) != nil }

// heedBars lifts the blocks of hosts that no Bar holds for any more, and blocks those that one holds for now. The
// frontier gets other hosts of a Bar later, with their first links: see bar.
func (c *Crawler) heedBars() {
	b := c.bars.Load()
	if b == c.heeded {
		return
	}
	c.heeded = b
	c.activity++
	for host, addr := range c.barred {
		if b.of(host, addr) == nil {
			c.unbar(host) // a host that is held for other agents is held again when it is due
		}
	}
	if len(b.hosts)+len(b.domains)+len(b.prefixes) == 0 {
		return
	}
	c.Frontier.Hosts(func(host string, addr netip.Addr) {
		if b.of(host, addr) != nil && c.agentOf(host) == "" { // another agent gets its links when they are due
			c.block(host, addr)
		}
	})
}

// block blocks a host in the frontier.
func (c *Crawler) block(host string, addr netip.Addr) {
	c.Frontier.Block(host)
	if c.barred == nil {
		c.barred = map[string]netip.Addr{}
	}
	c.barred[strings.Clone(host)] = addr
	c.blocked = nil
	c.origins.openHost(host) // its links wait with the others
}

// unbar unblocks a host in the frontier.
func (c *Crawler) unbar(host string) {
	delete(c.barred, host)
	c.blocked = nil
	c.Frontier.Unblock(host)
}

// blockedHosts returns the hosts that are blocked in the frontier, sorted. The caller must not change them.
func (c *Crawler) blockedHosts() []string {
	if c.blocked == nil {
		c.blocked = slices.AppendSeq([]string{}, maps.Keys(c.barred))
		slices.Sort(c.blocked)
	}
	return c.blocked
}

// bar blocks the host of a task that was just taken from the frontier, and puts the task back, if a Bar holds for it.
func (c *Crawler) bar(t *frontier.Task, now time.Time) (barred bool) {
	if c.bars.Load().of(t.Host, t.Addr) == nil {
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
		c.fatal = fmt.Errorf("frontier: %w", err)
		return true
	}
	c.block(t.Host, t.Addr)
	return true
}
