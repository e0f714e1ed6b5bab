package crawl_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// countingFS counts the reads from files whose name contains a string.
type countingFS struct {
	disk.FS
	name  string
	reads atomic.Int64
}

func (c *countingFS) OpenFile(name string, flag int, perm os.FileMode) (disk.File, error) {
	f, err := c.FS.OpenFile(name, flag, perm)
	if err != nil || !strings.Contains(name, c.name) {
		return f, err
	}
	return countingFile{f, c}, nil
}

type countingFile struct {
	disk.File
	fs *countingFS
}

func (f countingFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.reads.Add(1)
	return f.File.ReadAt(p, off)
}

// quiet are the turns of a cluster whose other agents do nothing.
type quiet struct{}

func (quiet) Bind(*crawl.Loop) []crawl.Obstacle            { return nil }
func (quiet) MayVisit(*frontier.Task, time.Time) bool      { return true }
func (quiet) Permit(string) *visit.Permit                  { return nil }
func (quiet) Tick(context.Context, time.Time) time.Time    { return time.Time{} }
func (quiet) Deliver(context.Context, time.Time) time.Time { return time.Time{} }
func (quiet) Waits(time.Time) bool                         { return false }
func (quiet) Rest()                                        {}
func (quiet) Ending() bool                                 { return false }
func (quiet) Outgoing() int64                              { return 0 }
func (quiet) Status(time.Time) crawl.ClusterStatus         { return crawl.ClusterStatus{} }

// A watcher is told of each turn of the dispatcher. It ends the run when no work is left, as a single agent does.
type watcher struct {
	quiet
	loop *crawl.Loop
	turn func() // nil: nothing is told
}

func (w *watcher) Bind(l *crawl.Loop) []crawl.Obstacle {
	w.loop = l
	return nil
}

func (w *watcher) Rest() { w.loop.Stop(crawl.Finished) }

func (w *watcher) Tick(context.Context, time.Time) time.Time {
	if w.turn != nil {
		w.turn()
	}
	return time.Time{}
}

// watched lets a watcher take part in the turns of the story's next processes.
func (s *story) watched(turn func()) *watcher {
	c := &watcher{turn: turn}
	s.with = func(r *crawl.Parts) error { r.Cluster.Turns = c; return nil }
	return c
}

// twoHosts is a crawl with n seeds of each of two hosts. Their links wait in pools, or in queues.
func twoHosts(t *testing.T, n int, pools bool) *story {
	t.Helper()
	var text strings.Builder
	text.WriteString("delay 1s\ndrain-timeout 1ns\nseed http://b.example/\ndns a.example 192.0.2.1\n" +
		"dns b.example 192.0.2.2\n")
	for i := range n {
		fmt.Fprintf(&text, "seed http://b.example/%d\nseed http://a.example/%d\n", i, i)
	}
	s := parsed(t, text.String())
	if pools {
		s.frontier.Active, s.frontier.MemoryBytes = 1, 1
	}
	return s
}

// A command reads none of the waiting links, and no turn of the dispatcher finishes more links than
// a slice, however many are dropped.
func TestOrderTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 2000
		s := twoHosts(t, n, true)
		fs := &countingFS{FS: testdisk.NewMem(), name: "/state/queues/"}
		var w *world
		var read, finished, most int64 // by the last turn before the drop's first slice; until now; in one turn
		s.watched(func() {
			if w == nil {
				return
			}
			now := w.Tally.Finished()
			if most, finished = max(most, now-finished), now; now == 0 {
				read = fs.reads.Load()
			}
		})
		w = s.opened(t, fs)
		if st := w.Frontier.Stats(); st.Pooled < n || st.PoolBytes == 0 {
			t.Fatalf("%+v", st)
		}
		must.Do(t, w.Orders.Pause(t.Context(), true))
		end := w.running(t.Context())
		synctest.Wait()
		before := fs.reads.Load()
		w.blocks(t, "a.example")
		_, _, err := w.Orders.Waiting(t.Context(), "a.example")
		must.Do(t, err)
		w.blocks(t)
		_, err = w.Orders.Drop(t.Context(), "a.example")
		must.Do(t, err)
		synctest.Wait()
		if read != before {
			t.Errorf("orders read queues and pools %d times", read-before)
		}
		must.Do(t, w.Orders.Pause(t.Context(), false))
		stop, err := end()
		if most < 3 || most > 4 { // a slice, and a page
			t.Errorf("up to %d links were finished in a turn, want a slice of 3", most)
		}
		if dropped := w.Tally.Summary(0, "").Skipped["dropped"]; stop != crawl.Finished || err != nil || dropped != n {
			t.Errorf("ended with %s, %v, %d dropped", stop, err, dropped)
		}
		if asked := s.asked("a.example"); len(asked) > 0 {
			t.Errorf("%v asked for", asked)
		}
		s.accounts(t, w)
		must.Do(t, w.close())
	})
}

