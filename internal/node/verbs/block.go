package verbs

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// block keeps all agents from a host, from the hosts of a domain, or from those of a range of addresses.
var block = Verb{
	Name: VerbBlock, Role: Operator, Undo: "unblock", Done: "blocked",
	Brief:     "Stop crawling a host, also after a restart; its links wait.",
	UndoBrief: "Crawl a blocked host again.",
	Help: `No agent of the crawl begins a visit of the host, also after a restart, and for
agents that join later. Its links wait, and none is lost.

  orbweaver ctl block www.example.org --why "a complaint"
  orbweaver ctl block '*.example.org'
  orbweaver ctl unblock www.example.org`,
	Words: "host",
	About: "Name this host; or a domain with all hosts below it, such as \"*.example.org\"; or a range of " +
		"addresses, such as 192.0.2.0/24. A URL means its host.",
	Note: "No more requests go there. Its links wait.", Example: "www.example.org",
	rules: blockRules{},
}

// blockRules are the rules of blocks.
type blockRules struct{ usual }

func (blockRules) subject(text string) (string, error) {
	about, _, err := input.About(text)
	return about, err
}

func (blockRules) oneHost(about string) bool { return isHost(about) }

func (blockRules) describe(o orders.Order, standing []orders.Order) string {
	if !o.Off {
		return o.About + ": blocked"
	}
	text := o.About + ": unblocked"
	if still := overlapping(standing, o.About); !isHost(o.About) && len(still) > 0 {
		text += "; still blocked by " + List(still)
	}
	return text
}

func (blockRules) apply(ctx context.Context, f *Force, standing []orders.Order) error {
	bars := slices.Clone(f.OtherBars)
	for _, b := range Blocks(standing) {
		bars = append(bars, crawl.Bar{Host: b.Host, Domain: b.Domain, Prefix: b.Prefix, Why: reason(b.Order)})
	}
	return f.Crawl.Bar(ctx, bars)
}

// VerbBlock is the verb of blocks.
const VerbBlock = "block"

// isHost reports whether a subject is one host.
func isHost(about string) bool {
	_, wide, err := input.Wide(about)
	return !wide && err == nil
}

// CheckUnblock returns an *input.ConfigError if a string is neither what About reads nor a pattern.
func CheckUnblock(s string) error {
	_, _, err := input.About(s)
	if err == nil || strings.ContainsAny(s, `/\^$()[]{}*+?|`) && sheet.CheckPattern(s) == nil {
		return nil
	}
	return input.Errorf("%v", err)
}

// Bars reports whether orders that stand keep links from being fetched: blocks, exclusions, or a smaller depth.
func Bars(standing []orders.Order) bool {
	return slices.ContainsFunc(standing, func(o orders.Order) bool {
		return o.Verb == VerbBlock || o.Verb == VerbExclude || o.Verb == VerbScope && o.About == AboutDepth
	})
}

// A Block is an order that stands and keeps a crawl from a host, a domain or a range of addresses.
type Block struct {
	Host   string       // this host alone; empty: none
	Domain string       // this host and all below it; empty: none
	Prefix netip.Prefix // invalid: none
	Order  orders.Order
}

// Blocks returns the blocks among the orders that stand.
func Blocks(standing []orders.Order) (blocks []Block) {
	for _, o := range standing {
		if o.Verb != VerbBlock {
			continue
		}
		b := Block{Order: o}
		if domain, ok := strings.CutPrefix(o.About, "*."); ok {
			b.Domain = domain
		} else if p, err := netip.ParsePrefix(o.About); err == nil {
			b.Prefix = p
		} else {
			b.Host = o.About
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// overlapping says, for people, which other blocks stand for some of what a block is about, as About has returned it.
func overlapping(standing []orders.Order, about string) (which []string) {
	of := Blocks([]orders.Order{{Verb: VerbBlock, About: about}})[0]
	for _, b := range Blocks(standing) {
		if b.Order.About != about && b.overlaps(&of) {
			which = append(which, fmt.Sprintf("order %s, %s", b.Order.ID(), b.Order.About))
		}
	}
	return which
}

// overlaps reports whether both blocks are for the same hosts, or one's hosts are some of the other's. The addresses of
// named hosts are not known here.
func (b *Block) overlaps(with *Block) bool {
	if b.Prefix.IsValid() && with.Prefix.IsValid() {
		return b.Prefix.Overlaps(with.Prefix)
	}
	return b.has(with.Host) || b.has(with.Domain) || with.has(b.Host) || with.has(b.Domain)
}

// has reports whether a host, or a domain with all its hosts, belongs to what the block is about.
func (b *Block) has(name string) bool {
	if a, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil && b.Prefix.IsValid() {
		return b.Prefix.Contains(a)
	}
	return name != "" && (name == b.Host ||
		b.Domain != "" && (name == b.Domain || strings.HasSuffix(name, "."+b.Domain)))
}
