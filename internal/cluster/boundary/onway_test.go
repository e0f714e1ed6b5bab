package boundary

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// An onWay has a bounded number of pages. An application does not wait for a page beyond it. It waits for the others
// until they arrive, for a bounded time. A page that has arrived makes room for another one.
func TestOnWayIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w onWay
		key := func(i uint64) link.Key { return link.Key{Host: 1, Path: i} }
		waits := func(i uint64) time.Duration {
			began := time.Now()
			w.await(t.Context(), key(i))
			return time.Since(began)
		}
		for i := range uint64(onWayMax + 10) {
			w.begins(key(i))
			w.begins(key(i)) // the same page again
		}
		if len(w.pages) != onWayMax {
			t.Errorf("%d pages are on their way, want %d", len(w.pages), onWayMax)
		}
		if last, beyond := waits(onWayMax-1), waits(onWayMax); last != arrivalWait || beyond != 0 {
			t.Errorf("the last page within the bound is awaited for %s, the first beyond it for %s", last, beyond)
		}
		time.AfterFunc(time.Second, func() { w.ends(key(0)) })
		if took := waits(0); took != time.Second {
			t.Errorf("a page that arrives after a second is awaited for %s", took)
		}
		w.ends(key(onWayMax)) // no application waits for it
		w.begins(key(onWayMax))
		if took := waits(onWayMax); took != arrivalWait || len(w.pages) != onWayMax {
			t.Errorf("after an arrival, a page is awaited for %s, and %d are on their way", took, len(w.pages))
		}
		for i := range uint64(onWayMax + 10) {
			w.ends(key(i))
		}
		if len(w.pages) != 0 {
			t.Errorf("%d pages are left", len(w.pages))
		}
	})
}
