package cluster

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A judge is the shared knowledge of the second agents of all contents. It survives their
// processes.
type judge struct {
	c     *cluster
	harsh bool // answers are late, or do not come

	mu     sync.Mutex                 // guards the fields below
	firsts map[[20]byte]warc.Original // durable
	claims map[[20]byte]warc.Original // not durable yet
	counts report.Contents
}

func newJudge(c *cluster, harsh bool) *judge {
	return &judge{
		c: c, harsh: harsh, firsts: map[[20]byte]warc.Original{}, claims: map[[20]byte]warc.Original{},
	}
}

// A judged is the judge as seen by one process.
type judged struct {
	*judge
	dead  func() bool // the process was killed: its calls have no effect
	mu    sync.Mutex  // guards local
	local map[[20]byte]warc.Original
}

func (j *judge) process(dead func() bool) *judged {
	return &judged{judge: j, dead: dead, local: map[[20]byte]warc.Original{}}
}

// judgePatience is how long a page waits until another one is durable.
const judgePatience = 2 * time.Second

func (j *judged) First(ctx context.Context, digest [20]byte, size int64,
	page warc.Original) (warc.Original, bool) {
	j.judge.mu.Lock()
	j.counts.Pages++
	j.counts.Bytes += size
	j.judge.mu.Unlock()
	for end := time.Now().Add(judgePatience); ; time.Sleep(50 * time.Millisecond) {
		lost := 0 // 1: the question is lost, 2: the answer
		if j.harsh {
			time.Sleep(time.Duration(j.c.Roll(400)) * time.Millisecond)
			lost = j.c.Roll(12)
		}
		if first, known := j.known(digest); known {
			return first, first.URL != page.URL
		}
		if lost == 1 || ctx.Err() != nil || time.Now().After(end) {
			return j.unanswered()
		}
		first, known, claimed := j.ask(digest, page)
		switch {
		case lost == 2:
			return j.unanswered()
		case !claimed:
			return first, known && first.URL != page.URL
		}
	}
}

func (j *judged) unanswered() (warc.Original, bool) {
	j.judge.mu.Lock()
	defer j.judge.mu.Unlock()
	j.counts.Unanswered++
	return warc.Original{}, false
}

// known returns the page with a content that this process has archived.
func (j *judged) known(digest [20]byte) (warc.Original, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	first, known := j.local[digest]
	return first, known
}

// ask returns the page that is durable, or reports that another page claims the content.
func (j *judge) ask(digest [20]byte, page warc.Original) (first warc.Original, known, claimed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if first, known = j.firsts[digest]; known {
		return first, true, false
	}
	claimant, claimed := j.claims[digest]
	if !claimed {
		j.claims[digest] = page
	}
	return first, false, claimed && claimant.URL != page.URL
}

func (j *judged) Archived(digest [20]byte, page warc.Original) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, known := j.local[digest]; !known {
		j.local[digest] = page
	}
}

func (j *judged) Durable(digest [20]byte, page warc.Original) {
	if j.dead() || j.harsh && j.c.Roll(12) == 0 {
		return // the report is lost
	}
	j.judge.mu.Lock()
	defer j.judge.mu.Unlock()
	if _, known := j.firsts[digest]; !known {
		j.firsts[digest] = page
	}
}

func (j *judge) Counts() report.Contents {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.counts
}

// A company is the other agents of a crawl: the owner of b.example, and the heir of all hosts. Each
// accepts nothing until its time.
type company struct {
	static
	start               time.Time
	pushesAt, shippedAt time.Duration
}

func newCompany(pushesAt, shippedAt time.Duration) *company {
	return &company{static{func(host string) (string, bool) {
		if host == "b.example" {
			return "owner", false
		}
		return "self", true
	}}, time.Now(), pushesAt, shippedAt}
}

func (o *company) after(at time.Duration) error {
	if time.Since(o.start) < at {
		return errLost
	}
	return nil
}

func (o *company) Push(context.Context, string, []byte, int, int) error { return o.after(o.pushesAt) }

func (o *company) Ship(context.Context, string, uint64, []byte, int) error {
	return o.after(o.shippedAt)
}

func (o *company) Heirs() Heirs { return oneHeir{} }

type oneHeir struct{}

func (oneHeir) Heir(uint64) string { return "heir" }

// A tablet records when pages were reported as durable.
type tablet struct {
	*judged
	start time.Time
	at    map[string]time.Duration
}

func (n *tablet) Durable(digest [20]byte, page warc.Original) {
	n.judged.mu.Lock()
	defer n.judged.mu.Unlock()
	n.at[page.URL] = time.Since(n.start)
}

// With replication, other agents hear of a page only when its links are safe: links of own hosts at
// the heir, other links at their owner. Otherwise the loss of the agent would lose the links,
// because no agent reads them from duplicates of the page.
func TestDurableWithLinks(t *testing.T) {
	for _, c := range []struct {
		name        string
		push, ships time.Duration // when the other agents begin to accept
	}{
		{"the owner takes nothing", 5 * time.Second, 0},
		{"the heir takes nothing", 0, 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				others := newCompany(c.push, c.ships)
				told := &tablet{newJudge(nil, false).process(func() bool { return false }), time.Now(),
					map[string]time.Duration{}}
				var boxes boxes
				s := newStory(t, `
seed http://a.example/
dns a.example 192.0.2.1
http://a.example/ /1 http://b.example/1
http://a.example/1
`)
				s.with = func() (Others, error) {
					err := boxes.open(s.disk.Load(), outbox.Config{})
					return Others{Peers: others, Contents: told, Outbox: boxes.links,
						Copies: &Copies{Shipper: others, Out: boxes.records, Waiting: boxes.finishes}}, err
				}
				w, err := s.open(testdisk.NewMem())
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() {
					_, err := w.Run(ctx)
					ended <- err
				}()
				time.Sleep(15 * time.Second)
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if err := errors.Join(boxes.close(), w.close()); err != nil {
					t.Fatal(err)
				}
				const page = "http://a.example/"
				if at, ok := told.at[page]; !ok || at < 5*time.Second {
					t.Errorf("%s is durable, and named, after %s: %v", page, at, ok)
				}
			})
		})
	}
}
