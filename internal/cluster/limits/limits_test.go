package limits

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testmembers"
)

// A fetcher is the crawl of an agent: it fetches a page every 20 ms, as long as it may. It knows the agents by their
// gossip, like a membership. It implements Owners.
type fetcher struct {
	*testmembers.Agent
	pages *Pages
	now   atomic.Pointer[placement.View] // of the view that was seen last
	seen  uint64                         // its digest

	mu      sync.Mutex // guards the fields below
	need    Need
	stopped time.Time
	over    bool // the crawl does not run any more
}

func (f *fetcher) Load() *placement.View { return f.now.Load() }

// look applies the present view.
func (f *fetcher) look(t *testing.T) {
	v := f.Members.View()
	if f.seen == v.Digest() {
		return
	}
	ring, err := placement.NewRendezvous(members.Up(v), 64)
	if err != nil {
		t.Error(err)
	}
	f.seen = v.Digest()
	f.now.Store(placement.NewView(ring, f.Members.Self.Name, placement.Begin{}))
}

func (f *fetcher) Ration(_ context.Context, rule func(Need) int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return errors.New("the crawl does not run")
	}
	f.need.Allowed = max(rule(f.need), f.need.Pages+f.need.Busy)
	return nil
}

func (f *fetcher) fetch() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped.IsZero() && !f.over && f.need.Pending > 0 && f.need.Pages < f.need.Allowed {
		f.need.Pages, f.need.Pending = f.need.Pages+1, f.need.Pending-1
	}
}

// fetchers plays with agents that share a limit of pages. Each has links for 400 pages, the last one for 4000.
func fetchers(t *testing.T, limit int64, play func(fs []*fetcher, sum func() int64)) {
	synctest.Test(t, func(t *testing.T) {
		c := testmembers.Open(t, "a", "b", "c")
		events := must.Get(report.OpenEvents(testdisk.NewMem(), "events", clock.System))(t)
		ctx, cancel := context.WithCancel(t.Context())
		var all []*fetcher
		for i, a := range c.Agents {
			f := &fetcher{Agent: a, need: Need{Pending: 400 + 3600*int64(i/2)}}
			f.pages = New(Config{Limit: limit, Members: a.Members, Owners: f, Clock: clock.System, Events: events})
			Call.Serve(a.Server, f.pages.Answer)
			all = append(all, f)
		}
		c.Begin()
		for _, f := range all {
			f.look(t)
		}
		var running sync.WaitGroup
		for _, f := range all {
			running.Go(func() {
				f.pages.Keep(ctx, f, func(context.Context) error {
					f.mu.Lock()
					defer f.mu.Unlock()
					f.stopped = time.Now()
					return nil
				})
			})
			running.Go(func() {
				for ctx.Err() == nil {
					f.look(t)
					time.Sleep(20 * time.Millisecond)
					f.fetch()
				}
			})
		}
		sum := func() (n int64) {
			for _, f := range all {
				f.mu.Lock()
				n += f.need.Pages
				f.mu.Unlock()
			}
			if limit > 0 && n > limit {
				t.Errorf("%d pages, at most %d", n, limit)
			}
			return n
		}
		play(all, sum)
		cancel()
		running.Wait()
	})
}

// Agents with different work reach the limit of all together exactly, and stop, the counter last. If the counter is
// killed, another one counts: what the first one held counts as used.
func TestAgentsKeepTheLimit(t *testing.T) {
	for _, kills := range []bool{false, true} {
		const limit = 1000
		fetchers(t, limit, func(fs []*fetcher, sum func() int64) {
			held, from := int64(0), time.Now()
			var stopped []*fetcher // in this order
			for len(stopped) < len(fs) && time.Since(from) < 5*time.Minute {
				time.Sleep(100 * time.Millisecond)
				for i, f := range fs {
					f.mu.Lock()
					if kills && held == 0 && f.need.Pages > 200 && f.pages.counts() {
						f.over, held = true, f.need.Allowed-f.need.Pages
						fs = append(slices.Clone(fs[:i]), fs[i+1:]...)
						f.mu.Unlock()
						f.Kill()
						break
					}
					if !f.stopped.IsZero() && !slices.Contains(stopped, f) {
						stopped = append(stopped, f)
					}
					f.mu.Unlock()
				}
			}
			if n := sum(); n < limit-held || len(stopped) < len(fs) || !stopped[len(stopped)-1].pages.counts() {
				t.Errorf("%d pages, want %d but for %d; %d of %d agents have stopped", n, limit, held, len(stopped),
					len(fs))
			}
		})
	}
}

// Without a limit nobody asks for pages. An agent that is not in the cluster gets none, and only the counter gives any.
// Hostile numbers are taken for what they say, and do not let others have more.
func TestWhoGetsPages(t *testing.T) {
	fetchers(t, 0, func(fs []*fetcher, sum func() int64) {
		if time.Sleep(time.Minute); sum() != 0 || !fs[0].stopped.IsZero() {
			t.Error("an agent has asked for pages without a limit")
		}
	})
	fetchers(t, 100, func(fs []*fetcher, _ func() int64) {
		time.Sleep(time.Second)
		for _, f := range fs {
			stranger := rpc.Caller{Name: "stranger", Boot: 1}
			_, err := f.pages.Answer(t.Context(), stranger, &pb.BudgetRequest{Seq: 1, Want: 9})
			if !errors.Is(err, rpc.ErrAgain) {
				t.Errorf("a stranger gets pages: %v", err)
			}
			hostile := rpc.Caller{Name: "a", Boot: 9}
			r, err := f.pages.Answer(t.Context(), hostile, &pb.BudgetRequest{Seq: 1, Want: 1 << 31, Used: 1 << 63,
				Held: 1<<64 - 1, Known: map[string]uint64{"b": 1<<64 - 1, "nobody": 1 << 63}})
			if is := errors.Is(err, rpc.ErrAgain); is == f.pages.counts() || !is && !r.Spent {
				t.Errorf("%s answers %v, %v", f.Members.Self.Name, r, err)
			}
		}
	})
}

// The crawl has been running since the first agent began, whatever the others say later.
func TestAge(t *testing.T) {
	var a Age
	now := time.Unix(1e9, 0)
	if d := a.Running(now); d != 0 {
		t.Errorf("a crawl that has not begun runs for %s", d)
	}
	for _, d := range []time.Duration{time.Minute, time.Hour, time.Second, -time.Hour} {
		a.Since(d, now)
	}
	if d := a.Running(now.Add(time.Second)); d != time.Hour+time.Second {
		t.Errorf("it runs for %s", d)
	}
}
