package fetch

import (
	"strings"
	"time"
)

// A Condition makes a request conditional: if the content is still the same, the server answers 304
// without a body (RFC 9110, 13). The zero Condition means "no condition".
type Condition struct {
	ETag         string // sent as If-None-Match
	LastModified string // sent as If-Modified-Since
}

// IsZero reports whether c is empty.
func (c Condition) IsZero() bool { return c == Condition{} }

// maxValidator is the maximum length in bytes of a validator to keep and send back.
const maxValidator = 256

// ConditionOf returns the condition that confirms r's content later. It is zero unless r is a 304
// or a complete 200: after a 304 to a truncated response we would not have the whole content. It
// leaves out validators that cannot be sent back unchanged or that would match anything.
func ConditionOf(r *Response) (c Condition) {
	if r.Failure != nil || r.Status != 200 && r.Status != 304 || r.Truncated != "" {
		return c
	}
	if s := r.Header.Get("ETag"); s != "*" && sendable(s) {
		c.ETag = s
	}
	if s := r.Header.Get("Last-Modified"); sendable(s) {
		if _, ok := httpDate(s); ok {
			c.LastModified = s
		}
	}
	return c
}

func sendable(s string) bool {
	return s != "" && len(s) <= maxValidator && CheckField([2]string{"ETag", s}) == nil
}

// fields returns the request fields to send.
func (c Condition) fields() [2][2]string {
	return [2][2]string{{"If-None-Match", c.ETag}, {"If-Modified-Since", c.LastModified}}
}

// LastModified reads the Last-Modified field. The result is zero if there is no such field or if it
// cannot be read.
func LastModified(h Header) time.Time {
	t, _ := httpDate(h.Get("Last-Modified"))
	return t
}

// httpDate reads a date in any of HTTP's three forms (RFC 9110, 5.6.7). It also accepts a numeric
// zone, which some servers send.
func httpDate(s string) (time.Time, bool) {
	if s = strings.TrimSpace(s); s == "" {
		return time.Time{}, false
	}
	for _, layout := range [...]string{
		"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC1123, time.RFC1123Z, time.RFC850, time.ANSIC,
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// Renew returns c updated with the validators of a 304 (RFC 9110, 15.4.5).
func (c Condition) Renew(from304 Condition) Condition {
	if from304.ETag != "" {
		c.ETag = from304.ETag
	}
	if from304.LastModified != "" {
		c.LastModified = from304.LastModified
	}
	return c
}
