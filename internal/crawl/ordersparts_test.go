package crawl

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// owners are the other agents that crawl hosts.
type owners map[string]string

func (o owners) Owner(host string) (string, bool) {
	owner, other := o[host]
	return owner, !other
}
func (o owners) Peek(host string) (string, bool) { return o.Owner(host) }
func (owners) PagesElsewhere(string) int64       { return 0 }

// A drop takes the links of its host in the queue, beside the queues and with the Planner, and no other. It is durable
// when it is answered, and says how many links it has found.
func TestDropIsDurable(t *testing.T) {
	p := new(diary)
	b := on(t, testdisk.NewMem(), planned(p))
	b.intake.take(b.links("http://a.example/1", "http://a.example/2", "http://b.example/3"))
	b.book.Put(retryOf("http://a.example/4"))
	b.book.Put(retryOf("http://b.example/5"))
	b.serve()
	text, err := b.orders.Drop(t.Context(), "a.example")
	if err != nil || text != "a.example: 3 links dropped" {
		t.Fatalf("%q, %v", text, err)
	}
	after := b.restarted()
	if got := after.pending(); !slices.Equal(got, []string{"/b.example/3"}) {
		t.Errorf("pending after a power failure: %v", got)
	}
	if b.gate.Dropped("a.example", 3) != true || b.gate.Dropped("b.example", 1) || !slices.Equal(p.forgot,
		[]string{"a.example"}) {
		t.Errorf("the Planner is told to forget %v", p.forgot)
	}
	if b.book.Waiting() != 1 {
		t.Errorf("%d wait beside the queues", b.book.Waiting())
	}
	var gone []string
	done, err := b.Frontier.Withdrawn(9, func(w frontier.Waiting) error {
		gone = append(gone, w.Link.URL.Path())
		return nil
	})
	if slices.Sort(gone); err != nil || !done || !slices.Equal(gone, []string{"/1", "/2", "/4"}) {
		t.Errorf("withdrawn %v, %v", gone, err)
	}
	b.intake.take(b.links("http://a.example/6"))
	if q := b.queue(); len(q) != 2 || !strings.HasPrefix(q[0], "/3 ") || q[1] != "/6 4" {
		t.Errorf("queued after the drop: %v", q)
	}
}

// A command for a host of another agent changes nothing, and says which agent it is. One that the disk fails ends the
// run, and is not answered as if it held.
func TestDropThatFails(t *testing.T) {
	broken := errors.New("broken")
	b := on(t, testdisk.NewMem(), func(b *bench, _ *visit.Parts, _ *testparts.Config) {
		b.cluster.Owners = owners{"b.example": "other", "new.example": ""}
	})
	b.intake.take(b.links("http://a.example/1"))
	if _, err := b.orders.Drop(t.Context(), "a.example"); !errors.Is(err, ErrNotRunning) {
		t.Errorf("before Run: %v", err)
	}
	b.serve()
	var elsewhere *ElsewhereError
	if _, err := b.orders.Drop(t.Context(), "b.example"); !errors.As(err, &elsewhere) || elsewhere.Agent != "other" ||
		b.gate.Drops() {
		t.Errorf("of another agent: %v, drops %v", err, b.gate.Drops())
	}
	if _, err := b.orders.Drop(t.Context(), "new.example"); err != nil {
		t.Errorf("of a host without a known owner: %v", err)
	}
	b.fs.Break(func(c testdisk.Call) (f testdisk.Fault) {
		if c.Op == testdisk.OpSync {
			f.Err = broken
		}
		return f
	})
	if text, err := b.orders.Drop(t.Context(), "a.example"); text != "" || !errors.Is(err, broken) || !b.failed() {
		t.Errorf("on a broken disk: %q, %v", text, err)
	}
	if _, err := b.orders.Checkpoint(t.Context()); !errors.Is(err, broken) {
		t.Errorf("a checkpoint after that: %v", err)
	}
}

