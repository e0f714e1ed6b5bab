package frontier

import (
	"slices"
	"time"
)

// Redelay applies delays that Config.Delays has changed to the hosts that rest. was is what Of returned before. A
// raised delay holds from the end of the host's last response. With a lowered one, a host that its delay holds back
// rests for the new delay from now on at most, because the end of its last response is not known.
func (f *Frontier) Redelay(was func(host string) (d time.Duration, ok bool), now time.Time) {
	f.tick(now)
	least := time.Duration(0)
	if f.cfg.HostShare > 0 {
		least = f.hosts.distance()
	}
	for _, h := range slices.Collect(f.hosts.dict.all()) { // a copy, because hosts may be removed
		before, ok := was(h.name)
		if !ok {
			before = f.cfg.HostDelay
		}
		before = max(before, h.delay, 0)
		after := max(f.HostDelay(h.name), h.delay)
		at := h.at
		switch {
		case h.busy():
		case after > before && h.at > 0:
			// The last response has ended before now.
			at = max(at, min(at+int64(after-before), f.time.now+int64(after)))
		case after < before && h.at <= f.time.now+int64(before):
			at = min(h.at, max(f.time.now+int64(max(after, least)), h.slowUntil))
		}
		if at != h.at {
			f.hosts.leave(h)
			h.at = at
			f.hosts.place(h)
		}
	}
}

// HostDelay returns the quiet time that is configured for a host.
func (f *Frontier) HostDelay(name string) time.Duration { return f.cfg.hostDelay(name) }

// OwnDelay is HostDelay for a host with another delay than Config.HostDelay; otherwise ok is false.
func (f *Frontier) OwnDelay(name string) (d time.Duration, ok bool) { return f.cfg.ownDelay(name) }

func (c *Config) hostDelay(name string) time.Duration {
	if d, ok := c.ownDelay(name); ok {
		return d
	}
	return c.HostDelay
}

func (c *Config) ownDelay(name string) (d time.Duration, ok bool) {
	if c.Delays == nil {
		return 0, false
	}
	d, ok = c.Delays.Of(name)
	return max(d, 0), ok
}
