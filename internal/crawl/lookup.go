package crawl

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/web/dns"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// lookups are the look-ups of the addresses of hosts. The dispatcher owns them.
type lookups struct {
	run    *run.Run
	visits *visit.Pool
	fetch  visit.Fetcher
	dns    Resolver
	cfg    *Config

	open    int              // in progress
	waiting []*visit.Attempt // visits that wait until a look-up ends
}

// begin starts waiting look-ups, up to a bound. Hosts with a known address do not wait behind
// hosts of a slow name server.
func (k *lookups) begin(work context.Context) {
	for len(k.waiting) > 0 && k.open < resolversMax {
		v := k.waiting[0]
		k.waiting[0] = nil
		k.waiting = k.waiting[1:]
		k.open++
		k.run.Go(func() { k.resolve(work, v) })
	}
}

// lookUp looks up where requests to u go. If the operator leads them elsewhere, the host of u is not looked up.
func (k *lookups) lookUp(ctx context.Context, u weburl.URL, now time.Time) (dns.Answer, error) {
	name := u.Host()
	if f, ok := k.fetch.(interface{ DialName(weburl.URL) string }); ok {
		name = f.DialName(u)
	}
	if ip, err := netip.ParseAddr(name); err == nil && name != strings.Trim(u.Host(), "[]") {
		return dns.Answer{Addrs: []netip.Addr{ip}, Expires: now.Add(time.Hour)}, nil
	}
	return k.dns.Lookup(ctx, name)
}

// resolve looks up the host of a visit. It runs outside of the workers, so that a dead name
// server does not block other hosts.
func (k *lookups) resolve(ctx context.Context, v *visit.Attempt) {
	a, err := k.lookUp(ctx, v.Task.Link.URL, k.cfg.Clock.Now())
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
	k.visits.Ended(v)
}

// full reports that too many visits wait for an address.
func (k *lookups) full(time.Time) (bool, time.Time) {
	return len(k.waiting) >= unresolvedMax, time.Time{}
}

func (k *lookups) whyFull(time.Time) Hindrance {
	return Hindrance{Text: fmt.Sprintf("the name server is slow: %d visits wait for the address of their host",
		len(k.waiting)), Until: "when look-ups end"}
}
