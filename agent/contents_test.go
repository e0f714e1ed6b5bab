package agent

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/archive"
	"github.com/orbweaver/orbweaver/content"
	"github.com/orbweaver/orbweaver/disk"
	"github.com/orbweaver/orbweaver/exchange"
)

// judges are agents that share out contents, without the rest of them.
type judges struct {
	t      *testing.T
	agents map[string]*contents
	view   atomic.Uint64 // whose a content is follows from it
	stop   context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex // guards rng
	rng   *rand.Rand
	fault func(n int) error // of a call, by chance; nil: none
}

func newJudges(t *testing.T, seed uint64, n int) *judges {
	j := &judges{t: t, agents: map[string]*contents{}, rng: rand.New(rand.NewPCG(seed, 0))}
	ctx, stop := context.WithCancel(t.Context())
	j.stop = stop
	for i := range n {
		mem := disk.NewMem()
		if err := errors.Join(mem.MkdirAll("/state", 0o755), mem.SyncDir("/")); err != nil {
			t.Fatal(err)
		}
		table, err := content.Open(mem, "/"+contentsDir, content.Config{})
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprint("a", i)
		k := newContents(name, table)
		k.run = j.wg.Go
		k.second = func(d content.Digest) string { return fmt.Sprint("a", (uint64(d[0])+j.view.Load())%uint64(n)) }
		k.call = func(ctx context.Context, agent string, cs []exchange.Content) ([]exchange.ContentPage, error) {
			if len(cs) == 0 || len(cs) > contentsAtOnce {
				t.Errorf("%d contents in a call", len(cs))
			}
			time.Sleep(time.Duration(j.roll(20)) * time.Millisecond)
			lost := j.roll(10)
			if j.fault != nil && lost < 2 {
				return nil, j.fault(lost)
			}
			if j.fault != nil && lost == 2 { // it hangs
				<-ctx.Done()
				return nil, ctx.Err()
			}
			firsts, err := j.agents[agent].serve(ctx, exchange.Caller{}, cs)
			if j.fault != nil && lost == 3 { // the answer gets lost
				return nil, exchange.ErrUnreachable
			}
			return firsts, err
		}
		j.agents[name] = k
		k.begin(ctx)
	}
	return j
}

func (j *judges) roll(n int) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.rng.IntN(n)
}

func (j *judges) close() {
	j.stop()
	j.wg.Wait()
	for _, k := range j.agents {
		if err := k.table.Close(); err != nil {
			j.t.Error(err)
		}
	}
}

// visits lets many pages ask at once, and returns which of each content counted as
// new, and which pages duplicates refer to.
func (j *judges) visits(workers, pages, kinds int) (fresh map[content.Digest][]string, refers map[content.Digest][]string) {
	fresh, refers = map[content.Digest][]string{}, map[content.Digest][]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			k := j.agents[fmt.Sprint("a", w%len(j.agents))]
			for n := range pages {
				digest := sha1.Sum(fmt.Append(nil, j.roll(kinds)))
				page := archive.Original{URL: fmt.Sprintf("http://h%d.example/%d", w, n), Date: time.Now()}
				began := time.Now()
				first, duplicate := k.First(j.t.Context(), digest, 1000, page)
				if took := time.Since(began); took > contentsPatience+contentsAgain {
					j.t.Errorf("a page waited for %s", took)
				}
				mu.Lock()
				if duplicate {
					refers[digest] = append(refers[digest], first.URL)
				} else {
					fresh[digest] = append(fresh[digest], page.URL)
				}
				mu.Unlock()
				time.Sleep(time.Duration(j.roll(100)) * time.Millisecond)
			}
		})
	}
	wg.Wait()
	return fresh, refers
}

// refersToNew: whatever is a duplicate is one of a page that is archived in full.
func refersToNew(t *testing.T, fresh, refers map[content.Digest][]string) {
	t.Helper()
	for d, urls := range refers {
		whole := map[string]bool{}
		for _, u := range fresh[d] {
			whole[u] = true
		}
		for _, u := range urls {
			if !whole[u] {
				t.Errorf("a duplicate of %s, which is none of the pages in full %v", u, fresh[d])
			}
		}
	}
}

