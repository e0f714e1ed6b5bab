package report

// reasons has the words of ReasonText. docs/reference/files.md has the same reasons.
var reasons = map[string]string{
	"outOfScope":           "outside --scope",
	"excluded":             "matches --exclude",
	"notIncluded":          "does not match --include",
	"rejected":             "rejected by the program that runs the crawl",
	"tooDeep":              "deeper than --depth",
	"nofollow":             "marked nofollow",
	"robotsTxt":            "forbidden by robots.txt",
	"hostPageLimit":        "its host has --host-page-limit pages",
	"dropped":              "dropped by the operator",
	"tooManyRedirects":     "after too many redirects",
	"notALink":             "a path that no other agent may give",
	"seenLost":             "lost with a damaged file",
	"trapURLLength":        "looks like a trap: a very long URL",
	"trapPathLength":       "looks like a trap: a very long path",
	"trapRepeatedSegments": "looks like a trap: repeated path segments",
	"trapQueryArgs":        "looks like a trap: many query arguments",
	"trapQueryExplosion":   "looks like a trap: a path with ever more queries",
	"trapCalendar":         "looks like a trap: a calendar without an end",
}

// ReasonText says in words why a link was not followed. For an unknown reason it returns "".
func ReasonText(reason string) string { return reasons[reason] }
