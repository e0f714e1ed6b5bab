package crawl

import (
	"fmt"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// againMax bounds the URLs in the queues that are to be fetched again. Each takes some 500
// bytes of RAM. It is a variable so that tests can make it small.
var againMax = 1 << 15

// Bounds of such URLs per host. A few queued URLs keep a host busy. Without these bounds, a
// host with more due pages than it can answer would take all places, and the other hosts
// would wait for its delay.
const (
	hostAgainMax  = 64 // while at least half of againMax is free
	hostAgainLess = 2  // otherwise
)

// A hostAgain is a host with queued URLs that are to be fetched again.
type hostAgain struct {
	queued int
	ended  int       // requests since began
	began  time.Time // the older half of what ended is forgotten now and then
	off    time.Time // when the last of the URLs put off is wanted
}

// wantAgain queues a URL that a Planner wants again, or puts it off. off reports the latter.
func (c *Crawler) wantAgain(w *visit.Wanted, now time.Time) (off bool, err error) {
	k, host := w.Link.Key(), w.Link.URL.Host()
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
	// A URL that has just become due waits behind those that were put off.
	if p, ok := c.planner.(visit.Postponer); ok && (h.queued >= room || !w.Returned && h.off.After(now)) {
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
	if err := c.origins.Requeue(w.Link, 0); err != nil {
		return false, fmt.Errorf("frontier: %w", err)
	}
	return false, nil
}

// revisited records the end of a visit to a URL that a Planner wanted again.
func (c *Crawler) revisited(l link.Link) {
	delete(c.revisiting, l.Key())
	h := c.hostsAgain[l.URL.Host()]
	if h.queued--; h.queued == 0 {
		delete(c.hostsAgain, l.URL.Host())
	}
}

// served records an answer of the host to any request.
func (h *hostAgain) served(now time.Time) {
	if h == nil {
		return
	}
	if h.ended++; h.ended >= hostAgainMax {
		h.ended /= 2
		h.began = h.began.Add(now.Sub(h.began) / 2)
	}
}

// next returns when to look again at one more URL of a host with enough URLs in its queue.
// URLs come back twice as fast as the host has answered so far. So the queue does not run
// empty, and each URL is put off about twice.
func (h *hostAgain) next(now time.Time) time.Time {
	gap := min(max(now.Sub(h.began)/time.Duration(max(h.ended, 1)), 10*time.Millisecond), time.Hour)
	h.off = laterOf(h.off, now.Add(gap)).Add(gap / 2)
	return h.off
}
