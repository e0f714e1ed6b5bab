package visit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// gate is a Gate that the test opens and closes.
type gate struct{ held, dropped atomic.Bool }

func (g *gate) HeldBack(*Attempt) bool  { return g.held.Load() }
func (g *gate) Overtaken(*Attempt) bool { return g.dropped.Load() }

// A visit that the workers have and that has not begun does not begin any more after an order, a refusal or the loss of
// its lease. Visits in progress end as usual. An order that is taken back in time has no effect.
func TestVisitsThatMustNotBegin(t *testing.T) {
	g, granted := new(gate), new(atomic.Bool)
	for name, c := range map[string]struct {
		change, back func(*bench, *Attempt)
		want         Outcome
	}{
		"nothing":      {want: Fetched},
		"refused":      {change: func(b *bench, _ *Attempt) { b.Refuse() }, want: Abandoned},
		"held back":    {change: func(*bench, *Attempt) { g.held.Store(true) }, want: Abandoned},
		"dropped":      {change: func(*bench, *Attempt) { g.dropped.Store(true) }, want: Abandoned},
		"no lease now": {change: func(*bench, *Attempt) { granted.Store(false) }, want: Abandoned},
		"lease lost":   {change: func(_ *bench, v *Attempt) { v.Permit.CutOff() }, want: Abandoned},
		"taken back": {change: func(*bench, *Attempt) { g.held.Store(true) },
			back: func(*bench, *Attempt) { g.held.Store(false) }, want: Fetched},
		"lease given back": {change: func(*bench, *Attempt) { granted.Store(false) },
			back: func(*bench, *Attempt) { granted.Store(true) }, want: Fetched},
	} {
		on(t, name, "http://a.example/1 slow=4s", func(c *Config, p *Parts) { c.Workers, p.Gate = 1, g },
			func(b *bench) {
				g.held.Store(false)
				g.dropped.Store(false)
				granted.Store(true)
				b.begin("http://a.example/1")
				synctest.Wait()
				v := b.New(task(to("http://a.example/2")))
				v.Permit = NewPermit(granted.Load, func() {})
				b.Begin(v)
				for i, f := range []func(*bench, *Attempt){c.change, c.back} {
					if time.Sleep(time.Second); f != nil {
						f(b, v)
					}
					if len(b.Results()) > 0 {
						b.Errorf("step %d: a visit has ended", i)
					}
				}
				if first := <-b.Results(); first.Outcome != Fetched || !first.Record.Archived {
					b.Errorf("the visit in progress: %s", told(first))
				}
				if <-b.Results(); v.Outcome != c.want || (b.requests() == "a.example/1") != (c.want == Abandoned) {
					b.Errorf("%s, asked for %s; want %s", v.Outcome, b.requests(), c.want)
				}
			})
	}
}

// A lost lease cuts a visit off. Only the first loss counts, and the holder learns once of the end of the visit.
func TestLeaseIsLostMeanwhile(t *testing.T) {
	on(t, "", "http://a.example/1 slow=9s\nhttp://a.example/2 slow=9s", nil, func(b *bench) {
		ended := 0
		permit := NewPermit(func() bool { return true }, func() { ended++ })
		all := b.begin("http://a.example/1")
		v := b.New(task(to("http://a.example/2")))
		v.Permit = permit
		b.Begin(v)
		time.Sleep(time.Second)
		if !permit.CutOff() || permit.CutOff() || !permit.WasCutOff() {
			b.Error("CutOff does not tell the first loss")
		}
		if got := <-b.Results(); got != v || got.Outcome != Abandoned || got.Err != nil || b.since() > time.Second {
			b.Errorf("%s: %s at %s", got.Task.Link.URL, told(got), b.since())
		}
		if v.Permit.Release(); ended != 1 {
			b.Errorf("ended %d times", ended)
		}
		if got := <-b.Results(); got != all[0] || got.Outcome != Fetched {
			b.Errorf("the other visit: %s", told(got))
		}
		var none *Permit
		if none.Release(); none.WasCutOff() || !none.valid() {
			b.Error("a visit that uses no lease has lost it")
		}
	})
}

