package crawl

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/frontier"
)

// A pastClock holds the hosts' pauses from the journal, by the clock of the runs that wrote
// it. If the machine's clock was set back since, the rest of a pause is what was left at the
// last request in the journal. A clock that was set forward looks like a time without a run.
type pastClock struct {
	hosts []frontier.HostState
	last  time.Time
}

// saw records the start of a request.
func (p *pastClock) saw(began time.Time) {
	if began.After(p.last) {
		p.last = began
	}
}

// restore restores the states of the hosts in f.
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
