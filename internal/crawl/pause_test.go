package crawl

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// While the operator pauses the crawl, no request begins, the crawl does not end, and its time limit stands still.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{text: orderedWeb}
		s.cfg.TimeLimit = 20 * time.Second
		w, _, end := s.begin(t)
		time.Sleep(1500 * time.Millisecond) // after robots.txt and a.example/
		for range 2 {
			before := len(s.web.Told())
			must(t, w.Pause(t.Context(), true))
			time.Sleep(time.Second)
			left := w.Status().TimeLeft
			time.Sleep(10 * time.Minute)
			if st := w.Status(); left <= 0 || left > s.cfg.TimeLimit || st.TimeLeft != left {
				t.Errorf("%s are left after a pause, %s before", st.TimeLeft, left)
			}
			if after := len(s.web.Told()); after > before+1 { // one was under way
				t.Errorf("%d requests during a pause", after-before)
			}
			if st := w.Status(); !st.Paused || st.Stop != notStopping || st.Queued == 0 ||
				st.WaitsFor != "the operator, who has paused the crawl" {
				t.Errorf("during a pause: %v, stop %q, %d queued, waits for %q", st.Paused, st.Stop, st.Queued,
					st.WaitsFor)
			}
			must(t, w.Pause(t.Context(), false))
			time.Sleep(1100 * time.Millisecond)
		}
		finished(t)(end())
		must(t, w.close())
		var got []string
		for _, r := range s.web.Told() {
			got = append(got, r.URL)
		}
		for _, want := range []string{"http://a.example/1", "http://a.example/4", "http://b.example/"} {
			if !slices.Contains(got, want) {
				t.Errorf("%s was not fetched", want)
			}
		}
	})
}

// A pause that was ordered before a run holds from its first moment. The time limit counts from its end.
func TestPauseBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{text: orderedWeb}
		s.cfg.TimeLimit = 2 * time.Second
		s.parse(t)
		w := s.opened(t, testdisk.NewMem())
		must(t, w.Pause(t.Context(), true))
		ended := w.background(t.Context(), t)
		time.Sleep(time.Hour)
		if n := len(s.web.Told()); n > 0 {
			t.Errorf("%d requests in a crawl that began paused", n)
		}
		must(t, w.Pause(t.Context(), false))
		if stop := <-ended; stop != TimeLimit {
			t.Errorf("%v, want %v", stop, TimeLimit)
		}
		must(t, w.close())
	})
}

// The time limit of each run counts the time between the pauses, also if the run before ended in a pause.
func TestTimeLimitOverPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{text: "delay 1s\nseed http://a.example/\ndns a.example 192.0.2.1\n" +
			"http://a.example/ /1 /2 /3 /4 /5 /6 /7 /8 /9"}
		s.cfg.TimeLimit = 2 * time.Second
		s.parse(t)
		fs := testdisk.NewMem()
		for run := range 2 {
			w := s.opened(t, fs)
			pause := func(on bool) {
				t.Helper()
				must(t, w.Pause(t.Context(), on))
			}
			began, paused := time.Now(), time.Duration(0)
			if run == 1 {
				pause(true)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := w.background(ctx, t)
			for range 3 {
				if run == 0 || paused > 0 {
					time.Sleep(500 * time.Millisecond)
				}
				pause(true)
				time.Sleep(time.Hour)
				pause(false)
				paused += time.Hour
			}
			stop := <-ended
			cancel()
			took := time.Since(began) - paused
			if stop != TimeLimit || took < 2*time.Second || took > 3500*time.Millisecond {
				t.Errorf("run %d: %v after %s besides pauses of %s, want %v after 2s", run, stop, took, paused,
					TimeLimit)
			}
			must(t, w.close())
		}
	})
}

// A checkpoint on demand makes what was fetched durable: a power failure right after it repeats nothing before it.
func TestCheckpointOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{text: orderedWeb}
		w, cancel, end := s.begin(t)
		time.Sleep(4500 * time.Millisecond)
		if text, err := w.Checkpoint(t.Context()); err != nil || text != "saved; a checkpoint is being written" {
			t.Fatalf("%q, %v", text, err)
		}
		before := w.Tally.Finished()
		left := w.fs.(*testdisk.Mem).Crash(1)
		cancel()
		ran(t)(end())
		must(t, w.close())
		again := s.opened(t, left)
		if n := again.Tally.Finished(); n < before || before < 2 || again.rec.Repeated > 0 {
			t.Errorf("%d URLs are finished after the power failure, %d were before; %+v", n, before, again.rec)
		}
		must(t, again.close())
	})
}

// Requests that wait for the rate are not sent after a pause, a block or an exclusion. They are sent after a pause.
func TestOrdersHoldAtTheRate(t *testing.T) {
	for name, order := range map[string]func(w *world, on bool) error{
		"pause": func(w *world, on bool) error { return w.Pause(context.Background(), on) },
		"block": func(w *world, on bool) error {
			var bars []Bar
			if on {
				bars = []Bar{{Prefix: netip.MustParsePrefix("198.18.0.0/15"), Why: "order 1"}}
			}
			return w.Bar(context.Background(), bars)
		},
		"exclude": func(w *world, on bool) error {
			var list []Exclusion
			if on {
				list = []Exclusion{{Pattern: "example", Deeper: -1}}
			}
			return w.Exclude(context.Background(), list)
		},
	} {
		bubble(t, name, func(t *testing.T) {
			var text strings.Builder
			text.WriteString("delay 1s\nrate 20\n")
			for i := range 60 {
				fmt.Fprintf(&text, "seed http://h%d.example/\ndns h%[1]d.example 198.18.0.%[1]d\n", i)
				fmt.Fprintf(&text, "http://h%d.example/ /1 /2 /3 /4\n", i)
			}
			s := &story{text: text.String()}
			w, _, end := s.begin(t)
			time.Sleep(2 * time.Second)
			w.Rate.Set(rate.Limit{Requests: 0.1}, 1, time.Time{})
			time.Sleep(15 * time.Second) // some visits wait for their turns now
			if open := w.Status().Open; open < 2 {
				t.Errorf("%d requests wait", open)
			}
			must(t, order(w, true))
			before := len(s.web.Told())
			time.Sleep(10 * time.Minute)
			if after := len(s.web.Told()); after != before {
				t.Errorf("%d requests were sent", after-before)
			}
			want, requests := OnlyBlocked, before // nothing else is left
			if name == "pause" {
				want, requests = Finished, 60*6
				w.Rate.Set(rate.Limit{Requests: 20}, 1, time.Time{})
				must(t, order(w, false))
			}
			if stop, err := end(); stop != want || err != nil {
				t.Errorf("%v, %v, want %v", stop, err, want)
			}
			must(t, w.close())
			if n := len(s.web.Told()); n != requests {
				t.Errorf("%d requests, want %d", n, requests)
			}
		})
	}
}
