package node

import (
	"context"
	"net/netip"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/local"
	"github.com/orbweaver/orbweaver/internal/web/dns"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
)

// openFetcher opens the resolver and the fetcher, which sends the User-Agent header ua.
func (a *Agent) openFetcher(ua string) error {
	cfg, r := &a.cfg, &a.parts
	fc := cfg.Fetch
	fc.UserAgent = ua
	if cfg.mails() {
		fc.From = cfg.Contact
	}
	fc.Clock = a.cfg.Clock
	a.phases = local.NewPhases()
	fc.Phases = fetch.Phases{Connect: a.phases.WithLabelValues("connect"), TLS: a.phases.WithLabelValues("tls"),
		Wait: a.phases.WithLabelValues("wait"), Receive: a.phases.WithLabelValues("receive")}
	fc.FS, fc.SpillDir = a.fs, a.dir("state", "spill")
	fc.LoopbackOnly = fc.LoopbackOnly || cfg.Contact == "" // even if a URL or a name server leads elsewhere
	if fc.LooksUp() {
		cfg.DNS.IPv6, cfg.DNS.Spare, cfg.DNS.Clock = true, a, a.cfg.Clock
		cfg.DNS.Took = a.phases.WithLabelValues("dns")
		res, err := dns.New(cfg.DNS)
		if err != nil {
			return input.SettingError(err)
		}
		a.onClose(res.Close)
		a.resolver, r.DNS = res, res
		if cfg.Contact == "" {
			r.DNS = loopbackOnly{res}
		}
		fc.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			ans, err := r.DNS.Lookup(ctx, host)
			return ans.Addrs, err
		}
	} else {
		cfg.Frontier.NoAddresses = true
	}
	var err error
	if a.fetcher, err = fetch.New(fc); err != nil {
		return input.SettingError(err)
	}
	a.onClose(a.fetcher.Close)
	r.Fetch = a.fetcher
	return nil
}

// OpenFetcher opens the fetcher of a command that fetches some URLs without a crawl. It looks names up at servers, or
// at those of the machine if there are none. end closes the fetcher and its resolver.
func OpenFetcher(cfg fetch.Config, servers []string) (f *fetch.Fetcher, end func(), err error) {
	res, err := dns.New(dns.Config{Servers: servers})
	if err != nil {
		return nil, nil, input.SettingError(err)
	}
	cfg.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
		a, err := res.Lookup(ctx, host)
		return a.Addrs, err
	}
	if f, err = fetch.New(cfg); err != nil {
		res.Close()
		return nil, nil, input.SettingError(err)
	}
	return f, func() { f.Close(); res.Close() }, nil
}
