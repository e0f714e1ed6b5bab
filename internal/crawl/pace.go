package crawl

import (
	"context"
	"errors"
)

// Repace tells the Frontier of domains that its PaceOf may hold back; see Frontier.Repace. Safe for concurrent use,
// also before Run; ctx bounds the wait.
func (c *Crawler) Repace(ctx context.Context, domains []string) error {
	c.paced.Store(&domains)
	if c.Status() == nil {
		return nil // Run begins with it
	}
	err := c.ask(ctx, "pace", func() {
		c.activity++
		c.heedPaces()
	})
	if errors.Is(err, ErrNotRunning) {
		return nil
	}
	return err
}

// heedPaces tells the frontier of the domains that may have a pace.
func (c *Crawler) heedPaces() {
	if domains := c.paced.Load(); domains != nil {
		c.Frontier.Repace(*domains, c.cfg.Now())
	}
}

// explainPace says at which rate the domain of a host is visited at most.
func (c *Crawler) explainPace(host string) string {
	if c.cfg.WhyPace == nil {
		return ""
	}
	if why := c.cfg.WhyPace(host); why != "" {
		return "  rate: " + why + "\n"
	}
	return ""
}
