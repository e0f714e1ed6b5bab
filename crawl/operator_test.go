package crawl

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/disk"
	"github.com/orbweaver/orbweaver/frontier"
	"github.com/orbweaver/orbweaver/report"
)

const orderedWeb = `
delay 1s
seed http://a.example/
dns a.example 192.0.2.1
dns b.example 192.0.2.2
http://a.example/ http://b.example/ /1 /2 /3
http://b.example/ http://a.example/4
`

// A host that is blocked is left alone, also after a kill; a crawl that has no
// other links ends, and goes on when the host is free again.
func TestBlockOverKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{text: orderedWeb}
		s.parse(t)
		s.pauses = []pause{{kill: true}}
		w, err := s.open(disk.NewMem())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.Run(ctx) }()
		time.Sleep(1500 * time.Millisecond) // after robots.txt and a.example/
		say := func(what func(context.Context, string) (string, error), host, want string) {
			t.Helper()
			if got, err := what(t.Context(), host); got != want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		}
		say(w.Block, "a.example", "a.example: blocked, 3 links wait")
		say(w.Block, "a.example", "a.example: blocked already, 3 links wait")
		say(w.Unblock, "b.example", "b.example: is not blocked")
		if got, err := w.Explain(t.Context(), "a.example"); err != nil || !strings.HasPrefix(got, "a.example: blocked, 3 links queued\n") || !strings.Contains(got, "blocked by the operator") {
			t.Errorf("explain: %q, %v", got, err)
		}
		mem := w.kill(cancel)
		<-ended
		w.close()

		w, err = s.open(mem)
		if err != nil {
			t.Fatal(err)
		}
		if stop, err := w.Run(t.Context()); stop != OnlyBlocked || err != nil || w.Pending() != 4 {
			t.Errorf("ended with %s, %v, %d links pending", stop, err, w.Pending())
		}
		if got := w.Status(); !slices.Equal(got.Blocked, []string{"a.example"}) || got.Frontier.Blocked != 1 || got.Frontier.BlockedLinks != 4 {
			t.Errorf("status %+v", got)
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		for _, r := range s.web.told() {
			if r.host == "a.example" && r.at > 1500*time.Millisecond {
				t.Errorf("%s asked for at %s", r.url, r.at)
			}
		}

		w, err = s.open(mem)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := w.UnblockBefore("a.example"); !ok || err != nil {
			t.Error(ok, err)
		}
		if ok, err := w.UnblockBefore("a.example"); ok || err != nil {
			t.Error(ok, err)
		}
		if stop, err := w.Run(t.Context()); stop != Finished || err != nil {
			t.Errorf("ended with %s, %v", stop, err)
		}
		if n := w.Tally.Finished(); n != 6 || len(w.Status().Blocked) != 0 {
			t.Errorf("%d URLs finished, %q blocked", n, w.Status().Blocked)
		}
		s.check(t, w)
		if _, err := w.Block(t.Context(), "a.example"); !errors.Is(err, ErrNotRunning) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// told is what w was asked for so far.
func (w *textWeb) told() []request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}

// What was dropped is finished, and stays so.
func TestDropOverKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{text: orderedWeb + "http://b.example/x 504\n", frontier: frontier.Config{}}
		s.text = strings.Replace(s.text, "http://b.example/ http://a.example/4", "http://b.example/ http://a.example/4 /x", 1)
		s.parse(t)
		s.pauses = []pause{{kill: true}}
		w, err := s.open(disk.NewMem())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.Run(ctx) }()
		time.Sleep(5500 * time.Millisecond) // b.example/x has failed and waits for its retry
		if got, err := w.Drop(t.Context(), "a.example"); got != "a.example: 1 link dropped" && got != "a.example: 0 links dropped" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if got, err := w.Drop(t.Context(), "b.example"); got != "b.example: 1 link dropped" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		mem := w.kill(cancel)
		<-ended
		w.close()
		asked := len(s.web.told())
		w, err = s.open(mem)
		if err != nil {
			t.Fatal(err)
		}
		if stop, err := w.Run(t.Context()); stop != Finished || err != nil || len(s.web.told()) != asked {
			t.Errorf("ended with %s, %v, after %d requests", stop, err, len(s.web.told())-asked)
		}
		if n := w.Tally.Summary(0, "").Status["-6000"]; n < 1 || n > 2 {
			t.Errorf("%d URLs dropped", n)
		}
		if text := logText(w.lines(t)); !strings.Contains(text, "-6000 b.example/x LL [2t]") {
			t.Errorf("log:\n%s", text)
		}
		s.check(t, w)
	})
}

