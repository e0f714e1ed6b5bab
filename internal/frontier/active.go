package frontier

import (
	"math"
	"time"
)

const (
	// activeMin is the smallest number of active hosts: what one frame of a pool may bring anyway. With a delay of
	// 2 s it is enough for 250 requests a second.
	activeMin = 500
	// activeBytes is the size of an active host with its first links. Active hosts get a quarter of the memory at
	// most.
	activeBytes = 512

	// paceSpan is the time over which requests are counted to measure a speed. paceMemory is the time in which an
	// earlier, higher speed decays by two thirds.
	paceSpan   = 5 * time.Second
	paceMemory = 2 * time.Minute
)

// A pace measures the speed of the crawl in requests per second. It rises at once, because hosts are needed at once,
// and falls slowly.
type pace struct {
	begun int64 // start of the span, in ns of the frontier's clock
	n     int64 // requests in it
	speed float64
}

// ended updates the speed and returns true if a span is over.
func (p *pace) ended(clock int64) bool {
	span := clock - p.begun
	if span < int64(paceSpan) {
		return false
	}
	s := time.Duration(span).Seconds()
	measured := float64(p.n) / s
	p.speed = max(measured, measured+(p.speed-measured)*math.Exp(-s/paceMemory.Seconds()))
	p.begun, p.n = clock, 0
	return true
}

// activeFor returns the number of hosts to keep ready. It is Polybot's rule, x = s·t: with a speed of s requests a
// second and a quiet time of t, s·t hosts wait at any moment. As many ready hosts keep the crawl at its speed while
// these wait. More would only take memory. A quiet time below one second counts as one second: the ready hosts are then
// the work of a second, in which a disk may be slow.
func activeFor(speed float64, quiet time.Duration, memory int64) int {
	x := speed * max(quiet, time.Second).Seconds()
	most := max(memory/4/activeBytes, activeMin)
	if !(x > activeMin) {
		return activeMin
	}
	return int(math.Ceil(min(x, float64(most))))
}

// adapt sets the number of active hosts according to the speed.
func (f *Frontier) adapt() {
	if f.pace.ended(f.time.now) && f.cfg.Active == 0 && !f.readAll {
		f.active = activeFor(f.pace.speed, f.cfg.quietTime(), f.cfg.MemoryBytes)
	}
}

// quietTime returns how long the hosts of a request must rest at least: the longest configured delay. Delays of single
// hosts make no other host wait and do not count.
func (c *Config) quietTime() time.Duration {
	return max(c.HostDelay, c.IPDelay, c.SiteDelay)
}

// Active returns how many hosts are kept ready at present (Polybot's x). A negative value means all.
func (f *Frontier) Active() int { return f.active }
