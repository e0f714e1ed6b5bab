package node_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/warc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// resumes reports whether there is a crawl to resume.
func resumes(fsys disk.FS) bool {
	_, err := fsys.Stat("/crawl/crawl.yaml")
	return !errors.Is(err, fs.ErrNotExist)
}

// goOn finishes the crawl after a failure and checks the result. Pages of the last 300 ms before it may be fetched
// again.
func (w *smallWeb) goOn(t *testing.T, cfg node.Config, broke time.Time) {
	t.Helper()
	cfg.Resume = resumes(cfg.FS)
	res, err := life(cfg)
	if err != nil {
		t.Fatalf("with room again: %v", err)
	}
	urls := smallURLs()
	n := int64(len(urls))
	if s := res.Summary; res.Stop != crawl.Finished || s.Queued != 0 || s.Finished != n || s.Unique != n ||
		s.Pages != n {
		t.Fatalf("stop %s, %d queued, %d finished, %d unique, %d pages; want %d", res.Stop, s.Queued, s.Finished,
			s.Unique, s.Pages, n)
	}
	last := map[string]time.Time{}
	for _, r := range w.Told() {
		if early, ok := last[r.URL]; ok && broke.Sub(early) > 300*time.Millisecond {
			t.Errorf("%s was fetched %s before the disk failed, and again", r.URL, broke.Sub(early))
		}
		if last[r.URL] = w.Start.Add(r.At); strings.HasSuffix(r.URL, "robots.txt") {
			delete(last, r.URL)
		}
	}
	if len(last) != len(urls) {
		t.Errorf("%d URLs were asked for, want %d", len(last), len(urls))
	}
	w.checkFiles(t, cfg.FS)
}

// checkFiles reads the whole directory. Every record must be complete, every page in the index, and
// every log line must have twelve columns.
func (w *smallWeb) checkFiles(t *testing.T, fs disk.FS) {
	t.Helper()
	testparts.Verify(t, fs)
	logged := map[string]bool{}
	for line := range strings.Lines(read(t, fs, "logs/crawl.log")) {
		l, err := report.ReadLine(line)
		if err != nil {
			t.Error(err)
		}
		logged[l.URL] = true
	}
	for _, u := range smallURLs() {
		if lines, err := warc.Lookup(fs, warc.Place{Dir: "/crawl"}, u); err != nil || len(lines) == 0 {
			t.Errorf("%s: %d captures in the index, %v", u, len(lines), err)
		}
		if !logged[u] && !w.torn {
			t.Errorf("%s is not in crawl.log", u)
		}
	}
	for _, name := range []string{"summary.json", "hosts.csv"} {
		if _, err := fs.Stat("/crawl/reports/" + name); err != nil {
			t.Error(err)
		}
	}
}

// TestDiskFaults makes operations that change the disk fail, one in each crawl: with a full disk from then on, or once
// with an I/O error. For each kind of operation in each folder, the gate has the disk full from the first one on, and
// lets the last one fail, under the race detector for a third of them. The soak does both at all operations.
func TestDiskFaults(t *testing.T) {
	for name, begun := range map[string]bool{"new": false, "resumed": true} {
		t.Run(name, func(t *testing.T) {
			var kinds []string // of the operations, in their order
			first, last := map[string]int{}, map[string]int{}
			synctest.Test(t, func(t *testing.T) {
				w, faulty := newSmallWeb(t), testdisk.NewFaulty(testdisk.NewMem(), nil)
				cfg := w.config(t, faulty)
				w.begin(t, cfg, faulty, begun)
				faulty.Break(func(c testdisk.Call) testdisk.Fault {
					if c.Op.Changes() {
						kind := fmt.Sprint(c.Op, " ", filepath.Dir(c.Name))
						if _, ok := first[kind]; !ok {
							first[kind] = len(kinds)
						}
						last[kind] = len(kinds)
						kinds = append(kinds, kind)
					}
					return testdisk.Fault{}
				})
				w.goOn(t, cfg, time.Now())
			})
			t.Logf("%d operations of %d kinds", len(kinds), len(first))
			for i, kind := range kinds {
				for fault, chosen := range map[string]int{"full": first[kind], "broken": last[kind]} {
					if i != chosen && !testtier.Soak() || i%testtier.Stride(3) > 0 {
						continue
					}
					t.Run(fmt.Sprintf("%s-at-%d", fault, i+1), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { faultAt(t, int64(i+1), begun, fault == "full") })
					})
				}
			}
		})
	}
}

// begin crawls a few pages if there must be an earlier run, and returns the number of operations so
// far.
func (w *smallWeb) begin(t *testing.T, cfg node.Config, faulty *testdisk.Faulty, begun bool) int64 {
	t.Helper()
	if begun {
		cfg.Crawl.PageLimit = 9
		if res, err := life(cfg); err != nil || res.Stop != crawl.PageLimit || res.Summary.Pages != 9 {
			t.Fatalf("%s after %d pages, %v", res.Stop, res.Summary.Pages, err)
		}
	}
	_, changes := faulty.Calls()
	return changes
}

