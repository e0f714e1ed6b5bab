package rate

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
)

const (
	// Slack bounds the time without requests that a Limiter makes up for. It covers what a busy machine and the
	// collection of garbage take.
	Slack = 100 * time.Millisecond
	// Ahead is how far the reading of responses may be ahead of the rate before it is slowed down.
	Ahead = 100 * time.Millisecond
	// stock is how far requests are ahead of the reading with a limit of bits. So there is something to read for a
	// while when all servers become slower. Slack and stock are less than 5 % of ten seconds, so that servers do not
	// send more either.
	stock = 300 * time.Millisecond
	// hurry is how many times faster requests are sent while there is nothing to read: servers have become slower, or
	// do not answer, or send less than expected.
	hurry = 2
	// hurryTime is how long requests hurry while no server sends anything, as in an outage of the network. Otherwise
	// all of them might answer at once later.
	hurryTime = 2 * time.Second
	// A machine on which a timer is late by tardy has too much to do: responses may have come that nobody has read yet.
	// Requests do not hurry for calmTime after that.
	tardy, calmTime = 50 * time.Millisecond, time.Second
	// lead is how long before its request a visit may begin. So requests wait for a moment at Send, ready, and the
	// time that connections take does not matter. It is short, so that no connection waits unused for long.
	lead = 250 * time.Millisecond
	// gain is how much faster than requests visits begin, so that some wait at Send, whatever the latencies do.
	gain = 1.5
	// look bounds how long a dispatcher that Room refuses may sleep. It has to notice that it could use more.
	look = 200 * time.Millisecond
	// firstSize is the expected size of responses before the first, in bytes, and firstRobots that of a robots.txt.
	// largerWeight and smallerWeight are the
	// weights of the newest in the mean. Smaller ones count more: expecting too much leaves the rate unused, and what
	// is expected too little is made up for when it is read.
	firstSize, firstRobots      = 16 << 10, 1 << 10
	largerWeight, smallerWeight = 1.0 / 8, 1.0 / 2
	// useTime is the time in which old use counts less and less in Use.
	useTime = time.Second
)

// A bucket is a leaky bucket. It drains at a rate, and may be filled when it is empty. Below empty it is credit.
type bucket struct {
	level, per float64 // units; units a second, 0: closed
	credit     float64 // the least bound of the credit, in units
}

// drain lets the bucket drain for a number of seconds.
func (t *bucket) drain(seconds float64) {
	t.level = max(t.level-t.per*seconds, -max(t.per*Slack.Seconds(), t.credit))
}

// emptyIn returns when the level reaches a height. It is never if the bucket is closed.
func (t *bucket) emptyIn(height float64) time.Duration {
	switch left := t.level - height; {
	case left <= tiny:
		return 0
	case t.per <= 0 || left/t.per > never.Seconds():
		return never
	default:
		return time.Duration(left/t.per*1e9) + 1
	}
}

const (
	// tiny is less than any unit that counts. It covers the rounding of numbers.
	tiny  = 1e-6
	never = 1000 * time.Hour
)

// A Limiter bounds the requests and the received bits of one agent. Make one with New.
type Limiter struct {
	clock clock.Clock
	on    atomic.Bool // there is a limit; without one, most calls do nothing

	turn chan struct{} // capacity 1: the turn that waits at Send for the next request

	mu        sync.Mutex // guards the fields below
	whole     Limit      // of all agents
	limit     Limit      // this agent's part
	open      bool       // the part is not zero
	until     time.Time  // when it ends; zero: never
	at        time.Time  // of the levels of the buckets
	requests  bucket
	bytes     bucket        // of requests, with their expected sizes; corrected by the true ones
	read      bucket        // bytes that were read
	heard     time.Time     // when bytes were read last
	late      time.Time     // when a timer was late last
	visits    bucket        // begun
	going     int           // visits that have begun and not ended
	waiting   int           // at Send
	ordered   uint64        // the order of the last request
	readers   []*Turn       // that wait at Next, in the order in which they came
	reader    *Turn         // the one of them that reads next
	oldest    bool          // the next one after it is that of the oldest request
	size      float64       // expected size of responses, in bytes
	robots    float64       // that of the responses to requests for a robots.txt
	changed   chan struct{} // closed when the limit changes
	held      bool          // see Use
	waited    time.Duration // that requests or reads have waited since the last call of Use
	waits     time.Time     // the last change of waited
	asked     time.Time     // the last call of Use
	sent      float64       // requests since then
	used      Use
	usedSince time.Time
}

