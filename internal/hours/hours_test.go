package hours

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

var errValue = errors.New("not a value")

// A word is a value that begins with a digit.
type word string

func (w word) String() string { return string(w) }

func value(s string) (word, error) {
	if s[0] < '0' || s[0] > '9' {
		return "", errValue
	}
	return word(s), nil
}

func TestPlan(t *testing.T) {
	const none = word("none")
	for _, c := range []struct {
		text, at string
		want     word
	}{
		{"10s", "mon 00:00", "10s"},
		{"10s 8-18 mon-fri, else 2s", "mon 07:59", "2s"},
		{"10s 8-18 mon-fri, else 2s", "mon 08:00", "10s"},
		{"10s 8-18 mon-fri, else 2s", "fri 17:59", "10s"},
		{"10s 8-18 mon-fri, else 2s", "fri 18:00", "2s"},
		{"10s 8-18 mon-fri, else 2s", "sat 12:00", "2s"},
		{"40/s 8-18 on weekdays, else 300", "wed 12:00", "40/s"},
		{"40/s 8-18 on weekdays, else 300", "sun 12:00", "300"},
		{"5 on mon", "mon 23:59", "5"},
		{"5 on mon", "tue 00:00", none},
		{"5 on 8-9", "tue 08:30", "5"},
		{"5 weekend, 6", "sun 10:00", "5"},
		{"5 weekend, 6", "mon 10:00", "6"},
		{"1 22-6 fri, else 2", "fri 21:59", "2"},
		{"1 22-6 fri, else 2", "fri 22:00", "1"},
		{"1 22-6 fri, else 2", "sat 05:59", "1"},
		{"1 22-6 fri, else 2", "sat 06:00", "2"},
		{"1 22-6 fri, else 2", "fri 05:00", "2"},
		{"1 0-24 sat, else 2", "sat 23:59", "1"},
		{"1 0-24 sat, else 2", "sun 00:00", "2"},
		{"1 8:30-9:15", "sun 08:29", none},
		{"1 8:30-9:15", "sun 09:14", "1"},
		{"1 sat-mon, else 2", "sun 00:00", "1"},
		{"1 sat-mon, else 2", "tue 00:00", "2"},
		{"1 8-12, 2 10-14, 3", "mon 11:00", "1"},
		{"1 8-12, 2 10-14, 3", "mon 13:00", "2"},
		{"1 8-12, 2 10-14, 3", "mon 14:00", "3"},
		{"  1   MON ,  ELSE 2", "mon 01:00", "1"},
	} {
		p, err := Parse(c.text, value)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		clock := must.Get(time.Parse("15:04", c.at[4:]))(t)
		for d := range 7 {
			// 4 January 2026 is a Sunday. Another zone has another day and hour at the same time.
			at := time.Date(2026, 1, 4+d, clock.Hour(), clock.Minute(), 59, 0, time.UTC)
			if dayNames[at.Weekday()] != c.at[:3] {
				continue
			}
			got, ok := p.At(at.In(time.FixedZone("", 11*3600)))
			if !ok {
				got = none
			}
			if got != c.want {
				t.Errorf("%q at %s: %s, want %s", c.text, c.at, got, c.want)
			}
		}
	}
}

// A plan has one form, with its time zone behind the first part.
func TestPlanForm(t *testing.T) {
	for text, want := range map[string]string{
		"10s":                               "10s",
		" 10s  mon-fri 8:00-18:00 ,2s":      "10s 8-18 mon-fri, else 2s",
		"1 on weekend, 2 8-24, else 3":      "1 sat-sun, 2 8-24, else 3",
		"1 fri-mon wed, 2 22-6:30":          "1 mon wed fri-sun, 2 22-6:30",
		"1 8-18, else 2 Europe/Berlin":      "1 8-18 Europe/Berlin, else 2",
		"1 8-18 UTC, else 2":                "1 8-18, else 2",
		"1 8-18 mon, 2 8-18 Tue, 3 Mon-sun": "1 8-18 mon, 2 8-18 tue, else 3",
	} {
		if p, err := Parse(text, value); err != nil || p.String() != want {
			t.Errorf("%q: %q, %v; want %q", text, p, err, want)
		}
	}
}

// Summer time counts.
func TestZone(t *testing.T) {
	p := must.Get(Parse("1 8-18 Europe/Berlin, else 2", value))(t)
	for at, want := range map[string]word{"2026-07-06T05:59:00Z": "2", "2026-07-06T06:00:00Z": "1",
		"2026-07-06T16:00:00Z": "2", "2026-01-06T06:59:00Z": "2", "2026-01-06T07:00:00Z": "1"} {
		when := must.Get(time.Parse(time.RFC3339, at))(t)
		if got, _ := p.At(when); got != want {
			t.Errorf("at %s: %s, want %s", at, got, want)
		}
	}
}

func TestPlanErrors(t *testing.T) {
	for text, want := range map[string]string{
		"": "is empty", ",": "is empty", "1 8-18,": "is empty", "1 8-18, else": "is empty",
		"else 1": "nothing precedes else",
		"1, 2":   "holds at all times", "1, else 2": "holds at all times", "1 8-18, else 2, 3": "holds at all times",
		"1 8-18, else 2 mon": "after else", "x 8-18": errValue.Error(), "mon": errValue.Error(),
		"1 8-8": "is no time", "1 24-3": "is no time", "1 25-3": "are not hours", "1 8-24:01": "are not hours",
		"1 8:60-9": "are not hours", "1 8:5-9": "are not hours", "1 8": "are not hours", "1 8-": "are not hours",
		"1 +8-9": "is neither", "1 8-9 9-10": "is neither", "1 monday": "is neither", "1 mon-foo": "is neither",
		"1 8-9 Local": "is neither", "1 8-18 Europe/Berlim": "is not a time zone",
		"1 8-18 Europe/Berlin, 2 18-20 Asia/Tokyo": "two time zones",
	} {
		if p, err := Parse(text, value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; want %q", text, p, err, want)
		}
	}
}

func FuzzPlan(f *testing.F) {
	f.Add("10s 8-18 mon-fri Europe/Berlin, else 2s")
	f.Add("1 22-6:30 fri-mon, 2 8:30-9")
	f.Fuzz(func(t *testing.T, text string) {
		any := func(s string) (word, error) { return word(s), nil }
		p, err := Parse(text, any)
		if err != nil {
			return
		}
		again, err := Parse(p.String(), any)
		if err != nil || again.String() != p.String() {
			t.Fatalf("%q is %q, %v", p, again, err)
		}
		for at := time.Unix(0, 0); at.Before(time.Unix(8*86400, 0)); at = at.Add(17 * time.Minute) {
			got, ok := p.At(at)
			want, okToo := again.At(at)
			if got != want || ok != okToo {
				t.Fatalf("%q at %s: %q, %q", text, at, got, want)
			}
		}
	})
}
