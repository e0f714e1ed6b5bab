package crawl

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// slowRuns is a disk on which the passes of the seen-set take time.
type slowRuns struct{ *testdisk.Mem }

func (d slowRuns) OpenFile(name string, flag int, perm iofs.FileMode) (disk.File, error) {
	if strings.Contains(name, "/seen/run-") && flag&os.O_CREATE != 0 {
		time.Sleep(300 * time.Millisecond)
	}
	return d.Mem.OpenFile(name, flag, perm)
}

// A pass of the seen-set that needs a sync to begin gets one, even if nothing is fetched meanwhile,
// because held-back links wait for it. In this test links are held back and the table is full again
// during a pass, and nothing follows for 20 minutes.
func TestQuietCrawlSyncsForSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := quietStory(t, 0)
		s.cfg = Config{Workers: 4, RetryWait: 20 * time.Minute, Retries: 1, DrainTimeout: time.Millisecond}
		s.seen = testparts.Tiny(1)
		var b strings.Builder
		fmt.Fprint(&b, "dns h.example 192.0.2.1\ndown 192.0.2.2 0s 1m\n")
		for _, kind := range "abc" {
			for i := range 20 {
				fmt.Fprintf(&b, "dns %c%d.example 192.0.2.2\nhttp://%c%d.example/\n", kind, i, kind, i)
			}
		}
		links := func(kind string) {
			for i := range 20 {
				fmt.Fprintf(&b, " http://%s%d.example/", kind, i)
			}
		}
		b.WriteString("http://h.example/0 http://h.example/1 http://h.example/2")
		links("a") // fills the first table
		b.WriteString("\nhttp://h.example/1 slow=12s")
		links("b") // starts a pass
		b.WriteString("\nhttp://h.example/2 slow=1800ms http://a0.example/ http://a1.example/")
		links("c") // during the pass
		s.web = textweb.Parse(t, b.String()+"\n")
		fs := slowRuns{testdisk.NewMem()}
		w := s.opened(t, fs)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		ran(t)(w.Run(ctx))
		must(t, w.close())
		w = s.opened(t, fs) // its caches are empty
		done := make(chan error, 1)
		go func() {
			_, err := w.Run(t.Context())
			done <- err
		}()
		var waits, longest time.Duration
		held := int64(0)
		const every = 50 * time.Millisecond
		for at := time.Duration(0); at < 10*time.Minute; at += every {
			time.Sleep(every)
			select {
			case w.commands <- func(time.Time) {
				if waits += every; !w.Seen.WantsSync() {
					waits = 0
				} else {
					held = max(held, w.Seen.Stats().Held)
				}
				longest = max(longest, waits)
			}:
			case <-w.ended:
				t.Fatalf("it ended, with %d pending: %v", w.Pending(), <-done)
			}
		}
		last := make(chan struct{})
		select {
		case w.commands <- func(time.Time) { close(last) }: // earlier commands have ended
			<-last
		case <-w.ended:
			t.Fatalf("it ended, with %d pending: %v", w.Pending(), <-done)
		}
		if held == 0 || longest > 2*time.Second {
			t.Errorf("passes for %d held links at most waited for up to %s", held, longest)
		}
		must(t, <-done)
		if got := w.Tally.Finished(); got != 63 {
			t.Errorf("%d URLs finished", got)
		}
		s.check(t, w)
	})
}

// A seen-set of another crawl is refused, with the ids of both. If there is none, the crawl
// continues.
func TestSeenOfAnotherCrawl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crawls := [2]*testdisk.Mem{}
		for i := range crawls {
			s := quietStory(t, 60)
			w := s.opened(t, testdisk.NewMem())
			ran(t)(w.Run(t.Context()))
			must(t, w.close())
			crawls[i] = w.fs.(*testdisk.Mem)
		}
		const dir = crawlDir + "/state/seen"
		mine, other := crawls[0], crawls[1]
		must(t, mine.RemoveAll(dir))
		without := mine.Clone()
		must(t, mine.MkdirAll(dir, 0o755))
		entries, err := other.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			b, err := disk.ReadFile(other, dir+"/"+e.Name(), 1<<30)
			if err == nil {
				err = disk.WriteFile(mine, dir+"/"+e.Name(), b)
			}
			must(t, err)
		}
		s := quietStory(t, 60)
		_, err = s.open(mine)
		if !errors.Is(err, keyset.ErrCrawl) || !strings.Contains(err.Error(), "delete state/seen") {
			t.Errorf("with the keys of another crawl: %v", err)
		}
		w := s.opened(t, without)
		if w.rec.Repeated != 0 || w.rec.Lost != 0 || w.rec.Finished != 61 {
			t.Errorf("without keys, and nothing held: %+v", w.rec)
		}
		ran(t)(w.Run(t.Context()))
		must(t, w.close())
		if len(s.web.Told()) > 0 {
			t.Errorf("asked for %s again", s.web.Requests())
		}
	})
}

// quietStory is a crawl of a chain of pages on one host.
func quietStory(t *testing.T, pages int) *story {
	t.Helper()
	var b strings.Builder
	b.WriteString("workers 2\ndelay 200ms\nno-keep\nseed http://h.example/0\ndns h.example 192.0.2.1\n")
	for p := range pages {
		fmt.Fprintf(&b, "http://h.example/%d http://h.example/%d\n", p, p+1)
	}
	fmt.Fprintf(&b, "http://h.example/%d\n", pages)
	s := parsed(t, b.String())
	s.seen = onDisk
	return s
}

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
				l := weburl.Link{URL: weburl.MustParse("http://h.example/")}
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
