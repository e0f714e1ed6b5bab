package crawl_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
)

// TestOrdersModel gives commands at random times to crawls of random webs that end at random times,
// and checks their answers.
func TestOrdersModel(t *testing.T) {
	model(t, 20, 60, func(t *testing.T, seed uint64) {
		ordersOnce(t, seed, int(seed%3), trial{})
	})
}

// The same with a seen-set that holds back nearly all links for a while, and with power failures
// that lose any part of what was not synced.
func TestOrdersModelHeld(t *testing.T) {
	model(t, 12, 60, func(t *testing.T, seed uint64) {
		ordersOnce(t, seed, max(0, int(seed%4)-2), trial{seen: testparts.Tiny(seed)})
	})
}

// The same if the whole seen-set is deleted at times while no process runs. Links may be lost with
// it, but no command.
func TestOrdersModelLost(t *testing.T) {
	model(t, 10, 60, func(t *testing.T, seed uint64) {
		ordersOnce(t, seed, 0, trial{seen: testparts.Tiny(seed), deleted: true})
	})
}

func ordersOnce(t *testing.T, seed uint64, again int, tr trial) {
	sc := tr.seen
	rng := rand.New(rand.NewPCG(seed, 9))
	dense := sc.MemoryBytes > 0
	pages := 12
	if dense {
		pages += rng.IntN(48)
	}
	web := textweb.NewRandom(rng, pages, dense)
	s := parsed(t, "seed http://h0.example/\ndelay 200ms\nslow-base 1s\n"+web.Text)
	s.seen = sc
	s.pauses = []pause{{kill: true, crash: true}} // with more pauses the logs may lose lines
	s.cfg.SnapshotBytes = 1 << (8 + rng.IntN(10))
	s.cfg.Workers = 1 + rng.IntN(8)
	s.cfg.MaxRedirects = 100
	s.cfg.DrainTimeout = 100 * time.Millisecond
	if rng.IntN(2) == 0 {
		s.frontier.Active, s.frontier.MemoryBytes = 1, 1 // links wait in pools
	}
	if rng.IntN(2) == 0 {
		s.frontier.IPDelay = 300 * time.Millisecond
	}
	if s.again = again > 0; s.again {
		s.strategy = func() visit.Strategy { return &returner{follower: takeAll, n: again, every: 2} }
	}
	var log strings.Builder
	since := func() time.Duration { return time.Since(s.web.Start) }
	note := func(format string, a ...any) { fmt.Fprintf(&log, "%s "+format+"\n", append([]any{since()}, a...)...) }
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, %+v %+v\n%s\n%s\n%s", seed, s.cfg, s.frontier, web.Text, log.String(), s.web.Requests())
		}
	}()
	mem := testdisk.NewMem()
	blocked := map[string]time.Duration{}
	type span struct {
		host     string
		from, to time.Duration
	}
	var spans []span
	gone := map[string]time.Duration{}   // URLs finished as dropped, and when
	doomed := map[string]time.Duration{} // URLs that must not be requested after this time
	var w *world
	seeGone := func() {
		for _, l := range w.parts.Lines(t, w.fs) {
			if _, ok := gone[l.URL]; l.Code == report.CodeDeletedByUser && !ok {
				gone[l.URL] = since()
			}
		}
	}
	for run, runs := 0, 1+rng.IntN(7); ; run++ {
		w = s.opened(t, mem)
		s.accounts(t, w)
		w.blocks(t, slices.Collect(maps.Keys(blocked))...)
		note("open: recovered %+v, blocked %v", w.rec, blocked)
		if w.rec.Lost > 0 && !tr.deleted {
			t.Errorf("run %d: %d lost", run, w.rec.Lost)
		}
		for h := range blocked {
			if run == runs || rng.IntN(4) == 0 {
				spans = append(spans, span{h, blocked[h], since()})
				delete(blocked, h)
				w.blocks(t, slices.Collect(maps.Keys(blocked))...)
				note("unblock before %s", h)
			}
		}
		if run == runs {
			if stop, err := w.Run(t.Context()); err != nil || stop != crawl.Finished || w.View.Pending() != 0 {
				t.Fatal(stop, err, w.View.Pending())
			}
			seeGone()
			break
		}
		earlier := len(w.parts.Lines(t, w.fs))
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan crawl.Stop, 1)
		go func() {
			stop, err := w.Run(ctx)
			if err != nil && !w.dead.Load() {
				t.Error(err)
			}
			ended <- stop
		}()
		synctest.Wait()
		order := func(what int, host string) {
			switch what {
			case 0:
				if _, was := blocked[host]; was {
					break
				}
				hosts := append(slices.Collect(maps.Keys(blocked)), host)
				w.blocks(t, hosts...)
				blocked[host] = since()
				note("block %s", host)
			case 1:
				from, was := blocked[host]
				if !was {
					break
				}
				note("unblock %s", host)
				spans = append(spans, span{host, from, since()})
				delete(blocked, host)
				w.blocks(t, slices.Collect(maps.Keys(blocked))...)
			case 2:
				if text, err := w.Orders.Drop(ctx, host); err == nil {
					note("%s", text)
					// Links on the pages of this run that were not requested yet.
					for _, l := range w.parts.Lines(t, w.fs)[earlier:] {
						if l.Code != 200 {
							continue
						}
						for _, u := range web.Links[l.URL] {
							if _, ok := doomed[u]; !ok && strings.HasPrefix(u, "http://"+host+"/") {
								doomed[u] = since()
							}
						}
					}
					synctest.Wait()
					seeGone()
				}
			}
		}
		for range rng.IntN(8) {
			time.Sleep(time.Duration(rng.IntN(1200)) * time.Millisecond)
			order(rng.IntN(3), fmt.Sprintf("h%d.example", rng.IntN(4)))
		}
		if rng.IntN(3) > 0 {
			time.Sleep(time.Duration(rng.IntN(1200)) * time.Millisecond)
		}
		synctest.Wait()
		seeGone()
		switch end := rng.IntN(6); end {
		case 0:
		case 1, 2:
			note("kill")
			mem = w.kill(cancel)
			if tr.deleted {
				if err := mem.RemoveAll(crawlDir + "/state/seen"); err != nil {
					t.Error(err)
				}
			}
		default:
			note("crash")
			if tk := testparts.Takes(rng); tk != nil {
				mem = mem.CrashOf(tk)
			} else {
				mem = mem.Crash(seed + uint64(run))
			}
			w.kill(cancel)
		}
		cancel()
		<-ended
		w.close()
		time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
	}
	t.Logf("%d times blocked, %d URLs dropped, of %d that were named before", len(spans), len(gone), len(doomed))
	asked := map[string]bool{}
	for _, r := range s.web.Told() {
		asked[r.URL] = true
		for _, b := range spans {
			if r.Host == b.host && r.At > b.from && r.At < b.to {
				t.Errorf("%s asked for at %s: blocked from %s to %s", r.URL, r.At, b.from, b.to)
			}
		}
		if at, ok := doomed[r.URL]; ok && r.At > at && !s.again && !tr.deleted {
			t.Errorf("%s asked for at %s: its host was dropped at %s", r.URL, r.At, at)
		}
		if at, ok := gone[r.URL]; ok && r.At > at && !tr.deleted {
			t.Errorf("%s asked for at %s: dropped at %s", r.URL, r.At, at)
		}
	}
	// Known is at least the number of URLs reachable over pages that were not dropped. It is at
	// most the number of URLs that were requested or dropped: a power failure may lose a page, with
	// its links, before it is dropped.
	least, todo := map[string]bool{"http://h0.example/": true}, []string{"http://h0.example/"}
	for len(todo) > 0 {
		u := todo[0]
		todo = todo[1:]
		_, dropped := gone[u]
		if !dropped && !asked[u] && !tr.deleted {
			t.Errorf("%s was neither asked for nor dropped", u)
		}
		for _, to := range web.Links[u] {
			if !dropped && !least[to] {
				least[to] = true
				todo = append(todo, to)
			}
		}
	}
	most := len(gone)
	for u := range asked {
		if _, dropped := gone[u]; !dropped && !strings.HasSuffix(u, "/robots.txt") {
			most++
		}
	}
	if n := int(w.Tally.Finished()); n < len(least) && !tr.deleted || n > most {
		t.Errorf("%d URLs finished, want %d to %d", n, len(least), most)
	}
	sum := w.Tally.Summary(0, "")
	delete(sum.Skipped, "redirectLoop") // redirects of a random web may lead back
	if int(sum.Skipped["dropped"]) < len(gone) && !s.again && !tr.deleted || len(sum.Skipped) > 1 && !tr.deleted {
		t.Errorf("skipped %v, %d URLs dropped", sum.Skipped, len(gone))
	}
	s.checkPace(t, web)
	s.check(t, w)
}
