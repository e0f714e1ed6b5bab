package crawl_test

import (
	"context"
	"fmt"
	iofs "io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
)

// A slowDisk takes virtual time for writes and syncs of the journal only. The archive and the logs
// are locked during their I/O, and for the virtual clock a goroutine that waits for a lock is not
// idle. A Sync makes durable what was written when it began or, with late, when it ends. The crawl
// must not rely on either.
type slowDisk struct {
	*testdisk.Mem
	late  bool
	gone  chan struct{} // closed when its process is dead: waiting ends
	start time.Time

	mu            sync.Mutex // guards the fields below
	syncs, merges []stretch  // fsyncs of segments, and from the first byte of a snapshot to its name
}

// A stretch is a time in which a sync or a merge was under way.
type stretch struct{ from, to time.Duration }

func (s stretch) has(at time.Duration) bool { return s.from <= at && at <= s.to }

const (
	slowDir  = crawlDir + "/state/journal"
	slowSync = 2 * time.Second
	// slowEvery is Config.SyncEvery. If it were less than slowSync, syncs would follow each other
	// without a gap, and a checkpoint begins only in a gap.
	slowEvery = 2 * slowSync
	slowRead  = 200 * time.Millisecond
	slowOpen  = 5 * time.Millisecond // of a write
	slowRate  = 50_000               // bytes per second
)

func newSlowDisk(mem *testdisk.Mem, late bool) *slowDisk {
	return &slowDisk{Mem: mem, late: late, gone: make(chan struct{}), start: time.Now()}
}

func (d *slowDisk) note(list *[]stretch, from, to time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*list = append(*list, stretch{from.Sub(d.start), to.Sub(d.start)})
}

func (d *slowDisk) wait(t time.Duration) {
	select {
	case <-time.After(t):
	case <-d.gone:
	}
}

func (d *slowDisk) OpenFile(name string, flag int, perm iofs.FileMode) (disk.File, error) {
	f, err := d.Mem.OpenFile(name, flag, perm)
	if err == nil && strings.HasPrefix(name, slowDir+"/") {
		return &slowFile{f, d, name, time.Now()}, nil
	}
	return f, err
}

func (d *slowDisk) Rename(from, to string) error { // of a snapshot
	d.mu.Lock()
	if n := len(d.merges); n > 0 {
		d.merges[n-1].to = time.Since(d.start)
	}
	d.mu.Unlock()
	return d.Mem.Rename(from, to)
}

func (d *slowDisk) SyncDir(dir string) error {
	if dir == slowDir {
		d.wait(slowSync)
	}
	return d.Mem.SyncDir(dir)
}

type slowFile struct {
	disk.File
	d    *slowDisk
	name string
	made time.Time
}

func (f *slowFile) Read(p []byte) (int, error) {
	f.d.wait(slowRead)
	return f.File.Read(p)
}

func (f *slowFile) Write(p []byte) (int, error) {
	f.d.wait(slowOpen + time.Duration(len(p))*time.Second/slowRate)
	return f.File.Write(p)
}

func (f *slowFile) Sync() error {
	now := time.Now()
	if strings.Contains(f.name, "/snapshot-") {
		f.d.note(&f.d.merges, f.made, now)
	} else if strings.Contains(f.name, "/journal-") {
		f.d.note(&f.d.syncs, now, now.Add(slowSync))
	}
	if f.d.late {
		f.d.wait(slowSync)
		return f.File.Sync()
	}
	err := f.File.Sync()
	f.d.wait(slowSync)
	return err
}

const (
	slowHosts = 3
	slowPages = 60 // per host
	slowDelay = 500 * time.Millisecond
)

// slowStory is a crawl of three hosts. Each page links to two pages of its host and to one of
// another host.
func slowStory(t *testing.T) (*story, map[string]bool) {
	t.Helper()
	var b strings.Builder
	// There are as many workers as there can be tasks, so no worker of a dead process finds a waiting task.
	fmt.Fprintf(&b, "workers 8\ndrain-timeout 1ns\ndelay %s\nno-keep\nseed http://h0.example/0\n", slowDelay)
	reach := map[string]bool{}
	for h := range slowHosts {
		fmt.Fprintf(&b, "dns h%d.example 192.0.2.%d\n", h, h+1)
		for p := range slowPages {
			u := fmt.Sprintf("http://h%d.example/%d", h, p)
			reach[u] = true
			fmt.Fprintf(&b, "%s http://h%d.example/%d", u, (h+1)%slowHosts, p)
			for _, k := range []int{2*p + 1, 2*p + 2} {
				if k < slowPages {
					fmt.Fprintf(&b, " /%d", k)
				}
			}
			b.WriteByte('\n')
		}
	}
	s := parsed(t, b.String())
	s.cfg.SnapshotBytes, s.cfg.SyncEvery = 2<<10, slowEvery
	return s, reach
}

const (
	// The bound for an ended visit to be settled and written while the dispatcher does not wait for
	// the disk.
	slowSettled = 300 * time.Millisecond
	// The second fsync that ends after that makes it durable.
	slowSynced = slowEvery + slowSync + slowSettled
	// The dispatcher begins a checkpoint with three waits for the disk (old segment, new segment,
	// directory), and adopts it with two (name, removals).
	slowBegin, slowAdopt = 3 * slowSync, 2 * slowSync
)

