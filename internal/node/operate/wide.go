package operate

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Wide returns the canonical form of a domain (*.example.org) or a range of addresses (192.0.2.0/24). wide is false
// if s is neither: then it means one host. The error is for people.
func Wide(s string) (about string, wide bool, err error) {
	s = strings.TrimSpace(s)
	if domain, ok := strings.CutPrefix(s, "*."); ok {
		u, err := weburl.Parse("http://" + domain + "/")
		if err != nil || strings.ContainsAny(domain, "/:@?#*") {
			return "", false, fmt.Errorf("%.200q is not a domain; give one such as "+
				"*.example.org", s)
		}
		if _, err := netip.ParseAddr(u.Host()); err == nil {
			return "", false, fmt.Errorf("an address has no hosts below it; give a range " +
				"such as 192.0.2.0/24")
		}
		return "*." + u.Host(), true, nil
	}
	if strings.Contains(s, "://") {
		return "", false, nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		if a, rest, found := strings.Cut(s, "/"); found {
			if _, bad := netip.ParseAddr(a); bad == nil && rest != "" && !strings.ContainsFunc(rest, notDigit) {
				return "", false, fmt.Errorf("%.100q is not a range of addresses; give one such as 192.0.2.0/24", s)
			}
		}
		return "", false, nil
	}
	if p.Addr().Is4In6() {
		return "", false, fmt.Errorf("%s: give the range of IPv4 addresses, such as "+
			"192.0.2.0/24", p)
	}
	return p.Masked().String(), true, nil
}

func notDigit(r rune) bool { return r < '0' || r > '9' }

// Host returns the canonical form of a host as people type it: a name or an address, or a URL of the host. It has lower
// case, ASCII, and no port. The error is for people.
func Host(s string) (string, error) {
	text := strings.TrimSpace(s)
	if _, err := strconv.Atoi(text); err != nil && text != "" && !strings.ContainsFunc(text, unicode.IsControl) &&
		!strings.HasPrefix(strings.ToLower(text), "mailto:") {
		full := text
		if !strings.Contains(text, "://") {
			full = "http://" + BareAddress(text)
		}
		if u, err := weburl.Parse(full); err == nil {
			return u.Host(), nil
		}
	}
	return "", fmt.Errorf("host %q is not a host name; give one such as www.example.org", s)
}

// BareAddress returns a URL without a scheme from its host on, with brackets around an IPv6 address.
func BareAddress(s string) string {
	s = strings.TrimPrefix(s, "//")
	if a, err := netip.ParseAddr(s); err == nil && a.Is6() {
		return "[" + s + "]"
	}
	return s
}

// About returns the canonical form of what a block is about: a domain or a range of addresses, as Wide, or a host. A
// URL means its host. The error is for people.
func About(s string) (about string, wide bool, err error) {
	about, wide, err = Wide(s)
	if err != nil || wide {
		return about, wide, err
	}
	path := strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//")
	if !strings.Contains(s, "://") && (path || strings.ContainsAny(s, `\^$(){}|*+`)) {
		return "", false, fmt.Errorf("%.100q is a pattern for URLs, not a host; give it to \"orbweaver ctl exclude\"",
			s)
	}
	about, err = Host(s)
	return about, false, err
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
