package frontier

import "time"

// A host gets at most Config.HostShare of the requests of the last hour. The frontier keeps the share by the distance
// between two requests to a host: the time that as many requests of all hosts take as the share allows one of. This
// needs no memory per host, and spreads a host's requests over the hour.
const (
	shareSpan = time.Hour
	// shareLeast is the time after which a host may be asked again whatever its share is. So a crawl of a few hosts
	// goes on.
	shareLeast = time.Minute
	shareSlots = 60
)

// recent counts the requests of the last hour, by minute.
type recent struct {
	slots          [shareSlots]int32
	minFrom, at, n int64 // the minute of the first request, that of the last one, and the sum of slots
}

// add counts d requests at clock.
func (r *recent) add(clock int64, d int32) {
	minute := clock / int64(time.Minute)
	if r.n == 0 && r.at == 0 {
		r.minFrom, r.at = minute, minute
	}
	for ; r.at < minute; r.at++ {
		if minute-r.at > shareSlots { // all slots are too old
			r.slots, r.n, r.at = [shareSlots]int32{}, 0, minute
			break
		}
		slot := &r.slots[(r.at+1)%shareSlots]
		r.n -= int64(*slot)
		*slot = 0
	}
	r.slots[minute%shareSlots] += d
	r.n += int64(d)
}

// distance returns the least time between two requests to a host.
func (hs *hosts) distance() time.Duration {
	hs.recent.add(hs.time.now, 0)
	// Until the crawl is an hour old, the share is one of the requests so far.
	span := min(time.Duration(hs.time.now-hs.recent.minFrom*int64(time.Minute)), shareSpan)
	allowed := hs.cfg.HostShare * float64(hs.recent.n)
	if allowed*float64(shareLeast) <= float64(span) {
		return shareLeast
	}
	return time.Duration(float64(span) / allowed)
}

// takeShare counts a request to h, and holds h back if its share requires that.
func (hs *hosts) takeShare(h *host) {
	if hs.cfg.HostShare > 0 {
		hs.recent.add(hs.time.now, 1)
		hs.notBefore(h, hs.time.now+int64(hs.distance()))
	}
}

// byShare reports whether its share holds h back, and not its delay or a pause.
func (hs *hosts) byShare(h *host) bool {
	return hs.cfg.HostShare > 0 && h.at > hs.time.now && h.slowUntil < h.at &&
		hs.distance() > max(hs.cfg.hostDelay(h.name), h.delay)
}
