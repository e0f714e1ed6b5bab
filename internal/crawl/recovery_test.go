package crawl_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
)

// model runs a trial for each of its seeds, of which the soak has more than the gate, in virtual time.
func model(t *testing.T, gate, soak int, run func(t *testing.T, seed uint64)) {
	first := testseed.First(0)
	for seed := first; seed < first+uint64(testtier.Rounds(gate, soak)); seed++ {
		bubble(t, fmt.Sprint("seed-", seed), func(t *testing.T) { run(t, seed) })
	}
}

// sampled returns the step of a test that ends a run at each multiple of step: the gate has only every third.
func sampled(step time.Duration) time.Duration { return step * time.Duration(testtier.Rounds(3, 1)) }

// TestRecoveryModel ends crawls of random webs at random times, by signal, kill and power failure,
// and compares the result with an undisturbed crawl.
func TestRecoveryModel(t *testing.T) {
	model(t, 40, 150, func(t *testing.T, seed uint64) {
		trial{}.run(t, seed)
	})
}

// The same with pages that are visited again: no visit is lost or counted twice.
func TestRecoveryModelAgain(t *testing.T) {
	model(t, 15, 40, func(t *testing.T, seed uint64) {
		trial{again: 1 + int(seed%3)}.run(t, seed)
	})
}

// The same with a seen-set that has hardly any memory: nearly all keys are on disk, and nearly all
// links are held back for a while.
func TestRecoveryModelHeld(t *testing.T) {
	model(t, 12, 60, func(t *testing.T, seed uint64) {
		trial{seen: testparts.Tiny(seed)}.run(t, seed)
	})
}

// The same with random bit errors in the runs of the seen-set.
func TestRecoveryModelDamaged(t *testing.T) {
	model(t, 6, 40, func(t *testing.T, seed uint64) {
		trial{seen: onDisk, damaged: "run-", within: 2500 * time.Millisecond}.run(t, seed)
	})
}

// The same with bit errors in held-back links, or with a seen-set that is deleted while no process
// runs. A page may be missed then, but it must be reported.
func TestRecoveryModelLost(t *testing.T) {
	model(t, 10, 40, func(t *testing.T, seed uint64) {
		tr := trial{seen: testparts.Tiny(seed), damaged: "held-", within: 400 * time.Millisecond}
		if seed%3 == 0 {
			tr = trial{seen: testparts.Tiny(seed), deleted: true}
		}
		tr.run(t, seed)
	})
}

// A trial is a crawl with the faults besides ends of runs.
type trial struct {
	again   int // how often each page is visited again
	seen    keyset.Config
	damaged string // files of the seen-set that get bit errors at times
	within  time.Duration
	deleted bool // state/seen is deleted at a kill
}

func (tr trial) run(t *testing.T, seed uint64) {
	again, sc := tr.again, tr.seen
	lossy := tr.deleted || tr.damaged == "held-"
	rng := rand.New(rand.NewPCG(seed, 7))
	dense := sc.MemoryBytes > 0
	pages, least := 12, time.Duration(0)
	if dense {
		pages, least = 60, 2*time.Second // how long nothing happens after a restart
	}
	web := textweb.NewRandom(rng, pages, dense)
	s := parsed(t, "delay 200ms\nslow-base 1s\nmax-redirects 100\ndrain-timeout 100ms\nseed http://h0.example/\n"+
		web.Text)
	s.cfg.Workers, s.cfg.SnapshotBytes = 1+rng.IntN(8), 1<<(8+rng.IntN(10))
	s.frontier.Seed, s.seen = seed, sc
	if s.again = again > 0; s.again {
		s.strategy = func() visit.Strategy { return &returner{follower: takeAll, n: again, every: 1} }
	}
	if rng.IntN(2) == 0 {
		s.frontier.IPDelay = 300 * time.Millisecond
	}
	at := time.Duration(0)
	for range rng.IntN(7) {
		at += least + time.Duration(rng.IntN(3000))*time.Millisecond
		at += time.Millisecond
		p := pause{at: at, gap: time.Duration(rng.IntN(400)) * time.Millisecond}
		end := rng.IntN(5)
		switch {
		case tr.deleted:
			p.kill = true
			if end > 0 {
				p.then = func(m *testdisk.Mem) {
					if err := m.RemoveAll(crawlDir + "/state/seen"); err != nil {
						t.Error(err)
					}
				}
			}
		case end == 0 && !lossy:
		case end <= 2:
			p.kill = true
		default:
			p.crash = true
			if dense {
				p.takes = testparts.Takes(rng)
			}
		}
		s.pauses = append(s.pauses, p)
		at += p.gap + s.cfg.DrainTimeout
	}
	if tr.damaged != "" {
		defer s.damage(rand.New(rand.NewPCG(seed, 9)), 12, tr.within, tr.damaged)()
	}
	w := s.run(t)
	log := logText(w.parts.Lines(t, w.fs))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, pauses %+v, config %+v\n%s\n%s\n%s", seed, s.pauses, s.cfg, web.Text, s.web.Requests(),
				log)
		}
	}()
	if w.stop != crawl.Finished || w.View.Pending() != 0 {
		t.Fatalf("stop %s, %d pending", w.stop, w.View.Pending())
	}
	missed := len(web.Reach) - int(w.Tally.Finished())
	sum := w.Tally.Summary(0, "")
	if lost := sum.Skipped["seenLost"]; lossy && lost > 0 {
		t.Logf("at most %d links are lost, %d pages missed", lost, missed)
	} else if got := int(w.Tally.Finished()); missed != 0 {
		t.Errorf("%d URLs finished, %d reachable", got, len(web.Reach))
	}
	if s.again {
		if want := (sum.Finished - sum.Status["404"] - sum.Status["302"]) * int64(again); sum.Revisits != want ||
			sum.Unchanged+sum.Changed != want {
			t.Errorf("%d URLs visited again, %d unchanged and %d changed, want %d", sum.Revisits, sum.Unchanged,
				sum.Changed, want)
		}
	}
	s.checkPace(t, web)
	if lossy {
		s.check(t, w)
		return
	}
	s.checkVisits(t, web)
	s.check(t, w)
	have := archived(t, w.fs)
	for u := range web.Reach {
		if have[u] == 0 && web.Response[u] {
			t.Errorf("no record of %s", u)
		}
	}
}

