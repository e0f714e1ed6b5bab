package crawl_test

import (
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// onDisk configures a seen-set that keeps almost nothing in RAM.
var onDisk = keyset.Config{MemoryBytes: 1}

// damage flips a bit in some files of the seen-set with a name prefix, a limited number of times,
// until the returned function is called.
func (s *story) damage(rng *rand.Rand, times int, within time.Duration, files string) (end func()) {
	ended, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for range times {
			select {
			case <-ended:
				return
			case <-time.After(time.Duration(rng.Int64N(int64(within)))):
			}
			if m := s.disk.Load(); m != nil {
				damageFiles(m, rng, files)
			}
		}
	}()
	return func() { close(ended); <-gone }
}

func damageFiles(mem *testdisk.Mem, rng *rand.Rand, files string) {
	dir := crawlDir + "/state/seen/"
	entries, _ := mem.ReadDir(dir) // there may be none yet
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), files) || rng.IntN(2) == 0 {
			continue
		}
		f, err := mem.OpenFile(dir+e.Name(), os.O_RDWR, 0)
		if err != nil {
			continue // it has gone
		}
		if fi, err := f.Stat(); err == nil && fi.Size() > 0 {
			var b [1]byte
			off := rng.Int64N(fi.Size())
			_, err := f.ReadAt(b[:], off)
			if err == nil {
				_, err = f.Seek(off, io.SeekStart)
			}
			if err == nil {
				b[0] ^= 1 << rng.IntN(8)
				_, _ = f.Write(b[:])
				_ = f.Sync()
			}
		}
		f.Close()
	}
}

// A crawl often finds damage when it checks whether it is over, with only held-back links left. It
// must not end then.
func TestDamagedWhenNothingElseIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pages = 400
		s := quietStory(t, pages) // one link is left at a time
		s.cfg.DrainTimeout = 100 * time.Millisecond
		defer s.damage(rand.New(rand.NewPCG(1, 9)), 1000, 400*time.Millisecond, "run-")()
		w := s.run(t)
		if got := w.Tally.Finished(); w.stop != crawl.Finished || got != pages+1 {
			t.Errorf("stop %s, %d URLs finished of %d", w.stop, got, pages+1)
		}
		if st := w.Seen.Stats(); st.FalsePerhaps == 0 {
			t.Errorf("nothing new was held back: %+v", st)
		}
		s.check(t, w)
	})
}
