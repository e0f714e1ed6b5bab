package crawl

import (
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
