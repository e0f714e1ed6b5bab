package rate

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/wake"
)

// A crowd makes visits through a Limiter, as a crawl does: a dispatcher begins them, and workers send.
type crowd struct {
	l       *Limiter
	workers int
	// What happens to a visit that does it at a time since the beginning: how long until its request could be sent,
	// whether it fails before that, how long until the response is there, and the response's size.
	latency, answers func(at time.Duration) time.Duration
	fails            func(at time.Duration) bool
	size             func(at time.Duration) int

	began time.Time
	mu    sync.Mutex // guards the fields below
	r     *rand.Rand
	sent  []time.Duration
	got   []received
}

type received struct {
	at    time.Duration
	bytes int
}

// run makes visits for a time.
func (c *crowd) run(d time.Duration) {
	c.began = time.Now()
	free := make(chan struct{}, c.workers)
	ended := make(chan struct{}, 1)
	var all sync.WaitGroup
	for c.since() < d {
		if ok, ask := c.l.Room(time.Now()); !ok {
			c.l.Held()
			select {
			case <-time.After(time.Until(ask)):
			case <-ended:
			}
			continue
		}
		free <- struct{}{}
		turn := c.l.Begin()
		all.Go(func() {
			c.visit(&turn)
			turn.End()
			<-free
			wake.Up(ended)
		})
	}
	all.Wait()
}

// chance draws a random number.
func (c *crowd) chance(draw func(*rand.Rand) float64) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return draw(c.r)
}

func (c *crowd) since() time.Duration { return time.Since(c.began) }

func (c *crowd) visit(t *Turn) {
	if c.latency != nil {
		time.Sleep(c.latency(c.since()))
	}
	if c.fails != nil && c.fails(c.since()) || t.Send(context.Background()) != nil {
		return
	}
	at := c.since()
	c.mu.Lock()
	c.sent = append(c.sent, at)
	c.mu.Unlock()
	size := 1000
	if c.size != nil {
		size = c.size(at)
	}
	if c.answers != nil {
		time.Sleep(c.answers(at))
	}
	for size > 0 {
		n := min(size, 16<<10)
		switch most, err := t.Next(context.Background()); {
		case err != nil:
			return
		case most > 0:
			n = min(n, most)
		}
		size -= n
		c.mu.Lock()
		c.got = append(c.got, received{c.since(), n})
		c.mu.Unlock()
		t.Receive(n)
	}
}

// windows calls f with the number of requests and of bits in each window of ten seconds until a time.
func (c *crowd) windows(to time.Duration, f func(at time.Duration, requests int, bits float64)) {
	slices.Sort(c.sent)
	slices.SortFunc(c.got, func(a, b received) int { return int(a.at - b.at) })
	for at := time.Duration(0); at+10*time.Second <= to; at += 100 * time.Millisecond {
		first, _ := slices.BinarySearch(c.sent, at)
		last, _ := slices.BinarySearch(c.sent, at+10*time.Second)
		bits := 0.0
		for _, g := range c.got {
			if g.at >= at && g.at < at+10*time.Second {
				bits += 8 * float64(g.bytes)
			}
		}
		f(at, last-first, bits)
	}
}

// In all windows of ten seconds, the requests are 95 to 105 % of the rate, whatever latencies and failures do.
func TestRequests(t *testing.T) {
	for name, made := range map[string]func(c *crowd){
		"at once": func(*crowd) {},
		"changing latencies": func(c *crowd) {
			c.latency = func(at time.Duration) time.Duration {
				return 20*time.Millisecond + at/(7*time.Second)%2*300*time.Millisecond
			}
		},
		"random latencies": func(c *crowd) {
			c.latency = func(time.Duration) time.Duration {
				return time.Duration(c.chance((*rand.Rand).ExpFloat64) * float64(100*time.Millisecond))
			}
		},
		"half fail": func(c *crowd) {
			var ready atomic.Int64
			c.fails = func(at time.Duration) bool { return at > 20*time.Second && ready.Add(1)%2 == 0 }
		},
		"a third fails late": func(c *crowd) {
			var begun, ready atomic.Int64
			c.latency = func(time.Duration) time.Duration { return time.Duration(begun.Add(1)%2) * 3 * time.Second }
			c.fails = func(time.Duration) bool { return ready.Add(1)%3 == 0 }
		},
		"slow answers": func(c *crowd) {
			c.answers = func(at time.Duration) time.Duration { return at / 20 }
		},
	} {
		limits := []float64{40, 300}
		if name == "at once" || name == "changing latencies" { // too few random visits vary too much
			limits = append(limits, 0.5, 3)
		}
		for _, limit := range limits {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := &crowd{l: New(clock.System), workers: 4000, r: testseed.Rand(t)}
					made(c)
					c.l.Set(Limit{Requests: limit}, 1, time.Time{})
					c.run(60 * time.Second)
					c.windows(60*time.Second, func(at time.Duration, n int, _ float64) {
						if f := float64(n); f > 10.5*limit+1 || at > 15*time.Second && f < 9.5*limit-1 {
							t.Errorf("%g/s: %d requests in the 10 s from %s on", limit, n, at)
						}
					})
				})
			})
		}
	}
}

