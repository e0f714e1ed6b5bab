package report

import (
	"slices"
	"strings"
)

// RedirectProblem returns the annotation of a redirect that leads nowhere, or "".
func RedirectProblem(notes []string) string {
	for _, n := range notes {
		if n == tooManyRedirects || n == badRedirect {
			return n
		}
	}
	return ""
}

const (
	tooManyRedirects = "too-many-redirects"
	badRedirect      = "bad-redirect"
)

// IsBroken reports whether a link to a URL is broken if its last visit ended with this code of crawl.log. problem is
// the annotation of a redirect that leads nowhere; empty: none. A URL that the crawl did not want, or that robots.txt
// forbids, is not broken. A robots.txt that cannot be fetched is nearly always that of a dead server.
func IsBroken(code int, problem string) bool {
	switch code {
	case CodeDNS, CodeConnect, CodeBroken, CodeTimeout, CodePrerequisiteDNS, CodeTooManyRetries, CodeRobotsUnfetchable:
		return true
	}
	return code >= 400 || code >= 300 && (problem == tooManyRedirects || problem == badRedirect)
}

// Broken is IsBroken for the visit of a line.
func (l *Line) Broken() bool { return IsBroken(l.Code, RedirectProblem(l.Notes)) }

// Sitemap reports that the line is of a sitemap. It counts as a file, not as a page.
func (l *Line) Sitemap() bool { return slices.Contains(l.Notes, "sitemap") || l.Guess() }

// Guess reports that nothing names the URL: it is where sites usually have their sitemap. A guess without a response
// 2xx counts as a URL alone: it says nothing of the site.
func (l *Line) Guess() bool { return slices.Contains(l.Notes, "sitemap-guess") }

// tryingHTTP is the annotation of a seed without a scheme whose http URL takes the place of its https URL, because no
// https connection could be made.
const tryingHTTP = "trying-http"

// Replaced reports that another URL has taken the place of the line's URL, or that it is a Guess. So its error is no
// failure of the crawl, unless a page links to the URL.
func (l *Line) Replaced() bool { return slices.Contains(l.Notes, tryingHTTP) || l.Guess() }

// ErrorKind returns the kind of error, or "" if there was none.
func (l *Line) ErrorKind() string {
	for _, n := range l.Notes {
		if kind, ok := strings.CutPrefix(n, "error:"); ok {
			return kind
		}
	}
	return ""
}
