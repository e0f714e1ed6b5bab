package operate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// CheckUnblock returns an *input.Error if a string is neither what About reads nor a pattern.
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
		return o.Verb == verbBlock || o.Verb == verbExclude || o.Verb == verbScope && o.About == aboutDepth
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
		if o.Verb != verbBlock {
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

// IsBlocked reports whether one of the orders that stand is a block of exactly this, as About has returned it.
func IsBlocked(standing []orders.Order, about string) bool {
	return slices.ContainsFunc(standing, func(o orders.Order) bool { return o.Verb == verbBlock && o.About == about })
}

// TakeBack returns the order that takes back a block.
func TakeBack(about string) orders.Order {
	return orders.Order{Verb: verbBlock, About: about, Off: true}
}

// overlapping says, for people, which other blocks stand for some of what a block is about, as About has returned it.
func overlapping(standing []orders.Order, about string) (which []string) {
	of := Blocks([]orders.Order{{Verb: verbBlock, About: about}})[0]
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

// listed is how many items List prints.
const listed = 3

// List returns the first of some items as text, and the number of the others.
func List(items []string) string {
	if n := len(items) - listed; n > 0 {
		return strings.Join(items[:listed], "; ") + fmt.Sprintf("; and %d more", n)
	}
	return strings.Join(items, "; ")
}
