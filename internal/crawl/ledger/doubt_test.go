package ledger

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Random finishes, and marks that agree with the disk or not: the doubt counts the same finishes
// as a simple model.
func TestDoubt(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 13))
		// In this model the files with numbers below 5 are whole.
		missing := func(files []keyset.HeldFile) (n int64) {
			for _, f := range files {
				if f.Num >= 5 {
					n += f.Items
				}
			}
			return n
		}
		d := doubt{missing: missing}
		var counted []uint64
		settle := func(nth uint64, _ byte, p []byte) error {
			f, err := state.DecodeFinish(p)
			if err == nil && !d.lost(nth, &f) {
				counted = append(counted, nth)
			}
			return err
		}
		release := func() {
			if err := d.release(settle); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		mark := func(p []byte) {
			if err := d.mark(p); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			release()
		}
		var (
			want    []uint64
			open    bool
			n       uint64
			gone    = map[uint64]int64{}           // before the first finish, by file
			waiting = map[uint64]map[uint64]bool{} // by finish, the files; nil: no mark yet
		)
		for range rng.IntN(40) {
			switch rng.IntN(6) {
			case 0:
				mark(nil)
				open = true
			case 1, 2:
				var files []keyset.HeldFile
				bad := map[uint64]int64{}
				named := map[uint64]bool{}
				for num := range uint64(7) {
					if rng.IntN(4) == 0 {
						f := keyset.HeldFile{Num: num, End: 100, Items: 1 + rng.Int64N(9)}
						files, named[num] = append(files, f), true
						if num >= 5 {
							bad[num] = f.Items
						}
					}
				}
				mark(state.AppendHeld(nil, files))
				open = len(files) > 0
				for nth, of := range waiting {
					if of == nil {
						of = map[uint64]bool{}
						for num := range bad {
							of[num] = true
						}
						waiting[nth] = of
					}
					maps.DeleteFunc(of, func(num uint64, _ bool) bool { return !named[num] })
					if len(bad) == 0 || len(of) == 0 {
						want = append(want, nth)
						delete(waiting, nth)
					}
				}
				maps.DeleteFunc(gone, func(num uint64, _ int64) bool { return !named[num] })
				if n == 0 || len(bad) == 0 {
					gone = bad
				}
			default:
				n++
				l := link.Link{URL: weburl.MustParse("http://h.example/")}
				f := state.Finish{Link: l, Began: time.UnixMicro(1)}
				if open {
					waiting[n] = nil
				} else {
					want = append(want, n)
				}
				waits := d.finish(&f)
				release()
				if waits {
					d.hold(state.Finished, f.AppendTo(nil))
				} else if !d.lost(n, &f) {
					counted = append(counted, n)
				}
			}
		}
		slices.Sort(want)
		before := len(counted)
		lost, wantLost := d.decide(), int64(0)
		release()
		for _, items := range gone {
			wantLost += items
		}
		if before != len(want) || !slices.Equal(counted, want) || (lost == 0) != (wantLost == 0) {
			t.Fatalf("seed %d: %v count, %d of them before the end, %d links are gone; want %v, %d", seed, counted,
				before, lost, want, wantLost)
		}
		if d.n != n || d.open != open || d.doubtful() != (len(waiting) > 0) {
			t.Fatalf("seed %d: %d finishes, open %v, doubtful %v; want %d, %v, %d waiting", seed, d.n, d.open,
				d.doubtful(), n, open, len(waiting))
		}
	}
}
