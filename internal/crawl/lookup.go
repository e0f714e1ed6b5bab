package crawl

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/web/dns"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// lookUp starts waiting look-ups, up to a bound. Hosts with a known address do not wait behind
// hosts of a slow name server.
func (c *Crawler) lookUp(work context.Context) {
	for len(c.unresolved) > 0 && c.resolving < resolversMax {
		v := c.unresolved[0]
		c.unresolved[0] = nil
		c.unresolved = c.unresolved[1:]
		c.resolving++
		c.run.Go(func() { c.resolve(work, v) })
	}
}

// lookUpHost looks up where requests to u go. If the operator leads them elsewhere, the host of u is not looked up.
func lookUpHost(ctx context.Context, p *Parts, u weburl.URL, now time.Time) (dns.Answer, error) {
	name := u.Host()
	if f, ok := p.Fetch.(interface{ DialName(weburl.URL) string }); ok {
		name = f.DialName(u)
	}
	if ip, err := netip.ParseAddr(name); err == nil && name != strings.Trim(u.Host(), "[]") {
		return dns.Answer{Addrs: []netip.Addr{ip}, Expires: now.Add(time.Hour)}, nil
	}
	return p.DNS.Lookup(ctx, name)
}

// resolve looks up the host of a visit. It runs outside of the workers, so that a dead name
// server does not block other hosts.
func (c *Crawler) resolve(ctx context.Context, v *visit.Attempt) {
	a, err := lookUpHost(ctx, &c.Parts, v.Task.Link.URL, c.cfg.Now())
	v.Lookup.Done, v.Lookup.Addr, v.Lookup.Expires = true, netip.Addr{}, a.Expires
	switch {
	case ctx.Err() != nil:
		v.Outcome = visit.Abandoned
	case err != nil:
		v.Outcome, v.Lookup.NoSuchHost, v.Detail = visit.Unresolved, visit.IsNotFound(err), err.Error()
	case len(a.Addrs) == 0:
		v.Outcome, v.Lookup.NoSuchHost, v.Detail = visit.Unresolved, true, "no address"
	default:
		// A host that answers on one of its addresses only is found by its
		// retries.
		v.Lookup.Addr = a.Addrs[v.Task.Attempt%len(a.Addrs)]
	}
	c.visits.Ended(v)
}
