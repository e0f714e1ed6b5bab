package hours

import (
	"testing"

	"pgregory.net/rapid"

	_ "github.com/orbweaver/orbweaver/internal/testkit/testseed" // sets rapid's seed

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

func anyWord(s string) (word, error) { return word(s), nil }

func TestWeek(t *testing.T) {
	p := must.Get(Parse("40 8-18 mon-fri Europe/Berlin, 20 22-6 sun, else 300", anyWord))(t)
	week, whole := p.Week()
	for i, want := range map[int]word{0: "20", 5: "20", 6: "300", 7: "300", 8: "40", 17: "40", 18: "300",
		4*24 + 8: "40",
		5*24 + 8: "300", 6*24 + 21: "300", 6*24 + 22: "20"} {
		if week[i] != want {
			t.Errorf("day %d, hour %d: %s, want %s", i/24, i%24, week[i], want)
		}
	}
	if !whole || p.Zone() != "Europe/Berlin" {
		t.Errorf("whole: %t, zone %s", whole, p.Zone())
	}
	for text, want := range map[string]bool{"1 8:30-9, 2": false, "1 8-9:30 mon, 2": false, "1": true,
		"1 sat, 2": true} {
		p := must.Get(Parse(text, anyWord))(t)
		if _, whole := p.Week(); whole != want {
			t.Errorf("%s: %t", text, whole)
		}
	}
}

// The texts that people write come back.
func TestCompose(t *testing.T) {
	for _, text := range []string{"5", "40 8-18 mon-fri, else 300", "40 8-18 mon-fri Europe/Berlin, else 300",
		"1 22-6 mon-fri, else 2", "1 22-6, else 2", "2 9-17 mon-fri, 1 sat-sun, else 3", "1 22-6 sun, else 2",
		"1 0-6, 2 6-8 mon wed, else 3"} {
		p := must.Get(Parse(text, anyWord))(t)
		week, _ := p.Week()
		if got, err := Compose(week, p.Zone()); err != nil || got.String() != text {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, zone := range []string{"Local", "Nowhere"} {
		if p, err := Compose([WeekHours]word{}, zone); err == nil {
			t.Errorf("zone %s: %s", zone, p)
		}
	}
}

// Any week has a text, and the text has this week.
func TestComposeAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var week [WeekHours]word
		words := rapid.SampledFrom([]word{"1", "2", "3"})
		for i := 0; i < WeekHours; {
			w := words.Draw(t, "value")
			for range rapid.IntRange(1, 40).Draw(t, "hours") {
				if i < WeekHours {
					week[i] = w
					i++
				}
			}
		}
		p, err := Compose(week, "")
		must.Do(t, err)
		again, err := Parse(p.String(), anyWord)
		if err != nil {
			t.Fatalf("%q: %v", p, err)
		}
		for _, p := range []Plan[word]{p, again} {
			if got, whole := p.Week(); got != week || !whole {
				t.Fatalf("%q:\n%v, %t, want\n%v", p, got, whole, week)
			}
		}
		if !again.Always() {
			t.Fatalf("%q does not always hold", again)
		}
	})
}
