package rate

import (
	"fmt"

	"github.com/orbweaver/orbweaver/internal/hours"
)

// Week returns the limit at the beginning of each hour of a week, as text. The first hour is Monday at 0:00 in the time
// zone. whole reports that no limit changes within an hour.
func (s Schedule) Week() (week []string, zone string, whole bool) {
	limits, whole := s.plan.Week()
	for _, l := range limits {
		week = append(week, l.String())
	}
	return week, s.plan.Zone(), whole
}

// Compose returns the schedule with these limits, one for each hour of a week as in Week. The error is for people.
func Compose(week []string, zone string) (s Schedule, err error) {
	var limits [hours.WeekHours]Limit
	if len(week) != len(limits) {
		return s, fmt.Errorf("%d hours: a week has %d", len(week), len(limits))
	}
	for i, text := range week {
		if limits[i], err = parseLimit(text); err != nil {
			return Schedule{}, err
		}
	}
	if s.plan, err = hours.Compose(limits, zone); err != nil || s.None() {
		return Schedule{}, err
	}
	return s, nil
}