// New returns a Limiter without a limit. clock is its clock.
func New(clock clock.Clock) *Limiter {
	l := &Limiter{clock: clock, turn: make(chan struct{}, 1), changed: make(chan struct{})}
	l.size, l.robots = firstSize, firstRobots
	l.visits.credit = 1 // a visit without a request gives its turn back
	return l
}

// Set gives this agent a share of a limit of the whole crawl until a time, after which its share is zero. The zero
// time means that the share does not end. A share of zero lets no request begin.
func (l *Limiter) Set(limit Limit, share float64, until time.Time) {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
	part := Limit{limit.Requests * share, limit.Bits * share}
	open := share > 0
	same := l.whole == limit && l.limit == part && l.open == open
	if l.until = until; same {
		return
	}
	if !l.on.Load() {
		l.begin(now)
	}
	// A bucket without a limit is filled and does not drain.
	if l.whole.Requests == 0 {
		l.requests.level = 0
	}
	if l.whole.Bits == 0 {
		l.bytes.level, l.read.level = 0, 0
	}
	l.whole, l.limit, l.open = limit, part, open
	l.apply(now)
	l.on.Store(!limit.None())
	l.wake()
}

// begin forgets what an earlier limit has left.
func (l *Limiter) begin(now time.Time) {
	for _, t := range l.buckets() {
		t.level = 0
	}
	l.at, l.heard = now, now
	l.used, l.usedSince, l.asked = Use{}, now, now
	l.held = true // the agent may use all that it gets until its use is known
}

func (l *Limiter) buckets() [4]*bucket { return [4]*bucket{&l.requests, &l.bytes, &l.read, &l.visits} }

// wake lets turns that wait look again.
func (l *Limiter) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// drain brings the buckets to the time now. While requests hurry, bytes and visits drain faster. One more response of
// the expected size may be sent for what responses have had less than that.
func (l *Limiter) drain(now time.Time) {
	d := 0.0
	if now.After(l.at) {
		d, l.at = now.Sub(l.at).Seconds(), now
	}
	more := 0.0
	if l.hurries() {
		more = (hurry - 1) * max(d-max(l.read.level, 0)/l.read.per, 0)
	}
	l.requests.drain(d)
	l.read.drain(d)
	l.bytes.credit = l.size
	l.bytes.drain(d + more)
	l.visits.drain(d + more)
}

// hurries reports whether requests are sent faster while there is nothing to read.
func (l *Limiter) hurries() bool {
	return l.read.per > 0 && l.at.Sub(l.heard) < hurryTime && l.at.Sub(l.late) >= calmTime
}

// apply gives the buckets the rates of the limit.
func (l *Limiter) apply(now time.Time) {
	l.drain(now)
	l.requests.per, l.bytes.per, l.read.per = l.limit.Requests, l.limit.Bits/8, l.limit.Bits/8
	l.visits.per = gain * l.pace(l.size)
	l.drain(now) // less credit
}

// soon is emptyIn for bytes or visits, if nothing comes to read.
func (l *Limiter) soon(t *bucket, height float64) time.Duration {
	d := t.emptyIn(height)
	if d < never && l.hurries() {
		if idle := time.Duration(max(l.read.level, 0) / l.read.per * 1e9); d > idle {
			d = idle + (d-idle+hurry-1)/hurry
		}
	}
	return d
}

// expire ends a share whose time is over.
func (l *Limiter) expire(now time.Time) {
	if !l.until.IsZero() && !now.Before(l.until) && l.open {
		l.limit, l.open = Limit{}, false
		l.apply(l.until)
	}
}

// pace returns how many requests a second the limit allows if responses have this size, in bytes.
func (l *Limiter) pace(size float64) float64 {
	p := l.limit.Requests
	if bits := l.limit.Bits / 8 / size; bits > 0 && (p == 0 || bits < p) {
		p = bits
	}
	return p
}

