package contents_test

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/contents"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// What an agent promises of its questions.
const (
	askAtOnce     = 64
	patience      = 2 * time.Second
	askAgain      = 50 * time.Millisecond
	originalsMost = 1 << 14
)

// judges are the parts of agents that judge contents.
type judges struct {
	t      *testing.T
	agents map[string]*judge
	view   atomic.Uint64 // number of the view; it decides which agent judges a content
	stop   context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex // guards rng
	rng   *rand.Rand
	fault func(n int) error // fails calls at random; nil: none
	// away fails the calls of an agent to another one. Nil: none.
	away func(ctx context.Context, to string) error
}

type judge struct {
	*contents.Service
	table *contents.Table
}

// openJudge opens an agent's part on a disk.
func openJudge(t *testing.T, fs disk.FS, name string, parts contents.Parts) *judge {
	t.Helper()
	must.Do(t, errors.Join(fs.MkdirAll("/state", 0o755), fs.SyncDir("/")))
	table := must.Get(contents.Open(fs, "/state/contents", contents.Config{}))(t)
	parts.Members = &members.Members{Self: gossip.Agent{Name: name}}
	return &judge{contents.NewService(parts, table), table}
}

func newJudges(t *testing.T, seed uint64, n int) *judges {
	j := &judges{t: t, agents: map[string]*judge{}, rng: rand.New(rand.NewPCG(seed, 0))}
	ctx, stop := context.WithCancel(t.Context())
	j.stop = stop
	for i := range n {
		name := fmt.Sprint("a", i)
		j.agents[name] = openJudge(t, testdisk.NewFaulty(testdisk.NewMem(), nil), name,
			contents.Parts{Placed: j, Asker: j, Running: &j.wg})
		j.agents[name].Begin(ctx)
	}
	return j
}

func (j *judges) SecondAgent(d contents.Digest) string {
	return fmt.Sprint("a", (uint64(d[0])+j.view.Load())%uint64(len(j.agents)))
}

func (j *judges) Ask(ctx context.Context, agent string, q *pb.ContentsRequest) (*pb.ContentsResponse, error) {
	if j.away != nil {
		if err := j.away(ctx, agent); err != nil {
			return nil, err
		}
	}
	if err := contents.Call.Request(q); err != nil || len(q.Contents) > askAtOnce {
		j.t.Errorf("%d contents in a call: %v", len(q.Contents), err)
	}
	time.Sleep(time.Duration(j.roll(20)) * time.Millisecond)
	lost := j.roll(10)
	if j.fault != nil && lost < 2 {
		return nil, j.fault(lost)
	}
	if j.fault != nil && lost == 2 { // the call hangs
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r, err := j.agents[agent].Answer(ctx, rpc.Caller{}, q)
	if j.fault != nil && lost == 3 { // the answer is lost
		return nil, rpc.ErrUnreachable
	}
	if err == nil {
		err = contents.Call.Response(q, r)
	}
	return r, err
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

// A fetched holds the results of the pages with one content.
type fetched struct {
	fresh    []string        // counted as new
	archived map[string]bool // those of fresh that are durable in an archive
	refers   []string        // pages that duplicates refer to
}

// visits asks about many pages at once. One in killed of the pages that count as new is never
// archived, as if its agent had been killed; 0: none.
func (j *judges) visits(workers, pages, kinds, killed int) map[contents.Digest]*fetched {
	all := map[contents.Digest]*fetched{}
	var mu sync.Mutex // guards all
	note := func(d contents.Digest, add func(f *fetched)) {
		mu.Lock()
		defer mu.Unlock()
		if all[d] == nil {
			all[d] = &fetched{archived: map[string]bool{}}
		}
		add(all[d])
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			k := j.agents[fmt.Sprint("a", w%len(j.agents))]
			for n := range pages {
				digest := sha1.Sum(fmt.Append(nil, j.roll(kinds)))
				page := warc.Original{URL: fmt.Sprintf("http://h%d.example/%d", w, n), Date: time.Now()}
				if n%2 == 1 { // it is stored with chunk sizes
					page.Stored = sha1.Sum([]byte(page.URL))
				}
				began := time.Now()
				first, duplicate := k.First(j.t.Context(), digest, 1000, page)
				if took := time.Since(began); took > patience+askAgain {
					j.t.Errorf("a page waited for %s", took)
				}
				lives := killed == 0 || j.roll(killed) > 0
				note(digest, func(f *fetched) {
					if duplicate {
						if first.Stored != [20]byte{} && first.Stored != sha1.Sum([]byte(first.URL)) ||
							(first.Stored == [20]byte{}) != strings.ContainsAny(first.URL[len(first.URL)-1:], "02468") {
							j.t.Errorf("%s is not stored as %x", first.URL, first.Stored)
						}
						f.refers = append(f.refers, first.URL)
					} else {
						f.fresh = append(f.fresh, page.URL)
						f.archived[page.URL] = lives
					}
				})
				if !duplicate && lives {
					k.Archived(digest, page)
					time.Sleep(time.Duration(j.roll(300)) * time.Millisecond) // for the disk
					k.Durable(digest, page)
				}
				time.Sleep(time.Duration(j.roll(100)) * time.Millisecond)
			}
		})
	}
	wg.Wait()
	return all
}