// The bits of responses keep the rate when their sizes change a hundredfold, when all servers become slower by 600 ms,
// when both happens, and when a third of them falls silent.
func TestBits(t *testing.T) {
	const limit, every = 1.6e6, 20 * time.Second
	odd := func(at time.Duration) time.Duration { return at / every % 2 }
	const soon = 100 * time.Millisecond
	for name, made := range map[string]func(c *crowd){
		"equal": func(*crowd) {},
		"random": func(c *crowd) {
			c.size = func(time.Duration) int { return int(c.chance((*rand.Rand).ExpFloat64) * 6_000) }
		},
		"steps": func(c *crowd) { c.size = func(at time.Duration) int { return 1_000 + 99_000*int(odd(at)) } },
		"slower": func(c *crowd) {
			c.answers = func(at time.Duration) time.Duration { return soon + 600*time.Millisecond*odd(at) }
		},
		"slower and smaller": func(c *crowd) {
			c.workers = 200
			c.size = func(at time.Duration) int { return 34_000 - 32_000*int(odd(at)) }
			c.answers = func(at time.Duration) time.Duration { return soon + 600*time.Millisecond*odd(at) }
		},
		"silent": func(c *crowd) {
			c.workers = 400
			c.answers = func(at time.Duration) time.Duration {
				if c.chance((*rand.Rand).Float64) < 0.3 && at > every {
					return every
				}
				return soon
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &crowd{l: New(clock.System), workers: 60, r: testseed.Rand(t)}
				c.size = func(time.Duration) int { return 6_000 }
				c.answers = func(time.Duration) time.Duration { return soon }
				made(c)
				c.l.Set(Limit{Bits: limit}, 1, time.Time{})
				c.run(60 * time.Second)
				least, most := 9.0, 0.0
				c.windows(60*time.Second, func(at time.Duration, _ int, bits float64) {
					most = max(most, bits/limit/10)
					if at > 5*time.Second {
						least = min(least, bits/limit/10)
					}
				})
				want := 0.95
				if name == "slower and smaller" {
					// The expected size falls with the first response, 700 ms after the change. Until then a
					// seventeenth of the bytes was asked for, and what is asked for then comes another 700 ms later.
					want = 0.85
				}
				if t.Logf("%.1f to %.1f %% of the rate", 100*least, 100*most); least < want || most > 1.05 {
					t.Errorf("want %.0f to 105 %%", 100*want)
				}
			})
		})
	}
}

// In an outage of the network, requests do not hurry for more than hurryTime: all servers may answer at once later.
func TestOutage(t *testing.T) {
	const limit, size, from, to = 1.6e6, 6_000, 10 * time.Second, 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{l: New(clock.System), workers: 1500, r: testseed.Rand(t),
			size: func(time.Duration) int { return size }}
		c.answers = func(at time.Duration) time.Duration {
			if at > from && at < to {
				return to - at
			}
			return 100 * time.Millisecond
		}
		c.l.Set(Limit{Bits: limit}, 1, time.Time{})
		c.run(60 * time.Second)
		asked := 0.0
		for _, at := range c.sent {
			if at > from && at < to {
				asked += 8 * size
			}
		}
		seconds := asked / limit
		t.Logf("in an outage of %s, agents asked for what the rate allows in %.1f s", to-from, seconds)
		if most := (to - from + (hurry-1)*hurryTime + time.Second).Seconds(); seconds < 19 || seconds > most {
			t.Errorf("want at most %.1f s", most)
		}
		c.windows(60*time.Second, func(at time.Duration, _ int, bits float64) {
			if bits > 1.05*10*limit {
				t.Errorf("%.1f %% of the rate from %s on", bits/limit*10, at)
			}
		})
	})
}

