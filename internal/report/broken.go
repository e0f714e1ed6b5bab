package report

import (
	"slices"
	"strings"
)

// brokenKinds are the kinds of errors that make a link broken. Not among them are errors that say nothing about the
// link: a robots.txt that cannot be fetched, an address that the crawl refuses, the crawl's own proxy.
var brokenKinds = []string{"dns", "connect", "tls", "broken", "bad-response", "header-too-large", "timeout-connect",
	"timeout-first-byte", "timeout-idle", "timeout-total", "timeout-rate"}

// Broken reports whether the visit shows that links to its URL are broken: the status is 4xx or 5xx, no response came
// for a reason that lies with the server, or the redirect cannot be followed.
func (l *Line) Broken() bool {
	switch {
	case l.Code >= 400:
		return true
	case l.Code >= 300:
		return slices.Contains(l.Notes, "too-many-redirects") || slices.Contains(l.Notes, "bad-redirect")
	}
	return l.Code < 0 && slices.Contains(brokenKinds, l.ErrorKind())
}

// ErrorKind returns the kind of error, or "" if there was none.
func (l *Line) ErrorKind() string {
	for _, n := range l.Notes {
		if kind, ok := strings.CutPrefix(n, "error:"); ok {
			return kind
		}
	}
	return ""
}
