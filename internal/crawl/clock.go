package crawl

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/frontier"
)

// A pastClock collects the hosts' pauses that the journal tells of, by the clock of the runs
// that wrote it. The clock may have been set back since, or meanwhile: then the rest of a
// pause is what it was at the last time in the journal before. A clock that was set forward
// looks like a time in which nobody crawled.
type pastClock struct {
	hosts []frontier.HostState
	last  time.Time
}

// outOfOrder bounds how much earlier a time in the journal may be than one before it in the
// journal, unless the clock was set back.
const outOfOrder = time.Minute

// saw notes the time of a record of the journal, in the journal's order.
func (p *pastClock) saw(at time.Time) {
	switch back := p.last.Sub(at); {
	case back > outOfOrder:
		p.setBack(back)
		p.last = at
	case back < 0:
		p.last = at
	}
}

// setBack moves the ends of all pauses so far.
func (p *pastClock) setBack(by time.Duration) {
	for i := range p.hosts {
		st := &p.hosts[i]
		if !st.NotBefore.IsZero() {
			st.NotBefore = st.NotBefore.Add(-by)
		}
		if !st.SlowUntil.IsZero() {
			st.SlowUntil = st.SlowUntil.Add(-by)
		}
	}
}

// restore gives the states to the frontier.
func (p *pastClock) restore(f *frontier.Frontier, now time.Time) {
	p.setBack(max(p.last.Sub(now), 0))
	for _, st := range p.hosts {
		f.Restore(st)
	}
}
