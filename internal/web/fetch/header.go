package fetch

import (
	"strconv"
	"strings"
	"time"
)

// Field is one line of a header. A line without a colon is a Field with an empty Name.
type Field struct{ Name, Value string }

// Header holds a response's fields in their original order.
type Header []Field

// Get returns the first value of name, or "". It ignores letter case.
func (h Header) Get(name string) string {
	for i := range h {
		if len(h[i].Name) == len(name) && strings.EqualFold(h[i].Name, name) {
			return h[i].Value
		}
	}
	return ""
}

// Values returns all values of name in their order. It ignores letter case.
func (h Header) Values(name string) []string {
	var vs []string
	for i := range h {
		if len(h[i].Name) == len(name) && strings.EqualFold(h[i].Name, name) {
			vs = append(vs, h[i].Value)
		}
	}
	return vs
}

// tokens calls f for each comma-separated element of all values of name. It stops when f returns
// false.
func (h Header) tokens(name string, f func(string) bool) {
	for i := range h {
		if len(h[i].Name) != len(name) || !strings.EqualFold(h[i].Name, name) {
			continue
		}
		for t := range strings.SplitSeq(h[i].Value, ",") {
			if t = trim(t); t != "" && !f(t) {
				return
			}
		}
	}
}

func (h Header) hasToken(name, token string) (found bool) {
	h.tokens(name, func(t string) bool {
		found = strings.EqualFold(t, token)
		return !found
	})
	return found
}

// maxFields is the maximum number of lines in a header.
const maxFields = 5000

// parseFields reads the lines after the status line, up to the empty line. It accepts what the web
// sends: bare LF, spaces before the colon, lines without a colon, and folded lines (RFC 9112, 5.2),
// which it joins with a space. ok is false if there are more than maxFields lines.
func parseFields(s string) (h Header, ok bool) {
	n := strings.Count(s, "\n")
	h = make(Header, 0, min(n, maxFields))
	for s != "" {
		line, rest, _ := strings.Cut(s, "\n")
		s = rest
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			break
		}
		if (line[0] == ' ' || line[0] == '\t') && len(h) > 0 {
			var fold []string
			for {
				if t := trim(line); t != "" {
					fold = append(fold, t)
				}
				if s == "" || (s[0] != ' ' && s[0] != '\t') {
					break
				}
				line, s, _ = strings.Cut(s, "\n")
				line = strings.TrimSuffix(line, "\r")
			}
			if last := &h[len(h)-1]; len(fold) > 0 {
				last.Value = strings.TrimLeft(last.Value+" "+strings.Join(fold, " "), " ")
			}
			continue
		}
		if len(h) == maxFields {
			return h, false
		}
		if name, value, colon := strings.Cut(line, ":"); colon {
			h = append(h, Field{trim(name), trim(value)})
		} else {
			h = append(h, Field{"", trim(line)})
		}
	}
	return h, true
}

// trim removes optional white space (RFC 9110, 5.6.3).
func trim(s string) string { return strings.Trim(s, " \t") }

// parseStatus reads a status line without its line end: HTTP/d[.d] SP 3DIGIT [SP reason]. It
// accepts more than one space and a missing reason.
func parseStatus(line string) (proto string, major, minor, status int, ok bool) {
	line = strings.TrimRight(line, "\r")
	rest, is := strings.CutPrefix(line, "HTTP/")
	if !is || rest == "" || rest[0] < '0' || rest[0] > '9' {
		return "", 0, 0, 0, false
	}
	major, n := int(rest[0]-'0'), 1
	if len(rest) > 2 && rest[1] == '.' && rest[2] >= '0' && rest[2] <= '9' {
		minor, n = int(rest[2]-'0'), 3
	}
	proto = line[:len("HTTP/")+n]
	rest = rest[n:]
	code := strings.TrimLeft(rest, " \t")
	if len(code) == len(rest) || len(code) < 3 {
		return "", 0, 0, 0, false
	}
	for i := range 3 {
		if code[i] < '0' || code[i] > '9' {
			return "", 0, 0, 0, false
		}
		status = status*10 + int(code[i]-'0')
	}
	if len(code) > 3 && code[3] != ' ' && code[3] != '\t' || status < 100 {
		return "", 0, 0, 0, false
	}
	return proto, major, minor, status, true
}

// headEnd returns the index after the empty line that ends a header, or -1. from is the length of b
// in an earlier call that returned -1.
func headEnd(b []byte, from int) int {
	for i := max(from-2, 0); i < len(b); i++ {
		if b[i] != '\n' {
			continue
		}
		if i+1 < len(b) && b[i+1] == '\n' {
			return i + 2
		}
		if i+2 < len(b) && b[i+1] == '\r' && b[i+2] == '\n' {
			return i + 3
		}
	}
	return -1
}

// maxRetryAfter is the longest wait that a server can ask for.
const maxRetryAfter = 24 * time.Hour

// RetryAfter reads the Retry-After field: seconds or an HTTP date (RFC 9110, 10.2.3). d is from 0
// to 24 hours. ok is false if there is no such field or if it cannot be read.
func RetryAfter(h Header, now time.Time) (d time.Duration, ok bool) {
	v := h.Get("Retry-After")
	if v == "" {
		return 0, false
	}
	if strings.Trim(v, "0123456789") == "" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter, true
		}
		return time.Duration(n) * time.Second, true
	}
	if t, ok := httpDate(v); ok {
		return min(max(t.Sub(now), 0), maxRetryAfter), true
	}
	return 0, false
}

// ReadHead reads the status line and the fields of a stored HTTP header, as Fetch reads them from the network. ok is
// false if it does not begin with a status line.
func ReadHead(head []byte) (status int, h Header, ok bool) {
	line, fields, _ := strings.Cut(string(head), "\n")
	if _, _, _, status, ok = parseStatus(line); !ok {
		return 0, nil, false
	}
	h, _ = parseFields(fields)
	return status, h, true
}

// Redirect returns the target of a redirect: the Location field, unchanged, of a 300, 301, 302,
// 303, 307 or 308 (RFC 9110, 15.4). ok is false if r is not a redirect or has no Location.
func Redirect(r *Response) (location string, ok bool) {
	switch r.Status {
	case 300, 301, 302, 303, 307, 308:
		location = r.Header.Get("Location")
	}
	return location, location != ""
}
