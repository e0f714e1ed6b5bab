package crawl

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/orbweaver/orbweaver/frontier"
)

// Status is the crawl as it stood a moment ago.
type Status struct {
	At                  time.Time
	Began               time.Time     // of this run
	Elapsed             time.Duration // of all runs
	Pages               int64         // over all runs
	Fetched             int64         // HTTP responses, robots.txt left out
	Bytes               int64
	Queued              int64 // in host queues
	Later               int   // waiting for a retry beside the queues
	InFlight            int   // visits at workers
	Resolving           int
	Unique              int64 // URLs accepted
	Frontier            frontier.Stats
	Errors              map[string]int64
	Denied              int64
	Duplicates, Skipped int64
	LastURL             string
	Stop                Stop
}

// publishEvery is how fresh a Status is.
const publishEvery = 250 * time.Millisecond

func (c *Crawler) publishEvery(now time.Time) {
	if s := c.status.Load(); now.Sub(s.At) >= publishEvery {
		c.publish(now)
	}
}

func (c *Crawler) publish(now time.Time) {
	c.status.Store(&Status{
		At: now, Began: c.began, Elapsed: c.Elapsed(now),
		Pages: c.Tally.Pages(), Fetched: c.Tally.Fetched(), Bytes: c.Tally.Bytes(),
		Queued: c.Frontier.Stats().Queued, Later: len(c.later), InFlight: c.busy, Resolving: c.resolving,
		Unique: c.Seen.Len(), Frontier: c.Frontier.Stats(), Errors: c.Tally.Errors(), Denied: c.Tally.Denied(),
		LastURL: c.lastURL, Stop: c.stop,
	})
}

// Elapsed is how long the crawl has run, earlier runs included.
func (c *Crawler) Elapsed(now time.Time) time.Duration {
	if c.began.IsZero() {
		return c.earlier
	}
	return c.earlier + now.Sub(c.began)
}

// Status is nil before Run. Safe for concurrent use.
func (c *Crawler) Status() *Status { return c.status.Load() }

// ErrNotRunning is a question to a Crawler that does not run.
var ErrNotRunning = errors.New("the crawl is not running")

// Explain says why host is not being crawled now, in plain words. Safe for
// concurrent use while Run is under way; ctx bounds the wait.
func (c *Crawler) Explain(ctx context.Context, host string) (string, error) {
	out := make(chan string, 1)
	ask := func(now time.Time) {
		s := c.Frontier.Explain(host, now).String()
		for _, d := range c.later {
			if d.link.URL.Host() == host {
				s += "\n" + d.link.URL.String() + " failed and waits for its retry at " + d.at.UTC().Format(time.RFC3339)
			}
		}
		if n := c.trouble[host]; n > 0 {
			s += "\nfailures in a row: " + strconv.Itoa(n)
		}
		out <- s
	}
	select {
	case c.commands <- ask:
		return <-out, nil
	case <-ctx.Done():
		return "", ErrNotRunning
	}
}
