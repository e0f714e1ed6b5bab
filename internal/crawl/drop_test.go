package crawl

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// countingFS counts the bytes read from files whose name contains a string.
type countingFS struct {
	disk.FS
	name  string
	reads int
}

func (c *countingFS) OpenFile(name string, flag int, perm os.FileMode) (disk.File, error) {
	f, err := c.FS.OpenFile(name, flag, perm)
	if err != nil || !strings.Contains(name, c.name) {
		return f, err
	}
	return countingFile{f, c}, nil
}

type countingFile struct {
	disk.File
	fs *countingFS
}

func (f countingFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.reads++
	return f.File.ReadAt(p, off)
}

// takeLinks accepts n links to each of two hosts.
func (w *world) takeLinks(t *testing.T, n int, name string) {
	t.Helper()
	for i := range n {
		for _, h := range []string{"a", "b"} {
			u, err := weburl.Parse(fmt.Sprintf("http://%s.example/%s%d", h, name, i))
			must(t, err)
			w.takeIn(weburl.Link{URL: u, Via: "http://b.example/", Hops: "L", Seed: "b.example"})
		}
	}
	if w.fatal != nil {
		t.Fatal(w.fatal)
	}
}

const twoHosts = `
delay 1s
seed http://b.example/
dns a.example 192.0.2.1
dns b.example 192.0.2.2
`

// A command reads none of the waiting links, and no turn of the dispatcher handles more links than
// a slice, however many are dropped.
func TestOrderTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 2000
		s := parsed(t, twoHosts)
		s.frontier.Active, s.frontier.MemoryBytes = 1, 1 // links wait in pools
		fs := &countingFS{FS: testdisk.NewMem(), name: "/state/queues/"}
		w := s.opened(t, fs)
		w.takeLinks(t, n, "")
		if st := w.Frontier.Stats(); st.Pooled < n || st.PoolBytes == 0 {
			t.Fatalf("%+v", st)
		}
		before := fs.reads
		w.blocks(t, "a.example")
		w.heedBars()
		w.blocks(t)
		w.heedBars()
		err := w.drop("a.example", w.began)
		w.waiting("a.example", w.began)
		if err != nil || fs.reads != before {
			t.Errorf("orders read queues and pools %d times, %v", fs.reads-before, err)
		}
		if w.Tally.Finished() != 0 {
			t.Errorf("an order finished %d links", w.Tally.Finished())
		}
		for turns := 0; ; turns++ {
			before := w.Tally.Finished()
			more := w.giveUp(w.began)
			if k := w.Tally.Finished() - before; k > int64(dropSlice) || more && k < int64(dropSlice) {
				t.Fatalf("turn %d finished %d links", turns, k)
			}
			if !more {
				break
			}
		}
		stop, err := w.Run(t.Context())
		if dropped := w.Tally.Summary(0, "").Skipped["dropped"]; stop != Finished || err != nil || dropped != n {
			t.Errorf("ended with %s, %v, %d dropped", stop, err, dropped)
		}
		for _, r := range s.web.Told() {
			if r.Host == "a.example" {
				t.Errorf("%s asked for", r.URL)
			}
		}
		s.accounts(t, w)
		must(t, w.close())
	})
}

// If a kill or a power failure interrupts a drop, the next run drops the rest of the links, and
// nothing else.
func TestDropGoesOn(t *testing.T) {
	model(t, 12, 40, func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 12))
		n := 20 + rng.IntN(60)
		s := parsed(t, twoHosts)
		if rng.IntN(2) == 0 {
			s.frontier.Active, s.frontier.MemoryBytes = 1, 1
		}
		s.cfg.SnapshotBytes = 1 << (8 + rng.IntN(10))
		s.pauses = []pause{{kill: true, crash: true}}
		mem := testdisk.NewMem()
		w := s.opened(t, mem)
		w.takeLinks(t, n, "")
		must(t, w.drop("a.example", w.began))
		must(t, w.secure())
		w.takeLinks(t, 3, "late")
		must(t, w.secure())
		for kills := range 1 + rng.IntN(3) {
			for range rng.IntN(n / dropSlice) {
				w.giveUp(w.began)
				if rng.IntN(3) == 0 {
					w.fatal = w.Journal.Commit()
				}
				if rng.IntN(6) == 0 {
					w.secure()
				}
				if rng.IntN(10) == 0 {
					w.fatal = w.beginCheckpoint(all())
					must(t, w.endCheckpoint(true))
				}
			}
			if w.fatal != nil {
				t.Fatal(w.fatal)
			}
			if rng.IntN(2) == 0 {
				mem = w.kill(func() {})
			} else {
				mem = w.fs.(*testdisk.Mem).Crash(seed + uint64(kills))
			}
			w.close()
			w = s.opened(t, mem)
			s.accounts(t, w)
		}
		finished(t)(w.Run(t.Context()))
		asked := map[string]int{}
		for _, r := range s.web.Told() {
			asked[r.URL]++
			if r.Host == "a.example" && !strings.Contains(r.URL, "/late") &&
				!strings.HasSuffix(r.URL, "/robots.txt") {
				t.Errorf("%s asked for", r.URL)
			}
		}
		if len(asked) != n+1+2*3+2 {
			t.Errorf("%d URLs asked for, want %d", len(asked), n+9)
		}
		if got := w.Tally.Summary(0, "").Skipped["dropped"]; int(got) != n {
			t.Errorf("%d dropped, want %d", got, n)
		}
		s.check(t, w)
	})
}
