package crawl

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/frontier"
)

// A pastClock collects the times and the pauses of hosts in the journal, by the clock of the runs that wrote it.
// If that clock was set back, a pause has as much left as it had at the last earlier time in the
// journal. If it was set forward, the difference looks like a time without a crawl.
type pastClock struct {
	hosts  []frontier.HostState
	delays map[string]time.Duration // of hosts
	last   time.Time
}

// touch starts the quiet time of a host. Hush covers the hosts that have no delay of their own.
func (p *pastClock) touch(host string, d time.Duration) {
	if d > 0 {
		p.delays[host] = max(p.delays[host], d)
	}
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
		for i := range st.Origins {
			st.Origins[i].Until = st.Origins[i].Until.Add(-by)
		}
	}
}

// restore gives the states to the frontier. The quiet time that a host had left may belong to a longer delay of an
// earlier run: the delay of this run bounds it. A pause has its own end.
func (p *pastClock) restore(f *frontier.Frontier, now time.Time) {
	p.setBack(max(p.last.Sub(now), 0))
	for _, st := range p.hosts {
		if quiet := now.Add(max(f.HostDelay(st.Host), st.Delay, 0)); st.NotBefore.After(quiet) {
			st.NotBefore = run.Later(quiet, st.SlowUntil)
		}
		f.Restore(st)
	}
}
