package crawl

import (
	"context"
	"net/netip"
)

// lookUp starts the look-ups that wait, as far as there is room. Hosts whose
// address is known do not wait behind those of a name server that is slow.
func (c *Crawler) lookUp(work context.Context) {
	for len(c.unresolved) > 0 && c.resolving < resolversMax {
		v := c.unresolved[0]
		c.unresolved[0] = nil
		c.unresolved = c.unresolved[1:]
		c.resolving++
		c.inFlight.Go(func() { c.resolve(work, v) })
	}
}

// resolve looks the host of a visit up. It runs outside the workers: a dead
// name server must not keep live hosts waiting.
func (c *Crawler) resolve(ctx context.Context, v *visit) {
	a, err := c.DNS.Lookup(ctx, v.task.Link.URL.Host())
	v.resolved, v.addr, v.expires = true, netip.Addr{}, a.Expires
	switch {
	case ctx.Err() != nil:
		v.outcome = Abandoned
	case err != nil:
		v.outcome, v.noSuchHost, v.detail = Unresolved, isNotFound(err), err.Error()
	case len(a.Addrs) == 0:
		v.outcome, v.noSuchHost, v.detail = Unresolved, true, "no address"
	default:
		// A host that answers on one of its addresses only is found by its
		// retries.
		v.addr = a.Addrs[v.task.Attempt%len(a.Addrs)]
	}
	c.results <- v
}
