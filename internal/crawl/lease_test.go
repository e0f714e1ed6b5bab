package crawl_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A testLease is one address, which is held until it is lost.
type testLease struct {
	mu           sync.Mutex      // guards all
	held, gone   bool            // gone: no contact, so no request may begin
	used         []time.Duration // when requests there ended
	start        time.Time
	quiet        []time.Duration
	began, ended int
}

func (l *testLease) Want(uint64, time.Duration, time.Time) {}

func (l *testLease) Ready(uint64, time.Duration, time.Time) (bool, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held, time.Time{}
}

func (l *testLease) Begin(time.Time, ...uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began++
	return true
}

func (l *testLease) Used(_ uint64, end time.Time, quiet time.Duration, _ bool, _ time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended++
	l.used, l.quiet = append(l.used, end.Sub(l.start)), append(l.quiet, quiet)
}

func (l *testLease) Leave(uint64, time.Time) {}

func (l *testLease) Grip() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.gone
}

func (l *testLease) set(held, gone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.gone = held, gone
}

// A visit whose lease is lost is cut off at once. Its page is the first to be requested when the
// lease comes back, and the quiet time begins with the cut. A visit that waits for a worker
// meanwhile sends no request and causes no quiet time.
func TestLeaseLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &testLease{held: true, start: time.Now()}
		s := &story{text: `
delay 1s
ip-delay 1s
workers 2
slow-visits -1
seed http://a.example/
seed http://b.example/
seed http://c.example/
dns a.example 192.0.2.1
dns b.example 192.0.2.2
dns c.example 192.0.2.3
http://a.example/robots.txt robots=User-agent:_*;Disallow:
http://b.example/robots.txt robots=User-agent:_*;Disallow:
http://c.example/robots.txt robots=User-agent:_*;Disallow:
http://a.example/ slow=10s | 200
http://b.example/ slow=10s
http://c.example/ 200
`}
		s.frontier.Lease = l
		cluster := newPartly(l.Grip)
		s.with = func(r *crawl.Parts) error { r.Cluster = cluster.cluster(); return nil }
		w, _, end := s.begin(t)
		time.Sleep(5 * time.Second) // requests to a.example/ and b.example/ are under way, c's visit waits for a worker
		asked := len(s.web.Told())
		var point, other []uint64
		must.Do(t, cluster.loop.Run.Do(t.Context(), "test", func(time.Time) {
			point, other = w.Frontier.Points("a.example"), w.Frontier.Points("c.example")
		}))
		if len(point) != 1 || len(other) != 1 || point[0] == other[0] {
			t.Errorf("a.example uses %x, c.example %x\n%s", point, other, s.web.Requests())
		}
		l.set(false, true)
		cutAt := time.Since(l.start)
		if n := cluster.cutOff(append(point, 1, 2)); n != 1 {
			t.Errorf("%d visits cut off, want 1", n)
		}
		if n := cluster.cutOff(point); n != 0 {
			t.Errorf("%d visits cut off once more", n)
		}
		synctest.Wait()
		l.mu.Lock()
		if n := len(l.used); l.began != l.ended+1 || n < 2 || l.used[n-2] != cutAt || l.quiet[n-2] != time.Second ||
			l.quiet[n-1] != 0 {
			t.Errorf("%d begun, %d ended, at %v with %v; want the cut at %v with a quiet time, and one that did not "+
				"begin with none", l.began, l.ended, l.used, l.quiet, cutAt)
		}
		l.mu.Unlock()
		time.Sleep(40 * time.Second)
		if got := s.web.Told(); len(got) != asked {
			t.Errorf("without a lease: asked for\n%s", s.web.Requests())
		}
		pending := int64(0)
		must.Do(t, cluster.loop.Run.Do(t.Context(), "test", func(time.Time) { pending = w.View.Pending() }))
		if pending != 2 {
			t.Errorf("%d pending, want 2", pending)
		}
		l.set(true, false)
		cluster.loop.Run.Tell(func(now time.Time) { w.Frontier.Leased(append(point, other...), now) })
		finished(t)(end())
		if n := w.Tally.Pages(); n != 3 {
			t.Errorf("%d pages, want 3\n%s", n, s.web.Requests())
		}
		if got := s.web.Requests(); strings.Count(got, "a.example/\n") != 2 ||
			strings.Count(got, "b.example/\n") != 1 || strings.Count(got, "c.example/\n") != 1 {
			t.Errorf("requests\n%s", got)
		}
		must.Do(t, w.close())
	})
}
