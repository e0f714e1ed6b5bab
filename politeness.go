package orbweaver

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/rate"
)

// politeness sets how fast the crawl is, and which hosts it avoids.
func (o *Options) politeness(cfg *node.Config) error {
	fr := &cfg.Frontier
	if fr.HostDelay = o.Delay; o.Delay >= 0 {
		fr.IPDelay = delay(o.Delay) / 4
		fr.SiteDelay = fr.IPDelay
	}
	fr.HostShare, cfg.Blacklist, cfg.Robots.RetryWait = o.HostShare, o.Blacklist, o.RetryWait
	most := or(o.DelayMax, 30*time.Second)
	switch {
	case !(o.DelayFactor >= 0 && o.DelayFactor <= 1000): // refuses NaN, too
		return badOption("Options.DelayFactor %g: give a number from 0 to 1000", o.DelayFactor)
	case o.DelayFactor == 0 && o.DelayMax != 0:
		return badOption("Options.DelayMax %s has no effect without DelayFactor", o.DelayMax)
	case o.DelayFactor > 0 && (most < max(delay(o.Delay), 0) || most > 24*time.Hour):
		return badOption("Options.DelayMax %s: give at least Delay, %s, and at most 24h", most, max(delay(o.Delay), 0))
	case o.DelayFactor > 0:
		cfg.Crawl.DelayFactor, cfg.Crawl.DelayMax = o.DelayFactor, most
	}
	if o.Rate != "" {
		limit, err := rate.Parse(o.Rate)
		if err != nil {
			return badOption("Options.Rate: %w", err)
		}
		cfg.Rate = limit
	}
	return nil
}

// delay is the quiet time in force for a Delay that is not negative.
func delay(d time.Duration) time.Duration { return or(d, 2*time.Second) }
