package cookie

import (
	"net/http"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// parse reads a Set-Cookie field as browsers and curl do (RFC 6265, 5.2), which accept more than the grammar for
// servers (4.1): any octets in name and value but control characters, for example. The value keeps its quotes. ok is
// false for a field that sets no cookie.
func parse(field string) (c *http.Cookie, ok bool) {
	if hasControl(field) {
		return nil, false // RFC 6265bis, 5.6
	}
	pair, rest, _ := strings.Cut(field, ";")
	name, value, found := strings.Cut(pair, "=")
	c = &http.Cookie{Name: trim(name), Value: trim(value)}
	if !found || c.Name == "" {
		return nil, false
	}
	for rest != "" {
		var attribute string
		attribute, rest, _ = strings.Cut(rest, ";")
		key, value, _ := strings.Cut(attribute, "=")
		value = trim(value)
		switch strings.ToLower(trim(key)) {
		case "expires":
			if t, ok := date(value); ok {
				c.Expires = t
			}
		case "max-age":
			if n, ok := seconds(value); ok {
				c.MaxAge = n
			}
		case "domain":
			c.Domain = strings.TrimPrefix(value, ".")
			if u, err := weburl.Parse("http://" + c.Domain + "/"); err == nil && u.RequestURI() == "/" {
				c.Domain = u.Host()
			}
		case "path":
			c.Path = value
		case "secure":
			c.Secure = true
		case "httponly":
			c.HttpOnly = true
		}
	}
	return c, true
}

func trim(s string) string { return strings.Trim(s, " \t") }

// hasControl reports whether s has an octet that cannot stand in a header.
func hasControl(s string) bool {
	for i := range len(s) {
		if b := s[i]; b < ' ' && b != '\t' || b == 0x7f {
			return true
		}
	}
	return false
}

// seconds reads a Max-Age (RFC 6265, 5.2.2) in the form of http.Cookie: a negative number deletes the cookie.
func seconds(s string) (n int, ok bool) {
	digits, negative := strings.CutPrefix(s, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	const most = 400 * 24 * 3600 // RFC 6265bis, 5.6.2
	for i := 0; i < len(digits) && n < most; i++ {
		n = n*10 + int(digits[i]-'0')
	}
	if negative || n == 0 {
		return -1, true
	}
	return min(n, most), true
}

// date reads a cookie-date (RFC 6265, 5.1.1): the first time, day, month and year in s, in any order.
func date(s string) (t time.Time, ok bool) {
	const months = "janfebmaraprmayjunjulaugsepoctnovdec"
	hour, minute, second, day, month, year := -1, 0, 0, -1, -1, -1
	for token := range strings.FieldsFuncSeq(s, func(r rune) bool {
		return r == '\t' || ' ' <= r && r <= '/' || ';' <= r && r <= '@' || '[' <= r && r <= '`' || '{' <= r && r <= '~'
	}) {
		h, a := number(token, 1, 2)
		m, b := number(strings.TrimPrefix(a, ":"), 1, 2)
		sec, _ := number(strings.TrimPrefix(b, ":"), 1, 2)
		d, _ := number(token, 1, 2)
		y, _ := number(token, 2, 4)
		name := strings.ToLower(token[:min(3, len(token))])
		switch at := strings.Index(months, name); {
		case hour < 0 && h >= 0 && m >= 0 && sec >= 0 && a[0] == ':' && b[0] == ':':
			hour, minute, second = h, m, sec
		case day < 0 && d >= 0:
			day = d
		case month < 0 && len(name) == 3 && at >= 0 && at%3 == 0:
			month = at/3 + 1
		case year < 0 && y >= 0:
			year = y
		}
	}
	switch {
	case 70 <= year && year <= 99:
		year += 1900
	case 0 <= year && year <= 69:
		year += 2000
	}
	if hour < 0 || hour > 23 || minute > 59 || second > 59 || day < 1 || month < 0 || year < 1601 {
		return t, false
	}
	t = time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	return t, t.Day() == day
}

// number reads a number of least to most digits at the beginning of s, and returns the rest. n is -1 if there is none
// or if more digits follow.
func number(s string, least, most int) (n int, rest string) {
	i := 0
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		if i < most {
			n = n*10 + int(s[i]-'0')
		}
		i++
	}
	if i < least || i > most {
		return -1, ""
	}
	return n, s[i:]
}
