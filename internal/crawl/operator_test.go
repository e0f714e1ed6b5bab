package crawl

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
)

// blocks replaces the hosts that are blocked; the agent does so when its orders change.
func (w *world) blocks(t testing.TB, hosts ...string) {
	t.Helper()
	must(t, w.Bar(context.Background(), barsOf(hosts...)))
}

func barsOf(hosts ...string) (list []Bar) {
	for _, host := range hosts {
		list = append(list, Bar{Host: host, Why: "order 1, " + host})
	}
	return list
}

const orderedWeb = `
delay 1s
seed http://a.example/
dns a.example 192.0.2.1
dns b.example 192.0.2.2
http://a.example/ http://b.example/ /1 /2 /3
http://b.example/ http://a.example/4
`

// begin opens a story's crawl and runs it in the background; end waits for its end.
func (s *story) begin(t *testing.T) (w *world, cancel context.CancelFunc, end func() (Stop, error)) {
	t.Helper()
	s.parse(t)
	return s.start(t)
}

// start is begin for a story that was parsed.
func (s *story) start(t *testing.T) (w *world, cancel context.CancelFunc, end func() (Stop, error)) {
	t.Helper()
	w = s.opened(t, testdisk.NewMem())
	ctx, cancel := context.WithCancel(t.Context())
	return w, cancel, w.running(ctx)
}

// running runs the crawl in the background; end waits for its end.
func (w *world) running(ctx context.Context) (end func() (Stop, error)) {
	var stop Stop
	var err error
	ended := make(chan struct{})
	go func() { defer close(ended); stop, err = w.Run(ctx) }()
	return func() (Stop, error) {
		<-ended
		return stop, err
	}
}

// background runs the crawl in the background, and sends its end. An error fails the test.
func (w *world) background(ctx context.Context, t *testing.T) <-chan Stop {
	ended := make(chan Stop, 1)
	go func() {
		stop, err := w.Run(ctx)
		if err != nil {
			t.Error(err)
		}
		ended <- stop
	}()
	return ended
}

// A blocked host gets no requests, also after a kill. A crawl without other links ends, and
// continues when the host is unblocked.
func TestBlockOverKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{text: orderedWeb}
		s.pauses = []pause{{kill: true}}
		w, cancel, end := s.begin(t)
		time.Sleep(1500 * time.Millisecond) // after robots.txt and a.example/
		w.blocks(t, "a.example", "new.example")
		if got, _, err := w.Waiting(t.Context(), "a.example"); got != "3 links wait" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if got, err := w.Explain(t.Context(), "a.example"); err != nil ||
			!strings.HasPrefix(got, "a.example: blocked, 3 links queued\n") ||
			!strings.Contains(got, "blocked by order 1, a.example") {
			t.Errorf("explain: %q, %v", got, err)
		}
		mem := w.kill(cancel)
		end()
		w.close()

		w = s.opened(t, mem)
		w.blocks(t, "a.example")
		if r := w.rec; r.Accepted != 5 || r.Finished+r.Pending != r.Accepted {
			t.Errorf("recovered %+v", r)
		}
		if stop, err := w.Run(t.Context()); stop != OnlyBlocked || err != nil || w.Pending() != 4 {
			t.Errorf("ended with %s, %v, %d links pending", stop, err, w.Pending())
		}
		if got := w.Status(); !slices.Equal(got.Blocked, []string{"a.example"}) || got.Frontier.Blocked != 1 ||
			got.Frontier.BlockedLinks != 4 {
			t.Errorf("status %+v", got)
		}
		must(t, w.close())
		for _, r := range s.web.Told() {
			if r.Host == "a.example" && r.At > 1500*time.Millisecond {
				t.Errorf("%s asked for at %s", r.URL, r.At)
			}
		}

		w = s.opened(t, mem)
		finished(t)(w.Run(t.Context()))
		if n := w.Tally.Finished(); n != 6 || len(w.Status().Blocked) != 0 {
			t.Errorf("%d URLs finished, %q blocked", n, w.Status().Blocked)
		}
		s.check(t, w)
		if _, _, err := w.Waiting(t.Context(), "a.example"); !errors.Is(err, ErrNotRunning) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// The journal of an earlier version has the blocks of hosts. They are there until ForgetOldBlocks, also after a kill.
func TestOldBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := parsed(t, orderedWeb)
		mem := testdisk.NewMem()
		reopen := func(want ...string) *world {
			t.Helper()
			w := s.opened(t, mem)
			if got := w.OldBlocks(); !slices.Equal(got, want) {
				t.Errorf("old blocks: %q, want %q", got, want)
			}
			if w.Frontier.Host("a.example").Blocked {
				t.Error("the journal has blocked a host")
			}
			return w
		}
		w := reopen()
		for _, st := range []frontier.HostState{{Host: "b.example", Blocked: true}, {Host: "a.example", Blocked: true},
			{Host: "c.example", Blocked: true}, {Host: "c.example"}} {
			w.batch.add(state.Host, st.AppendTo(nil))
		}
		must(t, w.secure())
		mem = w.kill(func() {})
		w.close()
		w = reopen("a.example", "b.example")
		must(t, w.ForgetOldBlocks())
		mem = w.kill(func() {})
		w.close()
		w = reopen()
		finished(t)(w.Run(t.Context()))
		must(t, w.close())
	})
}

// A host without a link left is explained as finished, and not as unknown, also after a kill.
func TestExplainFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{text: `
delay 1s
seed http://a.example/
dns a.example 192.0.2.1
dns b.example 192.0.2.2
http://a.example/ http://b.example/ /1 /2 /3 /4 /5 /6 /7 /8 /9 /10 /11 /12
http://b.example/ http://b.example/1
http://b.example/1 404
`}
		s.pauses = []pause{{kill: true}}
		w, cancel, end := s.begin(t)
		explains := func(host string, want ...string) {
			t.Helper()
			got, err := w.Explain(t.Context(), host)
			for _, want := range want {
				if err != nil || !strings.Contains(got, want) {
					t.Errorf("explain: %q, %v, want %q", got, err, want)
				}
			}
		}
		time.Sleep(1500 * time.Millisecond)
		explains("b.example", "b.example: resting, 1 link queued\n", "delay of 1s until")
		time.Sleep(8 * time.Second)
		explains("b.example", "b.example: finished\n", "no link is queued", "finished so far: 2 URLs, 1 page\n")
		explains("c.example", "c.example: unknown\n", "has accepted no URL of the host")
		mem := w.kill(cancel)
		end()
		w.close()

		w = s.opened(t, mem)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { _, err := w.Run(ctx); ended <- err }()
		time.Sleep(1500 * time.Millisecond)
		explains("b.example", "b.example: finished\n", "finished so far: 2 URLs, 1 page\n")
		cancel()
		if err := errors.Join(<-ended, w.close()); err != nil {
			t.Error(err)
		}
	})
}

// Dropped links are finished, and stay finished.
func TestDropOverKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{text: orderedWeb + "http://b.example/x 504\n", frontier: frontier.Config{}}
		s.text = strings.Replace(s.text, "http://b.example/ http://a.example/4",
			"http://b.example/ http://a.example/4 /x", 1)
		s.pauses = []pause{{kill: true}}
		w, cancel, end := s.begin(t)
		time.Sleep(5500 * time.Millisecond) // b.example/x has failed and waits for its retry
		if got, err := w.Drop(t.Context(), "a.example"); got != "a.example: 1 link dropped" &&
			got != "a.example: 0 links dropped" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if got, err := w.Drop(t.Context(), "b.example"); got != "b.example: 1 link dropped" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		synctest.Wait() // they are finished in the background
		mem := w.kill(cancel)
		end()
		w.close()
		asked := len(s.web.Told())
		w = s.opened(t, mem)
		if stop, err := w.Run(t.Context()); stop != Finished || err != nil || len(s.web.Told()) != asked {
			t.Errorf("ended with %s, %v, after %d requests", stop, err, len(s.web.Told())-asked)
		}
		if n := w.Tally.Summary(0, "").Status["-6000"]; n < 1 || n > 2 {
			t.Errorf("%d URLs dropped", n)
		}
		if text := logText(w.parts.Lines(t, w.fs)); !strings.Contains(text, "-6000 b.example/x LL [2t]") {
			t.Errorf("log:\n%s", text)
		}
		s.check(t, w)
	})
}

