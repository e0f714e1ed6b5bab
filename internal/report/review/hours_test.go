package review

import (
	"slices"
	"testing"
	"time"
)

// The traffic of all days at the same hour is one sum. The hour is that of UTC.
func TestHours(t *testing.T) {
	var d dayHours
	at := time.Date(2026, 1, 2, 15, 59, 0, 0, time.UTC)
	d.add(at, true, true, 1000)
	d.add(at.AddDate(0, 0, 3).In(time.FixedZone("", 5*3600)), true, false, 10)
	d.add(at.Add(time.Minute), false, false, 0) // no response
	d.add(at.Add(12*time.Hour), true, true, 5)
	want := []Hour{{Hour: 3, Requests: 1, Pages: 1, Bytes: 5}, {Hour: 15, Requests: 2, Pages: 1, Bytes: 1010}}
	if got := d.list(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
