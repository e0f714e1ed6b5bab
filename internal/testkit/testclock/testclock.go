// Package testclock makes clocks of functions, for tests that set the time.
package testclock

import "time"

// A Func is a clock.Clock that tells what the function returns.
type Func func() time.Time

func (f Func) Now() time.Time { return f() }

// At returns a clock that always tells t.
func At(t time.Time) Func { return func() time.Time { return t } }
