package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/agent"
	"github.com/orbweaver/orbweaver/testweb/gen"
)

// changeFlags let the pages of the generated web change. What is not given is nil.
type changeFlags struct {
	Changes      bool           `help:"Let the pages change, each by a Poisson process of its own, and say of which version they are." group:"How its pages change"`
	ChangeRates  []changeRate   `placeholder:"SHARE:TIME" help:"Let SHARE of the pages change once in TIME on average, or in a time within FROM-TO, in the web's time (6h, 30d). All others never change (default: 23%:6h-1d,15%:1d-7d,16%:7d-30d,16%:30d-120d, as observed on the web in 1999)." group:"How its pages change"`
	Day          *time.Duration `placeholder:"D" help:"Let a day of the web's time pass in D of real time; 0 is not allowed (default: 24h)." group:"How its pages change"`
	ChangesSince *time.Time     `placeholder:"TIME" help:"Begin the web's time at TIME, as 2026-01-31T12:00:00Z. The same time since then shows the same versions (default: 2000-01-01T00:00:00Z)." group:"How its pages change"`
	ETagOnly     *share         `name:"etag-only" placeholder:"SHARE" help:"Pages with an ETag and no Last-Modified (default: 0.15)." group:"How its pages change"`
	ModifiedOnly *share         `placeholder:"SHARE" help:"Pages with a Last-Modified and no ETag (default: 0.15)." group:"How its pages change"`
	NoValidators *share         `placeholder:"SHARE" help:"Pages with neither (default: 0.2). All others have both." group:"How its pages change"`
	Lying        *share         `placeholder:"SHARE" help:"Pages with wrong ones: half of them stay the same when the page changes, half change with each request (default: 0)." group:"How its pages change"`
}

// A changeRate is SHARE:TIME or SHARE:FROM-TO.
type changeRate gen.Rate

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *changeRate) UnmarshalText(text []byte) error {
	part, times, ok := strings.Cut(string(text), ":")
	from, to, two := strings.Cut(times, "-")
	if !two {
		to = from
	}
	var s share
	err := s.UnmarshalText([]byte(part))
	for _, t := range []struct {
		text string
		to   *time.Duration
	}{{from, &r.From}, {to, &r.To}} {
		if err == nil {
			*t.to, err = parseDays(t.text)
		}
	}
	if err != nil || !ok {
		return fmt.Errorf("%q is not SHARE:TIME or SHARE:FROM-TO, such as 23%%:6h-1d", text)
	}
	r.Share = float64(s)
	return nil
}

// parseDays is time.ParseDuration with days.
func parseDays(s string) (time.Duration, error) {
	number, ok := strings.CutSuffix(s, "d")
	if !ok {
		return time.ParseDuration(s)
	}
	days, err := strconv.ParseFloat(number, 64)
	if err != nil || !(days > 0 && days <= 36_500) {
		return 0, fmt.Errorf("%q is not a number of days", s)
	}
	return time.Duration(days * float64(24*time.Hour)), nil
}

// needless is the first flag that has no effect without --changes.
func (f *changeFlags) needless() string {
	for _, g := range []struct {
		name  string
		given bool
	}{
		{"change-rates", f.ChangeRates != nil}, {"day", f.Day != nil},
		{"changes-since", f.ChangesSince != nil}, {"etag-only", f.ETagOnly != nil},
		{"modified-only", f.ModifiedOnly != nil}, {"no-validators", f.NoValidators != nil}, {"lying", f.Lying != nil},
	} {
		if g.given {
			return g.name
		}
	}
	return ""
}

// changes sets how the pages change.
func (f *changeFlags) changes(s *gen.Spec) error {
	if !f.Changes {
		if name := f.needless(); name != "" {
			return &agent.ConfigError{Text: "--" + name + " is for a web that changes: add --changes"}
		}
		return nil
	}
	c := &gen.Changes{}
	for _, r := range f.ChangeRates {
		c.Rates = append(c.Rates, gen.Rate(r))
	}
	if f.Day != nil {
		if *f.Day <= 0 {
			return &agent.ConfigError{Text: fmt.Sprintf("--day %s: above 0, such as 10s", *f.Day)}
		}
		c.Day = *f.Day
	}
	if f.ChangesSince != nil {
		c.Start = *f.ChangesSince
	}
	for _, g := range []struct {
		given *share
		field *float64
	}{{f.ETagOnly, &c.ETagOnly}, {f.ModifiedOnly, &c.ModifiedOnly}, {f.NoValidators, &c.Neither}} {
		if g.given != nil {
			if *g.field = float64(*g.given); *g.given == 0 {
				*g.field = -1 // zero is the default there
			}
		}
	}
	if f.Lying != nil {
		c.Lying = float64(*f.Lying)
	}
	s.Changes = c
	return nil
}
