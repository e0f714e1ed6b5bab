package crawl

import (
	"context"
	"fmt"
	iofs "io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
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
	late bool
	gone chan struct{} // closed when its process is dead: waiting ends
}

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
	return &slowDisk{Mem: mem, late: late, gone: make(chan struct{})}
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
		return &slowFile{f, d}, nil
	}
	return f, err
}

func (d *slowDisk) SyncDir(dir string) error {
	if dir == slowDir {
		d.wait(slowSync)
	}
	return d.Mem.SyncDir(dir)
}

type slowFile struct {
	disk.File
	d *slowDisk
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

// A stretch is a time in which a sync or a merge was under way.
type stretch struct {
	from, to time.Duration
	asked    int // requests meanwhile
}

func (s stretch) String() string {
	return fmt.Sprintf("%s to %s: %d requests", s.from, s.to, s.asked)
}

// lookEvery is the interval at which a test looks at a run.
const lookEvery = 50 * time.Millisecond

// look asks the dispatcher what is under way. The dispatcher answers at once unless it waits for
// the disk itself.
func (w *world) look() (s *syncing, k *checkpoint, ok bool) {
	synctest.Wait()
	told := make(chan struct{})
	select {
	case w.commands <- func(time.Time) { s, k = w.syncing, w.checkpoint; close(told) }:
		<-told
		return s, k, true
	default:
		return nil, nil, false
	}
}

// watch runs w to its end and records when a sync was under way and when a checkpoint was merged.
func (s *story) watch(t *testing.T, w *world) (syncs, merges []stretch) {
	t.Helper()
	over := w.background(context.Background(), t)
	var syncing *syncing
	var merging *checkpoint
	for asked := 0; ; time.Sleep(lookEvery) {
		sync, merge, ok := w.look()
		now := time.Since(s.web.Start)
		n := len(s.web.Told())
		note := func(list *[]stretch, on, same bool) {
			switch {
			case !on:
			case !same:
				*list = append(*list, stretch{from: now, to: now})
			default:
				l := &(*list)[len(*list)-1]
				l.to, l.asked = now, l.asked+n-asked
			}
		}
		if ok {
			note(&syncs, sync != nil, sync == syncing)
			note(&merges, merge != nil, merge == merging)
			syncing, merging, asked = sync, merge, n
		}
		select {
		case stop := <-over:
			if stop != Finished {
				t.Errorf("stop %s", stop)
			}
			return syncs, merges
		default:
		}
	}
}

// lastAsked returns the time of the last request for a page.
func (s *story) lastAsked() time.Duration {
	return s.web.Told()[len(s.web.Told())-1].At
}

// slowReference is an undisturbed crawl on a slow disk. It records what was under way when, while
// there were pages left to request.
func slowReference(t *testing.T, late bool) (syncs, merges []stretch) {
	s, reach := slowStory(t)
	w := s.opened(t, newSlowDisk(testdisk.NewMem(), late))
	syncs, merges = s.watch(t, w)
	s.checkSlow(t, w, reach, 0, 0)
	last := s.lastAsked()
	while := func(list []stretch) (out []stretch) {
		for _, x := range list {
			if x.to < last-2*slowSync {
				out = append(out, x)
			}
		}
		return out
	}
	return while(syncs), while(merges)
}

// TestSlowDisk: a crawl continues, as politely as ever, during a sync and during the merge of a
// checkpoint.
func TestSlowDisk(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			syncs, merges := slowReference(t, late)
			if len(syncs) < 5 || len(merges) < 2 {
				t.Fatalf("late %v: %d fsyncs and %d merges, too few", late, len(syncs), len(merges))
			}
			for what, list := range map[string][]stretch{"fsync": syncs, "merge": merges} {
				for _, x := range list {
					t.Logf("late %v: %s, %s", late, what, x)
					if what == "fsync" && slices.ContainsFunc(merges, func(m stretch) bool { return m.to == x.to }) {
						continue // the dispatcher adopts a checkpoint, and cannot be watched
					}
					// Each host is due every half second. A checkpoint that is adopted meanwhile
					// takes some of the time.
					if x.to-x.from < slowSync-2*lookEvery || x.asked < slowHosts {
						t.Errorf("late %v: %s, %s; want more of both", late, what, x)
					}
				}
			}
		})
	}
}

// A blow ends a process of a slow story.
type blow struct {
	at    time.Duration
	power bool // the power fails; otherwise the process is killed
	late  bool
	while string // what is under way: fsync, merge; empty: the dispatcher waits for the disk
}

