package shares_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/cluster/shares"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testmembers"
)

// A sender is an agent that sends requests as its Rates allow.
type sender struct {
	*testmembers.Agent
	rates *shares.Rates
	end   func() // ends its requests and its Rates

	mu   sync.Mutex // guards sent
	sent []time.Time
}

// DividesRate implements shares.Placed: the first agent by name divides the rate.
func (s *sender) DividesRate() string {
	in := s.Members.In(gossip.Up)
	slices.Sort(in)
	return in[0]
}

// since returns how many requests a second were sent since a time.
func (s *sender) since(from time.Time) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, at := range s.sent {
		if !at.Before(from) {
			n++
		}
	}
	return float64(n) / time.Since(from).Seconds()
}

// send sends requests until ctx is done, with pauses.
func (s *sender) send(ctx context.Context, l *rate.Limiter, pause time.Duration) {
	for ctx.Err() == nil {
		if ok, _ := l.Room(time.Now()); !ok {
			l.Held()
			time.Sleep(5 * time.Millisecond)
			continue
		}
		turn := l.Begin()
		if turn.Send(ctx) == nil {
			s.mu.Lock()
			s.sent = append(s.sent, time.Now())
			s.mu.Unlock()
		}
		turn.End()
		time.Sleep(pause)
	}
}

// limited returns the schedule of a limit.
func limited(t *testing.T, text string) rate.Schedule {
	t.Helper()
	s := must.Get(rate.Parse(text))(t)
	return s
}

// senders plays with agents that share 40 requests a second: a and b have enough work, c has four requests a second.
func senders(t *testing.T, play func(fs disk.FS, all []*sender)) {
	synctest.Test(t, func(t *testing.T) {
		c := testmembers.Open(t, "a", "b", "c")
		fs := testdisk.NewMem()
		events := must.Get(report.OpenEvents(fs, "events", clock.System))(t)
		var all []*sender
		var limiters []*rate.Limiter
		for _, a := range c.Agents {
			s := &sender{Agent: a}
			var l *rate.Limiter
			s.rates, l = shares.New(shares.Config{Clock: clock.System, Schedule: limited(t, "40/s"), Events: events,
				Members: a.Members, Grantor: s})
			shares.Call.Serve(a.Server, s.rates.Answer)
			all, limiters = append(all, s), append(limiters, l)
		}
		c.Begin()
		for i, s := range all {
			ctx, cancel := context.WithCancel(t.Context())
			ended := s.rates.Begin(ctx)
			done := make(chan struct{})
			pause := time.Millisecond
			if i == 2 {
				pause = time.Second
			}
			go func() {
				var all sync.WaitGroup
				for range 4 {
					all.Go(func() { s.send(ctx, limiters[i], pause) })
				}
				all.Wait()
				close(done)
			}()
			s.end = func() { cancel(); <-done; ended() }
			defer s.end()
		}
		play(fs, all)
		events.Flush()
	})
}

// held checks that the shares of some agents sum to at most 1 over some time.
func held(t *testing.T, all []*sender, d time.Duration) {
	t.Helper()
	for from := time.Now(); time.Since(from) < d; time.Sleep(50 * time.Millisecond) {
		sum := 0.0
		for _, s := range all {
			_, share := s.rates.State()
			sum += share
		}
		if sum > 1+1e-9 {
			t.Fatalf("%s after the start of the watch, the shares sum to %f", time.Since(from), sum)
		}
	}
}

