package replicas

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testmembers"
)

// An heir is agent b, which has the replicas of agents a and c. It stands for its crawl, its lists and the owners of
// hosts, too: before the loss of an agent, each host belongs to the agent with which its name begins, and then to b.
type heir struct {
	*Replicas
	c     *testmembers.Cluster
	began time.Time

	mu   sync.Mutex // guards the fields below
	told []string
	err  error // of the takeover
}

func (h *heir) tell(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, time.Since(h.began).Round(time.Second).String()+" "+fmt.Sprintf(format, args...))
}

// heard returns what was told since the last call.
func (h *heir) heard() string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	s := strings.Join(h.told, "; ")
	h.told = nil
	return s
}

func (h *heir) OwnerOf(host string) string { return before(host)[:1] }
func (h *heir) ViewChanged()               { h.tell("view changed") }
func (h *heir) Place(*gossip.View) error   { return nil }

func before(host string) string { return host[:1] }

func (h *heir) TakeOver(ctx context.Context, store cluster.LostReplica, source handoff.Source,
	ours func(string) bool) (cluster.Taken, error) {
	h.mu.Lock()
	err := h.err
	h.mu.Unlock()
	records := 0
	mark, e := store.Import(ctx, source, func(*handoff.Record) error { records++; return nil })
	if err = errors.Join(err, e); err == nil {
		err = store.DropSource(ctx, mark)
	}
	h.tell("take over %d records of %s, ours %v %v", records, source.Name, ours("b.example"), ours("a.example"))
	return cluster.Taken{}, err
}

// inherits plays with agents a, b and c. a and c have shipped a record each to b.
func inherits(t *testing.T, play func(h *heir)) {
	synctest.Test(t, func(t *testing.T) {
		h := &heir{c: testmembers.Open(t, "a", "b", "c")}
		events := must.Get(report.OpenEvents(testdisk.NewMem(), "events", clock.System))(t)
		var others []*Replicas
		for _, a := range h.c.Agents {
			r := must.Get(Open(Config{FS: testdisk.NewMem(), Dir: "/crawl", Clock: clock.System, Events: events,
				Members: a.Members, Owners: h, Lists: h}))(t)
			defer r.Close()
			Call.Serve(a.Server, r.Receive)
			others = append(others, r)
		}
		h.Replicas = others[1]
		h.c.Begin()
		for _, i := range []int{0, 2} {
			url := "http://" + h.c.Agents[i].Members.Self.Name + ".example/"
			if err := others[i].Ship(t.Context(), "b", 2, finishOf(url), 1); !errors.Is(err, cluster.ErrNotWhole) {
				t.Errorf("the second batch without the first: %v", err)
			}
			if err := others[i].Ship(t.Context(), "b", 1, finishOf(url), 1); err != nil {
				t.Error(err)
			}
		}
		if err := others[0].Ship(t.Context(), "nobody", 1, finishOf("http://a.example/"), 1); err == nil {
			t.Error("records arrive at an agent that is gone")
		}
		if n, _ := h.Sizes(); n != 2 || !h.Settled() || h.Barred("a.example") {
			t.Errorf("%d replicas; settled %v", n, h.Settled())
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { h.Tend(ctx, h) })
		h.Lose(h.c.Agents[1].Members.View(), nil, time.Now())
		h.began = time.Now()
		play(h)
		cancel()
		running.Wait()
	})
}

// lose kills agents, and lets the heir apply the view without them.
func (h *heir) lose(agents ...int) {
	for _, i := range agents {
		h.c.Agents[i].Kill()
	}
	for m := h.c.Agents[1].Members; len(m.In(gossip.Up)) > len(h.c.Agents)-len(agents); {
		time.Sleep(10 * time.Millisecond)
	}
	h.began = time.Now()
	h.Lose(h.c.Agents[1].Members.View(), before, time.Now())
}

// The hosts of an agent that is killed are barred until its replica is taken over, which begins when their new owners
// are known. If it fails again and again, the heir gives up, and the hosts are not barred any longer.
func TestHeirTakesOver(t *testing.T) {
	const took = "0s take over 1 records of a, ours true false; 0s view changed"
	for name, err := range map[string]error{took: nil, "": errors.New("the disk fails")} {
		inherits(t, func(h *heir) {
			h.mu.Lock()
			h.err = err
			h.mu.Unlock()
			bars := h.Barring()
			h.lose(0)
			if !h.Barred("a.example") || h.Barred("b.example") || h.Settled() || h.Barring() == bars {
				t.Errorf("barred: %v, %v; settled %v", h.Barred("a.example"), h.Barred("b.example"), h.Settled())
			}
			time.Sleep(time.Minute)
			if got := h.heard(); got != "" {
				t.Errorf("before the new owners are known: %s", got)
			}
			h.began = time.Now()
			h.Replicas.TakeOver()
			if time.Sleep(time.Minute); h.Barred("a.example") || !h.Settled() {
				t.Error("still barred")
			}
			got, n := h.heard(), int64(1)
			if err != nil {
				n = 2 // the replica keeps its records
				tries := strings.Count(got, "take over")
				if tries != inheritTries || !strings.HasSuffix(got, "changed") {
					t.Errorf("a takeover that fails: %s", got)
				}
			} else if got != name {
				t.Errorf("%s, want %s", got, name)
			}
			if left, _ := h.Sizes(); left != n {
				t.Errorf("%d replicas are left, want %d", left, n)
			}
		})
	}
}

// If two agents are lost at once, one may have had the only replica of the other: the heir waits for both. An agent
// that is back keeps its hosts, and its replica.
func TestSeveralAreLost(t *testing.T) {
	inherits(t, func(h *heir) {
		h.lose(0, 2)
		h.Replicas.TakeOver()
		time.Sleep(time.Minute)
		got := strings.Split(h.heard(), "; ")
		if len(got) != 4 || !strings.HasPrefix(got[0], "0s take over 1 records of ") ||
			!strings.HasPrefix(got[2], awayGrace.String()+" take over 1 records of ") {
			t.Errorf("%q", got)
		}
	})
	inherits(t, func(h *heir) {
		self := h.c.Agents[1].Members
		v := *self.View()
		v.Agents = slices.DeleteFunc(slices.Clone(v.Agents), func(a gossip.Agent) bool { return a.Name == "a" })
		h.Lose(&v, before, time.Now()) // a has gone without a word, and is not known to be dead
		h.Replicas.TakeOver()
		if !h.Barred("a.example") {
			t.Error("its hosts are not barred")
		}
		time.Sleep(leaveGrace / 2)
		h.Lose(self.View(), before, time.Now())
		if h.Barred("a.example") || !h.Settled() {
			t.Error("the hosts of an agent that is back are barred")
		}
		if time.Sleep(time.Minute); h.heard() != "" {
			t.Error("the hosts of an agent that is back are taken over")
		}
		if n, _ := h.Sizes(); n != 2 {
			t.Errorf("%d replicas", n)
		}
	})
	inherits(t, func(h *heir) {
		h.mu.Lock()
		h.err = crawl.ErrNotRunning
		h.mu.Unlock()
		h.lose(0)
		h.Replicas.TakeOver()
		if time.Sleep(time.Minute); strings.Count(h.heard(), "take over") != 1 || !h.Barred("a.example") {
			t.Error("the heir takes over after the end of its crawl")
		}
	})
	var none *Replicas
	if none.Wake(); !none.Settled() || none.Barred("a.example") || none.Barring() != nil {
		t.Error("an agent without replicas bars hosts")
	}
}