// refersToArchived checks that duplicates refer only to pages that are archived in full.
func refersToArchived(t *testing.T, all map[contents.Digest]*fetched) (duplicates int) {
	t.Helper()
	for _, f := range all {
		for _, u := range f.refers {
			if !f.archived[u] {
				t.Errorf("a duplicate of %s, which is not archived in full: %v", u, f.archived)
			}
		}
		duplicates += len(f.refers)
	}
	return duplicates
}

// counts returns the sum over all agents.
func (j *judges) counts() (sum report.Contents) {
	for _, k := range j.agents {
		n := reflect.ValueOf(k.Counts())
		for i := range n.NumField() {
			if field := reflect.ValueOf(&sum).Elem().Field(i); field.CanInt() {
				field.SetInt(field.Int() + n.Field(i).Int())
			}
		}
	}
	return sum
}

// For each content exactly one page is the first, whichever agents have the pages. Questions are
// sent in batches, and recent contents are not asked about again.
func TestService(t *testing.T) {
	seed := testseed.New(t)
	synctest.Test(t, func(t *testing.T) {
		j := newJudges(t, seed, 3)
		all := j.visits(60, 50, 1000, 0)
		duplicates := refersToArchived(t, all)
		for d, f := range all {
			if len(f.fresh) != 1 {
				t.Errorf("content %x: %v count as new", d, f.fresh)
			}
		}
		time.Sleep(time.Second) // until all agents are told
		n := j.counts()
		if n.Pages != 3000 || n.Bytes != 3000*1000 || n.WouldExport != 1000*n.Elsewhere || n.Unanswered != 0 ||
			n.Duplicates != 3000-int64(len(all)) || n.Duplicates != int64(duplicates) {
			t.Errorf("%d contents, %d duplicates: %+v", len(all), duplicates, n)
		}
		if share := float64(n.Elsewhere) / float64(n.Pages); share < 0.62 || share > 0.72 {
			t.Errorf("%.3f of the contents are another agent's, expected two of three", share)
		}
		if n.Recent == 0 || n.Waited == 0 || n.Messages >= n.Asked+n.Told {
			t.Errorf("%+v", n)
		}
		if most := n.Elsewhere + n.Waited*int64(patience/askAgain); n.Asked > most {
			t.Errorf("%d questions asked, want at most %d", n.Asked, most)
		}
		if share := float64(n.Told) / float64(len(all)); share < 0.6 || share > 0.73 || n.Untold != 0 {
			t.Errorf("%d of %d pages told, %d not", n.Told, len(all), n.Untold)
		}
		j.close()
	})
}

// The same while calls fail and hang, answers are lost, contents move to other agents, and agents
// are killed before they archive a page. Pages may then count as new too often, but no page refers
// to one that is not archived.
func TestServiceModel(t *testing.T) {
	for i := range testtier.Rounds(3, 30) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			seed := testseed.New(t)
			synctest.Test(t, func(t *testing.T) {
				j := newJudges(t, seed, 2+int(seed%3))
				j.fault = func(n int) error { return []error{rpc.ErrUnreachable, rpc.ErrRejected}[n] }
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
				duplicates := refersToArchived(t, j.visits(20, 50, 100, 3))
				close(over)
				if n := j.counts(); n.Unanswered == 0 || duplicates == 0 || n.Told == 0 {
					t.Errorf("%d duplicates: %+v", duplicates, n)
				}
				j.close()
			})
		})
	}
}

// A full disk under the table ends the run. Until then pages count as new.
func TestServiceFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := testdisk.NewFaulty(testdisk.NewMem(), nil)
		var wg sync.WaitGroup
		k := openJudge(t, faulty, "a1", contents.Parts{Placed: secondAgent("a1"), Running: &wg})
		ctx, stop := context.WithCancel(t.Context())
		k.Begin(ctx)
		var failed error
		k.Tend(ctx, func(err error) { failed = err })
		faulty.Break(testdisk.FullAfter(0))
		page := warc.Original{URL: "http://a.example/", Date: time.Now()}
		k.Durable([20]byte{1}, page)
		synctest.Wait()
		page.URL += "2"
		if _, duplicate := k.First(ctx, [20]byte{1}, 1, page); duplicate {
			t.Error("a duplicate without an original")
		}
		if !disk.IsFull(failed) {
			t.Errorf("the run ends with %v", failed)
		}
		stop()
		wg.Wait()
		if n := k.Counts(); n.Unanswered != 1 || n.Pages != 1 || n.Untold != 1 {
			t.Errorf("%+v", n)
		}
		k.table.Close()
	})
}

// secondAgent is the second agent of all contents.
type secondAgent string

func (a secondAgent) SecondAgent(contents.Digest) string { return string(a) }
