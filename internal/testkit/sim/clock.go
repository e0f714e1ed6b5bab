package sim

import (
	"sync"
	"time"
	"unsafe"
)

// A clock is the wall clock of a machine. It may be wrong, and may be set while a process runs. Its
// zero value is right. Safe for concurrent use.
type clock struct {
	mu    sync.Mutex // guards the fields below
	wrong time.Duration
	sets  []setting
}

// A setting is a past error of the clock, and the time at which it ended.
type setting struct {
	wrong time.Duration
	until time.Time
}

// set makes the clock wrong by a duration.
func (c *clock) set(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sets = append(c.sets, setting{c.wrong, time.Now()})
	c.wrong = by
}

// by returns the present error of the clock.
func (c *clock) by() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wrong
}

// showed reports whether the clock ever showed t, which has whole seconds.
func (c *clock) showed(t time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := start
	for _, s := range append(c.sets[:len(c.sets):len(c.sets)], setting{c.wrong, time.Now()}) {
		if at := t.Add(-s.wrong); at.After(from.Add(-time.Second)) && !at.After(s.until) {
			return true
		}
		from = s.until
	}
	return false
}

// Now returns what time.Now returns on a machine whose wall clock is wrong. The monotonic reading
// is right, because setting a clock does not change it. So differences of times are right, too. A
// time that is written or sent loses its monotonic reading, and shows the wrong clock.
func (c *clock) Now() time.Time {
	now := time.Now()
	return withReading(now.Add(c.by()), now.Sub(start))
}

// until is time.Until for times of a clock. In a bubble, time.Now has no monotonic reading. So
// time.Until would compare a deadline with the wrong wall clock.
func until(t time.Time) time.Duration {
	var right clock
	return t.Sub(right.Now())
}

// withReading returns a time with a monotonic reading, which package time cannot make. The first
// word of such a Time has a set bit, 33 bits of seconds since 1885, and 30 bits of nanoseconds. The
// second word is the reading.
func withReading(wall time.Time, mono time.Duration) (t time.Time) {
	words := (*[2]uint64)(unsafe.Pointer(&t))
	words[0] = 1<<63 | uint64(wall.Unix()-wallBegin)<<30 | uint64(wall.Nanosecond())
	words[1] = uint64(mono)
	return t
}

var wallBegin = time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