func faultAt(t *testing.T, n int64, begun, full bool) {
	w, faulty := newSmallWeb(t), testdisk.NewFaulty(testdisk.NewMem(), nil)
	cfg := w.config(t, faulty)
	n += w.begin(t, cfg, faulty, begun)
	var failed testdisk.Call
	var broke time.Time
	hook := testdisk.FailAt(n, syscall.EIO)
	if full {
		hook = testdisk.FailFrom(n, syscall.ENOSPC)
	}
	faulty.Break(func(c testdisk.Call) testdisk.Fault {
		if c.Change == n {
			failed, broke = c, time.Now()
		}
		return hook(c)
	})
	again := cfg
	again.Resume = begun
	_, err := life(again)
	switch {
	case failed.Op == "": // this run had fewer operations
	case full && !disk.IsFull(err):
		t.Errorf("%s %s failed: %v; want an error that says that the disk is full", failed.Op, failed.Name, err)
	case !full && err == nil && !harmless(failed):
		t.Errorf("%s %s failed, without an error", failed.Op, failed.Name)
	case !full && err != nil && !errors.Is(err, syscall.EIO):
		t.Errorf("%s %s failed: %v; want the disk's error", failed.Op, failed.Name, err)
	}
	faulty.Heal()
	if err == nil {
		broke = time.Now()
		w.checkFiles(t, faulty)
	}
	w.goOn(t, cfg, broke)
	if t.Failed() {
		t.Logf("%s %s at %d; %v", failed.Op, failed.Name, n, err)
	}
}

// harmless reports whether a single failure may go unnoticed: the next start deletes the file
// again.
func harmless(c testdisk.Call) bool {
	return c.Op == testdisk.OpRemove && strings.Contains(c.Name, "spill")
}

// TestDiskFull limits the disk to a number of bytes. A second start without more space does not make it worse.
func TestDiskFull(t *testing.T) {
	for _, room := range []int64{0, 100, 1000, 5000, 20_000, 50_000, 80_000} {
		synctest.Test(t, func(t *testing.T) {
			w, faulty := newSmallWeb(t), testdisk.NewFaulty(testdisk.NewMem(), testdisk.FullAfter(room))
			cfg := w.config(t, faulty)
			_, err := life(cfg)
			again := cfg
			again.Resume = resumes(faulty)
			if _, twice := life(again); !disk.IsFull(err) || twice == nil {
				t.Errorf("%d bytes: %v, and then %v", room, err, twice)
			}
			broke := time.Now()
			faulty.Heal()
			w.goOn(t, cfg, broke)
		})
	}
}

// As soon as a run without seeds can continue the crawl, its seeds are on disk, whenever the agent
// is killed.
func TestKilledWhileBegun(t *testing.T) {
	left := 0
	for n, opened := int64(1), false; !opened; n++ {
		synctest.Test(t, func(t *testing.T) {
			mem := testdisk.NewMem()
			// The seeds of a run that was killed before there was a crawl.
			write(t, mem, "/crawl/state/seeds.txt", "http://b.example/\n")
			dead := errors.New("killed")
			a, err := node.Open(newSmallWeb(t).config(t, testdisk.NewFaulty(mem, func(c testdisk.Call) testdisk.Fault {
				if c.Change >= n {
					return testdisk.Fault{Err: dead}
				}
				return testdisk.Fault{}
			})))
			if opened = err == nil; opened {
				_ = a.Close() // Close fails because of the disk
			} else if !errors.Is(err, dead) {
				t.Fatal(err)
			}
			if !resumes(mem) {
				return
			}
			left++
			if got := read(t, mem, "state/seeds.txt"); got != "http://a.example/\n" {
				t.Errorf("killed at operation %d there is a crawl of %q", n, got)
			}
		})
	}
	if left < 10 {
		t.Errorf("only %d kills left a crawl", left)
	}
}

// TestPowerFailure cuts the power at random times, from the start of a crawl on, and continues with
// what is left on the disk.
func TestPowerFailure(t *testing.T) {
	for seed := range uint64(testtier.Rounds(20, 400)) {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 3))
				w, mem := newSmallWeb(t), testdisk.NewMem()
				w.torn = true
				cfg := w.config(t, mem)
				cfg.Crawl.DrainTimeout = time.Nanosecond
				for range 1 + rng.IntN(4) {
					cfg.Resume = resumes(cfg.FS)
					var left *testdisk.Mem
					runApart(t, cfg, func(*node.Agent) {
						time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
						left = cfg.FS.(*testdisk.Mem).Crash(rng.Uint64())
					})
					cfg.FS = left
				}
				w.goOn(t, cfg, time.Time{}) // TestDiskFaults checks what is fetched again
			})
		})
	}
}
