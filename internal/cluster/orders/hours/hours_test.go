package hours

import (
	"errors"
	"testing"
	"time"
)

var errValue = errors.New("not a value")

func value(s string) (string, error) {
	if s[0] < '0' || s[0] > '9' {
		return "", errValue
	}
	return s, nil
}

func TestPlan(t *testing.T) {
	const none = "none"
	for _, c := range []struct{ text, at, want string }{
		{"10s", "mon 00:00", "10s"},
		{"10s 8-18 mon-fri, else 2s", "mon 07:59", "2s"},
		{"10s 8-18 mon-fri, else 2s", "mon 08:00", "10s"},
		{"10s 8-18 mon-fri, else 2s", "fri 17:59", "10s"},
		{"10s 8-18 mon-fri, else 2s", "fri 18:00", "2s"},
		{"10s 8-18 mon-fri, else 2s", "sat 12:00", "2s"},
		{"40 pages/s 8-18 on weekdays, else 300", "wed 12:00", "40 pages/s"},
		{"40 pages/s 8-18 on weekdays, else 300", "sun 12:00", "300"},
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
		clock, err := time.Parse("15:04", c.at[4:])
		if err != nil {
			t.Fatal(err)
		}
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

func TestPlanErrors(t *testing.T) {
	for _, text := range []string{"", ",", "1,", "else 1", "1, 2", "1, else 2", "1 8-18, else 2 mon", "1 8-18, else",
		"1 8-18, else 2, 3"} {
		if _, err := Parse(text, value); !errors.Is(err, ErrPlan) {
			t.Errorf("%q: %v", text, err)
		}
	}
	// What is not an hour or a day belongs to the value.
	for _, text := range []string{"mon", "8-18x", "x", "x 8-18"} {
		if _, err := Parse(text, func(s string) (string, error) { return s, errValue }); !errors.Is(err, errValue) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"1 25-3", "1 8-24:01", "1 8:60-9", "1 24-3", "1 mon-foo", "1 8", "1 8-", "1 +8-9"} {
		var got string
		if _, err := Parse(text, func(s string) (string, error) { got = s; return s, nil }); err != nil || got != text {
			t.Errorf("%q: the value is %q, %v", text, got, err)
		}
	}
}

func FuzzPlan(f *testing.F) {
	f.Add("10s 8-18 mon-fri, else 2s")
	f.Add("1 22-6 fri-mon, 2 8:30-9")
	f.Fuzz(func(t *testing.T, text string) {
		any := func(s string) (string, error) { return s, nil }
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
