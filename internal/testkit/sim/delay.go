package sim

import "time"

// tooSoon judges the Crawl-delay of a host. A page is requested after its host's robots.txt was read,
// by this agent or by one that has told it, so its request must keep the delay. The caller holds mu.
func (j *judge) tooSoon(v *visit, g *group) {
	gap := v.began.Sub(g.ended)
	if v.target != "/robots.txt" && !g.ended.IsZero() && gap < v.host.CrawlDelay-time.Millisecond {
		j.violate("crawl-delay", byHost, v, g, gap)
	}
}

// forgetPauses drops the pauses that hosts demanded of an agent since a time. The agent has lost its power: the
// journal was written for each of them, so that a kill does not lose it, but it may not have been synced.
func (j *judge) forgetPauses(agent int, since time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, g := range j.groups[byHost] {
		if g.last.agent == agent && !g.ended.Before(since) {
			g.notBefore = time.Time{}
		}
	}
}
