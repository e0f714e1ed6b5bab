package cli

import (
	"math"
	"time"
)

// A Delay is a duration, or AutoDelay. It implements encoding.TextMarshaler and encoding.TextUnmarshaler.
type Delay time.Duration

// AutoDelay is the Delay "auto".
const AutoDelay Delay = math.MinInt64

func (d *Delay) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*d = AutoDelay
		return nil
	}
	x, err := ParseDuration(string(text))
	*d = Delay(x)
	return err
}

// String returns "auto", or the duration as time.Duration does.
func (d Delay) String() string {
	if d == AutoDelay {
		return "auto"
	}
	return time.Duration(d).String()
}

func (d Delay) MarshalText() ([]byte, error) { return []byte(d.String()), nil }
