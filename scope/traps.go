package scope

import (
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/weburl"
)

// segments counts the segments of path, which begins with a slash; a trailing
// slash does not begin another.
func segments(path string) int {
	return strings.Count(strings.TrimSuffix(path, "/"), "/")
}

// maxExamined bounds the segments that repeated looks at.
const maxExamined = 256

// repeated is the largest number of times that a segment, or a sequence of
// segments, stands in path one directly after the other: 3 for /a/b/a/b/a/b.
// The last segment, a page's name, counts only if a slash follows it.
func repeated(path string) int {
	var start [maxExamined + 1]uint16 // segment i is path[start[i]:start[i+1]], its slash included
	n := 0
	for i := 0; i < len(path) && n < maxExamined; i++ {
		if path[i] == '/' {
			start[n] = uint16(i + 1)
			n++
		}
	}
	n-- // segments with a slash behind them
	seg := func(i int) string { return path[start[i]:start[i+1]] }
	most := min(n, 1)
	for period := 1; period*2 <= n; period++ {
		run := 0 // segments in a row that equal the one a period before
		for i := period; i < n; i++ {
			if seg(i) != seg(i-period) || period == 1 && seg(i) == "/" {
				run = 0
				continue
			}
			run++
			most = max(most, run/period+1)
		}
	}
	return most
}

// queryArgs counts the arguments of u's query.
func queryArgs(u weburl.URL) int {
	q, ok := u.Query()
	if !ok || q == "" {
		return 0
	}
	return 1 + strings.Count(q, "&")
}

const (
	// yearsAhead is how far into the future a page's date may plausibly lie.
	yearsAhead = 2
	// yearsFar is where a number in a year's place is none: an endless calendar
	// is entered at today and noticed long before.
	yearsFar = 200
	// firstYear is the earliest year that a calendar is followed to. Outside
	// of calendars older dates are history.
	firstYear = 1970
)

// strayYear finds a date in u that only a calendar without end would show: a
// year and month as in 2041/07, 2041-07-21, year=2041, more than two years
// after today; or before 1970 where the URL speaks of a calendar. 0 is none.
func strayYear(u weburl.URL, today time.Time) int {
	s := u.RequestURI()
	for i := 0; i+4 <= len(s); {
		if !isDigit(s[i]) {
			i++
			continue
		}
		from := i
		for i < len(s) && isDigit(s[i]) {
			i++
		}
		if i-from != 4 || from > 0 && isLetter(s[from-1]) || s[from] == '0' {
			continue
		}
		year := int(s[from]-'0')*1000 + int(s[from+1]-'0')*100 + int(s[from+2]-'0')*10 + int(s[from+3]-'0')
		if year >= firstYear && year <= today.Year()+yearsAhead || year > today.Year()+yearsFar {
			continue
		}
		if !monthAt(s[i:]) && !strings.HasSuffix(s[:from], "year=") {
			continue
		}
		if year > today.Year() || speaksOfCalendar(s) {
			return year
		}
	}
	return 0
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// monthAt says whether s goes on from a year to a month: a separator and a
// number from 1 to 12.
func monthAt(s string) bool {
	if len(s) < 2 || s[0] != '-' && s[0] != '/' {
		return false
	}
	s = s[1:]
	n, digits := 0, 0
	for digits < len(s) && digits < 3 && isDigit(s[digits]) {
		n = n*10 + int(s[digits]-'0')
		digits++
	}
	if digits == 0 || digits > 2 || n < 1 || n > 12 {
		return false
	}
	return digits == len(s) || !isLetter(s[digits])
}

func speaksOfCalendar(s string) bool {
	for _, word := range []string{"calendar", "Calendar", "kalend", "calend", "event", "Event", "agenda", "month", "year="} {
		if strings.Contains(s, word) {
			return true
		}
	}
	return false
}
