package crawl_test

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
)

// slowRuns is a disk on which the passes of the seen-set take time.
type slowRuns struct{ *testdisk.Mem }

func (d slowRuns) OpenFile(name string, flag int, perm iofs.FileMode) (disk.File, error) {
	if strings.Contains(name, "/seen/run-") && flag&os.O_CREATE != 0 {
		time.Sleep(300 * time.Millisecond)
	}
	return d.Mem.OpenFile(name, flag, perm)
}

// A pass of the seen-set that needs a sync to begin gets one, even if nothing is fetched meanwhile,
// because held-back links wait for it. In this test links are held back and the table is full again
// during a pass, and nothing follows for 20 minutes.
func TestQuietCrawlSyncsForSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := quietStory(t, 0)
		s.cfg = crawl.Config{Config: visit.Config{Workers: 4, RetryWait: 20 * time.Minute, Retries: 1},
			DrainTimeout: time.Millisecond}
		s.seen = testparts.Tiny(1)
		var b strings.Builder
		fmt.Fprint(&b, "dns h.example 192.0.2.1\ndown 192.0.2.2 0s 1m\n")
		for _, kind := range "abc" {
			for i := range 20 {
				fmt.Fprintf(&b, "dns %c%d.example 192.0.2.2\nhttp://%c%d.example/\n", kind, i, kind, i)
			}
		}
		links := func(kind string) {
			for i := range 20 {
				fmt.Fprintf(&b, " http://%s%d.example/", kind, i)
			}
		}
		b.WriteString("http://h.example/0 http://h.example/1 http://h.example/2")
		links("a") // fills the first table
		b.WriteString("\nhttp://h.example/1 slow=12s")
		links("b") // starts a pass
		b.WriteString("\nhttp://h.example/2 slow=1800ms http://a0.example/ http://a1.example/")
		links("c") // during the pass
		s.web = textweb.Parse(t, b.String()+"\n")
		fs := slowRuns{testdisk.NewMem()}
		w := s.opened(t, fs)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		ran(t)(w.Run(ctx))
		must.Do(t, w.close())
		c := s.watched(nil)
		w = s.opened(t, fs) // its caches are empty
		end := w.running(t.Context())
		synctest.Wait()
		var waits, longest time.Duration
		held := int64(0)
		const every = 50 * time.Millisecond
		for at := time.Duration(0); at < 10*time.Minute; at += every {
			time.Sleep(every)
			must.Do(t, c.loop.Run.Do(t.Context(), "test", func(time.Time) {
				if waits += every; !w.Seen.WantsSync() {
					waits = 0
				} else {
					held = max(held, w.Seen.Stats().Held)
				}
				longest = max(longest, waits)
			}))
		}
		if held == 0 || longest > 2*time.Second {
			t.Errorf("passes for %d held links at most waited for up to %s", held, longest)
		}
		ran(t)(end())
		if got := w.Tally.Finished(); got != 63 {
			t.Errorf("%d URLs finished", got)
		}
		s.check(t, w)
	})
}

// A seen-set of another crawl is refused, with the ids of both. If there is none, the crawl
// continues.
func TestSeenOfAnotherCrawl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crawls := [2]*testdisk.Mem{}
		for i := range crawls {
			s := quietStory(t, 60)
			w := s.opened(t, testdisk.NewMem())
			ran(t)(w.Run(t.Context()))
			must.Do(t, w.close())
			crawls[i] = w.fs.(*testdisk.Mem)
		}
		const dir = crawlDir + "/state/seen"
		mine, other := crawls[0], crawls[1]
		must.Do(t, mine.RemoveAll(dir))
		without := mine.Clone()
		must.Do(t, mine.MkdirAll(dir, 0o755))
		entries, err := other.ReadDir(dir)
		must.Do(t, err)
		for _, e := range entries {
			b, err := disk.ReadFile(other, dir+"/"+e.Name(), 1<<30)
			if err == nil {
				err = disk.WriteFile(mine, dir+"/"+e.Name(), b)
			}
			must.Do(t, err)
		}
		s := quietStory(t, 60)
		_, err = s.open(mine)
		if !errors.Is(err, keyset.ErrCrawl) || !strings.Contains(err.Error(), "delete state/seen") {
			t.Errorf("with the keys of another crawl: %v", err)
		}
		w := s.opened(t, without)
		if w.rec.Repeated != 0 || w.rec.Lost != 0 || w.rec.Finished != 61 {
			t.Errorf("without keys, and nothing held: %+v", w.rec)
		}
		ran(t)(w.Run(t.Context()))
		must.Do(t, w.close())
		if len(s.web.Told()) > 0 {
			t.Errorf("asked for %s again", s.web.Requests())
		}
	})
}

// quietStory is a crawl of a chain of pages on one host.
func quietStory(t *testing.T, pages int) *story {
	t.Helper()
	var b strings.Builder
	b.WriteString("workers 2\ndelay 200ms\nno-keep\nseed http://h.example/0\ndns h.example 192.0.2.1\n")
	for p := range pages {
		fmt.Fprintf(&b, "http://h.example/%d http://h.example/%d\n", p, p+1)
	}
	fmt.Fprintf(&b, "http://h.example/%d\n", pages)
	s := parsed(t, b.String())
	s.seen = onDisk
	return s
}