// No worker waits for the dispatcher: all visits that are under way can end before it takes one of them.
func TestResultsHaveRoom(t *testing.T) {
	on(t, "", "", func(c *Config, p *Parts) {
		c.Workers, c.SlowVisits, c.SlowAfter, p.Fetch = 2, 3, time.Second, silent{}
	}, func(b *bench) {
		n := b.cfg.Handed() + b.cfg.SlowVisits
		for i := range n {
			b.begin(fmt.Sprintf("http://a.example/%d", i))
			time.Sleep(3 * time.Second)
		}
		b.Ended(b.New(task(to("http://a.example/")))) // of a look-up
		b.fail(nil)
		b.end()
		if len(b.Results()) != n+1 {
			b.Errorf("%d results, want %d", len(b.Results()), n+1)
		}
	})
}

// Pages gets each page after its record is in the archive. ErrEnough finishes the page, another error leaves it to the
// next run, and after both no other visit begins. The loss of the lease does not cut Pages off.
func TestPages(t *testing.T) {
	refused := errors.New("no room")
	for _, c := range []struct {
		err  error
		want Outcome
	}{{nil, Fetched}, {ErrEnough, Fetched}, {fmt.Errorf("page: %w", ErrEnough), Fetched}, {refused, Abandoned}} {
		var got []Page
		var b *bench
		on(t, fmt.Sprint(c.err), "http://a.example/1 same\nhttp://a.example/2 same etag=x\nhttp://a.example/3 404\n"+
			"http://a.example/4 reset", func(_ *Config, p *Parts) {
			p.Pages = PagesFunc(func(ctx context.Context, p *Page) error {
				got = append(got, *p)
				if calls, since := b.Handing(); calls != 1 || !since.Equal(time.Now()) {
					t.Errorf("%d calls since %s", calls, since)
				}
				return errors.Join(ctx.Err(), c.err)
			})
		}, func(at *bench) {
			b, got = at, nil
			permit := NewPermit(func() bool { return true }, func() {})
			p, allowed := b.Pool.Pages, func(v *Attempt) { v.Permit = permit }
			b.Pool.Pages = PagesFunc(func(ctx context.Context, page *Page) error {
				permit.CutOff()
				return p.Receive(ctx, page)
			})
			v := b.visited(to("http://a.example/1"), allowed)
			if v.Outcome != c.want || v.Page.Stops != (c.err != nil) || !v.Record.Archived || len(got) != 1 {
				b.Fatalf("%s, stops %v, %d calls", told(v), v.Page.Stops, len(got))
			}
			if g := got[0]; g.Status != 200 || g.MIME != "text/html" || g.Written.File == "" || g.Duplicate ||
				g.Again ||
				string(g.Body) != "the same everywhere" || g.Size != int64(len(g.Body)) {
				b.Errorf("page %+v", g)
			}
			if calls, _ := b.Handing(); calls != 0 {
				b.Errorf("%d calls go on", calls)
			}
			rest := b.begin("http://a.example/2")
			if <-b.Results(); (rest[0].Outcome == Abandoned) != (c.err != nil) {
				b.Errorf("the next visit: %s", told(rest[0]))
			}
			if c.err != nil {
				return
			}
			b.visited(to("http://a.example/3"))
			if b.visited(to("http://a.example/4")); len(got) != 3 || !got[1].Duplicate || got[2].Status != 404 ||
				got[2].Body != nil {
				b.Errorf("pages %+v", got[1:])
			}
		})
	}
}

// An application's page is not for Pages, and one that is visited again is marked.
func TestPagesAgain(t *testing.T) {
	var got []Page
	on(t, "", "http://a.example/1 etag=x /2", func(_ *Config, p *Parts) {
		p.Applications = apps{"news": {Name: "news"}}
		p.Pages = PagesFunc(func(_ context.Context, p *Page) error { got = append(got, *p); return nil })
	}, func(b *bench) {
		b.Applications.(apps)["news"].Scope = b.Scope
		b.visited(appLink("news", "http://a.example/1"))
		first := b.visited(to("http://a.example/"))
		b.visited(to("http://a.example/"),
			func(v *Attempt) { v.Plan().Before = &Before{Original: first.Record.Written.Original} })
		if len(got) != 2 || got[0].Again || !got[1].Again {
			b.Errorf("pages %+v", got)
		}
	})
}
