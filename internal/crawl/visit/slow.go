package visit

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/wake"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
)

// A slow server does not keep a worker from other visits. When a fetch takes long, its visit
// becomes slow and a new worker takes its place. So Config.Workers other visits continue. When the
// response is complete, the visit waits for a worker that is between two visits; that worker ends,
// and the visit continues in its place. So at most Config.Workers visits parse and archive at a
// time.
//
// With a rate, a response that keeps its worker from the rate counts as slow, too. So the number of open requests
// follows the rate, and Config.Workers bounds those that parse and archive.
//
// If the network is slow rather than the servers, more visits at once only make each of them
// slower. So a visit that receives data keeps its worker for longer, and only visits that receive
// nearly nothing shorten the time after which a fetch is slow.

// slowVisits counts the visits with a slow fetch.
type slowVisits struct {
	n      atomic.Int64  // their number; grows under mu
	more   chan struct{} // capacity 1: tells the dispatcher that a worker is free
	resume chan int      // a worker that ends sends its number to the visit that continues

	// mu guards the fields below. It is never held across I/O.
	mu     sync.Mutex
	bytes  int64     // estimate of their memory
	silent int       // number of those that receive less than receivingRate
	lately float64   // decaying count of those in the last minute
	at     time.Time // time of lately
}

func (s *slowVisits) init() {
	s.more, s.resume = make(chan struct{}, 1), make(chan int)
}

// len returns the number of slow visits.
func (s *slowVisits) len() int { return int(s.n.Load()) }

// take adds a slow visit of a number of bytes. It returns false if there are too many.
func (s *slowVisits) take(cfg *Config, bytes int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.len() >= cfg.SlowVisits || s.bytes+bytes > cfg.SlowBytes {
		return false
	}
	s.bytes += bytes
	s.n.Add(1)
	return true
}

// give removes a slow visit.
func (s *slowVisits) give(bytes int64) {
	s.shrink(bytes)
	s.n.Add(-1)
}

// grow adds bytes to a slow visit. It returns false if there is not enough memory.
func (s *slowVisits) grow(cfg *Config, bytes int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes+bytes > cfg.SlowBytes {
		return false
	}
	s.bytes += bytes
	return true
}

// shrink removes bytes from a slow visit.
func (s *slowVisits) shrink(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= bytes
}

// silence changes the number of visits that receive nothing.
func (s *slowVisits) silence(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent += by
}

// quiet returns how many slow visits receive nothing, or have done so lately: slow
// servers are often slow all at once, and again when their URLs are retried.
func (s *slowVisits) quiet(now time.Time) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lately = max(float64(s.silent), s.lately*math.Exp(-now.Sub(s.at).Minutes()))
	s.at = now
	return s.lately
}

// receiving returns how many slow visits receive something.
func (s *slowVisits) receiving() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.len() - s.silent
}

// slowBytes estimates the memory of a slow visit without its response: connection, TLS session
// and stack.
const slowBytes = 48 << 10

const (
	// slowLeast is the least time after which a fetch is slow.
	slowLeast = 50 * time.Millisecond
	// receivingRate is the rate, in bytes per second, from which a fetch keeps its worker
	// slowPatience times as long.
	receivingRate = 1000
	slowPatience  = 6
)

// slowAfter returns the time after which a fetch that begins now and receives nothing is slow.
// With more slow servers it is shorter, so that many slow servers take no more of the workers'
// time than a few. With a rate, it is at most half the time that a worker has for a visit at that rate: so as many
// visits are in progress as the rate needs, however long the responses take.
func (p *Pool) slowAfter() time.Duration {
	share := 1 + p.slow.quiet(p.cfg.Clock.Now())/float64(p.cfg.Workers)
	after := float64(p.cfg.SlowAfter)
	if pace := p.Rate.Pace(); pace > 0 {
		after = min(after, float64(p.cfg.Workers)/(2*pace)*float64(time.Second))
	}
	return max(time.Duration(after/share), min(slowLeast, p.cfg.SlowAfter))
}

