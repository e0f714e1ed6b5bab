// Package hours answers: which value holds at this time of day?
//
//	Parse ("40/s 8-18 mon-fri, else 300/s") -> Plan -> At (a time) -> 40/s or 300/s
//
// A text has parts with commas between them. A part is a value, then words in any order that say when it holds. Of the
// parts that hold at a time, the first one counts.
//
//	part  = ["else"] value { "on" | hours | days | zone }
//	hours = 8-18 | 8:30-17:45 | 22-6       the end is not included; 22-6 goes on into the next day
//	days  = mon | mon-fri | weekdays | weekend
//	zone  = Europe/Berlin                   of all parts; UTC unless a part names it
//
// Without hours a part holds all day, without days on all days. Of hours that go on into the next day, the day on which
// they begin counts. "else" begins the last part, which holds at all other times. Without such a part, no value holds
// at some times.
package hours

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // so that a text with a time zone is valid on all machines
)

// A Plan says which value holds at which time. The zero Plan has none. It never changes.
type Plan[T fmt.Stringer] struct {
	parts []part[T]
	zone  *time.Location // nil: UTC
}

// A part is a value and the time at which it holds.
type part[T fmt.Stringer] struct {
	value T
	times
}

// times are hours and days.
type times struct {
	days     uint8 // bit n: time.Weekday n; 0: all days
	hours    bool  // from from to to only
	from, to int   // minutes since midnight
}

// always reports whether t are all times.
func (t times) always() bool { return t.days == 0 && !t.hours }

func (t times) hold(minute int, day time.Weekday) bool {
	on := func(day time.Weekday) bool { return t.days == 0 || t.days&(1<<day) != 0 }
	switch {
	case !t.hours:
		return on(day)
	case t.from < t.to:
		return t.from <= minute && minute < t.to && on(day)
	case minute >= t.from:
		return on(day)
	}
	return minute < t.to && on((day+6)%7)
}

// At returns the value that holds at a time. If none does, ok is false.
func (p Plan[T]) At(at time.Time) (value T, ok bool) {
	at = at.In(cmp.Or(p.zone, time.UTC))
	for _, part := range p.parts {
		if part.hold(at.Hour()*60+at.Minute(), at.Weekday()) {
			return part.value, true
		}
	}
	return value, false
}

// Always reports whether some value holds at each time, because the last part always holds.
func (p Plan[T]) Always() bool { return len(p.parts) > 0 && p.parts[len(p.parts)-1].always() }

// Values returns the values of all parts.
func (p Plan[T]) Values() (values []T) {
	for _, part := range p.parts {
		values = append(values, part.value)
	}
	return values
}

// Parse reads a plan. value reads the value of a part, which is one word. The error is for people.
func Parse[T fmt.Stringer](text string, value func(string) (T, error)) (p Plan[T], err error) {
	texts := strings.Split(text, ",")
	zone := ""
	for i, text := range texts {
		words := strings.Fields(text)
		orElse := len(words) > 0 && strings.EqualFold(words[0], "else")
		if orElse {
			words = words[1:]
		}
		if len(words) == 0 {
			return Plan[T]{}, fmt.Errorf("%.80q: a part is empty; write, for example, VALUE 8-18 mon-fri, else VALUE",
				text)
		}
		v, err := value(words[0])
		if err != nil {
			return Plan[T]{}, err
		}
		when, in, err := parseTimes(words[1:])
		switch {
		case err != nil:
			return Plan[T]{}, err
		case in != "" && zone != "" && in != zone:
			return Plan[T]{}, fmt.Errorf("two time zones, %s and %s; give one for all parts", zone, in)
		case orElse && i == 0:
			return Plan[T]{}, fmt.Errorf("%.80q: nothing precedes else; leave it out", strings.TrimSpace(text))
		case orElse && !when.always():
			return Plan[T]{}, fmt.Errorf("%.80q: a part after else holds at all other times; leave its hours and "+
				"days out", strings.TrimSpace(text))
		case i < len(texts)-1 && when.always():
			return Plan[T]{}, fmt.Errorf("%.80q holds at all times, so that the parts after it never do; give it "+
				"hours or days", strings.TrimSpace(text))
		}
		zone = cmp.Or(zone, in)
		p.parts = append(p.parts, part[T]{v, when})
	}
	if zone != "" && zone != "UTC" {
		if p.zone, err = time.LoadLocation(zone); err != nil {
			return Plan[T]{}, fmt.Errorf("%.80q is not a time zone; give one such as Europe/Berlin", zone)
		}
	}
	return p, nil
}

