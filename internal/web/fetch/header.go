package fetch

import (
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/message"
)

// A Field is one line of a Header.
type Field = message.Field

// A Header holds a response's fields in their original order.
type Header = message.Header

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

// Redirect returns the target of a redirect: the Location field, unchanged, of a 300, 301, 302,
// 303, 307 or 308 (RFC 9110, 15.4). ok is false if r is not a redirect or has no Location.
func Redirect(r *Response) (location string, ok bool) {
	switch r.Status {
	case 300, 301, 302, 303, 307, 308:
		location = r.Header.Get("Location")
	}
	return location, location != ""
}
