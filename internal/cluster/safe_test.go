package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/boundary"
	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// otherAgents are the other agents of a crawl: "owner" owns b.example, and "heir" is the heir of all hosts. From moved
// on, "next" owns a.example. Each accepts nothing until its time.
type otherAgents struct {
	static
	start     time.Time
	pushesAt  time.Duration // links
	shippedAt time.Duration // records
	namedAt   time.Duration // records of finishes
	moved     time.Duration // zero: never
	untold    bool          // the others do not hear that the agent leaves

	mu sync.Mutex               // guards the fields below
	at map[string]time.Duration // when others heard of URLs, by what they heard
}

func newOtherAgents(pushesAt, shippedAt time.Duration) *otherAgents {
	o := &otherAgents{start: time.Now(), pushesAt: pushesAt, shippedAt: shippedAt, at: map[string]time.Duration{}}
	o.static.owner = func(host string) (string, bool) {
		switch {
		case host == "b.example":
			return "owner", false
		case host == "a.example" && o.moved > 0 && o.after(o.moved) == nil:
			return "next", false
		}
		return "self", true
	}
	return o
}

func (o *otherAgents) after(at time.Duration) error {
	if time.Since(o.start) < at {
		return errLost
	}
	return nil
}

// notes records that others hear of something now.
func (o *otherAgents) notes(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, again := o.at[what]; !again {
		o.at[what] = time.Since(o.start)
	}
}

func (o *otherAgents) Push(context.Context, string, *pb.PushRequest) error {
	return o.after(o.pushesAt)
}

func (o *otherAgents) TellLeft(context.Context) error {
	if o.untold {
		return errLost
	}
	return nil
}

func (o *otherAgents) Ship(_ context.Context, _ string, _ uint64, records []byte, _ int) error {
	rs, err := decoded(records)
	if err == nil && has(rs, handoff.Finish) {
		err = o.after(o.namedAt)
	}
	return cmp.Or(err, o.after(o.shippedAt))
}

// Hand notes when the next owner is told finished URLs.
func (o *otherAgents) Hand(_ context.Context, _ string, q *pb.HandRequest) error {
	rs, err := decoded(q.Records)
	if has(rs, handoff.Known) {
		o.notes("handed")
	}
	return err
}

// decoded returns records that this agent sends.
func decoded(records []byte) (rs []handoff.Record, err error) {
	for len(records) > 0 {
		r, n, err := handoff.Decode(records, nil)
		if err != nil {
			return nil, err
		}
		rs, records = append(rs, r), records[n:]
	}
	return rs, nil
}

// has reports whether one of the records has a kind.
func has(rs []handoff.Record, kind handoff.Kind) bool {
	return slices.ContainsFunc(rs, func(r handoff.Record) bool { return r.Kind == kind })
}

func (o *otherAgents) Heirs() Heirs { return oneHeir{} }

func (o *otherAgents) Had(string) (ever, began bool) { return true, true }

type oneHeir struct{}

func (oneHeir) Heir(uint64) string { return "heir" }

// It is also the Contents of the agent: no page has the content of another one.

func (o *otherAgents) First(context.Context, [20]byte, int64, warc.Original) (warc.Original, bool) {
	return warc.Original{}, false
}

func (o *otherAgents) Archived([20]byte, warc.Original) {}

func (o *otherAgents) Durable(_ [20]byte, page warc.Original) { o.notes(page.URL) }

func (o *otherAgents) Counts() report.Contents { return report.Contents{} }

// safeStory returns a story of an agent among others. It has a page with a link to a page of its own and one of
// another agent.
func safeStory(t *testing.T, o *otherAgents, names Names) *story {
	s := newStory(t, `
seed http://a.example/
dns a.example 192.0.2.1
http://a.example/ /1 http://b.example/1
http://a.example/1
`)
	s.among(Others{Placement: o, Exchange: o, Contents: o, Names: names}, o, nil)
	return s
}

// among lets the agent of s have these others, with an outbox of links. It ships records to ship and sends pages to
// pages, unless they are nil.
func (s *story) among(o Others, ship Shipper, pages *refuser) {
	s.with = func() (_ Others, err error) {
		fs := s.disk.Load()
		box := func(name string) (b *outbox.Outbox) {
			if err == nil {
				b, err = outbox.Open(fs, testparts.Dir+"/state/"+name, outbox.Config{})
				s.closers = append(s.closers, b)
			}
			return b
		}
		s.closers = nil
		o.Outbox = box("outbox")
		if ship != nil {
			o.Copies = &Copies{Shipper: ship, Out: box("shipping")}
			if o.Copies.Waiting, err = outbox.OpenQueue(fs, testparts.Dir+"/state/waiting", 0); err != nil {
				return o, err
			}
			s.closers = append(s.closers, o.Copies.Waiting)
		}
		if pages != nil {
			o.PageBox = box("pagebox")
			if pages.Store, err = boundary.Open(fs, testparts.Dir+"/state/boundary",
				boundary.StoreConfig{}); err != nil {
				return o, err
			}
			s.closers = append(s.closers, pages.Store)
		}
		return o, err
	}
}

