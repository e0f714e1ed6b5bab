package node_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
)

// A refusingStore does not permit WARC files.
type refusingStore struct {
	*teststore.Sim
	refuses atomic.Bool
}

func (r *refusingStore) Put(ctx context.Context, key string, b object.Content, sum object.Sum,
	when object.Condition) error {
	if r.refuses.Load() && strings.HasSuffix(key, ".warc.gz") {
		return object.ErrDenied
	}
	return r.Sim.Put(ctx, key, b, sum, when)
}

// TestStoreRefuses: if the store refuses a file, a crawl with a bounded archive waits, and says which file and why. It
// goes on when the store takes it.
func TestStoreRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, mem := newSmallWeb(t), testdisk.NewMem()
		store := &refusingStore{Sim: teststore.NewSim(1, teststore.Traits{})}
		store.refuses.Store(true)
		a := must.Get(node.Open(roomConfig(t, w, mem, store)))(t)
		stopped := make(chan node.Result, 1)
		go func() { stopped <- must.Get(a.Run(t.Context()))(t) }()
		time.Sleep(20 * time.Minute)
		says := a.Status().WaitsFor
		for _, want := range []string{"; it refuses a file (", ".warc.gz", object.ErrDenied.Error(), "mend the cause"} {
			if !strings.Contains(says, want) {
				t.Errorf("the crawl waits for %q, want %q", says, want)
			}
		}
		if events := read(t, mem, "logs/events.jsonl"); !strings.Contains(events, `"event":"store-failed","error":`) {
			t.Errorf("no event:\n%s", events)
		}
		store.refuses.Store(false)
		time.Sleep(2 * time.Minute)
		if says := a.Status(); strings.Contains(says.WaitsFor, "refuses") {
			t.Errorf("the store takes all, and the crawl waits for %q", says.WaitsFor)
		}
		if res := <-stopped; res.Stop != crawl.Finished {
			t.Errorf("%s", res.Stop)
		}
		must.Do(t, a.Close())
	})
}