// A host that is blocked or dropped while its visit waits for a worker gets no request.
func TestOrderDuringIntake(t *testing.T) {
	t.Run("block", func(t *testing.T) { orderDuringIntake(t, true, OnlyBlocked, 2) })
	t.Run("drop", func(t *testing.T) { orderDuringIntake(t, false, Finished, 3) })
}

func orderDuringIntake(t *testing.T, block bool, end Stop, finished int64) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{text: `
delay 1s
workers 2
slow-visits -1
seed http://a.example/
seed http://b.example/
seed http://c.example/
dns a.example 192.0.2.1
dns b.example 192.0.2.2
dns c.example 192.0.2.3
http://a.example/ slow=20s
http://b.example/ slow=20s
http://c.example/ slow=20s
`}
		w, _, wait := s.begin(t)
		time.Sleep(5 * time.Second) // two of them are being visited
		asked := map[string]bool{}
		for _, r := range s.web.Told() {
			asked[r.Host] = asked[r.Host] || !strings.HasSuffix(r.URL, "/robots.txt")
		}
		for _, host := range []string{"a.example", "b.example", "c.example"} {
			if asked[host] {
				continue
			}
			order := w.Drop
			if block {
				w.blocks(t, host)
				order = func(ctx context.Context, host string) (string, error) {
					text, _, err := w.Waiting(ctx, host)
					return text, err
				}
			}
			if text, err := order(t.Context(), host); !strings.HasSuffix(text, "visit is in progress and will "+
				"be completed") || err != nil {
				t.Errorf("%q, %v: not waiting for a worker", text, err)
			}
		}
		stop, err := wait()
		if stop != end || err != nil || w.Pending() != 3-finished || w.Tally.Finished() != finished {
			t.Errorf("ended with %s, %v, %d finished, %d pending", stop, err, w.Tally.Finished(), w.Pending())
		}
		if n := len(slices.DeleteFunc(s.web.Told(),
			func(r textweb.Request) bool { return strings.HasSuffix(r.URL, "/robots.txt") })); n != 2 {
			t.Errorf("%d pages asked for", n)
		}
		s.accounts(t, w)
		must(t, w.close())
	})
}

// If a command takes long, its caller learns that it continues.
func TestLongOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{text: orderedWeb}
		w, _, end := s.begin(t)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		done := false
		text, err := w.command(ctx, "drop", "a.example", func(time.Time) (string, error) {
			time.Sleep(time.Minute)
			done = true
			return "done", nil
		})
		if text != "" || !errors.Is(err, ErrUnderWay) {
			t.Errorf("got %q, %v", text, err)
		}
		end()
		if !done || w.Tally.Finished() != 6 {
			t.Errorf("done is %t, %d URLs finished", done, w.Tally.Finished())
		}
		must(t, w.close())
	})
}

// A robots.txt on another host cannot be fetched while that host is blocked. The URLs that need it
// do not wait forever.
func TestBlockedHostHasOthersRobots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{text: `
delay 1s
retries 1
retry-wait 10s
seed http://a.example/
seed http://b.example/
dns a.example 192.0.2.1
dns b.example 192.0.2.2
http://a.example/robots.txt 301 to=http://b.example/robots-of-a
http://b.example/ slow=20s
`}
		w, _, end := s.begin(t)
		time.Sleep(5 * time.Second) // the robots.txt is queued at b.example, which is busy
		w.blocks(t, "b.example")
		if got, _, err := w.Waiting(t.Context(), "b.example"); got != "1 link waits; one visit is in progress and "+
			"will "+
			"be completed" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		stop, err := end()
		if err != nil || stop != OnlyBlocked && stop != Finished {
			t.Error(stop, err)
		}
		if n := w.Tally.Errors()["robots-unreachable"]; n != 1 || w.Pending() != 0 {
			t.Errorf("%d without robots.txt, %d pending", n, w.Pending())
		}
		s.accounts(t, w)
		must(t, w.close())
	})
}