// Of each content one page is the first, at whatever agent; the questions go
// together, and what was met lately is not asked again.
func TestContents(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		j := newJudges(t, seed, 3)
		fresh, refers := j.visits(60, 50, 1000)
		refersToNew(t, fresh, refers)
		for d, urls := range fresh {
			if len(urls) != 1 {
				t.Errorf("content %x: %v count as new", d, urls)
			}
		}
		var pages, elsewhere, recent, asked, messages, duplicates, unanswered, bytes, export int64
		for _, k := range j.agents {
			n := k.Counts()
			pages, elsewhere, recent, asked, messages = pages+n.Pages, elsewhere+n.Elsewhere, recent+n.Recent, asked+n.Asked, messages+n.Messages
			duplicates, unanswered, bytes, export = duplicates+n.Duplicates, unanswered+n.Unanswered, bytes+n.Bytes, export+n.WouldExport
		}
		if pages != 3000 || bytes != 3000*1000 || export != 1000*elsewhere || unanswered != 0 || duplicates != 3000-int64(len(fresh)) {
			t.Errorf("%d pages, %d elsewhere, %d duplicates of %d contents, %d unanswered, %d and %d bytes", pages, elsewhere, duplicates, len(fresh), unanswered, bytes, export)
		}
		if share := float64(elsewhere) / float64(pages); share < 0.62 || share > 0.72 {
			t.Errorf("%.3f of the contents are another agent's, expected two of three", share)
		}
		if recent == 0 || asked+recent >= pages || messages >= asked {
			t.Errorf("%d asked in %d messages, %d known", asked, messages, recent)
		}
		j.close()
	})
}

// The same where calls fail, hang, and their answers get lost, and contents get
// other agents: pages may count as new too often, and of each content one does.
func TestContentsModel(t *testing.T) {
	for i := range 10 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Logf("seed %d", seed)
			synctest.Test(t, func(t *testing.T) {
				j := newJudges(t, seed, 2+int(seed%3))
				j.fault = func(n int) error { return []error{exchange.ErrUnreachable, exchange.ErrRejected}[n] }
				over := make(chan struct{})
				j.wg.Go(func() {
					for {
						select {
						case <-over:
							return
						case <-time.After(time.Duration(j.roll(1500)) * time.Millisecond):
							j.view.Add(1)
						}
					}
				})
				fresh, refers := j.visits(20, 50, 100)
				close(over)
				refersToNew(t, fresh, refers)
				unanswered := int64(0)
				for _, k := range j.agents {
					unanswered += k.Counts().Unanswered
				}
				if unanswered == 0 || len(refers) == 0 {
					t.Errorf("%d unanswered, duplicates of %d contents", unanswered, len(refers))
				}
				j.close()
			})
		})
	}
}

// A table whose disk is full ends the run; pages count as new meanwhile.
func TestContentsFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := disk.NewMem()
		if err := errors.Join(mem.MkdirAll("/state", 0o755), mem.SyncDir("/")); err != nil {
			t.Fatal(err)
		}
		faulty := disk.NewFaulty(mem, nil)
		table, err := content.Open(faulty, "/"+contentsDir, content.Config{})
		if err != nil {
			t.Fatal(err)
		}
		k := newContents("a1", table)
		var wg sync.WaitGroup
		k.run, k.second = wg.Go, func(content.Digest) string { return "a1" }
		ctx, stop := context.WithCancel(t.Context())
		k.begin(ctx)
		var failed error
		k.tend(ctx, func(err error) { failed = err })
		faulty.Break(disk.FullAfter(0))
		page := archive.Original{URL: "http://a.example/", Date: time.Now()}
		if _, duplicate := k.First(ctx, [20]byte{1}, 1, page); duplicate {
			t.Error("a duplicate of nothing")
		}
		synctest.Wait()
		if !disk.IsFull(failed) {
			t.Errorf("the run ends with %v", failed)
		}
		stop()
		wg.Wait()
		if n := k.Counts(); n.Unanswered != 1 || n.Pages != 1 {
			t.Errorf("%+v", n)
		}
		table.Close()
	})
}
