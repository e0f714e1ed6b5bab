package frontier

import (
	"math"
	"time"
)

const (
	// activeMin is the least x: what one frame of a pool may bring at once. At
	// a delay of 2s it is enough for 250 requests a second.
	activeMin = 500
	// activeBytes is what an active host takes: itself, its history and the
	// first of its links. They get a quarter of the memory at most.
	activeBytes = 512

	// paceSpan is how long requests are counted before they make a speed, and
	// paceMemory the time in which a higher speed of before loses two thirds.
	paceSpan   = 5 * time.Second
	paceMemory = 2 * time.Minute
)

// A pace measures the crawl's speed: requests a second. It rises at once, for
// hosts that are wanted are wanted now, and falls slowly.
type pace struct {
	begun int64 // of the span
	n     int64 // requests in it
	speed float64
}

// ended takes note of the end of a span, if it is over.
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

// activeFor is Polybot's rule, x = s·t: with a speed of s requests a second and
// a quiet time of t, s·t hosts wait at any moment. As many that are ready keep
// the crawl at its speed until all of those are; more would only take memory.
// A quiet time below a second counts as one, also none at all: the hosts that
// are ready are the work of a second, in which disks may be slow.
func activeFor(speed float64, quiet time.Duration, memory int64) int {
	x := speed * max(quiet, time.Second).Seconds()
	most := max(memory/4/activeBytes, activeMin)
	if !(x > activeMin) {
		return activeMin
	}
	return int(math.Ceil(min(x, float64(most))))
}

// adapt brings the number of active hosts to what the crawl's speed wants.
func (f *Frontier) adapt() {
	if f.pace.ended(f.clock) && f.cfg.Active == 0 && !f.readAll {
		f.active = activeFor(f.pace.speed, f.quietTime(), f.cfg.MemoryBytes)
	}
}

// quietTime is how long nobody may be asked after a request: the longest of
// what is configured. What single hosts want beyond it makes nobody else wait.
func (f *Frontier) quietTime() time.Duration {
	return max(f.cfg.HostDelay, f.cfg.IPDelay, f.cfg.SiteDelay)
}

// Active is how many hosts are kept ready at present, if there are as many
// (Polybot's x); negative: all.
func (f *Frontier) Active() int { return f.active }
