package crawl

import (
	"fmt"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// againMax bounds the URLs that wait in the queues to be fetched again, with
// what is known of each in RAM, some 500 bytes. A variable, so that tests need
// no more than a few.
var againMax = 1 << 15

// A host has its turns one by one, and far fewer in its queue keep it busy.
// Were there no bound for each, one with more pages than it can be asked for in
// time would have all the room, and the others would wait for its delay.
const (
	hostAgainMax  = 64 // of a host, as long as half of the room is free
	hostAgainLess = 2  // else
)

// A hostAgain is a host of which URLs wait to be fetched again.
type hostAgain struct {
	queued int
	ended  int       // requests since began
	began  time.Time // the older half of what ended is forgotten now and then
	off    time.Time // when the last of those that were put off is wanted
}

// wantAgain queues what a Planner wants again, or has it put off; off says so.
func (c *Crawler) wantAgain(w *Wanted, now time.Time) (off bool, err error) {
	k, host := w.Link.URL.Key(), w.Link.URL.Host()
	if _, twice := c.revisiting[k]; twice {
		return false, nil
	}
	h := c.hostsAgain[host]
	if h == nil {
		h = &hostAgain{began: now}
		c.hostsAgain[strings.Clone(host)] = h
	}
	room := hostAgainMax
	if len(c.revisiting) >= againMax/2 {
		room = hostAgainLess
	}
	// Who has just become due comes behind those that were put off.
	if p, ok := c.planner.(Postponer); ok && (h.queued >= room || !w.Returned && h.off.After(now)) {
		if err := p.PutOff(w, h.next(now)); err != nil {
			return true, fmt.Errorf("strategy: %w", err)
		}
		return true, nil
	}
	h.queued++
	c.revisiting[k] = w.Before
	if w.Before.Original.URL != "" {
		// The archive may have forgotten it, however recently it was visited.
		c.Archive.RememberRecord(w.Before.Digest, w.Before.Original)
	}
	if err := c.requeue(w.Link, 0); err != nil {
		return false, fmt.Errorf("frontier: %w", err)
	}
	return false, nil
}

// revisited notes that a URL that was wanted again has had its turn.
func (c *Crawler) revisited(u weburl.URL) {
	delete(c.revisiting, u.Key())
	h := c.hostsAgain[u.Host()]
	if h.queued--; h.queued == 0 {
		delete(c.hostsAgain, u.Host())
	}
}

// served notes that the host has answered, whatever the request was.
func (h *hostAgain) served(now time.Time) {
	if h == nil {
		return
	}
	if h.ended++; h.ended >= hostAgainMax {
		h.ended /= 2
		h.began = h.began.Add(now.Sub(h.began) / 2)
	}
}

// next is when to look again at one more URL of a host that has enough in its
// queue. They come twice as fast as the host has answered so far: then its
// queue does not run dry, and each is looked at two times or so.
func (h *hostAgain) next(now time.Time) time.Time {
	gap := min(max(now.Sub(h.began)/time.Duration(max(h.ended, 1)), 10*time.Millisecond), time.Hour)
	h.off = laterOf(h.off, now.Add(gap)).Add(gap / 2)
	return h.off
}
