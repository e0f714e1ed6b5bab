package crawl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Redelay applies delays that the Frontier's DelayOf has changed to the hosts that rest now; see Frontier.Redelay. Safe
// for concurrent use, also before Run; ctx bounds the wait.
func (c *Crawler) Redelay(ctx context.Context, was func(host string) (d time.Duration, ok bool)) error {
	if c.Status() == nil {
		return nil // DelayOf holds for all hosts that Run asks
	}
	err := c.ask(ctx, "delay", func() {
		c.activity++
		c.Frontier.Redelay(was, c.cfg.Now())
	})
	if errors.Is(err, ErrNotRunning) {
		return nil
	}
	return err
}

// explainDelay says which delay of a host holds, and why.
func (c *Crawler) explainDelay(host string, now time.Time) string {
	d, why := c.Frontier.HostDelay(host), ""
	if c.cfg.WhyDelay != nil {
		why = ", " + c.cfg.WhyDelay(host)
	}
	asked := max(c.robotsDelay(host, now), c.Frontier.Host(host).Delay) // that of another port, or of another agent
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
