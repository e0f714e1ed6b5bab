package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// changeFlags let the pages of the generated web change. A flag that was not given is nil.
type changeFlags struct {
	Changes      bool            `help:"${testweb_changes}" group:"Changing pages"`
	ChangeRates  []changeRate    `placeholder:"SHARE:TIME" help:"${testweb_change_rates}" group:"Changing pages"`
	Day          *time.Duration  `placeholder:"D" help:"${testweb_day}" group:"Changing pages"`
	ChangesSince *time.Time      `placeholder:"TIME" help:"${testweb_changes_since}" group:"Changing pages"`
	ETagOnly     *quantity.Share `name:"etag-only" placeholder:"SHARE" help:"${testweb_etag}" group:"Changing pages"`
	ModifiedOnly *quantity.Share `placeholder:"SHARE" help:"${testweb_modified_only}" group:"Changing pages"`
	NoValidators *quantity.Share `placeholder:"SHARE" help:"${testweb_no_validators}" group:"Changing pages"`
	Lying        *quantity.Share `placeholder:"SHARE" help:"${testweb_lying}" group:"Changing pages"`
}

// A changeRate is SHARE:TIME or SHARE:FROM-TO. It implements encoding.TextUnmarshaler.
type changeRate gen.Rate

func (r *changeRate) UnmarshalText(text []byte) error {
	part, times, ok := strings.Cut(string(text), ":")
	from, to, two := strings.Cut(times, "-")
	if !two {
		to = from
	}
	var s quantity.Share
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
		return fmt.Errorf("%q is not a change rate; write SHARE:TIME or SHARE:FROM-TO, such as 23%%:6h-1d", text)
	}
	r.Share = float64(s)
	return nil
}

// parseDays reads a duration as time.ParseDuration does, or a number of days such as 30d.
func parseDays(s string) (time.Duration, error) {
	number, ok := strings.CutSuffix(s, "d")
	if !ok {
		return time.ParseDuration(s)
	}
	days, err := strconv.ParseFloat(number, 64)
	if err != nil || !(days > 0 && days <= 36_500) {
		return 0, fmt.Errorf("%q is not a number of days; write 30d or 0.5d", s)
	}
	return time.Duration(days * float64(24*time.Hour)), nil
}

// needless returns the first given flag that has no effect without --changes, or "".
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

// changes sets in s how the pages change.
func (f *changeFlags) changes(s *gen.Spec) error {
	if !f.Changes {
		if name := f.needless(); name != "" {
			return bad("--%s has no effect on pages that never change: add --changes", name)
		}
		return nil
	}
	c := &gen.Changes{}
	for _, r := range f.ChangeRates {
		c.Rates = append(c.Rates, gen.Rate(r))
	}
	if f.Day != nil {
		if *f.Day <= 0 {
			return input.Errorf("--day %s is not above 0; give a duration such as 10s", *f.Day)
		}
		c.Day = *f.Day
	}
	if f.ChangesSince != nil {
		c.Start = *f.ChangesSince
	}
	for _, g := range []struct {
		given *quantity.Share
		field *float64
	}{{f.ETagOnly, &c.ETagOnly}, {f.ModifiedOnly, &c.ModifiedOnly}, {f.NoValidators, &c.Neither}} {
		if g.given != nil {
			*g.field = orNone(*g.given)
		}
	}
	if f.Lying != nil {
		c.Lying = float64(*f.Lying)
	}
	s.Changes = c
	return nil
}