const (
	// The bound for an ended visit to be settled and written while the dispatcher does not wait for
	// the disk.
	slowSettled = 300 * time.Millisecond
	// The second fsync that ends after that makes it durable.
	slowSynced = slowEvery + slowSync + slowSettled
	// The dispatcher begins a checkpoint with three waits for the disk (old segment, new segment,
	// directory), and adopts it with two (name, removals).
	slowCheckpoint = 5*slowSync + time.Second
)

// TestSlowDiskKilled: the process is killed or the power fails at any stage of the work of a slow
// disk. Then no URL is lost, no host is contacted too early, and only pages that ended shortly
// before are fetched again.
func TestSlowDiskKilled(t *testing.T) {
	var blows []blow
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			syncs, merges := slowReference(t, late)
			add := func(while string, at time.Duration) {
				at = at.Round(time.Millisecond) + time.Millisecond
				blows = append(blows, blow{at, true, late, while})
				if !late { // a kill does not depend on it
					blows = append(blows, blow{at, false, late, while})
				}
			}
			at := func(x stretch, share float64) time.Duration {
				return x.from + time.Duration(float64(x.to-x.from)*share)
			}
			for i := 1; i < len(syncs); i += max(len(syncs)/4, 1) {
				for _, share := range []float64{0.02, 0.5, 0.97} {
					add("fsync", at(syncs[i], share))
				}
			}
			for _, m := range merges {
				for _, share := range []float64{0.01, 0.5, 0.98} {
					add("merge", at(m, share))
				}
				for _, before := range []time.Duration{1, 3, 5} { // during the beginning of a checkpoint
					add("", m.from-before*slowSync/2)
				}
				for _, after := range []time.Duration{1, 3} { // during its adoption
					add("", m.to+after*slowSync/2)
				}
			}
		})
	}
	played, hit := 0, 0
	for i, b := range blows {
		if !testtier.Soak() && i%5 != 0 {
			continue
		}
		bubble(t, fmt.Sprintf("%s,power=%v,late=%v,%s", b.at, b.power, b.late, b.while), func(t *testing.T) {
			played++
			if slowKilled(t, b) {
				hit++
			}
		})
	}
	t.Logf("%d blows, %d of them as meant", played, hit)
	if hit < played*3/4 {
		t.Errorf("%d blows, only %d of them as meant", played, hit)
	}
}

// slowKilled plays a blow. It reports whether the intended work was under way.
func slowKilled(t *testing.T, b blow) (meant bool) {
	s, reach := slowStory(t)
	mem := testdisk.NewMem()
	d := newSlowDisk(mem, b.late)
	w := s.opened(t, d)
	ctx, cancel := context.WithCancel(context.Background())
	ended := w.background(ctx, t)
	// Before that nothing matters any more at the end.
	time.Sleep(max(b.at-2*slowSynced-time.Since(s.web.Start), lookEvery))
	var sync *syncing
	var merge *checkpoint
	var waited stretch // the last time that the dispatcher waited for the disk
	told := time.Since(s.web.Start)
	for now := time.Since(s.web.Start); now < b.at; {
		time.Sleep(min(lookEvery, b.at-now))
		now = time.Since(s.web.Start)
		var ok bool
		if sync, merge, ok = w.look(); ok {
			told = now
		} else {
			waited = stretch{from: told, to: now}
		}
	}
	again := slowSettled
	if b.power {
		again = slowSynced
	}
	if waited.to > b.at-again {
		if again += b.at - waited.from; b.power {
			again += slowCheckpoint
		}
	}
	switch b.while {
	case "fsync":
		meant = sync != nil
	case "merge":
		meant = merge != nil
	default:
		meant = waited.to >= b.at
	}
	left := mem.Clone()
	if b.power {
		left = mem.Crash(uint64(b.at))
	}
	w.dead.Store(true)
	cancel()
	close(d.gone)
	<-ended
	must(t, w.close())
	s.pauses = []pause{{at: b.at, kill: !b.power, crash: b.power}}
	w = s.opened(t, newSlowDisk(left, b.late))
	s.accounts(t, w)
	stop, err := w.Run(context.Background())
	if err != nil || stop != Finished {
		t.Fatalf("stop %s, %v", stop, err)
	}
	s.checkSlow(t, w, reach, b.at, again)
	return meant
}

// checkSlow compares the end of a slow story with the servers' log and the crawl's files. A process
// may have died; pages that ended less than again before that may be fetched again.
func (s *story) checkSlow(t *testing.T, w *world, reach map[string]bool, died, again time.Duration) {
	t.Helper()
	if w.Pending() != 0 || int(w.Tally.Finished()) != len(reach) {
		t.Errorf("%d pending, %d finished of %d", w.Pending(), w.Tally.Finished(), len(reach))
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
