package report

import (
	"cmp"
	"strings"
)

// reasons has the words of ReasonText. docs/reference/files.md has the same reasons.
var reasons = map[string]string{
	"outOfScope":           "outside --scope",
	"excluded":             "matches --exclude",
	"notIncluded":          "does not match --include",
	"rejected":             "rejected by the program that runs the crawl",
	"tooDeep":              "deeper than --depth",
	"tooDeepInHost":        "deeper in its host than --host-depth",
	"nofollow":             "marked nofollow",
	"sitemapTooDeep":       "a sitemap in an index that is too deep in other indexes",
	"robotsTxt":            "forbidden by robots.txt",
	"hostPageLimit":        "its host has --host-page-limit pages",
	"dropped":              "dropped by the operator",
	"askedByHTTP":          "asked by http instead: no https connection",
	"tooManyRedirects":     "after too many redirects",
	"redirectLoop":         "a redirect back to where it came from",
	"otherAgent":           "on a host of another agent, by --coverage two-level",
	"notALink":             "a path that no other agent may give",
	"seenLost":             "lost with a damaged file",
	"trapURLLength":        "looks like a trap: a very long URL",
	"trapPathLength":       "looks like a trap: a very long path",
	"trapRepeatedSegments": "looks like a trap: repeated path segments",
	"trapQueryArgs":        "looks like a trap: many query arguments",
	"trapQueryExplosion":   "looks like a trap: a path with ever more queries or parameters",
	"trapCalendar":         "looks like a trap: a calendar without an end",
}

// byHosts has the words of ReasonText for settings in the section hosts:, before the prefix.
var byHosts = map[string]string{
	"excluded":      "matches exclude of hosts: ",
	"notIncluded":   "does not match include of hosts: ",
	"tooDeep":       "deeper than depth of hosts: ",
	"tooDeepInHost": "deeper in its host than host-depth of hosts: ",
	"hostPageLimit": "its host has host-page-limit pages, by hosts: ",
}

// ReasonText says in words why a link was not followed. rule is the prefix in the section hosts: whose setting
// decided; empty: a flag or no setting. For an unknown reason it returns "".
func ReasonText(reason, rule string) string {
	if words, ok := byHosts[reason]; ok && rule != "" {
		return words + rule
	}
	return reasons[reason]
}

// ReasonBy returns a reason with the prefix in the section hosts: whose setting decided, as Tally.Skipped takes it.
func ReasonBy(reason, rule string) string {
	if rule == "" {
		return reason
	}
	return reason + "\x00" + rule
}

// SplitReason undoes ReasonBy.
func SplitReason(s string) (reason, rule string) {
	reason, rule, _ = strings.Cut(s, "\x00")
	return reason, rule
}

// failures has the words of ErrorText and ErrorAdvice by kind of error. docs/reference/files.md explains the same
// kinds.
var failures = map[string]struct{ text, advice string }{
	"dns":     {"no address for the host name", "check the spelling; --dns ADDR asks another name server"},
	"connect": {"no connection to the server", "check that the server runs and that no firewall blocks the way"},
	"tls": {"no trusted TLS connection",
		"--ca FILE trusts an authority, --insecure any certificate"},
	"refused-address": {"address that the crawl may not contact",
		"--allow-private allows private addresses, --contact those of other machines"},
	"broken":       {"connection closed before the response", "see the log of the server or proxy"},
	"bad-response": {"answer that is not HTTP", "check the scheme and the port of the URL"},
	"header-too-large": {"response with too large a header",
		"see the log of the server: the crawl reads no such response"},
	"timeout-connect":    {"no connection within --dial-timeout", "check the server, or raise --dial-timeout"},
	"timeout-first-byte": {"no answer within --timeout", "crawl more slowly (--delay), or raise --timeout"},
	"timeout-idle": {"answer that paused longer than --timeout",
		"crawl more slowly (--delay), or raise --timeout"},
	"timeout-total":      {"answer that took longer than --max-time", "raise --max-time"},
	"timeout-rate":       {"answer slower than --min-rate", "crawl more slowly (--delay), or lower --min-rate"},
	"bad-redirect":       {"redirect to something that is no URL", "mend the redirect at the server"},
	"too-many-redirects": {"end of too many redirects", "mend the redirects at the server"},
	"proxy":              {"no connection through the proxy", "see the log of the proxy"},
	"robots-unreachable": {"robots.txt cannot be fetched",
		"\"orbweaver check robots URL\" shows why; the crawl needs the file or an answer 404"},
}

// ErrorText says in words what a kind of error means. It returns an unknown kind as it is.
func ErrorText(kind string) string { return cmp.Or(failures[kind].text, kind) }

// ErrorAdvice says what the operator of a crawl can do about a kind of error, or "".
func ErrorAdvice(kind string) string { return failures[kind].advice }
