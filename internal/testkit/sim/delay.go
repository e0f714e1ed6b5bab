package sim

import "time"

// tooSoon judges the Crawl-delay of a host. A page is requested after its host's robots.txt was read,
// by this agent or by one that has told it, so its request must keep the delay. The caller holds mu.
func (j *judge) tooSoon(v *served, g *group) {
	for _, r := range g.by {
		gap := v.began.Sub(r.ended)
		if v.target != "/robots.txt" && !r.ended.IsZero() && gap < v.host.CrawlDelay-time.Millisecond {
			j.violate("crawl-delay", byHost, v, r, gap)
		}
	}
}

// least returns the delay that each request to a host must keep: with Auto, no response takes less than the way to the
// server and back.
func (p *Plan) least() time.Duration {
	return max(p.Delay, time.Duration(p.Auto*float64(2*webLatency)))
}
