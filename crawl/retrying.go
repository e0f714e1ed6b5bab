package crawl

import (
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/weburl"
)

// retrying is what has failed and is not given up: for people, who would
// otherwise see a crawl that does nothing. The dispatcher owns it.
type retrying map[weburl.Key]retry

type retry struct {
	kind string    // of the last failure
	at   time.Time // not before; the past where something else decides
}

// put notes that a URL has failed and is visited again at at. That its
// robots.txt cannot be had says less than why.
func (r *retrying) put(k weburl.Key, kind string, at time.Time) {
	old, known := (*r)[k]
	if !known && len(*r) >= 2*laterMax {
		return
	}
	if known && kind == RobotsUnreachable.String() {
		kind = old.kind
	}
	if *r == nil {
		*r = retrying{}
	}
	(*r)[k] = retry{kind, at}
}

// forget ends it for a URL that is finished.
func (r retrying) forget(k weburl.Key) { delete(r, k) }

// sum counts the URLs by kind, and says when the next is due; zero: unknown.
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

// troubles counts failures in a row. It forgets hosts when there are very many:
// at most twice troublesMax are known.
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

// requeue puts a link that was accepted before, or is visited again, behind all
// others. number is that of its accept; 0: it is finished.
func (c *Crawler) requeue(l weburl.Link, number uint64) error {
	c.requeued[l.URL.Key()] = number
	return c.Frontier.PushAt([]weburl.Link{l}, []uint64{c.accepted})
}
