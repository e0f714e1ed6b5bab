package visit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/fetch"
)

// begin begins visits of URLs whose robots.txt is known, so that a visit is one request.
func (b *bench) begin(urls ...string) (all []*Attempt) {
	for _, u := range urls {
		v := b.New(task(to(u)))
		b.Robots.Learn(v.Task.Link.URL, v.Task.Link.URL, unavailable, time.Now())
		b.Begin(v)
		all = append(all, v)
	}
	return all
}

// since returns how long the test runs, in virtual time.
func (b *bench) since() time.Duration { return time.Since(b.web.Start).Round(10 * time.Millisecond) }

func slowly(c *Config, _ *Parts) { c.Workers, c.SlowAfter = 1, time.Second }

// A fetch that receives nothing gives its worker away after SlowAfter; one that receives something, six times as long
// after. The visit ends all the same.
func TestSlowVisit(t *testing.T) {
	for words, want := range map[string]time.Duration{
		"slow=10s": time.Second, "slow=900ms": 900 * time.Millisecond, "drip=900ms": time.Second,
		"line=500ms*25 size=50000": 6 * time.Second,
	} {
		on(t, words, "http://a.example/p "+words+"\nhttp://b.example/", slowly, func(b *bench) {
			b.begin("http://a.example/p", "http://b.example/")
			for len(b.web.Told()) < 2 {
				time.Sleep(10 * time.Millisecond)
			}
			if got := b.web.Told()[1].At; got < want || got > want+50*time.Millisecond {
				b.Errorf("the next visit begins at %s, want %s", got, want)
			}
			if more := len(b.More()) == 1; more != (words != "slow=900ms") || more != (b.Slow() == 1) {
				b.Errorf("a worker is free: %v; %d slow visits", more, b.Slow())
			}
			first, second := <-b.Results(), <-b.Results()
			if slow := second.Task.Host == "a.example"; slow != (words != "slow=900ms") || b.Slow() != 0 {
				b.Errorf("%s ended before %s; %d slow visits", first.Task.Host, second.Task.Host, b.Slow())
			}
			if words != "drip=900ms" && (second.Outcome != Fetched || !second.Record.Archived) {
				b.Error(told(second))
			}
		})
	}
}

// A slow visit goes on between two visits of a worker, so that no more visits than workers are processed at a time.
func TestSlowVisitWaitsForAWorker(t *testing.T) {
	var now, most atomic.Int32
	on(t, "", "http://a.example/p slow=3s", func(c *Config, p *Parts) {
		slowly(c, p)
		p.Pages = PagesFunc(func(context.Context, *Page) error {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(5 * time.Second)
			now.Add(-1)
			return nil
		})
	}, func(b *bench) {
		b.begin("http://a.example/p", "http://b.example/1")
		time.Sleep(2 * time.Second)
		b.begin("http://b.example/2")
		for i, want := range []string{"/1 at 6s", "/p at 11s", "/2 at 16s"} {
			v := <-b.Results()
			if got := fmt.Sprintf("%s at %s", v.Task.Link.URL.Path(), b.since()); got != want {
				b.Errorf("visit %d: %s, want %s", i, got, want)
			}
		}
		if most.Load() != 1 {
			b.Errorf("%d visits were processed at a time", most.Load())
		}
	})
}

// At most SlowVisits are slow, and they take at most SlowBytes. Further ones keep their workers.
func TestSlowVisitsAreBounded(t *testing.T) {
	const each = slowBytes + fetch.SlowMemory
	for name, c := range map[string]struct {
		visits int
		bytes  int64
		want   int
	}{"visits": {4, 1 << 30, 4}, "bytes": {100, 6*each + each/2, 6}, "none": {-1, 1 << 30, 0}, "enough": {100, 1 << 30,
		12}} {
		on(t, name, "", func(cfg *Config, p *Parts) {
			slowly(cfg, p)
			cfg.SlowVisits, cfg.SlowBytes = c.visits, c.bytes
			p.Fetch = silent{}
		}, func(b *bench) {
			go func() {
				for i := range 12 {
					b.begin(fmt.Sprintf("http://a.example/%d", i))
				}
			}()
			time.Sleep(time.Minute)
			if b.Slow() != c.want || b.slow.bytes > c.bytes {
				b.Errorf("%d slow visits of %d bytes, want %d", b.Slow(), b.slow.bytes, c.want)
			}
			b.fail(errors.New("the run ends"))
			for range 12 {
				if v := <-b.Results(); v.Outcome != Abandoned || v.Err != nil {
					b.Errorf("after the end: %s, %v", told(v), v.Err)
				}
			}
		})
	}
}

// silent is a Fetcher whose servers do not answer.
type silent struct{}

func (silent) Fetch(ctx context.Context, _ fetch.Request) (*fetch.Response, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A header of a slow visit takes memory only while there is some, and it is given back.
func TestSlowHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Workers: 1, SlowAfter: time.Second, SlowBytes: 2 * slowBytes}.WithDefaults(), Parts{}, 0)
		w := &worker{p: p}
		if !p.slow.take(&p.cfg, slowBytes) || !w.grow(slowBytes) || w.grow(1) || w.bytes != slowBytes {
			t.Errorf("%d bytes are taken, %d of them by the header", p.slow.bytes, w.bytes)
		}
		if p.slow.give(slowBytes + w.bytes); p.slow.bytes != 0 || p.Slow() != 0 || !p.slow.take(&p.cfg, 2*slowBytes) {
			t.Errorf("%d bytes are left", p.slow.bytes)
		}
	})
}
