package rate

import (
	"slices"
	"testing"

	"github.com/orbweaver/orbweaver/internal/hours"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

func TestWeek(t *testing.T) {
	for _, text := range []string{"none", "300/s", "40/s 8-18 mon-fri, else 300/s",
		"20Mbit 8-17 mon-fri Europe/Berlin, 100Mbit sat-sun, else none"} {
		s, err := Parse(text)
		must.Do(t, err)
		week, zone, whole := s.Week()
		again, err := Compose(week, zone)
		if err != nil || again.String() != text || !whole {
			t.Errorf("%s: %s, %v", text, again, err)
		}
	}
	if _, err := Compose([]string{"1/s"}, ""); err == nil {
		t.Error("a week of one hour")
	}
	if _, err := Compose(slices.Repeat([]string{"fast"}, hours.WeekHours), ""); err == nil {
		t.Error("a limit that is not one")
	}
	if s, err := Compose(slices.Repeat([]string{"0"}, hours.WeekHours), "UTC"); err != nil || !s.None() {
		t.Errorf("no limit: %s, %v", s, err)
	}
}
