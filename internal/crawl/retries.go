package crawl

import (
	"container/heap"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// retrying holds the URLs that have failed and will be retried, for the display: without them,
// a waiting crawl would seem to do nothing. The dispatcher owns it.
type retrying map[link.Key]retry

type retry struct {
	kind string    // of the last failure
	at   time.Time // not before this time; in the past if something else decides
}

// put records that a URL has failed and will be visited again at the time at. If its robots.txt
// cannot be fetched, the reason of that is recorded.
func (r *retrying) put(k link.Key, kind string, at time.Time) {
	old, known := (*r)[k]
	if !known && len(*r) >= 2*laterMax {
		return
	}
	if known && kind == visit.RobotsUnreachable.String() {
		kind = old.kind
	}
	if *r == nil {
		*r = retrying{}
	}
	(*r)[k] = retry{kind, at}
}

// forget removes a finished URL.
func (r retrying) forget(k link.Key) { delete(r, k) }

// sum counts the URLs by kind, and returns when the next one is due; zero means unknown.
func (r retrying) sum(now time.Time) (kinds map[string]int64, next time.Time) {
	kinds = make(map[string]int64)
	for _, e := range r {
		kinds[e.kind]++
		if e.at.After(now) {
			next = earlier(next, e.at)
		}
	}
	return kinds, next
}

// troubles counts failed look-ups in a row by host. It knows at most 2*troublesMax hosts and forgets
// older ones.
type troubles struct{ now, before map[string]int }

const troublesMax = 1 << 16

func (t *troubles) of(host string) int {
	if n, ok := t.now[host]; ok {
		return n
	}
	return t.before[host]
}

// add counts one more failure.
func (t *troubles) add(host string) int {
	n := t.of(host) + 1
	t.set(host, n)
	return n
}

func (t *troubles) set(host string, n int) {
	if len(t.now) >= troublesMax || t.now == nil {
		t.now, t.before = make(map[string]int), t.now
	}
	t.now[strings.Clone(host)] = n
}

func (t *troubles) clear(host string) {
	delete(t.now, host)
	delete(t.before, host)
}

// requeue puts a link to the end of its queue. The link was accepted before, or is visited again.
// number is the number of its accept, or 0 if the URL is finished.
func (c *Crawler) requeue(l link.Link, number uint64) error {
	c.requeued[l.Key()] = number
	return c.Frontier.PushAt([]link.Link{l}, []uint64{c.ledger.Accepted()})
}

// A delayed is a URL that failed, while its host works, and waits for its retry.
type delayed struct {
	at      time.Time
	link    link.Link
	number  uint64
	attempt int
	first   bool // it comes before the other URLs of its host, because URLs of its origin wait for its end
}

// waiting is a heap by time.
type waiting []delayed

// put lets a URL wait beside the queues, unless there are too many.
func (w *waiting) put(c *Crawler, d delayed) bool {
	if len(*w)+len(c.attempts) >= laterMax {
		return false
	}
	heap.Push(w, d)
	if e := c.origins.of(d.link.URL); d.first && e != nil {
		e.next = true
	}
	return true
}

func (w waiting) Len() int           { return len(w) }
func (w waiting) Less(i, j int) bool { return w[i].at.Before(w[j].at) }
func (w waiting) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *waiting) Push(x any)        { *w = append(*w, x.(delayed)) }
func (w *waiting) Pop() any {
	old := *w
	d := old[len(old)-1]
	old[len(old)-1] = delayed{}
	*w = old[:len(old)-1]
	return d
}

// release puts due retries back into their host queues, and returns when the next one is due.
func (c *Crawler) release(now time.Time) (next time.Time) {
	for len(c.later) > 0 {
		if at := c.later[0].at; at.After(now) {
			return at
		}
		d := heap.Pop(&c.later).(delayed)
		c.attempts[d.link.Key()] = d.attempt
		if d.first {
			if e := c.origins.of(d.link.URL); e != nil {
				e.next = false
			}
			c.requeued[d.link.Key()] = d.number
			c.fatal = c.Frontier.PushFront(d.link)
		} else {
			c.fatal = c.requeue(d.link, d.number)
		}
		if c.fatal != nil {
			return time.Time{}
		}
	}
	return time.Time{}
}

// withdrawLater moves the URLs of a host that wait for a retry, or for that of another URL, to the frontier, as
// withdrawn.
func (c *Crawler) withdrawLater(host string) error {
	c.origins.withdraw(host)
	var its []frontier.Waiting
	c.later = slices.DeleteFunc(c.later, func(d delayed) bool {
		mine := d.link.URL.Host() == host
		if mine {
			its = append(its, frontier.Waiting{Link: d.link, Number: d.number, Attempt: d.attempt})
		}
		return mine
	})
	heap.Init(&c.later)
	return c.Frontier.PushWithdrawn(its)
}