// A worker makes visits one after the other.
type worker struct {
	p      *Pool
	thread int
	timer  *time.Timer // runs during a fetch
	watch  fetch.Watch

	// mu guards the fields below. It is never held across I/O.
	mu       sync.Mutex
	fetching bool
	after    time.Duration // slowAfter at the start of the fetch
	begun    time.Time     // start of the fetch
	looked   time.Time     // time of the last look at the received bytes
	received int64         // bytes received at the last look
	replaced bool          // the visit is slow, and another worker has taken its place
	silent   bool          // the slow visit counts as one that receives nothing
	bytes    int64         // estimate of the slow visit's memory
}

func (w *worker) begin(req *fetch.Request) {
	w.watch.Reset()
	req.Watch = &w.watch
	after := w.p.slowAfter()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fetching, w.after, w.begun, w.received = true, after, w.p.cfg.Clock.Now(), 0
	w.looked = w.begun
	w.timer.Reset(after)
}

// receives reports whether the fetch has received something since the last look.
func (w *worker) receives(now time.Time) bool {
	got := w.watch.Received()
	yes := float64(got-w.received) >= receivingRate*now.Sub(w.looked).Seconds()
	w.looked, w.received = now, got
	return yes
}

// hush records whether the slow visit receives nothing.
func (w *worker) hush(silent bool) {
	if silent == w.silent {
		return
	}
	if w.silent = silent; silent {
		w.p.slow.silence(1)
	} else {
		w.p.slow.silence(-1)
	}
}

// keeps reports whether the visit keeps its worker although it has taken at least w.after. As
// many slow visits as there are workers may keep receiving.
func (w *worker) keeps(receives bool, age time.Duration) bool {
	return receives && (age < slowPatience*w.after || w.p.slow.receiving() >= w.p.cfg.Workers)
}

// tick makes the visit slow if its fetch is still in progress and the bounds allow it. Later it
// updates the memory of the fetch and whether it receives data. It runs beside the fetch.
func (w *worker) tick(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, now := w.p, w.p.cfg.Clock.Now()
	if !w.fetching {
		return
	}
	if w.replaced {
		if less := w.bytes - slowBytes - w.watch.Held(); less > 0 {
			p.slow.shrink(less)
			w.bytes -= less
		}
		w.hush(!w.receives(now))
		w.timer.Reset(p.cfg.SlowAfter)
		return
	}
	if early := w.looked.Add(w.after).Sub(now); early > 0 { // the timer was set for the previous fetch
		w.timer.Reset(early)
		return
	}
	receives, age := w.receives(now), now.Sub(w.begun)
	bytes := slowBytes + w.watch.Held()
	if w.keeps(receives, age) || !p.slow.take(&p.cfg, bytes) {
		w.timer.Reset(w.after)
		return
	}
	w.replaced, w.bytes = true, bytes
	w.hush(!receives && age >= p.cfg.SlowAfter)
	w.watch.Slow(w.grow)
	w.timer.Reset(p.cfg.SlowAfter)
	// The worker cannot end before end has had mu, so inFlight is not zero yet.
	thread := w.thread
	p.inFlight.Go(func() { p.work(ctx, thread) })
	wake.Up(p.slow.more)
}

// grow adds bytes for a header of the slow visit. The fetch calls it. It returns false if there
// is not enough memory.
func (w *worker) grow(more int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.p.slow.grow(&w.p.cfg, more) {
		return false
	}
	w.bytes += more
	return true
}

// end ends what begin began.
func (w *worker) end(ctx context.Context) {
	w.mu.Lock()
	w.fetching = false
	w.timer.Stop()
	w.hush(false)
	replaced := w.replaced
	w.mu.Unlock()
	if !replaced {
		return
	}
	select {
	case thread := <-w.p.slow.resume:
		w.mu.Lock()
		w.thread, w.replaced = thread, false
		w.mu.Unlock()
	case <-ctx.Done():
		// The run ends or the lease is lost. There is nothing more to do.
	}
	w.p.slow.give(w.bytes)
}
