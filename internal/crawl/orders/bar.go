package orders

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
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

// before returns a copy of the Bar, with another one for the same behind it.
func (b Bar) before(also *Bar) *Bar {
	b.also = also
	return &b
}

// SetBars replaces the Bars that are in force. Safe for concurrent use.
func (g *Gate) SetBars(list []Bar) {
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
	g.bars.Store(b)
}

// Bars reports whether a Bar holds for a host at an address, which may be unknown. Safe for concurrent use.
func (g *Gate) Bars(host string, addr netip.Addr) bool { return g.bars.Load().of(host, addr) != nil }

// BarsKnown is Bars at the address of the host that the Gate knows, if any.
func (g *Gate) BarsKnown(host string) bool { return g.Bars(host, g.barred[host]) }

// WhyBarred says, for people, of each Bar that holds for a host which one it is.
func (g *Gate) WhyBarred(host string) (why []string) {
	for bar := range g.bars.Load().all(host, g.barred[host]) {
		why = append(why, bar.Why)
	}
	return why
}

// HeedBars lifts the blocks of hosts that no Bar holds for any more, and blocks those that one holds for now. The
// frontier gets other hosts of a Bar later, with their first links. The crawl loop blocks those when they are due.
// While the agents end the run it does nothing.
func (g *Gate) HeedBars() {
	b := g.bars.Load()
	if b == g.heeded || g.loop.Ending() {
		return
	}
	g.heeded = b
	g.run.Stir()
	for host, addr := range g.barred {
		if b.of(host, addr) == nil {
			g.Unblock(host) // a host that is held for other agents is held again when it is due
		}
	}
	if len(b.hosts)+len(b.domains)+len(b.prefixes) == 0 {
		return
	}
	g.frontier.Hosts(func(host string, addr netip.Addr) {
		if b.of(host, addr) != nil && !g.loop.Foreign(host) { // another agent gets its links when they are due
			g.Block(host, addr)
		}
	})
}

// Block blocks a host in the frontier, because a Bar holds for it at this address.
func (g *Gate) Block(host string, addr netip.Addr) {
	g.frontier.Block(host)
	if g.barred == nil {
		g.barred = map[string]netip.Addr{}
	}
	g.barred[strings.Clone(host)] = addr
	g.blocked = nil
	g.loop.HostBlocked(host)
}

// Unblock unblocks a host in the frontier. If a Bar holds for it, it is blocked again when it is due.
func (g *Gate) Unblock(host string) {
	delete(g.barred, host)
	g.blocked = nil
	g.frontier.Unblock(host)
}

// Blocked reports whether a host is blocked in the frontier.
func (g *Gate) Blocked(host string) bool {
	_, blocked := g.barred[host]
	return blocked
}

// BlockedHosts returns the hosts that are blocked in the frontier, sorted. The caller must not change them.
func (g *Gate) BlockedHosts() []string {
	if g.blocked == nil {
		g.blocked = slices.AppendSeq([]string{}, maps.Keys(g.barred))
		slices.Sort(g.blocked)
	}
	return g.blocked
}
