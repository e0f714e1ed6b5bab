// Package hours answers: which value does an order have at this time of day?
//
//	Parse ("10s 8-18 mon-fri, else 2s") -> Plan -> At (a time) -> 10s or 2s
//
// A text has clauses, with a comma between two of them. A clause is a value, then hours, then days; the last two may be
// missing. Of the clauses that hold at a time, the first one counts. All times are in UTC.
//
//	clause = ["else"] value ["on"] [hours] ["on"] [days]
//	hours  = 8-18 | 8:30-18 | 22-6      the end is not included; 22-6 goes on into the next day
//	days   = mon | mon-fri | weekdays | weekend
//
// Of a range of hours that goes on into the next day, the day on which it begins counts. "else" begins the last clause,
// which has neither hours nor days. Without one, no value holds at some times. Upper case is as lower case, but values
// are passed on as they are.
package hours

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrPlan reports a text that is not a plan. The error is for people.
var ErrPlan = errors.New("invalid times")

const (
	day = 24 * 60 // minutes
	all = 1<<7 - 1
)

// A clause is a value and when it holds.
type clause[T any] struct {
	value    T
	from, to int   // minutes of a day; to may be after the day's end
	days     uint8 // a bit for each time.Weekday
}

// A Plan says which value holds at which time. The zero Plan has none. It never changes.
type Plan[T any] struct {
	clauses []clause[T]
	text    string
}

// Parse reads a plan. value reads the value of a clause, which may have blanks.
func Parse[T any](text string, value func(string) (T, error)) (p Plan[T], err error) {
	p.text = strings.Join(strings.Fields(text), " ")
	parts := strings.Split(p.text, ",")
	for i, part := range parts {
		words := strings.Fields(part)
		last := len(words) > 0 && strings.EqualFold(words[0], "else")
		if last {
			words = words[1:]
		}
		c := clause[T]{to: day, days: all}
		timed := false
		if n := len(words); n > 1 {
			if days, ok := parseDays(words[n-1]); ok {
				c.days, words, timed = days, on(words[:n-1]), true
			}
		}
		if n := len(words); n > 1 {
			if from, to, ok := parseHours(words[n-1]); ok {
				c.from, c.to, words, timed = from, to, on(words[:n-1]), true
			}
		}
		switch {
		case len(words) == 0:
			return Plan[T]{}, fmt.Errorf("%w: %.100q: a part between commas has no value", ErrPlan, text)
		case last && (timed || i == 0):
			return Plan[T]{}, fmt.Errorf("%w: %.100q: \"else\" begins the last part, which has neither hours nor days",
				ErrPlan, text)
		case !timed && i < len(parts)-1:
			return Plan[T]{}, fmt.Errorf("%w: %.100q: %q holds always, so nothing after it counts; give it hours, "+
				"such as 8-18, or days, such as mon-fri", ErrPlan, text, part)
		}
		if c.value, err = value(strings.Join(words, " ")); err != nil {
			return Plan[T]{}, err
		}
		p.clauses = append(p.clauses, c)
	}
	return p, nil
}

// on removes the word "on" at the end.
func on(words []string) []string {
	if n := len(words); n > 1 && strings.EqualFold(words[n-1], "on") {
		return words[:n-1]
	}
	return words
}

var dayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// parseDays reads days, as a bit for each time.Weekday.
func parseDays(s string) (days uint8, ok bool) {
	switch s = strings.ToLower(s); s {
	case "weekdays":
		s = "mon-fri"
	case "weekend", "weekends":
		s = "sat-sun"
	}
	first, last, both := strings.Cut(s, "-")
	if !both {
		last = first
	}
	from, to := slices.Index(dayNames, first), slices.Index(dayNames, last)
	if from < 0 || to < 0 {
		return 0, false
	}
	for d := from; ; d = (d + 1) % 7 {
		days |= 1 << d
		if d == to {
			return days, true
		}
	}
}

// parseHours reads hours, as minutes of a day. to is greater than from.
func parseHours(s string) (from, to int, ok bool) {
	first, last, both := strings.Cut(s, "-")
	from, ok = parseClock(first)
	to, okTo := parseClock(last)
	if !both || !ok || !okTo || from == day {
		return 0, 0, false
	}
	if to <= from {
		to += day
	}
	return from, to, true
}

// parseClock reads 8, 08, 8:30 or 24.
func parseClock(s string) (minute int, ok bool) {
	hour, rest, more := strings.Cut(s, ":")
	h, ok := number(hour, 1, 2)
	m, okM := 0, true
	if more {
		m, okM = number(rest, 2, 2)
	}
	if !ok || !okM || m > 59 || h*60+m > day {
		return 0, false
	}
	return h*60 + m, true
}

// number reads digits, at least and at most this many.
func number(s string, least, most int) (n int, ok bool) {
	if len(s) < least || len(s) > most || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// At returns the value that holds at a time. If none does, ok is false.
func (p Plan[T]) At(at time.Time) (value T, ok bool) {
	at = at.UTC()
	minute, weekday := at.Hour()*60+at.Minute(), int(at.Weekday())
	for _, c := range p.clauses {
		today := c.days>>weekday&1 == 1 && c.from <= minute && minute < c.to
		yesterday := c.days>>((weekday+6)%7)&1 == 1 && minute+day < c.to
		if today || yesterday {
			return c.value, true
		}
	}
	return value, false
}

// Values returns all values, in the order of the text.
func (p Plan[T]) Values() (values []T) {
	for _, c := range p.clauses {
		values = append(values, c.value)
	}
	return values
}

// String returns the text of the plan, with single blanks.
func (p Plan[T]) String() string { return p.text }
