package frontier

import "time"

// wake returns when Next may have a host; zero: no host waits for a time.
func (f *Frontier) wake() time.Time {
	if f.err != nil {
		return time.Time{}
	}
	if f.reading() {
		return f.timeAt(f.clock + 1)
	}
	var at int64 = -1
	if f.waiting.len() > 0 {
		at = int64(f.waiting.first())
	}
	if f.freeing.len() > 0 {
		if t := f.freeing.top().freeAt; at < 0 || t < at {
			at = t
		}
	}
	if len(f.pools) > 0 && f.hushing() && (at < 0 || f.quietTill < at) {
		at = f.quietTill // then the pools are read on
	}
	if len(f.pools) > 0 && f.tooManyAwaited() && f.fading.len() > 0 {
		if t := f.fading.top().freeAt; at < 0 || t < at {
			at = t // then the pools may be read on
		}
	}
	if f.holding() && (at < 0 || f.clock+heldWait < at) {
		at = f.clock + heldWait
	}
	if at < 0 {
		return time.Time{}
	}
	return f.epoch.Add(time.Duration(at))
}