// A robots.txt that another host keeps for this one cannot be had while that
// one is blocked; nobody waits for it for ever.
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
		s.parse(t)
		w, err := s.open(disk.NewMem())
		if err != nil {
			t.Fatal(err)
		}
		var stop Stop
		ended := make(chan struct{})
		go func() { defer close(ended); stop, err = w.Run(t.Context()) }()
		time.Sleep(5 * time.Second) // the robots.txt is queued at b.example, which is busy
		if got, err := w.Block(t.Context(), "b.example"); got != "b.example: blocked, 1 link waits; one is under way, and ends as usual" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		<-ended
		if err != nil || stop != OnlyBlocked && stop != Finished {
			t.Error(stop, err)
		}
		if n := w.Tally.Errors()["robots-unreachable"]; n != 1 || w.Pending() != 0 {
			t.Errorf("%d without robots.txt, %d pending", n, w.Pending())
		}
		s.accounts(t, w)
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
}

// TestOrdersModel gives orders at random instants to crawls of random webs that
// end at random instants, and holds them to what was answered.
func TestOrdersModel(t *testing.T) {
	n := uint64(60)
	if testing.Short() {
		n = 15
	}
	for seed := range n {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { ordersOnce(t, seed, int(seed%3)) })
		})
	}
}

func ordersOnce(t *testing.T, seed uint64, again int) {
	rng := rand.New(rand.NewPCG(seed, 9))
	web := newRandomWeb(rng, 12, false)
	s := &story{text: "seed http://h0.example/\ndelay 300ms\nslow-base 1s\n" + web.text, again: again > 0}
	s.parse(t)
	s.pauses = []pause{{kill: true, crash: true}} // not more than that is to be held against the logs
	s.cfg.SnapshotBytes = 2048
	if rng.IntN(2) == 0 {
		s.frontier.Active, s.frontier.MemoryBytes = 1, 1 // links wait in pools
	}
	if again > 0 {
		s.strategy = func() Strategy { return &returner{follower: takeAll, n: again, every: 2} }
	}
	mem := disk.NewMem()
	blocked := map[string]time.Duration{} // since when
	type span struct {
		host     string
		from, to time.Duration
	}
	var spans []span
	gone := map[string]time.Duration{} // URLs that were dropped
	since := func() time.Duration { return time.Since(s.web.start) }
	for run := 0; ; run++ {
		last := run == 4
		w, err := s.open(mem)
		if err != nil {
			t.Fatal(err)
		}
		s.accounts(t, w)
		for h := range blocked {
			if !w.isBlocked(h) || !w.Frontier.Host(h).Blocked {
				t.Fatalf("run %d: %s is no longer blocked", run, h)
			}
			if last {
				spans = append(spans, span{h, blocked[h], since()})
				if ok, err := w.UnblockBefore(h); !ok || err != nil {
					t.Fatal(ok, err)
				}
			}
		}
		if len(w.blocked) != len(blocked) && !last {
			t.Fatalf("run %d: %q blocked, want %v", run, w.blocked, blocked)
		}
		if last {
			stop, err := w.Run(t.Context())
			if err != nil || stop != Finished {
				t.Fatal(stop, err)
			}
			s.check(t, w)
			break
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan Stop, 1)
		go func() {
			stop, err := w.Run(ctx)
			if err != nil && !w.dead.Load() {
				t.Error(err)
			}
			ended <- stop
		}()
		synctest.Wait()
		for range rng.IntN(8) {
			time.Sleep(time.Duration(rng.IntN(700)) * time.Millisecond)
			host := fmt.Sprintf("h%d.example", rng.IntN(3))
			switch rng.IntN(3) {
			case 0:
				if _, err := w.Block(ctx, host); err == nil {
					if _, was := blocked[host]; !was {
						blocked[host] = since()
					}
				}
			case 1:
				at := since()
				if _, err := w.Unblock(ctx, host); err == nil {
					if from, was := blocked[host]; was {
						spans = append(spans, span{host, from, at})
						delete(blocked, host)
					}
				}
			case 2:
				if _, err := w.Drop(ctx, host); err == nil {
					synctest.Wait()
					for _, l := range w.lines(t) {
						if _, ok := gone[l.URL]; l.Code == report.CodeDeletedByUser && !ok && again == 0 {
							gone[l.URL] = since()
						}
					}
				}
			}
		}
		synctest.Wait()
		switch rng.IntN(3) {
		case 0:
			mem = w.kill(cancel)
		case 1:
			mem = mem.Crash(seed)
			w.kill(cancel)
		}
		cancel()
		<-ended
		w.close()
	}
	t.Logf("%d times blocked, %d URLs dropped", len(spans), len(gone))
	for _, r := range s.web.told() {
		for _, b := range spans {
			if r.host == b.host && r.at > b.from && r.at < b.to {
				t.Errorf("%s asked for at %s: blocked from %s to %s", r.url, r.at, b.from, b.to)
			}
		}
		if at, ok := gone[r.url]; ok && r.at > at {
			t.Errorf("%s asked for at %s: dropped at %s", r.url, r.at, at)
		}
	}
}
