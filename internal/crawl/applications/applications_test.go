package applications

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/applications/delivery"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// The note of a page tells how often it was fetched again.
func TestRefetches(t *testing.T) {
	for note, n := range map[string]uint8{"": 0, "refetch:1": 1, "shared,refetch:12,2t": 12, "refetch:x": 0,
		"near-duplicate:refetch:3": 0} {
		if got := (&Delivery{Note: note}).refetches(); got != n {
			t.Errorf("note %q: %d, want %d", note, got, n)
		}
	}
}

// While the dispatcher is busy, an acknowledgement waits as long as its caller does. The pages are marked then, and
// another call lets the application's links go on.
func TestAcknowledgeWaitsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := delivery.Open(testdisk.NewMem(), "/pages")
		must.Do(t, err)
		log, err := store.Create("news")
		must.Do(t, err)
		must.Do(t, log.Append(func(b []byte) []byte { return append(b, `{"url":"http://a.example/"}`...) }))
		durable := store.Syncing()
		must.Do(t, errors.Join(store.Flush(), store.Sync()))
		durable()
		a := Set{MostUncollected: 1, Run: run.New(), Pages: store}
		a.heldNow.Store(&map[string]bool{"news": true})
		a.Run.Begin()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		pages, err := a.Deliveries("news", 0, 1)
		must.Do(t, err)
		if err := a.Acknowledge(ctx, "news", pages[0].Position); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the dispatcher is busy: %v", err)
		}
		if n := log.Waiting(); n != 0 {
			t.Errorf("%d pages wait", n)
		}
		go func() { (<-a.Run.Calls())(time.Now()) }()
		must.Do(t, a.Acknowledge(t.Context(), "news", pages[0].Position))
		must.Do(t, store.Close())
	})
}
