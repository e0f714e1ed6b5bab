package crawl_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// The process is killed, or the machine fails, between any two writes of a crawl with two applications. Then every page
// that was not acknowledged comes, again or for the first time, and none that was acknowledged comes again.
func TestApplicationsSurviveAnyKill(t *testing.T) {
	writes := int64(0)
	synctest.Test(t, func(t *testing.T) { writes = (&appTrial{}).run(t) })
	if writes < 50 {
		t.Fatalf("the crawl has made %d writes only", writes)
	}
	step := int64(testtier.Rounds(7, 1))
	for n := int64(1); n <= writes; n += step {
		for _, power := range []bool{false, true} {
			if power && n%2 == 0 {
				continue
			}
			t.Run(fmt.Sprintf("write %d, power failure %v", n, power), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { (&appTrial{at: n, power: power}).run(t) })
			})
		}
	}
}

// An appTrial is a crawl that is killed at a write.
type appTrial struct {
	at    int64 // the number of the write; 0: never
	power bool

	mu    sync.Mutex // guards the fields below
	left  *testdisk.Mem
	fed   bool
	acked map[string]bool // "application URL": acknowledged before the end
	asked map[string]bool // the same, but the answer may not have come
	came  map[string]bool // collected after the end, or ever if there is none
}

var trialFeeds = map[string][]string{
	"news": {"http://a.example/1", "http://c.example/"},
	"list": {"http://a.example/", "http://b.example/1"},
}

func (a *appTrial) run(t *testing.T) (writes int64) {
	s := parsed(t, sharedWeb)
	s.scope.Scope = scope.Host
	s.cfg.DrainTimeout = time.Nanosecond
	mem := testdisk.NewMem()
	for _, dir := range []string{crawlDir, "/"} {
		must.Do(t, mem.MkdirAll(dir, 0o755))
		must.Do(t, mem.SyncDir(dir))
	}
	a.acked, a.asked, a.came = map[string]bool{}, map[string]bool{}, map[string]bool{}
	var w *world
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	faulty := testdisk.NewFaulty(mem, func(c testdisk.Call) testdisk.Fault {
		if !c.Op.Changes() {
			return testdisk.Fault{}
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if writes++; writes == a.at {
			if a.left = mem.Clone(); a.power {
				a.left = mem.Crash(uint64(a.at))
			}
			if w != nil {
				w.dead.Store(true)
			}
			cancel()
		}
		return testdisk.Fault{}
	})
	w = s.opened(t, faulty)
	a.play(ctx, t, w)
	if a.at == 0 {
		a.check(t, s)
		return writes
	}
	if a.left == nil {
		t.Skip("the crawl was over before")
	}
	a.came = map[string]bool{}
	next := s.opened(t, a.left)
	a.at = 0
	a.play(t.Context(), t, next)
	a.check(t, s)
	return writes
}

// over reports that the process was killed.
func (a *appTrial) over() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at > 0 && a.left != nil
}

// play runs a process until it is killed or all pages are collected. An acknowledgement follows every second page.
func (a *appTrial) play(ctx context.Context, t *testing.T, w *world) {
	must.Do(t, w.Orders.SetApplications(newsAndList(t)))
	run, stop := context.WithCancel(ctx)
	defer stop()
	ended := w.background(run, t)
	synctest.Wait()
	for app, urls := range trialFeeds {
		if a.fed || a.over() {
			break
		}
		feed(t, w, app, urls...)
	}
	a.mu.Lock()
	a.fed = a.fed || a.at == 0 || a.left == nil
	a.mu.Unlock()
	for range 60 {
		time.Sleep(500 * time.Millisecond)
		if a.over() {
			break
		}
		for app := range trialFeeds {
			ds, err := w.Applications.Deliveries(app, 0, 2)
			must.Do(t, err)
			a.collect(t, w, app, ds)
		}
	}
	for _, n := range w.Applications.States() {
		if !a.over() && (n.Queued != 0 || n.Unacknowledged != 0) {
			t.Errorf("%s has work left: %+v", n.Name, n)
		}
	}
	stop()
	<-ended
	must.Do(t, w.close())
}

func (a *appTrial) collect(t *testing.T, w *world, app string, ds []applications.Delivery) {
	for i, d := range ds {
		a.mu.Lock()
		page := app + " " + d.URL
		a.came[page] = true
		if a.acked[page] {
			t.Errorf("%s comes again after its acknowledgement", page)
		}
		a.asked[page] = a.asked[page] || a.left == nil
		a.mu.Unlock()
		if i != len(ds)-1 {
			continue
		}
		must.Do(t, w.Applications.Acknowledge(t.Context(), app, d.Position))
		a.mu.Lock()
		for _, d := range ds {
			// A page may come twice if the process was killed between its line and its finish.
			a.acked[app+" "+d.URL] = a.left == nil
		}
		a.mu.Unlock()
	}
}

func (a *appTrial) check(t *testing.T, s *story) {
	t.Helper()
	for app, urls := range map[string][]string{
		"news": {"a.example/1", "a.example/2", "a.example/3", "b.example/", "b.example/1", "c.example/"},
		"list": {"a.example/", "b.example/1"},
	} {
		for _, u := range urls {
			if page := app + " http://" + u; !a.asked[page] && !a.came[page] {
				t.Errorf("%s never came", page)
			}
		}
	}
	n := map[string]int{}
	for _, r := range s.web.Told() {
		if n[r.URL]++; n[r.URL] > 2 && !strings.HasSuffix(r.URL, "robots.txt") {
			t.Errorf("%s was requested %d times", r.URL, n[r.URL])
		}
	}
	twice := slices.DeleteFunc(keysOf(n), func(u string) bool { return n[u] < 2 })
	if len(twice) > 6 || a.left == nil && len(twice) > 0 {
		t.Errorf("requested twice: %v", twice)
	}
}

func keysOf(m map[string]int) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}
