package gone

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/operation"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testmembers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A worker fetches a page a second. It is the Crawl of an agent.
type worker struct{ began time.Time }

func (w worker) Progress() *crawl.Status {
	n := int64(time.Since(w.began) / time.Second)
	return &crawl.Status{Pages: n, Fetched: n + 1, Bytes: 100 * n, Queued: 7, Unique: n + 8,
		Errors: map[string]int64{"dns": 2, "tls": 1}}
}

func open(t *testing.T, fs *testdisk.Mem, of *members.Members) *Roll {
	return must.Get(Open(Config{FS: fs, Path: "/gone.json", Clock: clock.System, Members: of,
		Crawl: worker{time.Now()}}))(t)
}

// play plays with the Rolls of three agents, which see each view.
func play(t *testing.T, story func(t *testing.T, c *testmembers.Cluster, rolls []*Roll,
	disks []*testdisk.Mem)) {
	synctest.Test(t, func(t *testing.T) {
		c := testmembers.Open(t, "a", "b", "c")
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		var rolls []*Roll
		var disks []*testdisk.Mem
		for _, a := range c.Agents {
			fs := testdisk.NewMem()
			r := open(t, fs, a.Members)
			operation.Serve(a.Server, func(_ context.Context, from rpc.Caller, _ string, q []byte) ([]byte, error) {
				return nil, r.Told(from, q)
			})
			rolls, disks = append(rolls, r), append(disks, fs)
		}
		c.Begin()
		for i, a := range c.Agents {
			r := rolls[i]
			running.Go(func() { r.Tend(ctx) })
			running.Go(func() {
				for clock.Pause(ctx, 100*time.Millisecond) {
					r.See(a.Members.View())
				}
			})
		}
		time.Sleep(time.Minute)
		story(t, c, rolls, disks)
	})
}

// texts returns what a Roll says, without times.
func texts(r *Roll) (all []string) {
	for _, a := range r.Agents() {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", a.Name, a.State, a.Reason)))
	}
	return all
}

// Of an agent that is killed, the others know counts that are some seconds old, and when it went. Rolls keep that when
// they are opened again.
func TestLost(t *testing.T) {
	play(t, func(t *testing.T, c *testmembers.Cluster, rolls []*Roll, disks []*testdisk.Mem) {
		last, at := worker{rolls[2].cfg.Crawl.(worker).began}.Progress(), time.Now()
		if h := rolls[0].Heard("c"); h == nil || h.Pages > last.Pages || rolls[0].Heard("x") != nil {
			t.Errorf("heard %+v", h)
		}
		c.Agents[2].Kill()
		time.Sleep(testmembers.Settle)
		var newest time.Time
		for i, r := range rolls[:2] {
			again := open(t, disks[i], c.Agents[i].Members)
			again.See(c.Agents[i].Members.View())
			for _, r := range []*Roll{r, again} {
				list := r.Agents()
				if len(list) != 1 || list[0].Counts == nil || !slices.Equal(texts(r), []string{"c lost"}) {
					t.Fatalf("%d: %+v", i, list)
				}
				g := list[0]
				if late := g.Since.Sub(at); late < -3*time.Second || late > 3*time.Second {
					t.Errorf("%d: it went %v after its death", i, late)
				}
				if g.At.After(newest) {
					newest = g.At
				}
				if n := g.Counts; n.Errors != 3 || n.Queued != 7 || n.Unique != n.Pages+8 || n.Bytes != 100*n.Pages ||
					last.Pages-n.Pages > 5 {
					t.Errorf("%d: counts %+v, of %d pages", i, n, last.Pages)
				}
			}
		}
		if old := at.Sub(newest); old > 3*time.Second {
			t.Errorf("the newest counts are %v old", old)
		}
	})
}

