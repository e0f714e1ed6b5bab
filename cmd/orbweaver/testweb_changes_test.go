package main

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

func TestChangeRate(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]gen.Rate{
		"23%:6h-1d": {Share: 0.23, From: 6 * time.Hour, To: day},
		"0.5:90m":   {Share: 0.5, From: 90 * time.Minute, To: 90 * time.Minute},
		"1:1.5d-2d": {Share: 1, From: 36 * time.Hour, To: 2 * day},
	} {
		var got changeRate
		if err := got.UnmarshalText([]byte(text)); err != nil || gen.Rate(got) != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "23%", "x:1d", "23%:", "23%:1", "2:1d", "23%:1d-", "23%:-1d",
		"23%:NaNd", "23%:99999999d"} {
		if err := new(changeRate).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestChangeFlags(t *testing.T) {
	none, some, tenS := quantity.Share(0), quantity.Share(0.4), 10*time.Second
	f := generateFlags{Generate: true, changeFlags: changeFlags{
		Changes: true, Day: &tenS, ChangeRates: []changeRate{{0.5, time.Hour, time.Hour}}, ETagOnly: &none,
		NoValidators: &some, Lying: &some,
	}}
	var s gen.Spec
	must.Do(t, f.changes(&s))
	if c := s.Changes; c.Day != tenS || c.ETagOnly != -1 || c.Neither != 0.4 || c.Lying != 0.4 ||
		!slices.Equal(c.Rates, []gen.Rate{{Share: 0.5, From: time.Hour, To: time.Hour}}) {
		t.Errorf("%+v", c)
	}
	negative := -time.Second
	for name, c := range map[string]TestwebCmd{
		"without --changes":  {generateFlags: generateFlags{Generate: true, changeFlags: changeFlags{Day: &tenS}}},
		"without --generate": {generateFlags: generateFlags{changeFlags: changeFlags{Changes: true}}, Demo: true},
		"negative day": {generateFlags: generateFlags{Generate: true,
			changeFlags: changeFlags{Changes: true, Day: &negative}}},
		"too many lie": {generateFlags: generateFlags{Generate: true,
			changeFlags: changeFlags{Changes: true, NoValidators: &some, Lying: &some, ModifiedOnly: &some}}},
	} {
		var bad *input.ConfigError
		if _, err := c.config(); !errors.As(err, &bad) {
			t.Errorf("%s: got %v, want a configuration error", name, err)
		}
	}
}