// What waits is counted in the queue and beside it. The blocks of the host are told.
func TestWaiting(t *testing.T) {
	b := on(t, testdisk.NewMem())
	b.intake.take(b.links("http://a.example/1", "http://a.example/2"))
	b.book.Put(retryOf("http://a.example/3"))
	b.serve()
	must.Do(t, b.orders.Bar(t.Context(), []Bar{{Host: "a.example", Why: "a complaint"}}))
	text, blocks, err := b.orders.Waiting(t.Context(), "a.example")
	if err != nil || text != "3 links wait" || len(blocks) != 1 || !strings.Contains(blocks[0], "a complaint") {
		t.Errorf("%q, %q, %v", text, blocks, err)
	}
	if text, blocks, err = b.orders.Waiting(t.Context(), "b.example"); err != nil || text != "0 links wait" ||
		blocks != nil {
		t.Errorf("%q, %q, %v", text, blocks, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, blocks, err := b.orders.Waiting(ctx, "a.example"); err == nil || blocks != nil {
		t.Errorf("after its time is over: %q, %v", blocks, err)
	}
}

// An order holds from the moment at which it is acknowledged, also before Run, and no longer when it is taken back. No
// link is lost.
func TestOrdersAreTakenBack(t *testing.T) {
	for name, running := range map[string]bool{"before Run": false, "while Run runs": true} {
		t.Run(name, func(t *testing.T) {
			b := on(t, testdisk.NewMem())
			b.intake.take(b.links("http://a.example/1", "http://a.example/2", "http://b.example/3"))
			if running {
				b.serve()
			}
			o, ctx := b.orders, t.Context()
			l := foundAt("http://a.example/2")
			barred := func() bool { return b.gate.Bars("a.example", netip.Addr{}) }
			excluded := func() bool { return o.Excluded(l) != "" }
			inScope := func() bool { return len(b.links("http://far.example/2").Found) == 1 }
			paused := func() bool {
				return b.gate.HeldBack(b.visits.New(frontier.Task{Link: foundAt("http://b.example/3")}))
			}
			for _, c := range []struct {
				name    string
				holds   func() bool
				on, off func() error
			}{
				{"bar", barred, func() error { return o.Bar(ctx, []Bar{{Host: "a.example"}}) },
					func() error { return o.Bar(ctx, nil) }},
				{"exclusion", excluded,
					func() error { return o.Exclude(ctx, []Exclusion{{Pattern: "/2$", Deeper: -1, Why: "order 1"}}) },
					func() error { return o.Exclude(ctx, nil) }},
				{"pause", paused, func() error { return o.Pause(ctx, true) }, func() error {
					return o.Pause(ctx,
						false)
				}},
				{"scope", inScope, func() error { return o.Amend(scope.Amendment{Hosts: []string{"far.example"}}) },
					func() error { return o.Amend(scope.Amendment{}) }},
			} {
				must.Do(t, c.on())
				on := c.holds()
				must.Do(t, c.off())
				if off := c.holds(); !on || off {
					t.Errorf("%s: holds %v, and %v when it is taken back", c.name, on, off)
				}
			}
			if n := b.Frontier.Len(); n != 3 {
				t.Errorf("%d links wait, want 3", n)
			}
		})
	}
}

// common are the turns of agents that end the run together while is is set. The rest is not asked for.
type common struct {
	Turns
	is atomic.Bool
}

func (c *common) Ending() bool    { return c.is.Load() }
func (c *common) Outgoing() int64 { return 0 }

// Once an agent has agreed to end, operators give it no work: their URLs are refused, and what they allow again waits
// until the agents have changed their minds. Otherwise it would go on without those that have ended.
func TestNoWorkAtTheEnd(t *testing.T) {
	end := new(common)
	b := on(t, testdisk.NewMem(), func(b *bench, _ *visit.Parts, _ *testparts.Config) { b.cluster.Turns = end })
	ctx := t.Context()
	b.intake.take(b.links("http://a.example/1", "http://b.example/2"))
	b.serve()
	must.Do(t, b.orders.Bar(ctx, []Bar{{Host: "a.example"}}))
	must.Do(t, b.orders.Exclude(ctx, []Exclusion{{Pattern: "/2$", Deeper: -1, Why: "order 1"}}))
	must.Do(t, b.orders.SetApplications([]visit.Application{{Name: "news", Scope: anyURL(t)}}))
	must.Do(t, b.run.Do(ctx, "wait", func(now time.Time) {
		task, _, _ := b.Frontier.Next(now)
		must.Do(t, b.Frontier.Done(task.Host, frontier.Done{NoRequest: true}, now))
		must.Do(t, b.Frontier.SetAside(task.Link, task.Number))
	}))
	work := func() (pending int64, heeded bool) {
		must.Do(t, b.run.Do(ctx, "look", func(time.Time) {
			b.gate.HeedBars()
			b.gate.HeedExclusions()
			b.apps.Heed()
			s := b.Frontier.Stats()
			pending, heeded = b.Frontier.Pending(), s.Aside == 0 || b.counts("shop")
		}))
		return pending, heeded
	}
	before, _ := work()
	end.is.Store(true)
	u := weburl.MustParse("http://c.example/")
	if fates, err := b.intake.AddSeeds(ctx, []NewSeed{{URL: u}}); !errors.Is(err, ErrEnding) {
		t.Errorf("a seed: %v, %v", fates, err)
	}
	if fates, err := b.intake.Feed(ctx, "news", []AppURL{{URL: u}}); !errors.Is(err, ErrEnding) {
		t.Errorf("a URL for an application: %v, %v", fates, err)
	}
	must.Do(t, b.orders.Bar(ctx, nil))
	must.Do(t, b.orders.Exclude(ctx, nil))
	must.Do(t, b.orders.SetApplications([]visit.Application{{Name: "shop", Scope: anyURL(t)}}))
	if pending, heeded := work(); pending != before || heeded {
		t.Errorf("%d links are pending, before the end %d; orders are heeded: %v", pending, before, heeded)
	}
	end.is.Store(false)
	if pending, heeded := work(); pending <= before || !heeded {
		t.Errorf("the agents do not end: %d links are pending, at the end %d; orders are heeded: %v", pending, before,
			heeded)
	}
	if fates, err := b.intake.AddSeeds(ctx, []NewSeed{{URL: u}}); err != nil || !slices.Equal(fates,
		[]SeedFate{SeedNew}) {
		t.Errorf("a seed after that: %v, %v", fates, err)
	}
}

// counts reports whether the dispatcher has heeded an application: from then on its links are counted.
func (b *bench) counts(app string) (found bool) {
	must.Do(b.T, b.apps.Save(func(_ byte, p []byte) error {
		name, _, _, err := state.DecodeApplication(p)
		found = found || name == app
		return err
	}, time.Time{}))
	return found
}

// A wrong pattern of an exclusion leaves those in force.
func TestWrongExclusion(t *testing.T) {
	b := on(t, testdisk.NewMem())
	must.Do(t, b.orders.Exclude(t.Context(), []Exclusion{{Pattern: "/2$", Deeper: -1, Why: "order 1"}}))
	if err := b.orders.Exclude(t.Context(), []Exclusion{{Pattern: "("}}); err == nil {
		t.Error("a wrong pattern is no error")
	}
	if why := b.orders.Excluded(foundAt("http://a.example/2")); !strings.Contains(why, "order 1") {
		t.Errorf("the exclusion before: %q", why)
	}
}

// A paused run with work does not end: the dispatcher looks again. Without work it may end.
func TestPausedRunGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := on(t, testdisk.NewMem())
		now := time.Now()
		if paused, ask := b.orders.paused(now); paused || !ask.IsZero() {
			t.Error("paused without an order")
		}
		must.Do(t, b.orders.Pause(t.Context(), true))
		if paused, ask := b.orders.paused(now); !paused || !ask.IsZero() {
			t.Errorf("paused %v, and looks again at %s although there is no work", paused, ask)
		}
		b.book.Put(retryOf("http://a.example/1"))
		if paused, ask := b.orders.paused(now); !paused || !ask.After(now) {
			t.Errorf("paused %v, and looks again at %s", paused, ask)
		}
		b.progress.began = now.Add(time.Minute) // the pause began before Run
		why := b.orders.whyPaused(now.Add(3 * time.Minute))
		if why.Text != "the crawl is paused for 2 min 0 s by the operator" {
			t.Errorf("%+v", why)
		}
	})
}

// A checkpoint is begun once at a time, and all is durable when it is answered.
func TestCheckpointOnDemand(t *testing.T) {
	b := on(t, testdisk.NewMem())
	b.serve()
	must.Do(t, b.run.Do(t.Context(), "take", func(time.Time) { b.intake.take(b.links("http://a.example/1")) }))
	for _, want := range []string{"saved; a checkpoint is being written",
		"saved; no checkpoint was begun: one is being written, or the journal is being read"} {
		if text, err := b.orders.Checkpoint(t.Context()); err != nil || text != want {
			t.Errorf("%q, %v; want %q", text, err, want)
		}
	}
	if got := b.restarted().pending(); !slices.Equal(got, []string{"/a.example/1"}) {
		t.Errorf("after a power failure: %v", got)
	}
	must.Do(t, b.run.Do(t.Context(), "end", func(time.Time) { b.run.Fail(b.ledger.End(func() {})) }))
}