// Agents use the whole rate and no more, those with enough work alike. What an agent gives back is used by the others.
// When the agent that divides the rate is killed, another one does, and the shares of the others do not exceed it.
func TestRateIsShared(t *testing.T) {
	senders(t, func(_ disk.FS, all []*sender) {
		expect := func(when string, from time.Time, alike ...int) {
			t.Helper()
			var rates []float64
			sum := 0.0
			for _, s := range all {
				rates = append(rates, s.since(from))
				sum += s.since(from)
			}
			for _, i := range alike {
				if rates[i] < 17 || math.Abs(rates[i]-rates[alike[0]]) > 1 {
					t.Errorf("%s: %.1f requests a second", when, rates)
				}
			}
			if sum < 37 || sum > 40.5 {
				t.Errorf("%s: %.1f requests a second together, want 40", when, sum)
			}
		}
		time.Sleep(20 * time.Second)
		from := time.Now()
		held(t, all, 20*time.Second)
		expect("with work for a and b", from, 0, 1)
		all[1].end()
		time.Sleep(time.Second)
		from = time.Now()
		held(t, all, 10*time.Second)
		expect("after b has ended", from, 0)
		all[0].end()
		all[0].Kill()
		held(t, all[1:], time.Minute)
		if s := all[2]; s.DividesRate() != "b" {
			t.Fatalf("%s divides the rate", s.DividesRate())
		}
		from = time.Now()
		if time.Sleep(10 * time.Second); all[2].since(from) < 3 {
			t.Errorf("%.1f requests a second of c, which has work for 4", all[2].since(from))
		}
	})
}

// An order's schedule is in force at once, also while the settings have another, and goes when it is taken back. Only
// the agent that divides the rate answers, and it lets no stranger have a share.
func TestOrdersOfRates(t *testing.T) {
	senders(t, func(fs disk.FS, all []*sender) {
		time.Sleep(20 * time.Second)
		order := limited(t, "4/s")
		for _, s := range all {
			s.rates.Order(&order)
		}
		time.Sleep(5 * time.Second)
		from := time.Now()
		time.Sleep(20 * time.Second)
		if n := all[0].since(from) + all[1].since(from) + all[2].since(from); n > 4.2 || n < 3.4 {
			t.Errorf("%.1f requests a second, want 4", n)
		}
		none := limited(t, "none")
		all[0].rates.Order(&none) // the others obey later
		from = time.Now()
		if time.Sleep(time.Second); all[0].since(from) < 200 {
			t.Errorf("without a limit, %.1f requests a second", all[0].since(from))
		}
		all[0].rates.Order(nil)
		if s, _ := all[0].rates.State(); s.String() != "40/s" {
			t.Errorf("%s holds after the order", s)
		}
		for i, s := range all {
			stranger := rpc.Caller{Name: "stranger", Boot: 1}
			g, err := s.rates.Answer(t.Context(), stranger, &pb.ShareRequest{Seq: 1, Want: 1})
			if errors.Is(err, rpc.ErrAgain) != (i > 0) || err == nil && g.Share > 0 {
				t.Errorf("%s answers %v, %v", s.Members.Self.Name, g, err)
			}
		}
	})
}

// An agent that is alone has the whole rate, by an order or by the settings, and says so once for each change.
func TestRateAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := testdisk.NewMem()
		events, err := report.OpenEvents(fs, "events", clock.System)
		must.Do(t, err)
		r, l := shares.New(shares.Config{Clock: clock.System, Schedule: limited(t, "40/s"), Events: events})
		ctx, cancel := context.WithCancel(t.Context())
		end := r.Begin(ctx)
		order := limited(t, "2/s")
		for _, s := range []*rate.Schedule{nil, &order, &order, nil} {
			r.Order(s)
			time.Sleep(time.Second)
			want, pace := "40/s", 40.0
			if s != nil {
				want, pace = "2/s", 2
			}
			if now, share := r.State(); now.String() != want || share != 1 || l.Pace() != pace {
				t.Errorf("%s holds, a share of %f, %f requests a second; want %s", now, share, l.Pace(), want)
			}
		}
		cancel()
		end()
		must.Do(t, events.Close())
		b, err := disk.ReadFile(fs, "events", 1<<20)
		if err != nil || strings.Count(string(b), `"rate"`) != 3 {
			t.Errorf("events: %s, %v", b, err)
		}
	})
}