// checkPace checks politeness by the server's log.
func (s *story) checkPace(t *testing.T, web textweb.Random) {
	t.Helper()
	last := map[string]textweb.Request{}
	for _, r := range s.web.Told() {
		if before, ok := last[r.Host]; ok {
			delay := 200 * time.Millisecond
			robots := strings.HasSuffix(before.URL, "/robots.txt")
			if !robots || s.endedBetween(before.End, r.At) == nil {
				delay = max(delay, web.Delays[r.Host])
			}
			if r.At-before.End < delay {
				t.Errorf("%s at %s, %s after %s at %s", r.URL, r.At, r.At-before.End, before.URL, before.At)
			}
		}
		last[r.Host] = r
		if s.frontier.IPDelay > 0 {
			if before, ok := last[r.Addr]; ok && r.At-before.End < s.frontier.IPDelay {
				t.Errorf("%s at %s, %s after %s on the same address", r.URL, r.At, r.At-before.End, before.URL)
			}
			last[r.Addr] = r
		}
	}
}

// checkVisits checks coverage and overlap by the server's log.
func (s *story) checkVisits(t *testing.T, web textweb.Random) {
	t.Helper()
	visits := map[string][]textweb.Request{}
	for _, r := range s.web.Told() {
		if !strings.HasSuffix(r.URL, "/robots.txt") {
			visits[r.URL] = append(visits[r.URL], r)
		}
	}
	for u := range web.Reach {
		if len(visits[u]) == 0 {
			t.Errorf("%s was never asked for", u)
		}
	}
	for u, rs := range visits {
		if !web.Reach[u] {
			t.Errorf("%s is not reachable", u)
		}
		for i, r := range rs[:max(len(rs)-1, 0)] {
			if r.Status == 503 || s.again {
				continue // asked for again on purpose
			}
			p := s.endedBetween(r.At, rs[i+1].At)
			switch {
			case p == nil:
				t.Errorf("%s at %s and at %s, without an end of the run in between", u, r.At, rs[i+1].At)
			case p.kill && r.End+150*time.Millisecond < p.at, p.crash && r.End+1300*time.Millisecond < p.at,
				!p.kill && !p.crash && r.End < p.at:
				t.Errorf("%s ended at %s, the run at %s (%+v), asked for again at %s", u, r.End, p.at, *p, rs[i+1].At)
			}
		}
	}
}

// endedBetween finds the first end of a run in a time range.
func (s *story) endedBetween(from, to time.Duration) *pause {
	for i := range s.pauses {
		if p := &s.pauses[i]; p.at >= from && p.at <= to {
			return p
		}
	}
	return nil
}

// archived counts the captures of each URL.
func archived(t *testing.T, fs disk.FS) map[string]int {
	t.Helper()
	have := map[string]int{}
	for _, c := range testparts.Captures(t, fs, "") {
		have[c.URL]++
	}
	return have
}
