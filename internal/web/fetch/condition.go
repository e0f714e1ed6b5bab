package fetch

import (
	"strings"
	"time"
)

// A Condition makes a request conditional: the server answers 304, without a
// body, if what it has is still what it sent then (RFC 9110, 13). The zero
// Condition is none.
type Condition struct {
	ETag         string // sent as If-None-Match
	LastModified string // sent as If-Modified-Since
}

// IsZero says that c is no condition.
func (c Condition) IsZero() bool { return c == Condition{} }

// maxValidator bounds what is kept and sent back of a validator.
const maxValidator = 256

// ConditionOf is the condition by which r's content can be confirmed later. It
// is zero for all but a complete 200, of which a 304 would say that all is in
// our hands, and a 304. Validators that could not be sent back as they came,
// and those that would match anything, are left out.
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
	return s != "" && len(s) <= maxValidator && checkField([2]string{"ETag", s}) == nil
}

// fields are the lines to send.
func (c Condition) fields() [2][2]string {
	return [2][2]string{{"If-None-Match", c.ETag}, {"If-Modified-Since", c.LastModified}}
}

// LastModified reads the field of this name; zero where there is none or it
// cannot be read.
func LastModified(h Header) time.Time {
	t, _ := httpDate(h.Get("Last-Modified"))
	return t
}

// httpDate reads a date in any of HTTP's three forms (RFC 9110, 5.6.7), and
// with a numeric zone, which some servers send.
func httpDate(s string) (time.Time, bool) {
	if s = strings.TrimSpace(s); s == "" {
		return time.Time{}, false
	}
	for _, layout := range [...]string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC1123, time.RFC1123Z, time.RFC850, time.ANSIC} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// Renew is c with what a 304 said of its validators (RFC 9110, 15.4.5).
func (c Condition) Renew(said Condition) Condition {
	if said.ETag != "" {
		c.ETag = said.ETag
	}
	if said.LastModified != "" {
		c.LastModified = said.LastModified
	}
	return c
}