// slowReference is an undisturbed crawl on a slow disk. It returns the fsyncs while the dispatcher did not wait for the
// disk, the merges, and the times when it waited, as long as there were pages left to request.
func slowReference(t *testing.T, late bool) (s *story, syncs, merges, waits []stretch) {
	t.Helper()
	s, reach := slowStory(t)
	d := newSlowDisk(testdisk.NewMem(), late)
	w := s.opened(t, d)
	finished(t)(w.Run(context.Background()))
	s.checkSlow(t, w, reach, 0, 0)
	for _, m := range d.merges {
		waits = append(waits, stretch{m.from - slowBegin, m.from}, stretch{m.to, m.to + slowAdopt})
	}
	told := s.web.Told()
	busy := stretch{told[0].At, told[len(told)-1].At - 2*slowSync}
	idle := func(x stretch) bool { return !busy.has(x.from) || !busy.has(x.to) }
	waiting := func(x stretch) bool {
		return slices.ContainsFunc(waits, func(w stretch) bool { return w.has(x.from) || w.has(x.to) })
	}
	merges = slices.DeleteFunc(d.merges, idle)
	syncs = slices.DeleteFunc(slices.DeleteFunc(d.syncs, idle), waiting)
	waits = slices.DeleteFunc(waits, idle)
	return s, syncs, merges, waits
}

// TestSlowDisk: a crawl continues, as politely as ever, during a sync and during the merge of a
// checkpoint.
func TestSlowDisk(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, syncs, merges, _ := slowReference(t, late)
			if len(syncs) < 3 || len(merges) < 1 {
				t.Fatalf("late %v: %d fsyncs and %d merges, too few", late, len(syncs), len(merges))
			}
			for _, x := range slices.Concat(syncs, merges) {
				asked := 0
				for _, r := range s.web.Told() {
					if x.has(r.At) {
						asked++
					}
				}
				// Each host is due every half second.
				if want := slowHosts * int((x.to-x.from)/time.Second); asked < want {
					t.Errorf("late %v: %s to %s: %d requests, want %d", late, x.from, x.to, asked, want)
				}
			}
		})
	}
}

// TestSlowDiskKilled: the process is killed or the power fails at any stage of the work of a slow
// disk. Then no URL is lost, no host is contacted too early, and only pages that ended shortly
// before are fetched again.
func TestSlowDiskKilled(t *testing.T) {
	for _, late := range []bool{false, true} {
		var at []time.Duration
		var waits []stretch
		synctest.Test(t, func(t *testing.T) {
			var syncs, merges []stretch
			_, syncs, merges, waits = slowReference(t, late)
			for _, x := range slices.Concat(syncs, merges, waits) {
				for _, share := range []time.Duration{2, 50, 97} {
					at = append(at, x.from+(x.to-x.from)*share/100+time.Millisecond)
				}
			}
		})
		for i := 0; i < len(at); i += testtier.Rounds(7, 1) {
			for _, power := range []bool{false, true} {
				bubble(t, fmt.Sprintf("%s,power=%v,late=%v", at[i], power, late), func(t *testing.T) {
					again := slowSettled
					if power {
						again = slowSynced
					}
					for _, w := range waits {
						// What ended before the dispatcher waited, and was not written, comes again.
						if w.from-slowSync <= at[i] && at[i] <= w.to+again {
							again += at[i] - w.from + slowSync
							if power {
								again += slowBegin + slowAdopt
							}
							break
						}
					}
					slowKilled(t, at[i], power, late, again)
				})
			}
		}
	}
}

func slowKilled(t *testing.T, at time.Duration, power, late bool, again time.Duration) {
	t.Helper()
	s, reach := slowStory(t)
	mem := testdisk.NewMem()
	d := newSlowDisk(mem, late)
	w := s.opened(t, d)
	ctx, cancel := context.WithCancel(context.Background())
	ended := w.background(ctx, t)
	time.Sleep(time.Until(s.web.Start.Add(at)))
	synctest.Wait()
	left := mem.Clone()
	if power {
		left = mem.Crash(uint64(at))
	}
	w.dead.Store(true)
	cancel()
	close(d.gone)
	<-ended
	must.Do(t, w.close())
	s.pauses = []pause{{at: at, kill: !power, crash: power}}
	w = s.opened(t, newSlowDisk(left, late))
	s.accounts(t, w)
	finished(t)(w.Run(context.Background()))
	s.checkSlow(t, w, reach, at, again)
}

// checkSlow compares the end of a slow story with the servers' log and the crawl's files. A process
// may have died; pages that ended less than again before that may be fetched again.
func (s *story) checkSlow(t *testing.T, w *world, reach map[string]bool, died, again time.Duration) {
	t.Helper()
	if w.View.Pending() != 0 || int(w.Tally.Finished()) != len(reach) {
		t.Errorf("%d pending, %d finished of %d", w.View.Pending(), w.Tally.Finished(), len(reach))
	}
	last := map[string]textweb.Request{}
	visits := map[string]textweb.Request{}
	for _, r := range s.web.Told() {
		if before, ok := last[r.Host]; ok && r.At-before.End < slowDelay {
			t.Errorf("%s at %s, %s after %s", r.URL, r.At, r.At-before.End, before.URL)
		}
		last[r.Host] = r
		before, twice := visits[r.URL]
		visits[r.URL] = r
		switch {
		case !twice || strings.HasSuffix(r.URL, "/robots.txt"):
		case before.At > died || r.At < died:
			t.Errorf("%s at %s and at %s, without an end of the process in between", r.URL, before.At, r.At)
		case before.Status != 0 && before.End < died-again:
			t.Errorf("%s ended at %s, the process at %s, asked for again at %s", r.URL, before.End, died, r.At)
		}
	}
	for u := range reach {
		if _, ok := visits[u]; !ok {
			t.Errorf("%s was never asked for", u)
		}
	}
	s.check(t, w)
	have := archived(t, w.fs)
	for u := range reach {
		if have[u] == 0 {
			t.Errorf("no record of %s", u)
		}
	}
}
