package scope

import (
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// segments counts the segments of path, which begins with a slash. A trailing slash does not begin
// a segment.
func segments(path string) int {
	return strings.Count(strings.TrimSuffix(path, "/"), "/")
}

// maxExamined is the maximum number of segments that repeated looks at.
const maxExamined = 256

// repeated returns how often a segment, or a sequence of segments, stands in path in a row: 3 for
// /a/b/a/b/a/b/. It returns the largest such number. The last segment, a page's name, counts only
// if a slash follows it.
func repeated(path string) int {
	var s segmentStarts
	n := s.read(path)
	most := min(n, 1)
	for period := 1; period*2 <= n; period++ {
		if run := s.run(path, n, period); run > 0 {
			most = max(most, run/period+1)
		}
	}
	return most
}

// repeats reports whether repeated(path) > most. It looks only at periods that fit into path often
// enough.
func repeats(path string, most int) bool {
	if most < 1 {
		return repeated(path) > most
	}
	switch n := strings.Count(path, "/") - 1; {
	case n <= most:
		return false
	case n < 2*(most+1): // too short for repeated sequences: only a single segment can repeat
		run, before := 0, ""
		for rest := path[1:]; ; {
			i := strings.IndexByte(rest, '/')
			if i < 0 {
				return false
			}
			seg := rest[:i+1]
			if rest = rest[i+1:]; seg != before || seg == "/" {
				run, before = 0, seg
				continue
			}
			if run++; run == most {
				return true
			}
		}
	}
	var s segmentStarts
	n := s.read(path)
	for period := 1; period*(most+1) <= n; period++ {
		if s.run(path, n, period) >= most*period {
			return true
		}
	}
	return false
}

// crowded reports whether a segment stands in path more than most times, in any position. Traps
// that append one of two words at a time repeat nothing in a row.
func crowded(path string, most int) bool {
	return strings.Count(path, "/")-1 > most && commonest(path) > most
}

// commonest returns how often the commonest segment stands in path. Empty segments do not count.
// The last segment counts only if a slash follows it.
func commonest(path string) int {
	var s segmentStarts
	n, most := s.read(path), 0
	for i := 0; i+most < n; i++ {
		seg, k := path[s[i]:s[i+1]], 0
		for j := i; j < n && seg != "/"; j++ {
			if path[s[j]:s[j+1]] == seg {
				k++
			}
		}
		most = max(most, k)
	}
	return most
}

// segmentStarts are the offsets of the segments of a path: segment i is path[s[i]:s[i+1]], which
// includes the slash after it.
type segmentStarts [maxExamined + 1]uint16

// read fills s from path and returns the number of segments that a slash follows.
func (s *segmentStarts) read(path string) int {
	n := 0
	for i := 0; i < len(path) && n < maxExamined; i++ {
		if path[i] == '/' {
			s[n] = uint16(i + 1)
			n++
		}
	}
	return n - 1
}

// run returns the length of the longest run of segments that equal the segment a period before.
// Empty segments do not count as repeated.
func (s *segmentStarts) run(path string, n, period int) int {
	seg := func(i int) string { return path[s[i]:s[i+1]] }
	run, most := 0, 0
	for i := period; i < n; i++ {
		if seg(i) != seg(i-period) || period == 1 && seg(i) == "/" {
			run = 0
			continue
		}
		run++
		most = max(most, run)
	}
	return most
}

// queryArgs returns the number of arguments of u's query.
func queryArgs(u weburl.URL) int {
	q, ok := u.Query()
	if !ok || q == "" {
		return 0
	}
	return 1 + strings.Count(q, "&")
}

const (
	// yearsAhead is how many years into the future the date of a page may plausibly lie.
	yearsAhead = 2
	// A number outside of this range is not taken for a year: it may be a part's number, a port or
	// a count.
	leastYear, lastYear = 1900, 2999
	// firstYear is the first year to follow in calendars. Outside of calendars, older dates are
	// history.
	firstYear = 1970
)

// strayYear returns the year of a date in u that only an endless calendar would show, or 0. Such a
// date is after the year last, or before 1970 if the URL names a calendar. A date is whole segments
// of the path (/2041/07/, /2041-07-21), a whole value of the query (month=2041-07), or two values
// (year=2041&month=7). Digits within a word or a name (ISO-8859-1, 2041-07-report) are not a date.
func strayYear(u weburl.URL, last int) int {
	path := strings.TrimPrefix(u.Path(), "/")
	query, _ := u.Query()
	stray := func(year int) bool {
		return year > last || year != 0 && year < firstYear && namesCalendar(u.Path(), query)
	}
	for path != "" {
		var segment string
		segment, path, _ = strings.Cut(path, "/")
		if year := monthOf(segment); stray(year) {
			return year
		}
		if month, _, _ := strings.Cut(path, "/"); isMonth(month) {
			if year := yearOf(segment); stray(year) {
				return year
			}
		}
	}
	year, month := 0, false
	for query != "" {
		var arg string
		arg, query, _ = strings.Cut(query, "&")
		key, value, _ := strings.Cut(arg, "=")
		if y := monthOf(value); stray(y) {
			return y
		}
		switch key = strings.ToLower(key); {
		case key == "y" || strings.HasSuffix(key, "year"):
			year = yearOf(value)
		case key == "m" || strings.HasSuffix(key, "month"):
			month = isMonth(value)
		}
	}
	if month && stray(year) {
		return year
	}
	return 0
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// yearOf reads a year of four digits. It returns 0 if s is not a year.
func yearOf(s string) int {
	if len(s) != 4 {
		return 0
	}
	n := 0
	for i := range len(s) {
		if !isDigit(s[i]) {
			return 0
		}
		n = n*10 + int(s[i]-'0')
	}
	if n < leastYear || n > lastYear {
		return 0
	}
	return n
}

// isNumber reports whether s is a number of one or two digits from 1 to most.
func isNumber(s string, most int) bool {
	if len(s) == 0 || len(s) > 2 || !isDigit(s[0]) || !isDigit(s[len(s)-1]) {
		return false
	}
	n := int(s[len(s)-1] - '0')
	if len(s) == 2 {
		n += 10 * int(s[0]-'0')
	}
	return n >= 1 && n <= most
}

func isMonth(s string) bool { return isNumber(s, 12) }

// monthOf returns the year of a month or day that is all of s: 2041-07 or 2041-7-21. A time of day
// after a T, or an extension after a dot, may follow. It returns 0 if s is not such a date.
func monthOf(s string) int {
	if len(s) < len("2041-7") || s[4] != '-' {
		return 0
	}
	date := s
	if i := strings.IndexAny(s, ".T"); i > 0 {
		date = s[:i]
	}
	if len(date) < len("2041-7") {
		return 0
	}
	month, day, found := strings.Cut(date[5:], "-")
	if !isMonth(month) || found && !isNumber(day, 31) {
		return 0
	}
	return yearOf(date[:4])
}

// calendars are the words that name a calendar in a URL. They must be whole words, with no other
// letters next to them.
var calendars = map[string]bool{
	"calendar": true, "calendars": true, "kalender": true, "calendrier": true, "calendario": true,
	"agenda": true, "event": true, "events": true, "month": true, "cal": true,
}

func namesCalendar(path, query string) bool {
	for _, part := range [...]string{path, query} {
		for word := range strings.FieldsFuncSeq(part, func(r rune) bool { return (r|0x20 < 'a' || r|0x20 > 'z') }) {
			if calendars[strings.ToLower(word)] {
				return true
			}
		}
	}
	return false
}
