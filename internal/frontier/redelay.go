package frontier

import (
	"slices"
	"time"
)

// Redelay applies delays that Config.DelayOf has changed to the hosts that rest. was is what DelayOf returned before. A
// raised delay holds from the end of the host's last response. With a lowered one, a host that its delay holds back
// rests for the new delay from now on at most, because the end of its last response is not known.
func (f *Frontier) Redelay(was func(host string) (d time.Duration, ok bool), now time.Time) {
	f.tick(now)
	least := time.Duration(0)
	if f.cfg.HostShare > 0 {
		least = f.distance()
	}
	for _, h := range slices.Collect(f.hosts.all()) { // a copy, because hosts may be removed
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
			at = max(at, min(at+int64(after-before), f.clock+int64(after)))
		case after < before && h.at <= f.clock+int64(before):
			at = min(h.at, max(f.clock+int64(max(after, least)), h.slowUntil))
		}
		if at != h.at {
			f.leave(h)
			h.at = at
			f.place(h)
		}
	}
}

// HostDelay returns the quiet time that is configured for a host.
func (f *Frontier) HostDelay(name string) time.Duration {
	if d, ok := f.OwnDelay(name); ok {
		return d
	}
	return f.cfg.HostDelay
}

// OwnDelay is HostDelay for a host with another delay than Config.HostDelay; otherwise ok is false.
func (f *Frontier) OwnDelay(name string) (d time.Duration, ok bool) {
	if f.cfg.DelayOf == nil {
		return 0, false
	}
	d, ok = f.cfg.DelayOf(name)
	return max(d, 0), ok
}
