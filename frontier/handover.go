package frontier

import (
	"errors"
	"fmt"

	"github.com/orbweaver/orbweaver/weburl"
)

// ErrInProcess is a HandOver of a host whose response is awaited: its quiet
// time begins when that ends.
var ErrInProcess = errors.New("host is in process")

// A Waiting is a link that is queued, with all that the frontier knows of it.
type Waiting struct {
	Link    weburl.Link
	Number  uint64 // request number; 0 for a prerequisite
	Attempt int
	// Front says that it stands before its host's queues: a retry or a prerequisite.
	Front bool
}

// HandOver gives hosts away, to a frontier that does TakeOver with what it
// returns and with what fn is shown: their links, in the order of the request
// numbers. It reads all of the pools, once however many the hosts are. After it
// nothing of the hosts is left; after an error of fn, or if one of them is in
// process, everything is.
//
// The quiet times of addresses and sites stay: others here may have them too.
func (f *Frontier) HandOver(hosts []string, fn func(Waiting) error) ([]HostState, error) {
	if f.err != nil {
		return nil, f.err
	}
	var states []HostState
	hs, of := f.named(hosts)
	for name := range of {
		h := f.hosts.of(name)
		switch {
		case h == nil:
		case h.busy():
			return nil, fmt.Errorf("hand over %s: %w", name, ErrInProcess)
		default:
			if s := f.hostState(h); s != (HostState{Host: name}) {
				states = append(states, s)
			}
		}
	}
	if err := f.mergeWaiting(hs, of, fn); err != nil {
		return nil, err
	}
	for name := range of {
		f.Unblock(name)
	}
	_, err := f.remove(hs, of)
	for name := range of {
		if h := f.hosts.of(name); h != nil {
			f.leave(h)
			f.forget(h)
		}
	}
	return states, err
}

// mergeWaiting shows what merge does as Waitings, of which fn may keep the link.
func (f *Frontier) mergeWaiting(hs []*host, of map[string]levelCount, fn func(Waiting) error) error {
	return f.merge(hs, of, func(e *entry, front bool) error {
		l, _, err := weburl.DecodeLink(e.enc)
		if err != nil {
			return err
		}
		return fn(Waiting{Link: l, Number: e.number, Attempt: int(e.attempt), Front: front})
	})
}

// TakeOver queues links of another frontier's HandOver, in their order. The
// states must have been given to Restore before, lest a host be asked too soon.
//
// A link keeps its number, so that those found early are early here as well,
// unless links of its level with lower numbers already wait in a pool or in its
// host's queue: then it comes behind these. The highest number is the last one
// given from then on. After an error all of ws are queued, as with Push.
func (f *Frontier) TakeOver(ws []Waiting) error {
	if f.err != nil {
		return f.err
	}
	for i := range ws {
		f.takeOver(&ws[i])
	}
	return f.overflow()
}

func (f *Frontier) takeOver(w *Waiting) {
	name, level := w.Link.URL.Host(), w.Link.Level
	if w.Front {
		f.front(f.host(name), entry{number: w.Number, attempt: int32(w.Attempt), level: level, enc: w.Link.AppendTo(nil)}, false)
		return
	}
	f.enc = w.Link.AppendTo(f.enc[:0])
	h := f.hosts.of(name)
	number := w.Number
	if h != nil {
		number = max(number, h.lastAt(level))
	}
	p, _ := f.poolAt(level)
	if p == nil && f.hungry(level) || p != nil && number <= p.from || f.cfg.Gather && h != nil {
		f.number = max(f.number, number)
		f.insert(f.host(name), level, number, f.enc)
		return
	}
	f.number = max(f.number, number)
	f.intoPool(name, level, f.number, f.enc)
}

// lastAt is the number of the last link in h's queue of a level.
func (h *host) lastAt(level uint8) uint64 {
	for q := h.first(); q != nil; q = q.next() {
		if q.level == level {
			return q.last()
		}
	}
	return 0
}
