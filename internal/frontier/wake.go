package frontier

import "time"

// wake returns when Next may have a host; zero: no host waits for a time.
func (f *Frontier) wake() time.Time {
	if f.err != nil {
		return time.Time{}
	}
	if f.poolToRead() != nil {
		return f.time.timeAt(f.time.now + 1)
	}
	var at int64 = -1
	if f.hosts.waiting.len() > 0 {
		at = int64(f.hosts.waiting.first())
	}
	if f.hosts.shares.freeing.len() > 0 {
		if t := f.hosts.shares.freeing.top().freeAt; at < 0 || t < at {
			at = t
		}
	}
	if len(f.pools.list) > 0 && f.time.hushing() && (at < 0 || f.time.quietTill < at) {
		at = f.time.quietTill // then the pools are read on
	}
	if len(f.pools.list) > 0 && f.hosts.shares.tooManyAwaited(f.active) && f.hosts.shares.fading.len() > 0 {
		if t := f.hosts.shares.fading.top().freeAt; at < 0 || t < at {
			at = t // then the pools may be read on
		}
	}
	if f.pools.holding(&f.hosts.classes) && (at < 0 || f.time.now+heldWait < at) {
		at = f.time.now + heldWait
	}
	if at < 0 {
		return time.Time{}
	}
	return f.time.epoch.Add(time.Duration(at))
}