// A limit of another kind begins with empty buckets.
func TestKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{l: New(clock.System), workers: 100, r: testseed.Rand(t)}
		c.size = func(time.Duration) int { return 100_000 }
		limits := []Limit{{Requests: 50}, {Bits: 8e6}, {Requests: 10}}
		c.l.Set(limits[0], 1, time.Time{})
		go func() {
			for _, limit := range limits[1:] {
				time.Sleep(20 * time.Second)
				c.l.Set(limit, 1, time.Time{})
			}
		}()
		c.run(60 * time.Second)
		for i, want := range []int{1000, 200, 200} {
			n := 0
			for _, at := range c.sent {
				if int(at/(20*time.Second)) == i {
					n++
				}
			}
			if 100*n < 95*want || 100*n > 105*want {
				t.Errorf("%d requests with the limit %s, want %d", n, limits[i], want)
			}
		}
	})
}

// A new limit holds at once, for visits that began before, too. A share that has ended lets nothing pass.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{l: New(clock.System), workers: 500, r: testseed.Rand(t)}
		c.latency = func(time.Duration) time.Duration {
			return time.Duration(c.chance((*rand.Rand).Float64) * float64(200*time.Millisecond))
		}
		c.answers = func(time.Duration) time.Duration { return time.Second }
		go func() {
			time.Sleep(20 * time.Second)
			c.l.Set(Limit{Requests: 80}, 0.5, time.Now().Add(20*time.Second)) // it ends by itself
			time.Sleep(25 * time.Second)
			c.l.Set(Limit{Requests: 200}, 1, time.Time{})
			time.Sleep(25 * time.Second)
			c.l.Set(Limit{Requests: 200}, 0.1, time.Time{})
		}()
		c.run(100 * time.Second)
		for _, w := range []struct {
			from, to time.Duration
			rate     float64
		}{{20, 40, 40}, {40, 45, 0}, {45, 70, 200}, {70, 100, 20}} {
			from, to := w.from*time.Second, w.to*time.Second
			n := 0.0
			for _, at := range c.sent {
				if at > from && at < to {
					n++
				}
			}
			if want := w.rate * (to - from).Seconds(); n > 1.02*want+1 || n < 0.95*want-1 {
				t.Errorf("%.0f requests between %s and %s, want %.0f", n, from, to, want)
			}
		}
	})
}

// A turn whose context ends leaves its place to others, and none is lost.
func TestAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(clock.System)
		l.Set(Limit{Requests: 1}, 1, time.Time{})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var mu sync.Mutex // guards sent and left
		sent, left := 0, 0
		for range 10 {
			turn := l.Begin()
			all.Go(func() {
				defer turn.End()
				err := turn.Send(ctx)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					sent++
				} else if errors.Is(err, context.Canceled) {
					left++
				}
			})
		}
		time.Sleep(3500 * time.Millisecond)
		cancel()
		all.Wait()
		if sent != 4 || left != 6 {
			t.Errorf("%d sent, %d left, want 4 and 6", sent, left)
		}
		turn := l.Begin()
		began := time.Now()
		if err := turn.Send(t.Context()); err != nil || time.Since(began) > 501*time.Millisecond {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// A Limiter without a limit changes nothing.
func TestNoLimit(t *testing.T) {
	for _, l := range []*Limiter{nil, New(clock.System)} {
		if ok, _ := l.Room(time.Now()); !ok {
			t.Error("no room")
		}
		turn := l.Begin()
		for range 1000 {
			if most, err := turn.Next(t.Context()); turn.Send(t.Context()) != nil || most != 0 || err != nil {
				t.Fatal("held back")
			}
			turn.Receive(1 << 30)
		}
		turn.End()
		if in, shut := l.In(time.Now()); in != 0 || shut {
			t.Errorf("next request in %s", in)
		}
	}
}

// An agent that stops using its rate is seen within some seconds.
func TestUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{l: New(clock.System), workers: 100}
		c.l.Set(Limit{Requests: 50}, 1, time.Time{})
		c.run(10 * time.Second)
		if u := c.l.Use(); u.Requests < 45 || u.Requests > 55 || !u.Held {
			t.Errorf("%+v, want 50 requests a second, held", u)
		}
		time.Sleep(3 * time.Second)
		if u := c.l.Use(); u.Requests > 3 || u.Held {
			t.Errorf("%+v after 3 s without work", u)
		}
	})
}

// OfSeveral keeps n agents below 105 % and one request, if each of them begins one at the start of a window.
func TestOfSeveral(t *testing.T) {
	r := testseed.Rand(t)
	for range 1000 {
		n, limit := 1+r.IntN(20), 100*r.Float64()
		got := OfSeveral(limit, n)
		if got > limit || got < limit/2 || limit > 2*float64(n) && got < 0.95*limit {
			t.Errorf("OfSeveral(%g, %d) = %g", limit, n, got)
		}
		if most := got*(10+Slack.Seconds()) + float64(n); got > limit/2 && most > 10.5*limit+1+1e-6 {
			t.Errorf("%d agents make up to %g requests of %g/s", n, most, limit)
		}
	}
}
