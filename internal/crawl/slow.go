package crawl

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/fetch"
)

// A visit to a slow server does not keep a worker from others. When its fetch has
// taken a while, the visit becomes slow: a new worker takes its place, so that
// Config.Workers visits go on besides. When the response is there, the visit waits
// until a worker is between two visits and ends in its favour. So at most
// Config.Workers visits parse and archive at a time, as without slow ones.
//
// If the line is slow, and not the servers, then more visits at once make each of
// them slower. So a visit that receives something keeps its worker for longer, and
// only visits that receive nearly nothing make others slow sooner.

// slowVisits are the visits whose fetch is slow.
type slowVisits struct {
	n      atomic.Int64  // as many; grows under mu
	more   chan struct{} // capacity 1: tells the dispatcher that a worker is free
	resume chan int      // the number of a worker that ends, for the visit that goes on

	// mu guards what follows, and is never held across I/O.
	mu     sync.Mutex
	bytes  int64     // that they are reckoned to take
	silent int       // as many receive less than receivingRate
	lately float64   // as many have done so lately
	at     time.Time // of lately
}

func (s *slowVisits) init() {
	s.more, s.resume = make(chan struct{}, 1), make(chan int)
}

// len is how many there are.
func (s *slowVisits) len() int { return int(s.n.Load()) }

// take makes room for one more, unless there are too many.
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

// give ends one.
func (s *slowVisits) give(bytes int64) {
	s.shrink(bytes)
	s.n.Add(-1)
}

// grow makes one take so much more, unless there is no room.
func (s *slowVisits) grow(cfg *Config, bytes int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes+bytes > cfg.SlowBytes {
		return false
	}
	s.bytes += bytes
	return true
}

// shrink says that one takes so much less.
func (s *slowVisits) shrink(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= bytes
}

// silence changes how many receive nothing.
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

// slowBytes is what a slow visit takes besides its response: connection, TLS
// session and stack.
const slowBytes = 48 << 10

const (
	// slowLeast is the least time after which a fetch is slow.
	slowLeast = 50 * time.Millisecond
	// receivingRate is the rate, in bytes a second, from which on a fetch keeps its worker
	// for slowPatience times as long.
	receivingRate = 1000
	slowPatience  = 6
)

// slowAfter is when a fetch that begins now, and receives nothing, will be slow. The
// more slow servers there are, the sooner a worker leaves one: they take no more of
// the workers' time than a few.
func (c *Crawler) slowAfter() time.Duration {
	share := 1 + c.slow.quiet(time.Now())/float64(c.cfg.Workers)
	return max(time.Duration(float64(c.cfg.SlowAfter)/share), min(slowLeast, c.cfg.SlowAfter))
}

// underWayNow is how many visits have begun, as far as the dispatcher knows.
func (c *Crawler) underWayNow() int {
	slow := min(c.slow.len(), c.busy)
	return slow + min(c.busy-slow, c.cfg.Workers)
}

// A worker makes one visit after the other.
type worker struct {
	c      *Crawler
	thread int
	timer  *time.Timer // runs while it fetches
	watch  fetch.Watch

	// mu guards what follows. It is never held across I/O.
	mu       sync.Mutex
	fetching bool
	after    time.Duration // as slowAfter was when the fetch began
	begun    time.Time     // the fetch
	looked   time.Time     // at what it had received
	received int64         // as much
	replaced bool          // the visit is slow, and another worker in its place
	silent   bool          // the slow visit counts as one that receives nothing
	bytes    int64         // that the slow visit is reckoned to take
}

// work makes visits until there are no more, or until a slow visit takes the
// worker's place.
func (c *Crawler) work(ctx context.Context, thread int) {
	w := &worker{c: c, thread: thread}
	w.timer = time.AfterFunc(time.Hour, func() { w.tick(ctx) })
	w.timer.Stop()
	for {
		select {
		case c.slow.resume <- w.thread: // before new visits
			return
		default:
		}
		select {
		case c.slow.resume <- w.thread:
			return
		case v, ok := <-c.tasks:
			if !ok {
				return
			}
			v.thread, v.worker = w.thread, w
			if c.closing.Load() || c.isBlocked(v.task.Host) || c.overtaken(v) || c.lapsed(v) {
				v.outcome = Abandoned // it had not begun
			} else {
				v.err = c.visit(ctx, v)
			}
			v.worker = nil
			c.results <- v
			if w.replaced {
				return
			}
		}
	}
}

// fetch fetches for v. A fetch that takes long makes v slow; then fetch returns
// when a worker has ended in v's favour, or when ctx is done.
func (c *Crawler) fetch(ctx context.Context, v *visit, req fetch.Request) (*fetch.Response, error) {
	w := v.worker
	w.begin(&req)
	resp, err := c.Fetch.Fetch(ctx, req)
	w.end(ctx)
	return resp, err
}

func (w *worker) begin(req *fetch.Request) {
	w.watch.Reset()
	req.Watch = &w.watch
	after := w.c.slowAfter()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fetching, w.after, w.begun, w.received = true, after, time.Now(), 0
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

// hush says whether the slow visit receives nothing.
func (w *worker) hush(silent bool) {
	if silent == w.silent {
		return
	}
	if w.silent = silent; silent {
		w.c.slow.silence(1)
	} else {
		w.c.slow.silence(-1)
	}
}

// keeps reports whether the visit keeps its worker although it has taken w.after, or
// longer. As many visits as there are workers may be slow and receive something.
func (w *worker) keeps(receives bool, age time.Duration) bool {
	return receives && (age < slowPatience*w.after || w.c.slow.receiving() >= w.c.cfg.Workers)
}

// tick makes the visit slow, if its fetch still is under way and there is room.
// Later it notes what the fetch takes and whether it receives anything. It runs
// beside the fetch.
func (w *worker) tick(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, now := w.c, time.Now()
	if !w.fetching {
		return
	}
	if w.replaced {
		if less := w.bytes - slowBytes - w.watch.Held(); less > 0 {
			c.slow.shrink(less)
			w.bytes -= less
		}
		w.hush(!w.receives(now))
		w.timer.Reset(c.cfg.SlowAfter)
		return
	}
	if early := w.looked.Add(w.after).Sub(now); early > 0 { // it was set for the fetch before
		w.timer.Reset(early)
		return
	}
	receives, age := w.receives(now), now.Sub(w.begun)
	bytes := slowBytes + w.watch.Held()
	if w.keeps(receives, age) || !c.slow.take(&c.cfg, bytes) {
		w.timer.Reset(w.after)
		return
	}
	w.replaced, w.bytes = true, bytes
	w.hush(!receives && age >= c.cfg.SlowAfter)
	w.watch.Slow(w.grow)
	w.timer.Reset(c.cfg.SlowAfter)
	// The worker cannot end before end has had mu, so inFlight is not zero yet.
	thread := w.thread
	c.inFlight.Go(func() { c.work(ctx, thread) })
	select {
	case c.slow.more <- struct{}{}:
	default:
	}
}

// grow makes room for a header of the slow visit that takes so many bytes more.
// The fetch calls it.
func (w *worker) grow(more int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.c.slow.grow(&w.c.cfg, more) {
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
	case thread := <-w.c.slow.resume:
		w.mu.Lock()
		w.thread, w.replaced = thread, false
		w.mu.Unlock()
	case <-ctx.Done():
		// The run ends, or a lease is lost: there is nothing more to do.
	}
	w.c.slow.give(w.bytes)
}