// If a kill or a power failure interrupts a drop, the next run drops the rest of the links, and
// nothing else.
func TestDropGoesOn(t *testing.T) {
	model(t, 12, 40, func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 12))
		n := 20 + rng.IntN(60)
		s := twoHosts(t, n, rng.IntN(2) == 0)
		s.cfg.SnapshotBytes = 1 << (8 + rng.IntN(10))
		s.pauses = []pause{{kill: true, crash: true}}
		mem := testdisk.NewMem()
		for run := range 1 + rng.IntN(3) {
			power, at := rng.IntN(2) == 0, rng.IntN(n/3)
			var left *testdisk.Mem
			var counts atomic.Bool // turns count from now on
			ctx, cancel := context.WithCancel(t.Context())
			var w *world
			die := func() {
				if left = mem.Clone(); power {
					left = mem.Crash(seed + uint64(run))
				}
				w.dead.Store(true)
				cancel()
			}
			s.watched(func() {
				if counts.Load() && left == nil {
					if at--; at < 0 {
						die()
					}
				}
			})
			w = s.opened(t, mem)
			s.accounts(t, w)
			must.Do(t, w.Orders.Pause(ctx, true))
			counts.Store(run > 0)
			ended := w.background(ctx, t)
			if run == 0 {
				synctest.Wait()
				_, err := w.Orders.Drop(ctx, "a.example")
				must.Do(t, err)
				var late []crawl.NewSeed
				for i := range 3 {
					for _, host := range []string{"a", "b"} {
						u := fmt.Sprintf("http://%s.example/late%d", host, i)
						late = append(late, crawl.NewSeed{URL: weburl.MustParse(u)})
					}
				}
				_, err = w.Intake.AddSeeds(ctx, late)
				must.Do(t, err)
				counts.Store(true)
			}
			synctest.Wait()
			if left == nil { // the drop was over before
				die()
			}
			<-ended
			must.Do(t, w.close())
			mem = left
		}
		s.with = nil
		w := s.opened(t, mem)
		finished(t)(w.Run(t.Context()))
		for _, u := range s.asked("a.example") {
			if !strings.Contains(u, "/late") && !strings.HasSuffix(u, "/robots.txt") {
				t.Errorf("%s asked for", u)
			}
		}
		if a, b := len(s.asked("a.example")), len(s.asked("b.example")); a != 4 || b != n+5 {
			t.Errorf("%d and %d URLs asked for, want 4 and %d", a, b, n+5)
		}
		if got := w.Tally.Summary(0, "").Skipped["dropped"]; int(got) != n {
			t.Errorf("%d dropped, want %d", got, n)
		}
		s.check(t, w)
	})
}

// A restart copies each of many drops once. A checkpoint omits all drops but the last that no link needs any more.
func TestManyDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recovered := func(n int) uint64 {
			s := twoHosts(t, 3, false)
			paused := func(fs disk.FS) (w *world, kill func() *testdisk.Mem) {
				w = s.opened(t, fs)
				must.Do(t, w.Orders.Pause(t.Context(), true))
				ctx, cancel := context.WithCancel(t.Context())
				end := w.running(ctx)
				synctest.Wait()
				return w, func() *testdisk.Mem {
					left := w.kill(cancel)
					ran(t)(end())
					must.Do(t, w.close())
					return left
				}
			}
			w, kill := paused(testdisk.NewMem())
			for i := range n {
				_, err := w.Orders.Drop(t.Context(), fmt.Sprintf("host%d.example", i))
				must.Do(t, err)
			}
			_, err := w.Orders.Drop(t.Context(), "a.example")
			must.Do(t, err)
			left := kill()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			w, kill = paused(left)
			runtime.ReadMemStats(&after)
			_, err = w.Orders.Checkpoint(t.Context())
			must.Do(t, err)
			time.Sleep(time.Second)
			left, size := kill(), int64(0)
			entries, err := left.ReadDir(crawlDir + "/state/journal")
			must.Do(t, err)
			for _, e := range entries {
				fi, err := left.Stat(crawlDir + "/state/journal/" + e.Name())
				must.Do(t, err)
				size += fi.Size()
			}
			if size > 3000 {
				t.Errorf("%d bytes are left of %d drops", size, n)
			}
			w = s.opened(t, left)
			finished(t)(w.Run(t.Context()))
			if asked := s.asked("a.example"); len(asked) > 0 {
				t.Errorf("%v asked for", asked)
			}
			must.Do(t, w.close())
			return after.TotalAlloc - before.TotalAlloc
		}
		few, many := recovered(500), recovered(5000)
		if each := (int64(many) - int64(few)) / 4500; each > 4<<10 {
			t.Errorf("a drop takes %d bytes of a restart, which is more than to copy it", each)
		}
	})
}
