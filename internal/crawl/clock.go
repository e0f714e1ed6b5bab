package crawl

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/frontier"
)

// A pastClock is what the journal says of hosts' pauses, by the clock of the runs
// that wrote it. It may have been set back since: then what is left of a pause is
// what was left at the last request that the journal knows of. That it was set on
// looks like a time in which nobody crawled.
type pastClock struct {
	hosts []frontier.HostState
	last  time.Time
}

// saw notes when a request began.
func (p *pastClock) saw(began time.Time) {
	if began.After(p.last) {
		p.last = began
	}
}

// restore brings the states back.
func (p *pastClock) restore(f *frontier.Frontier, now time.Time) {
	back := max(p.last.Sub(now), 0)
	for _, st := range p.hosts {
		if !st.NotBefore.IsZero() {
			st.NotBefore = st.NotBefore.Add(-back)
		}
		if !st.SlowUntil.IsZero() {
			st.SlowUntil = st.SlowUntil.Add(-back)
		}
		f.Restore(st)
	}
}
