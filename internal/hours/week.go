package hours

import (
	"cmp"
	"fmt"
	"time"
)

// WeekHours is how many hours a week has.
const WeekHours = 7 * 24

// Zone returns the name of the plan's time zone.
func (p Plan[T]) Zone() string { return cmp.Or(p.zone, time.UTC).String() }

// Week returns the value at the beginning of each hour of a week in the plan's time zone. The first hour is Monday at
// 0:00. If no value holds in an hour, it has the zero value. whole reports that no value changes within an hour.
func (p Plan[T]) Week() (week [WeekHours]T, whole bool) {
	whole = true
	for i := range week {
		day := time.Weekday((i/24 + 1) % 7)
		for _, part := range p.parts {
			if part.hold(i%24*60, day) {
				week[i] = part.value
				break
			}
		}
	}
	for _, part := range p.parts {
		whole = whole && (!part.hours || part.from%60 == 0 && part.to%60 == 0)
	}
	return week, whole
}

// Compose returns a plan whose Week is week, in a time zone; empty means UTC. The value of the most hours holds after
// "else". The error is for people.
func Compose[T interface {
	fmt.Stringer
	comparable
}](week [WeekHours]T, zone string) (p Plan[T], err error) {
	if zone != "" && zone != "UTC" {
		if p.zone, err = time.LoadLocation(zone); err != nil || zone == "Local" {
			return Plan[T]{}, fmt.Errorf("%.80q is not a time zone; give one such as Europe/Berlin", zone)
		}
	}
	hours := map[T]int{}
	rest := week[0]
	for _, v := range week {
		if hours[v]++; hours[v] > hours[rest] {
			rest = v
		}
	}
	// Of equally frequent values, the first one of the week holds after "else".
	for _, v := range week {
		if hours[v] == hours[rest] {
			rest = v
			break
		}
	}
	done := map[T]bool{rest: true}
	for _, v := range week {
		if !done[v] {
			done[v] = true
			p.parts = append(p.parts, partsOf(week, v)...)
		}
	}
	p.parts = append(p.parts, part[T]{value: rest})
	return p, nil
}

// partsOf returns the parts that hold in exactly the hours of the week with a value.
func partsOf[T interface {
	fmt.Stringer
	comparable
}](week [WeekHours]T, value T) (parts []part[T]) {
	is := func(day, hour int) bool { return week[day%7*24+hour] == value }
	// run returns the end of the hours with the value from an hour on.
	run := func(day, hour int) int {
		for hour < 24 && is(day, hour) {
			hour++
		}
		return hour
	}
	add := func(day, from, to int) {
		t := times{hours: from != 0 || to != 24, from: from * 60, to: to * 60}
		for i := range parts {
			if p := &parts[i]; p.hours == t.hours && (!t.hours || p.from == t.from && p.to == t.to) {
				p.days |= 1 << ((day + 1) % 7)
				return
			}
		}
		if !t.hours {
			t.from, t.to = 0, 0
		}
		t.days = 1 << ((day + 1) % 7)
		parts = append(parts, part[T]{value, t})
	}
	// night returns until when the hours that end a day go on into the next one; 0: they do not.
	night := func(day int) int {
		from := 24
		for from > 0 && is(day, from-1) {
			from--
		}
		if to := run(day+1, 0); from > 0 && from < 24 && to < from {
			return to
		}
		return 0
	}
	for day := range 7 {
		for hour := night(day + 6); hour < 24; hour++ {
			if to := run(day, hour); to > hour {
				end := to
				if n := night(day); to == 24 && n > 0 {
					end = n
				}
				add(day, hour, end)
				hour = to
			}
		}
	}
	for i := range parts {
		if parts[i].days == 1<<7-1 {
			parts[i].days = 0
		}
	}
	return parts
}
