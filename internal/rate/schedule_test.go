package rate

import (
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// at returns a time in a week: "mon 08:30" in UTC.
func at(t *testing.T, text string) time.Time {
	t.Helper()
	day, hour, _ := strings.Cut(text, " ")
	clock := must.Get(time.Parse("15:04", hour))(t)
	for d := time.Date(2026, 7, 5, clock.Hour(), clock.Minute(), 0, 0, time.UTC); ; d = d.AddDate(0, 0, 1) {
		if strings.EqualFold(d.Weekday().String()[:3], day) {
			return d
		}
	}
}

func TestSchedule(t *testing.T) {
	for _, c := range []struct {
		text, form string            // form: as String writes it; empty: as text
		at         map[string]string // limits by time
	}{
		{"300/s", "", map[string]string{"sun 00:00": "300/s"}},
		{"300", "300/s", nil},
		{"0.25", "0.25/s", nil},
		{"200Mbit", "", map[string]string{"wed 12:00": "200Mbit"}},
		{"1500kbit", "1.5Mbit", nil},
		{"0", "none", nil},
		{"none", "", map[string]string{"wed 12:00": "none"}},
		{"40/s 8-18 mon-fri, else 300/s", "", map[string]string{"mon 07:59": "300/s", "mon 08:00": "40/s",
			"fri 17:59": "40/s", "fri 18:00": "300/s", "sat 12:00": "300/s"}},
		{" 40/s  mon-fri 8:00-18:00 ,300/s", "40/s 8-18 mon-fri, else 300/s", nil},
		{"10/s 22-6:30 fri, else 20/s", "", map[string]string{"fri 21:59": "20/s", "fri 22:00": "10/s",
			"sat 06:29": "10/s", "sat 06:30": "20/s", "fri 03:00": "20/s", "sat 23:00": "20/s"}},
		{"10/s sat sun, 20/s 8-24, else none", "10/s sat-sun, 20/s 8-24, else none", map[string]string{
			"sun 23:59": "10/s", "mon 23:59": "20/s", "tue 00:00": "none"}},
		{"10/s fri-mon wed, else 1/s", "10/s mon wed fri-sun, else 1/s", map[string]string{"sat 12:00": "10/s",
			"mon 12:00": "10/s", "tue 12:00": "1/s", "wed 12:00": "10/s", "thu 12:00": "1/s"}},
		{"10/s mon-sun, else 1/s", "-", nil},
		// Summer time: two hours ahead of UTC.
		{"40/s 8-18 Europe/Berlin, else 300/s", "", map[string]string{"mon 05:59": "300/s", "mon 06:00": "40/s",
			"mon 15:59": "40/s", "mon 16:00": "300/s"}},
		{"40/s 8-18, else 300/s Europe/Berlin", "40/s 8-18 Europe/Berlin, else 300/s", nil},
		{"40/s 8-18 UTC, else 300/s", "40/s 8-18, else 300/s", nil},
		{"none 8-18, else none", "none", nil},
	} {
		s, err := Parse(c.text)
		if c.form == "-" {
			if err == nil {
				t.Errorf("%q: accepted", c.text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		form := c.form
		if form == "" {
			form = c.text
		}
		if s.String() != form {
			t.Errorf("%q: is %q, want %q", c.text, s, form)
		}
		if again, err := Parse(s.String()); err != nil || again.String() != s.String() {
			t.Errorf("%q: read again it is %q, %v", c.text, again, err)
		}
		for when, want := range c.at {
			if got := s.At(at(t, when)); got.String() != want {
				t.Errorf("%q at %s: %s, want %s", c.text, when, got, want)
			}
		}
	}
}

func TestScheduleMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "is empty",
		"fast":                                `"fast" is not a rate`,
		"NaN":                                 "is not a rate",
		"-1":                                  "is not a rate",
		"1e3/s":                               "is not a rate",
		"10/m":                                "is not a rate",
		"200MB":                               "is not a rate",
		"0.00001":                             "is out of range",
		"2000000/s":                           "is out of range",
		"1bit":                                "is out of range",
		"40/s 8-18":                           "does not say what holds at other times",
		"40/s, else 300/s":                    "holds at all times",
		"40/s 8-18, else 300/s mon":           "after else",
		"40/s 8-8, else 300/s":                "is no time",
		"40/s 8-25, else 300/s":               "are not hours",
		"40/s 8:5-9, else 300/s":              "are not hours",
		"40/s 8, else 300/s":                  "are not hours",
		"40/s 8-9 9-10, else 300/s":           "is neither hours, days nor a time zone",
		"40/s monday, else 300/s":             "is neither hours, days nor a time zone",
		"40/s 8-18 Local, else 300/s":         "is neither hours, days nor a time zone",
		"40/s 8-18 Europe/Berlim, else 300/s": "is not a time zone",
		"40/s 8-18 Europe/Berlin, 30/s 18-20 Asia/Tokyo, else none": "two time zones",
		"40/s 8-18,": "is empty",
	} {
		if s, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", text, s, err, want)
		}
	}
}

func TestLower(t *testing.T) {
	a, b := Limit{Requests: 10}, Limit{Requests: 5, Bits: 100}
	for _, c := range [][3]Limit{{a, b, {5, 100}}, {b, a, {5, 100}}, {a, {}, a}, {{}, a, a}, {{}, {}, {}}} {
		if got := c[0].Lower(c[1]); got != c[2] {
			t.Errorf("the lower of %v and %v is %v, want %v", c[0], c[1], got, c[2])
		}
	}
}

func FuzzSchedule(f *testing.F) {
	f.Add("40/s 8-18 mon-fri Europe/Berlin, else 300/s")
	f.Add("20Mbit 22-6:30 sat sun, else none")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(s.String())
		if err != nil || again.String() != s.String() {
			t.Errorf("%q is %q, and read again %q, %v", text, s, again, err)
		}
		for h := range 7 * 48 {
			when := time.Date(2026, 1, 1, 0, 30*h, 0, 0, time.UTC)
			if s.At(when) != again.At(when) {
				t.Errorf("%q and %q differ at %s", text, s, when)
			}
		}
	})
}
