package operate

import (
	"net/netip"
	"strings"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// wideOf returns the canonical form of a domain (*.example.org) or a range of addresses (192.0.2.0/24). wide is false
// if s is neither: then it means one host.
func wideOf(s string) (about string, wide bool, err error) {
	s = strings.TrimSpace(s)
	if domain, ok := strings.CutPrefix(s, "*."); ok {
		u, err := weburl.Parse("http://" + domain + "/")
		if err != nil || strings.ContainsAny(domain, "/:@?#*") {
			return "", false, problem(connect.CodeInvalidArgument, "%.200q is not a domain; give one such as "+
				"*.example.org", s)
		}
		if _, err := netip.ParseAddr(u.Host()); err == nil {
			return "", false, problem(connect.CodeInvalidArgument, "an address has no hosts below it; give a range "+
				"such as 192.0.2.0/24")
		}
		return "*." + u.Host(), true, nil
	}
	if strings.Contains(s, "://") {
		return "", false, nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return "", false, nil
	}
	if p.Addr().Is4In6() {
		return "", false, problem(connect.CodeInvalidArgument, "%s: give the range of IPv4 addresses, such as "+
			"192.0.2.0/24", p)
	}
	return p.Masked().String(), true, nil
}

// A Block is an order that stands and keeps a crawl from a domain or a range of addresses.
type Block struct {
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
		}
		blocks = append(blocks, b)
	}
	return blocks
}
