package crawl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Delays says how long the delays of hosts are, besides the Frontier's configuration.
type Delays struct {
	// DelayFactor makes the delay of a host that has none of its own (frontier.Config.DelayOf) this multiple of its
	// last response times, at least HostDelay and at most DelayMax. Zero means that it does not follow them.
	DelayFactor float64
	DelayMax    time.Duration
	// WhyDelay says, for people, why the Frontier's HostDelay of a host is as it is, such as "order a1-1f". Nil says
	// nothing.
	WhyDelay func(host string) string
	// WhyPace says, for people, at which rate the domain of a host is visited at most, and why; empty: at any. Nil
	// says nothing.
	WhyPace func(host string) string
	// WhyPaused says, for people, who has paused the crawl, such as "order a1-1f of alice". WhyRate says which rate
	// holds now. Both are called while it holds. Nil says nothing.
	WhyPaused, WhyRate func() string
}

// Redelay applies delays that the Frontier's DelayOf has changed to the hosts that rest now; see Frontier.Redelay. Safe
// for concurrent use, also before Run; ctx bounds the wait.
func (c *Crawler) Redelay(ctx context.Context, was func(host string) (d time.Duration, ok bool)) error {
	return c.heed(ctx, "delay", func() {
		c.run.Stir()
		c.Frontier.Redelay(was, c.cfg.Now())
	})
}

// autoDelay returns the delay of a host by the response times of its last requests, with Config.DelayFactor; otherwise
// 0. A slower response counts at once, a faster one by half. The delay takes the place of a Crawl-delay: the frontier
// keeps it, the journal has it, and it moves with the host.
func (c *Crawler) autoDelay(v *visit.Attempt, host string) time.Duration {
	if c.cfg.DelayFactor <= 0 || v.Response.Began.IsZero() {
		return 0
	}
	if _, own := c.Frontier.OwnDelay(host); own {
		return 0
	}
	return followed(c.Frontier.Host(host).Delay, c.Frontier.HostDelay(host), &c.cfg, v.Response.Took)
}

// followed returns the delay after a response that took some time. before is the host's delay until then; least is what
// it has in any case, and 0 means that.
func followed(before, least time.Duration, cfg *Config, took time.Duration) time.Duration {
	d := time.Duration(min(cfg.DelayFactor*float64(took), float64(cfg.DelayMax)))
	if before = max(before, least); d < before {
		d = (d + before) / 2
	}
	d = min(d, cfg.DelayMax).Round(time.Millisecond)
	if d <= least {
		return 0
	}
	return d
}

// explainDelay says which delay of a host holds, and why.
func (c *Crawler) explainDelay(host string, now time.Time) string {
	d, why := c.Frontier.HostDelay(host), ""
	if c.cfg.WhyDelay != nil {
		why = ", " + c.cfg.WhyDelay(host)
	}
	asked, known := c.robotsDelay(host, now), c.Frontier.Host(host).Delay
	if c.cfg.DelayFactor <= 0 {
		asked = max(asked, known) // that of another port, or of another agent
	} else if _, own := c.Frontier.OwnDelay(host); !own {
		why = fmt.Sprintf(", auto: %g times the last response times, from %s to %s", c.cfg.DelayFactor, d,
			c.cfg.DelayMax)
		if known > asked {
			d = known
		}
	}
	s := fmt.Sprintf("  delay: %s%s", d, why)
	switch {
	case asked > d:
		s = fmt.Sprintf("  delay: %s (robots.txt asks for it; without it %s%s)", asked, d, why)
	case asked > 0:
		s += fmt.Sprintf("; robots.txt asks for %s", asked)
	}
	return s + "\n"
}

// robotsDelay returns the Crawl-delay of a host whose robots.txt is known; 0: none.
func (c *Crawler) robotsDelay(host string, now time.Time) (d time.Duration) {
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	for _, scheme := range []string{"http://", "https://"} {
		if u, err := weburl.Parse(scheme + host + "/"); err == nil {
			d = max(d, c.Robots.Ask(u, now).Delay)
		}
	}
	return d
}
