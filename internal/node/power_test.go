package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// TestPowerFailure cuts the power at random times, from the start of a crawl on, and continues with
// what is left on the disk.
func TestPowerFailure(t *testing.T) {
	for seed := range uint64(testtier.Rounds(20, 400)) {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 3))
				w := newSmallWeb()
				w.torn = true
				mem := testdisk.NewMem()
				for range 1 + rng.IntN(4) {
					mem = w.live(t, mem, time.Duration(rng.IntN(1500))*time.Millisecond, rng.Uint64())
				}
				cfg := w.config(t, mem)
				cfg.Crawl.DrainTimeout = time.Nanosecond
				w.at = map[string][]time.Time{} // another test checks how often
				for _, u := range w.urls() {
					w.at[u] = []time.Time{time.Now()}
				}
				w.goOn(t, cfg, time.Now())
			})
		})
	}
}

// live crawls for the duration d and returns the disk that a power failure then leaves.
func (w *smallWeb) live(t *testing.T, mem *testdisk.Mem, d time.Duration, seed uint64) (left *testdisk.Mem) {
	t.Helper()
	cfg := w.config(t, mem)
	_, err := mem.Stat("/crawl/crawl.yaml")
	cfg.Resume = err == nil
	cfg.Crawl.DrainTimeout = time.Nanosecond
	a, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := a.Run(ctx)
		done <- err
	}()
	time.Sleep(d)
	left = mem.Crash(seed)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	return left
}