// parseTimes reads the words that say when a value holds.
func parseTimes(words []string) (t times, zone string, err error) {
	for _, w := range words {
		switch days, ok := parseDays(strings.ToLower(w)); {
		case w == "on":
		case ok:
			t.days |= days
		case w[0] >= '0' && w[0] <= '9' && !t.hours:
			if t.from, t.to, err = parseHours(w); err != nil {
				return t, "", err
			}
			t.hours = true
		case w[0] >= 'A' && w[0] <= 'Z' && w != "Local" && zone == "":
			zone = w
		default:
			return t, "", fmt.Errorf("%.80q is neither hours, days nor a time zone; write 8-18, mon-fri or "+
				"Europe/Berlin, for example", w)
		}
	}
	if t.days == 1<<7-1 {
		t.days = 0
	}
	return t, zone, nil
}

var dayNames = [7]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// parseDays reads mon, mon-fri, weekdays or weekend.
func parseDays(w string) (days uint8, ok bool) {
	switch w {
	case "weekdays":
		w = "mon-fri"
	case "weekend", "weekends":
		w = "sat-sun"
	}
	first, last, isRange := strings.Cut(w, "-")
	if !isRange {
		last = first
	}
	from, to := slices.Index(dayNames[:], first), slices.Index(dayNames[:], last)
	if from < 0 || to < 0 {
		return 0, false
	}
	for d := from; ; d = (d + 1) % 7 {
		if days |= 1 << d; d == to {
			return days, true
		}
	}
}

// parseHours reads 8-18 or 8:30-17:45 as minutes since midnight.
func parseHours(w string) (from, to int, err error) {
	first, last, ok := strings.Cut(w, "-")
	minutes := func(s string) int {
		h, m, has := strings.Cut(s, ":")
		hour, err := strconv.ParseUint(h, 10, 8)
		minute := uint64(0)
		if err == nil && has {
			minute, err = strconv.ParseUint(m, 10, 8)
		}
		if err != nil || minute > 59 || has && len(m) != 2 || hour*60+minute > 24*60 {
			ok = false
		}
		return int(hour*60 + minute)
	}
	from, to = minutes(first), minutes(last)
	switch {
	case !ok:
		return 0, 0, fmt.Errorf("%.80q are not hours; write 8-18 or 8:30-17:45", w)
	case from == to || from == 24*60:
		return 0, 0, fmt.Errorf("%.80q is no time; for all day, leave the hours out", w)
	}
	return from, to, nil
}

// String returns the plan in the form that Parse reads. It is empty for the zero Plan.
func (p Plan[T]) String() string {
	var texts []string
	for i, part := range p.parts {
		text := part.value.String()
		if i > 0 && part.always() {
			text = "else " + text
		}
		text += part.String()
		if i == 0 && p.zone != nil {
			text += " " + p.zone.String()
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// String returns hours and days with a blank before each. Days are ranges, beginning with Monday.
func (t times) String() (text string) {
	if t.hours {
		text = fmt.Sprintf(" %s-%s", clock(t.from), clock(t.to))
	}
	if t.days == 0 {
		return text
	}
	on := func(n int) bool { return n < 8 && t.days&(1<<(n%7)) != 0 }
	for n := 1; n < 8; n++ { // Monday to Sunday
		if !on(n) {
			continue
		}
		first := n
		for on(n + 1) {
			n++
		}
		text += " " + dayNames[first%7]
		if n > first {
			text += "-" + dayNames[n%7]
		}
	}
	return text
}

func clock(minutes int) string {
	if minutes%60 == 0 {
		return strconv.Itoa(minutes / 60)
	}
	return fmt.Sprintf("%d:%02d", minutes/60, minutes%60)
}
