// Package clock answers what time it is. Parts that write, send or compare times have a Clock, so that a test can
// set it.
package clock

import (
	"context"
	"time"
)

// A Clock tells the time. Its times have monotonic readings of this process, like those of time.Now. Safe for
// concurrent use.
type Clock interface{ Now() time.Time }

// System is the clock of the machine.
var System Clock = system{}

type system struct{}

func (system) Now() time.Time { return time.Now() }

// Or returns c, or System if c is nil.
func Or(c Clock) Clock {
	if c == nil {
		return System
	}
	return c
}

// StampForm is the form of a time in all JSON of a crawl, in UTC.
const StampForm = "2006-01-02T15:04:05.000Z"

// A Stamp is a time that has StampForm in JSON.
type Stamp struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (s Stamp) MarshalJSON() ([]byte, error) {
	return s.UTC().AppendFormat(nil, `"`+StampForm+`"`), nil
}

// Pause waits for d and returns true, or returns false when ctx is done.
func Pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
