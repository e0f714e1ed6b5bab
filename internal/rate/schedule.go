package rate

import (
	"fmt"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/hours"
)

// A Schedule says which Limit holds at which time. The zero Schedule is no limit at any time.
//
// Its text is a plan of package hours whose last part holds at all other times:
//
//	300/s
//	40/s 8-18 mon-fri, else 300/s
//	20Mbit 8:30-17 mon-fri Europe/Berlin, 100Mbit sat sun, else none
//
// It implements encoding.TextMarshaler and encoding.TextUnmarshaler.
type Schedule struct{ plan hours.Plan[Limit] }

// None reports whether there is no limit at any time.
func (s Schedule) None() bool {
	return !slices.ContainsFunc(s.plan.Values(), func(l Limit) bool { return !l.None() })
}

// Limits returns all limits that hold at some time.
func (s Schedule) Limits() []Limit { return s.plan.Values() }

// At returns the limit that holds at a time.
func (s Schedule) At(t time.Time) Limit {
	l, _ := s.plan.At(t)
	return l
}

// Parse reads a schedule. The error is for people.
func Parse(text string) (s Schedule, err error) {
	if s.plan, err = hours.Parse(text, parseLimit); err != nil {
		return Schedule{}, err
	}
	if !s.plan.Always() {
		return Schedule{}, fmt.Errorf("%.80q does not say what holds at other times; add \", else none\" or another "+
			"rate", text)
	}
	if s.None() {
		return Schedule{}, nil
	}
	return s, nil
}

// String returns the schedule in the form that Parse reads.
func (s Schedule) String() string {
	if s.None() {
		return Limit{}.String()
	}
	return s.plan.String()
}

func (s *Schedule) UnmarshalText(text []byte) (err error) {
	*s, err = Parse(string(text))
	return err
}

func (s Schedule) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
