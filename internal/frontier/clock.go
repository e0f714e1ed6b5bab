package frontier

import "time"

// A clock counts nanoseconds. It never goes back, whatever happens to the wall clock.
type clock struct {
	epoch time.Time // when it was 0
	now   int64     // at the last tick

	hushed    bool  // Touched or Hush was called
	hushedAt  int64 // time of the last such call
	quietTill int64 // end of the quiet time of all hosts after Hush
	quieted   bool  // Hush was called
	quietFrom int64 // time of the last such call
}

// tick sets the clock to now.
func (c *clock) tick(now time.Time) { c.now = max(c.now, c.follow(now)) }

// follow returns now by the frontier's clock. If the wall clock was set, the epoch follows: its
// monotonic reading stays as it is.
func (c *clock) follow(now time.Time) int64 {
	elapsed := c.since(now)
	c.epoch = now.Add(-time.Duration(elapsed))
	return elapsed
}

// since converts t to the frontier's clock. If both times have monotonic readings, it uses them, so that a step of the
// wall clock shortens no quiet time. Any other t is a time of the wall clock as it was at the last tick.
func (c *clock) since(t time.Time) int64 { return int64(t.Sub(c.epoch)) }

// hushing reports whether all hosts are still in their quiet time after Hush.
func (c *clock) hushing() bool { return c.quietTill > c.now }

// timeAt returns the time of the wall clock at a time of c.
func (c *clock) timeAt(at int64) time.Time { return c.epoch.Add(time.Duration(at)) }

func (c *clock) ago(at int64) string { return round(time.Duration(c.now - at)).String() }

func (c *clock) until(at int64) string { return round(time.Duration(at - c.now)).String() }
