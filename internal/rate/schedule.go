package rate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // so that an order with a time zone is valid at all agents
)

// A Schedule says which Limit holds at which time. The zero Schedule is no limit at any time.
//
// Its text has parts with commas between them. The first part whose time has come holds:
//
//	300/s
//	40/s 8-18 mon-fri, else 300/s
//	20Mbit 8:30-17 mon-fri Europe/Berlin, 100Mbit sat sun, else none
//
// Hours are FROM-TO; TO is not included. A part from 22-6 continues after midnight, and its days are those on which it
// begins. Without hours a part holds all day, without days on all days. The last part must hold at all times. The
// schedule has one time zone, which any part may name: UTC unless it does.
type Schedule struct {
	parts []part
	zone  *time.Location // nil: UTC
}

// A part is a limit and the time at which it holds.
type part struct {
	limit    Limit
	days     uint8 // bit n: it holds on time.Weekday n; 0: on all days
	hours    bool  // it holds from from to to only
	from, to int   // minutes since midnight
}

// None reports whether there is no limit at any time.
func (s Schedule) None() bool {
	return !slices.ContainsFunc(s.parts, func(p part) bool { return !p.limit.None() })
}

// At returns the limit that holds at a time.
func (s Schedule) At(t time.Time) Limit {
	if s.zone != nil {
		t = t.In(s.zone)
	} else {
		t = t.UTC()
	}
	minute, day := t.Hour()*60+t.Minute(), t.Weekday()
	for _, p := range s.parts {
		if p.holds(minute, day) {
			return p.limit
		}
	}
	return Limit{}
}

func (p part) holds(minute int, day time.Weekday) bool {
	on := func(day time.Weekday) bool { return p.days == 0 || p.days&(1<<day) != 0 }
	switch {
	case !p.hours:
		return on(day)
	case p.from < p.to:
		return p.from <= minute && minute < p.to && on(day)
	case minute >= p.from:
		return on(day)
	}
	return minute < p.to && on((day+6)%7)
}

// always reports whether the part holds at all times.
func (p part) always() bool { return p.days == 0 && !p.hours }

var dayNames = [7]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// Parse reads a schedule. The error is for people.
func Parse(text string) (s Schedule, err error) {
	texts := strings.Split(text, ",")
	zone := ""
	for i, text := range texts {
		p, in, err := parsePart(text)
		switch {
		case err != nil:
			return Schedule{}, err
		case in != "" && zone != "" && in != zone:
			return Schedule{}, fmt.Errorf("two time zones, %s and %s; give one for all parts", zone, in)
		case i < len(texts)-1 && p.always():
			return Schedule{}, fmt.Errorf("%.80q holds at all times, so that the parts after it never do; give it "+
				"hours or days", strings.TrimSpace(text))
		case i == len(texts)-1 && !p.always():
			return Schedule{}, fmt.Errorf("%.80q does not say what holds at other times; add \", else none\" or "+
				"another rate", strings.TrimSpace(text))
		}
		zone = cmp.Or(zone, in)
		s.parts = append(s.parts, p)
	}
	if zone != "" && zone != "UTC" {
		if s.zone, err = time.LoadLocation(zone); err != nil {
			return Schedule{}, fmt.Errorf("%.80q is not a time zone; give one such as Europe/Berlin", zone)
		}
	}
	if s.None() {
		return Schedule{}, nil
	}
	return s, nil
}

func parsePart(text string) (p part, zone string, err error) {
	words := strings.Fields(text)
	orElse := len(words) > 0 && words[0] == "else"
	if orElse {
		words = words[1:]
	}
	if len(words) == 0 {
		return p, "", fmt.Errorf("a part of the rate is empty; write, for example, 40/s 8-18 mon-fri, else 300/s")
	}
	if p.limit, err = parseLimit(words[0]); err != nil {
		return p, "", err
	}
	for _, w := range words[1:] {
		switch days, ok := parseDays(w); {
		case ok:
			p.days |= days
		case w[0] >= '0' && w[0] <= '9' && !p.hours:
			if p.from, p.to, err = parseHours(w); err != nil {
				return p, "", err
			}
			p.hours = true
		case w[0] >= 'A' && w[0] <= 'Z' && w != "Local" && zone == "":
			zone = w
		default:
			return p, "", fmt.Errorf("%.80q is neither hours, days nor a time zone; write, for example, "+
				"40/s 8-18 mon-fri Europe/Berlin, else 300/s", w)
		}
	}
	if orElse && !p.always() {
		return p, "", fmt.Errorf("%.80q: a part after else holds at all other times; leave its hours and days out",
			strings.TrimSpace(text))
	}
	if p.days == 1<<7-1 {
		p.days = 0
	}
	return p, zone, nil
}

// parseDays reads mon or mon-fri.
func parseDays(w string) (days uint8, ok bool) {
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
	wrong := fmt.Errorf("%.80q are not hours; write 8-18 or 8:30-17:45", w)
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
		return 0, 0, wrong
	case from == to || from == 24*60:
		return 0, 0, fmt.Errorf("%.80q is no time; for all day, leave the hours out", w)
	}
	return from, to, nil
}

// String returns the schedule in the form that Parse reads.
func (s Schedule) String() string {
	if len(s.parts) == 0 {
		return "none"
	}
	var texts []string
	for i, p := range s.parts {
		text := p.limit.String()
		if i == len(s.parts)-1 && i > 0 {
			text = "else " + text
		}
		if p.hours {
			text += fmt.Sprintf(" %s-%s", clock(p.from), clock(p.to))
		}
		text += daysText(p.days)
		if i == 0 && s.zone != nil {
			text += " " + s.zone.String()
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

func clock(minutes int) string {
	if minutes%60 == 0 {
		return strconv.Itoa(minutes / 60)
	}
	return fmt.Sprintf("%d:%02d", minutes/60, minutes%60)
}

// daysText returns days as ranges, beginning with Monday.
func daysText(days uint8) (text string) {
	if days == 0 {
		return ""
	}
	on := func(n int) bool { return n < 8 && days&(1<<(n%7)) != 0 }
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

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Schedule) UnmarshalText(text []byte) (err error) {
	*s, err = Parse(string(text))
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (s Schedule) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
