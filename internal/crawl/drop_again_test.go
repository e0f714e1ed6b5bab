package crawl

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// A restart copies each of many drops and blocks once. A checkpoint omits all drops but the last
// that no link needs any more, and so does the next restart.
func TestManyDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recovered := func(n int) (bytes uint64) {
			s := parsed(t, twoHosts)
			w := s.opened(t, testdisk.NewMem())
			w.takeLinks(t, 3, "")
			for i := range n {
				must(t, w.drop(fmt.Sprintf("host%d.example", i), w.began))
			}
			must(t, errors.Join(w.drop("a.example", w.began), w.secure()))
			mem := w.kill(func() {})
			w.close()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			w = s.opened(t, mem)
			runtime.ReadMemStats(&after)
			save := func(want int) {
				t.Helper()
				must(t, w.beginCheckpoint(all()))
				must(t, w.endCheckpoint(true))
				if len(w.drops.of) != want {
					t.Errorf("%d drops are kept, want %d", len(w.drops.of), want)
				}
			}
			save(n + 1) // links of a.example wait to be finished
			for w.giveUp(w.began) {
			}
			w.flushSeen()
			save(1)
			mem = w.kill(func() {})
			w.close()
			w = s.opened(t, mem)
			if d := w.drops.last("a.example"); len(w.drops.of) != 1 || int(d.nth) != n+1 || int(w.nth) != n+1 {
				t.Errorf("after a restart %d drops, the last %+v, nth %d", len(w.drops.of), d, w.nth)
			}
			w.close()
			return after.TotalAlloc - before.TotalAlloc
		}
		few, many := recovered(1000), recovered(20_000)
		if each := (int64(many) - int64(few)) / 19_000; each > 4<<10 {
			t.Errorf("a drop takes %d bytes of a restart, which is more than to copy it", each)
		}
	})
}
