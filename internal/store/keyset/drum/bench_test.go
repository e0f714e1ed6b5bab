package drum

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// nth returns the n-th key of a crawl with perHost keys per host.
func nth(n, perHost uint64) link.Key {
	return link.Key{Host: mix(n/perHost + 1), Path: mix(n ^ 0x5555555555)}
}

// fillStore writes n keys to disk.
func fillStore(tb testing.TB, s *Store, n int) {
	items := make([]Item, 0, 1000)
	for i := 0; i < n; i += len(items) {
		items = items[:0]
		for j := i; j < min(n, i+1000); j++ {
			items = append(items, Item{Key: nth(uint64(j)*0x9e3779b1%uint64(n), 50)})
		}
		must.Do(tb, s.Add(items))
	}
	must.Do(tb, s.Save(nil))
}

// BenchmarkAdd measures Add with nine known keys, chosen uniformly, for each new one.
func BenchmarkAdd(b *testing.B) {
	for _, n := range []int{1e6, 1e7} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, err := Open(disk.OS, b.TempDir(), Config{MemoryBytes: int64(max(16<<20, n*5))},
				func([]Item) error { return nil })
			must.Do(b, err)
			start := time.Now()
			fillStore(b, s, n)
			fill := time.Since(start)
			rng := rand.New(rand.NewPCG(1, 2))
			items := make([]Item, 1000)
			next := uint64(n)
			aux := make([]byte, 40)
			var waits []time.Duration
			checks := 0
			for b.Loop() {
				for i := range items {
					k := rng.Uint64N(uint64(n))
					if i%10 == 0 {
						k = next
						next++
					}
					items[i] = Item{Key: nth(k, 50), Aux: aux}
				}
				start := time.Now()
				must.Do(b, s.Add(items))
				waits = append(waits, time.Since(start))
				checks += len(items)
			}
			must.Do(b, s.Flush())
			st := s.Stats()
			slices.Sort(waits)
			b.ReportMetric(float64(checks)/b.Elapsed().Seconds(), "checks/s")
			b.ReportMetric(float64(n)/fill.Seconds(), "inserts/s")
			b.ReportMetric(float64(waits[len(waits)*999/1000].Microseconds())/1000, "ms-p99.9")
			b.ReportMetric(float64(waits[len(waits)-1].Microseconds())/1000, "ms-max")
			b.ReportMetric(float64(st.DiskBytes)/float64(st.Keys), "disk-B/key")
			b.ReportMetric(float64(st.FilterBytes)/float64(st.Keys), "filter-B/key")
			b.Logf("%+v", st)
			must.Do(b, s.Close())
			runtime.GC()
		})
	}
}