// next returns how long the request after n others must wait.
func (l *Limiter) next(n int) time.Duration {
	if !l.open {
		return never
	}
	var d time.Duration
	if l.limit.Requests > 0 {
		d = l.requests.emptyIn(-float64(n))
	}
	if l.limit.Bits > 0 {
		d = max(d, l.soon(&l.bytes, l.bytes.per*stock.Seconds()-float64(n)*l.size))
	}
	return d
}

// Room reports whether a visit may begin. If not, ask is when to ask again. Only the dispatcher calls it.
func (l *Limiter) Room(now time.Time) (ok bool, ask time.Time) {
	if l == nil || !l.on.Load() {
		return true, time.Time{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
	l.drain(now)
	wait := max(l.next(l.waiting)-lead, 0)
	if l.open {
		wait = max(wait, l.soon(&l.visits, 0))
	}
	if wait == 0 {
		return true, time.Time{}
	}
	return false, now.Add(min(wait, look))
}

// Pace returns how many requests a second this agent may begin, by the expected size of responses. Zero means that
// there is no limit, or no share.
func (l *Limiter) Pace() float64 {
	if l == nil || !l.on.Load() {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(l.clock.Now())
	return l.pace(l.size)
}

// Held notes that a visit could begin if Room allowed it.
func (l *Limiter) Held() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = true
}

// In returns the time until the next request may begin. It is zero without a limit. shut reports that the agent has no
// share.
func (l *Limiter) In(now time.Time) (in time.Duration, shut bool) {
	if l == nil || !l.on.Load() {
		return 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
	l.drain(now)
	return l.next(l.waiting), !l.open
}

// Use is what an agent does with its part.
type Use struct {
	// Requests and Bits are the use a second, in the last second or so.
	Requests, Bits float64
	// Held reports that the limit has kept a visit from beginning since the last call. Waited reports that requests
	// or reads of visits that had begun have waited for more than half of that time.
	Held, Waited bool
}

// Use returns the use of the limiter. One goroutine calls it.
func (l *Limiter) Use() Use {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.usedAt(now)
	switch d := now.Sub(l.asked).Seconds(); {
	case l.sent == 0 && l.going == 0 && !l.held:
		u = Use{}
		l.used = u
	case d > 0:
		// Fewer requests than chance explains: the agent has run out of work. Its responses may still come.
		if most := (l.sent + 2*math.Sqrt(l.sent) + 1) / d; u.Requests > most {
			u.Requests = most
			l.used = u
		}
	}
	l.comes(now)
	u.Held, u.Waited = l.held, 2*l.waited > now.Sub(l.asked)
	l.held, l.waited, l.sent, l.asked = false, 0, 0, now
	return u
}

// usedAt brings the use to the time now. A use of n units adds n/useTime to the speed, which falls to a third in each
// useTime.
func (l *Limiter) usedAt(now time.Time) Use {
	if d := now.Sub(l.usedSince); d > 0 {
		f := math.Exp(-d.Seconds() / useTime.Seconds())
		l.used.Requests *= f
		l.used.Bits *= f
		l.usedSince = now
	}
	return l.used
}

// comes must be called before the number of requests or of reads that wait changes. The caller holds mu.
func (l *Limiter) comes(now time.Time) {
	if l.waiting+len(l.readers) > 0 {
		l.waited += now.Sub(l.waits)
	}
	l.waits = now
}

// wait calls may, which holds mu, until it returns zero. may returns how long to wait at least.
func (l *Limiter) wait(ctx context.Context, may func(now time.Time) time.Duration) error {
	for {
		now := l.clock.Now()
		l.mu.Lock()
		var d time.Duration
		if l.on.Load() {
			l.expire(now)
			d = may(now)
		}
		changed := l.changed
		l.mu.Unlock()
		if d == 0 {
			return nil
		}
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
			l.fired(now.Add(d))
		case <-changed:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

// fired notes whether a timer was late.
func (l *Limiter) fired(due time.Time) {
	if now := l.clock.Now(); now.Sub(due) >= tardy {
		l.mu.Lock()
		l.late = now
		l.mu.Unlock()
	}
}
