package lease

import "time"

// share notes that other agents wait for l, and whether one of them is stalled.
func (h *holder) share(l *holding, stalled bool) {
	l.called, l.stalled = true, l.stalled || stalled
	l.turn = max(l.since+Turn(l.quiet, l.stalled), 1)
	if h.cfg.Batch > 0 {
		l.turn = l.since + batchMost
	}
	h.called[l.point] = struct{}{}
}

// spent reports whether l has been used for a batch of requests.
func (h *holder) spent(l *holding) bool { return h.cfg.Batch > 0 && l.count >= h.cfg.Batch }

// spacing returns the least time between two calls to an agent with Config.Batch. All agents want the same points, so
// the next call soon has more to say.
func (h *holder) spacing() time.Duration {
	if h.cfg.Batch == 0 {
		return 0
	}
	return min(time.Duration(h.view.Len())*spaceEach, spaceMost)
}

// yield returns l if other agents wait, and either our turn is over or no host has used l for a
// while.
func (h *holder) yield(l *holding, clock time.Duration) bool {
	if l.state != held || l.turn == 0 || l.using {
		return false
	}
	if clock < h.yieldAt(l) {
		return false
	}
	h.handBack(l)
	return true
}

// yieldAt returns when l, which is not in use, must be returned because other agents wait.
func (h *holder) yieldAt(l *holding) time.Duration {
	keep := max(l.seen, l.free, l.due) + h.idle
	switch {
	case h.spent(l):
		return 0
	case h.cfg.Batch > 0 && l.due > 0 && l.ready == 0:
		keep = max(l.free, l.due) + h.idle
	case l.stalled:
		switch {
		case l.ready != 0:
			keep = l.ready + readyMost + 3*h.spacing()
		case l.fresh:
			keep = max(l.since, l.free) + grantMost + h.spacing()
		default:
			keep = l.free + l.quiet/idleShare
		}
	}
	return min(l.turn, keep)
}

// turns returns the recalled points whose turn is over or that are unused. next is when it must do
// so again for a stalled agent; 0: no such agent waits.
func (h *holder) turns(clock time.Duration) (next time.Duration) {
	for _, point := range sorted(h.called) {
		l := h.holdings[point]
		if !h.yield(l, clock) && l.stalled && !l.using {
			next = earlier(next, h.yieldAt(l))
		}
	}
	return next
}

// earlier returns the earlier of two times; 0 is never.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
