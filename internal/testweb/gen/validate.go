package gen

import (
	"net/http"
	"strconv"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// A kind tells which validators (ETag, Last-Modified) a page has.
type kind uint8

const (
	restless kind = iota // different ones in each response, even without a change
	stuck                // always the same ones
	silent               // none
	etagOnly
	modifiedOnly
	both
	numKinds
)

// validators are the ETag and the Last-Modified of a response.
type validators struct {
	etag     string
	modified time.Time // in whole seconds
}

// kindOf returns the kind of a page's validators.
func (w *Web) kindOf(p process) kind {
	h := mix(p.h + golden)
	for k, upTo := range w.changes.kinds {
		if hit(h, upTo) {
			return kind(k)
		}
	}
	return both
}

// validatorsOf returns the validators of a response at time `at` with the version that began at last, both in
// nanoseconds since Start. gz means that the response is in gzip.
//
// A Last-Modified within the current second is left out, because another change in that second would have the same one
// (RFC 9110, 8.8.2.2).
func (w *Web) validatorsOf(p process, at, last int64, gz bool) (v validators) {
	k := w.kindOf(p)
	tag := p.version(last)
	switch k {
	case silent:
		return v
	case restless:
		tag = p.version(at)
		last = at - int64(time.Second)
	case stuck:
		tag = p.version(0)
		last = -int64(time.Hour)
	}
	if k != modifiedOnly {
		var b [24]byte
		text := strconv.AppendUint(append(b[:0], '"'), tag, 36)
		if gz { // gzip is another representation, with its own ETag (RFC 9110, 8.8.3.3)
			text = append(text, "-gz"...)
		}
		v.etag = string(append(text, '"'))
	}
	if k != etagOnly {
		start := w.changes.start
		m := time.Unix(0, start+last).UTC().Truncate(time.Second)
		if m.Unix() < time.Unix(0, start+at).Unix() {
			v.modified = m
		}
	}
	return v
}

// confirm reports whether the response to a conditional request is a 304 (RFC 9110, 13.1.2 and 13.1.3).
func (v *validators) confirm(q *testweb.Query) bool {
	if q.IfNoneMatch != "" {
		return testweb.MatchesETag(q.IfNoneMatch, v.etag)
	}
	if q.IfModifiedSince == "" || v.modified.IsZero() {
		return false
	}
	since, err := http.ParseTime(q.IfModifiedSince)
	return err == nil && !v.modified.After(since)
}

// appendTo appends the header fields, each with its line end.
func (v *validators) appendTo(dst []byte) []byte {
	if v.etag != "" {
		dst = append(append(append(dst, "ETag: "...), v.etag...), "\r\n"...)
	}
	if !v.modified.IsZero() {
		dst = append(dst, "Last-Modified: "...)
		dst = append(v.modified.AppendFormat(dst, http.TimeFormat), "\r\n"...)
	}
	return dst
}

// notModified appends a 304 for a page.
func (v *validators) notModified(dst []byte, q *testweb.Query, page int64) ([]byte, testweb.Reply) {
	start := len(dst)
	dst = append(dst, "HTTP/1.1 304 Not Modified\r\nServer: testweb\r\n"...)
	dst = v.appendTo(dst)
	if q.Gzip {
		dst = append(dst, "Vary: Accept-Encoding\r\n"...)
	}
	if q.Close {
		dst = append(dst, "Connection: close\r\n"...)
	}
	dst = append(dst, "\r\n"...)
	return dst, testweb.Reply{Status: 304, HeadLen: len(dst) - start, Page: page}
}