// start runs a process on a disk. end ends it, and says why it has stopped.
func (s *story) start(t *testing.T, mem *testdisk.Mem) (w *world, end func() crawl.Stop) {
	t.Helper()
	w = must.Get(s.open(mem))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var stop crawl.Stop
	ended := make(chan error, 1)
	go func() {
		var err error
		stop, err = w.Run(ctx)
		ended <- err
	}()
	return w, func() crawl.Stop {
		t.Helper()
		cancel()
		err := <-ended
		for _, c := range s.closers {
			err = errors.Join(err, c.Close())
		}
		if err := errors.Join(err, w.close()); err != nil {
			t.Error(err)
		}
		return stop
	}
}

// With replication, other agents hear of a page only when its links are safe: links of own hosts at the heir, other
// links at their owner. Otherwise the loss of the agent would lose the links, because no agent reads them from
// duplicates of the page. The same holds for the next owner of a host, to which the agent hands the finished URLs. It
// gets them only when the heir has the finishes, too, and with them the names. Otherwise the loss of this agent loses
// pages that no agent fetches again.
func TestSafeBeforeTold(t *testing.T) {
	const late = 5 * time.Second
	for _, c := range []struct {
		name                string
		push, ships, finish time.Duration // when the other agents begin to accept
		moved               time.Duration // when the host moves to the next owner
		what                string
	}{
		{"the owner takes nothing", late, 0, 0, 0, "http://a.example/"},
		{"the heir takes nothing", 0, late, 0, 0, "http://a.example/"},
		{"moved, all accept", 0, 0, 0, late, "handed"},
		{"moved, the owner takes nothing", late, 0, 0, 3 * time.Second, "handed"},
		{"moved, the heir takes nothing", 0, late, 0, 3 * time.Second, "handed"},
		{"moved, the heir takes no finish", 0, 0, late, 3 * time.Second, "handed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOtherAgents(c.push, c.ships)
				o.namedAt, o.moved = c.finish, c.moved
				w, end := safeStory(t, o, nil).start(t, testdisk.NewMem())
				if c.moved > 0 {
					o.claims(t, w)
				}
				time.Sleep(15*time.Second - time.Since(o.start))
				end()
				if at, ok := o.at[c.what]; !ok || at < late {
					t.Errorf("others hear of %s after %s: %v", c.what, at, ok)
				}
			})
		})
	}
}

// aExample claims a.example by the view of a static.
var aExample = &pb.ClaimRequest{View: 1, Hosts: []string{"a.example"}}

// claims lets the next owner claim a.example when the host has moved to it, until it is told that something comes.
func (o *otherAgents) claims(t *testing.T, w *world) {
	t.Helper()
	time.Sleep(o.moved - time.Since(o.start))
	w.cl.ViewChanged()
	for range 100 {
		r := must.Get(w.cl.tenants.answerClaim(t.Context(), rpc.Caller{Name: "next"}, aExample))(t)
		if r.Verdicts[0] == claimComing {
			return
		}
		time.Sleep(claimWait)
	}
	t.Error("the next owner is not told that anything comes")
}

// slowNames is the Names of an agent whose archive has one page. It takes long to read.
type slowNames struct {
	notebook
	o     *otherAgents
	until time.Duration
}

func (n *slowNames) Each(fn func(link.Link, bool, string) error) error {
	time.Sleep(n.until - time.Since(n.o.start))
	return fn(link.Link{URL: weburl.MustParse("http://a.example/")}, false, "")
}

// An agent was killed before its heir had its last finishes. It reads their names from its archive. Before the heir has
// the names, the new owner of a host does not get the host's finished URLs.
func TestHandedAfterOldNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOtherAgents(0, 0)
		o.namedAt, o.moved = 10*time.Second, 12*time.Second
		s := safeStory(t, o, &slowNames{o: o, until: 20 * time.Second})
		mem := testdisk.NewMem()
		_, end := s.start(t, mem)
		time.Sleep(5 * time.Second)
		left := mem.Clone() // as after a kill
		end()
		w, end := s.start(t, left)
		o.claims(t, w)
		time.Sleep(30*time.Second - time.Since(o.start))
		end()
		if at, ok := o.at["handed"]; !ok || at < 20*time.Second {
			t.Errorf("the new owner gets the finished URLs after %s: %v; the heir has their names after 20s", at, ok)
		}
	})
}

// An agent that gets a link of another agent's host takes it only when the heir has it, too. It passes the link on.
// Otherwise the loss of this agent could lose the link: its sender forgets it.
func TestPassedOn(t *testing.T) {
	for name, heirAt := range map[string]time.Duration{
		"the heir takes it": 0, "the heir takes nothing": 5 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOtherAgents(time.Hour, heirAt)
				w, end := safeStory(t, o, nil).start(t, testdisk.NewMem())
				found := link.Link{URL: weburl.MustParse("http://b.example/passed"), Hops: "L"}
				if err := w.cl.Receive(t.Context(), []link.Link{found}, 0); err != nil {
					t.Error(err)
				}
				if took := time.Since(o.start); took < heirAt || took > heirAt+5*time.Second {
					t.Errorf("the link is taken after %s, and the heir has it after %s", took, heirAt)
				}
				time.Sleep(time.Second)
				if n := w.View.Status().Cluster.Outgoing; n == 0 {
					t.Error("the link is not passed on")
				}
				end()
			})
		})
	}
}
