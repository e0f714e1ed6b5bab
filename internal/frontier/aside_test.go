package frontier

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Random links of random hosts are set aside while a pattern excludes them, or wait in one of several Sides, and are
// put back later, with queues in RAM and on disk. Next gives out each link exactly once apart from that, with its
// number, and none that is excluded.
func TestAside(t *testing.T) {
	r := testseed.Rand(t)
	for _, memory := range []int64{1, 4000, 1 << 20} {
		f := open(t, Config{HostDelay: -1, MemoryBytes: memory, SegmentBytes: 500, Active: 3})
		f.pools.frameBytes = 300
		now, numbers, gone := time.Unix(1000, 0), map[string]uint64{}, map[string]bool{}
		excluded := "none"
		set, sides := 0, []*Side{NewSide(f), NewSide(f), NewSide(f)}
		waiting, putBack := func() (n int64) {
			for _, s := range sides {
				n += s.Len()
			}
			return n
		}, func(s *Side) {
			l, number, err := s.Take()
			must.Do(t, err)
			must.Do(t, f.PutBack(l, number))
		}
		step := func() {
			t.Helper()
			must.Do(t, f.check())
			if got, want := f.Len(), int64(len(numbers)-len(gone)); got != want {
				t.Fatalf("%d links, want %d", got, want)
			}
		}
		next := func() bool {
			now = now.Add(time.Millisecond)
			task, wake, ok := f.Next(now)
			if !ok {
				return !wake.IsZero()
			}
			u := task.Link.URL.String()
			if task.Number != numbers[u] || gone[u] {
				t.Fatalf("%s: number %d, want %d; given out before: %v", u, task.Number, numbers[u], gone[u])
			}
			if !task.Addr.IsValid() {
				f.Resolved(task.Host, task.Addr, now, now) // no address: the host pauses
				return true
			}
			must.Do(t, f.Done(task.Host, Done{NoRequest: true}, now))
			if strings.Contains(u, excluded) {
				set++
				must.Do(t, f.SetAside(task.Link, task.Number))
				return true
			}
			if s := sides[r.IntN(len(sides))]; r.IntN(4) == 0 {
				must.Do(t, s.Put(task.Link, task.Number))
				return true
			}
			gone[u] = true
			return true
		}
		review := func() {
			f.ReviewAside()
			for done := false; !done; {
				if got := f.Pending() - f.aside.review; got > f.Len()-f.aside.Len() {
					t.Fatalf("%d pending, %d to review, of %d", f.Pending(), f.aside.review, f.Len())
				}
				var err error
				done, err = f.Reviewed(3, func(l link.Link, number uint64) error {
					if strings.Contains(l.URL.String(), excluded) {
						return f.SetAside(l, number)
					}
					return f.PutBack(l, number)
				})
				must.Do(t, err)
				step()
			}
		}
		number := uint64(0)
		for range 400 {
			switch r.IntN(10) {
			case 9:
				if sides[0].Withdraw(); sides[0].Len() != 0 {
					t.Fatalf("%d links are left after Withdraw", sides[0].Len())
				}
				var back []Waiting
				_, err := f.Withdrawn(1000, func(w Waiting) error { back = append(back, w); return nil })
				must.Do(t, err)
				for _, w := range back {
					must.Do(t, f.PutBack(w.Link, w.Number))
				}
			case 8:
				if s := sides[r.IntN(3)]; s.Len() > 0 {
					putBack(s)
				}
			case 0, 1:
				var ls []link.Link
				for range r.IntN(20) {
					number++
					u := fmt.Sprintf("http://192.0.2.%d/%c/%d", r.IntN(9), 'a'+rune(r.IntN(3)), number)
					ls, numbers[u] = append(ls, link.Link{URL: weburl.MustParse(u), Level: uint8(r.IntN(2))}), number
				}
				must.Do(t, f.Push(ls))
			case 2:
				excluded = []string{"none", "/a/", "/b/"}[r.IntN(3)]
				review()
			default:
				next()
			}
			step()
		}
		for f.Pending() > 0 {
			for next() {
			}
			if step(); f.Pending() != waiting() {
				t.Fatalf("%d links are pending, %d wait, and Next gives out none", f.Pending(), waiting())
			}
			for _, s := range sides {
				for s.Len() > 0 {
					putBack(s)
				}
			}
		}
		excluded = "none"
		review()
		for sides = []*Side{NewSide(f)}; next() || waiting() > 0; {
			if s := sides[0]; s.Len() > 0 {
				putBack(s)
			}
		}
		if step(); len(gone) != len(numbers) || f.Stats().Aside != 0 || set == 0 {
			t.Errorf("%d links of %d, %d are aside, %d were set aside", len(gone), len(numbers), f.Stats().Aside, set)
		}
		must.Do(t, f.Close())
	}
}