// An agent that ends in order says why, with its last counts. When it is back, it is not gone any more.
func TestPart(t *testing.T) {
	for reason, state := range map[string]State{"disk-low": Stopped, "left": Left, Failed: Lost, "": Stopped} {
		play(t, func(t *testing.T, c *testmembers.Cluster, rolls []*Roll, _ []*testdisk.Mem) {
			if reason != "" {
				rolls[2].Part(reason)
			}
			last := rolls[2].cfg.Crawl.Progress().Pages
			if list := rolls[0].Agents(); len(list) > 0 {
				t.Errorf("%q: gone before it goes: %+v", reason, list)
			}
			if reason != Failed {
				c.Agents[2].Announce(gossip.Gone)
			}
			c.Agents[2].Kill()
			time.Sleep(testmembers.Settle)
			for i, r := range rolls[:2] {
				list := r.Agents()
				if len(list) != 1 || list[0].State != state || list[0].Reason != reason ||
					reason != "" && list[0].Counts.Pages != last {
					t.Fatalf("%q: agent %d says %+v, %+v", reason, i, list, list[0].Counts)
				}
				v := *c.Agents[i].Members.View()
				v.Agents = append(slices.Clone(v.Agents), gossip.Agent{Name: "c", State: gossip.Up, Boot: 2,
					Instance: c.Agents[2].Members.Self.Instance})
				if r.See(&v); len(r.Agents()) > 0 {
					t.Errorf("%q: it is back: %+v", reason, r.Agents())
				}
			}
		})
	}
}

// Whatever an agent tells, a Roll is bounded and its counts are none below zero. A damaged file is as good as none.
func TestBounds(t *testing.T) {
	m := &members.Members{Self: gossip.Agent{Name: "a", Instance: [16]byte{0xff}}}
	fs := testdisk.NewMem()
	r := open(t, fs, m)
	from := func(n int) rpc.Caller {
		return rpc.Caller{Name: fmt.Sprintf("b%04d", n), Instance: rpc.ID{byte(n), byte(n >> 8), 1}, Boot: 2}
	}
	for _, damaged := range []string{"", "{", `{"counts":7}`, `{"ends":"` + strings.Repeat("x", maxReason+1) + `"}`,
		strings.Repeat(" ", maxMessage) + "{}"} {
		if err := r.Told(from(0), []byte(damaged)); err == nil {
			t.Errorf("%.20q is taken", damaged)
		}
	}
	for n := range 2 * mostKnown {
		must.Do(t, r.Told(from(n), []byte(`{"counts":{"pages":-1,"bytes":9223372036854775807}}`)))
	}
	if len(r.all) != mostKnown {
		t.Errorf("%d agents are known", len(r.all))
	}
	for n := range mostGone + 5 {
		must.Do(t, r.Told(from(n), []byte(`{"ends":"signal"}`)))
	}
	late := from(1)
	late.Boot = 1
	must.Do(t, r.Told(late, []byte(`{"counts":{"pages":9}}`)))
	must.Do(t, r.Told(from(1), []byte(`{"counts":{"pages":9}}`)))
	r.See(&gossip.View{Agents: []gossip.Agent{m.Self}})
	list := r.Agents()
	if len(list) != mostGone || list[0].Counts.Pages != 0 {
		t.Errorf("%d agents are gone, the first one with %+v", len(list), list[0].Counts)
	}
	must.Do(t, r.Close())
	if again := open(t, fs, m); len(again.all) != mostGone {
		t.Errorf("%d agents after a restart", len(again.all))
	}
	must.Do(t, disk.WriteFile(fs, "/gone.json", []byte("[{")))
	if again := open(t, fs, m); len(again.Agents()) > 0 {
		t.Error("a damaged file has agents")
	}
}

// An agent that was restored from a store has the counts of its former instance. That one is not named any more.
func TestRestored(t *testing.T) {
	m := &members.Members{Self: gossip.Agent{Name: "a", Instance: [16]byte{0xff}}}
	r := open(t, testdisk.NewMem(), m)
	b := gossip.Agent{Name: "b", Instance: [16]byte{1, 2, 3, 4, 5, 15: 6}, Boot: 1, State: gossip.Up}
	view := func(as ...gossip.Agent) *gossip.View { return &gossip.View{Agents: append(as, m.Self)} }
	r.See(view(b))
	must.Do(t, r.Told(rpc.Caller{Name: "b", Instance: b.Instance, Boot: 1}, []byte(`{"counts":{"pages":9}}`)))
	r.See(view())
	if got := texts(r); !slices.Equal(got, []string{"b lost"}) {
		t.Fatalf("after the loss: %q", got)
	}
	another, restored := b, b
	another.Instance = [16]byte{7, 8}
	r.See(view(another))
	if got := texts(r); !slices.Equal(got, []string{"b lost"}) {
		t.Errorf("with another agent of the name: %q", got)
	}
	restored.Instance, restored.Boot = members.Renew(b.Instance), 2
	r.See(view(restored))
	if got := texts(r); !slices.Equal(got, []string{"b lost"}) ||
		r.Agents()[0].Instance != rpc.ID(another.Instance).String() {
		t.Errorf("after the restore: %q", got)
	}
}
