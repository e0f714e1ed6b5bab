package report

import "strconv"

// Codes for crawl.log if there is no HTTP status. They are Heritrix's (FetchStatusCodes), so that its users and tools
// know them.
const (
	CodeUnattempted          = 0     // never tried
	CodeDNS                  = -1    // the host has no address
	CodeConnect              = -2    // no connection
	CodeBroken               = -3    // the connection broke, or the response is not HTTP
	CodeTimeout              = -4    // no answer in time
	CodeUnexpected           = -5    // an error inside the crawler
	CodePrerequisiteDNS      = -6    // the DNS look-up before the visit failed
	CodeUnfetchable          = -7    // not a URL that can be fetched
	CodeTooManyRetries       = -8    // all attempts failed
	CodeDeferred             = -50   // the URL waits for a prerequisite
	CodeUnqueueable          = -60   // the frontier refused the URL
	CodeRobotsUnfetchable    = -61   // robots.txt could not be fetched
	CodePrerequisite         = -62   // another prerequisite failed
	CodePrerequisiteUnqueued = -63   // a prerequisite could not be queued
	CodeSeriousError         = -3000 // the crawler ran out of a resource
	CodeTrap                 = -4000 // the URL looks like part of a crawler trap
	CodeTooManyHops          = -4001 // deeper than the depth limit
	CodeTooManyEmbedHops     = -4002 // too many embeds or redirects in a row
	CodeOutOfScope           = -5000 // outside the scope at the time of the visit
	CodeBlockedByUser        = -5001 // private or loopback address, or a host that the operator blocked
	CodeBlockedByRule        = -5002 // a rule forbids the URL
	CodeQuota                = -5003 // over the limit of its host or of the crawl
	CodeTimeLimit            = -5004 // the time limit of the crawl had passed
	CodeDeletedByUser        = -6000 // the operator removed it from the frontier
	CodeKilled               = -7000 // the visit was cancelled
	CodeRobotsDenied         = -9998 // robots.txt forbids it
)

var codeWords = map[int]string{
	CodeUnattempted:          "not tried",
	CodeDNS:                  "DNS look-up failed",
	CodeConnect:              "connection failed",
	CodeBroken:               "connection broken",
	CodeTimeout:              "timeout",
	CodeUnexpected:           "unexpected error",
	CodePrerequisiteDNS:      "DNS prerequisite failed",
	CodeUnfetchable:          "not fetchable",
	CodeTooManyRetries:       "retries exhausted",
	CodeDeferred:             "deferred",
	CodeUnqueueable:          "not queueable",
	CodeRobotsUnfetchable:    "robots.txt unreachable",
	CodePrerequisite:         "prerequisite failed",
	CodePrerequisiteUnqueued: "prerequisite not queueable",
	CodeSeriousError:         "serious error",
	CodeTrap:                 "trap",
	CodeTooManyHops:          "too many hops",
	CodeTooManyEmbedHops:     "too many embeds or redirects",
	CodeOutOfScope:           "out of scope",
	CodeBlockedByUser:        "address refused: private or loopback",
	CodeBlockedByRule:        "blocked by a rule",
	CodeQuota:                "over quota",
	CodeTimeLimit:            "time limit",
	CodeDeletedByUser:        "deleted by the operator",
	CodeKilled:               "cut off",
	CodeRobotsDenied:         "denied by robots.txt",
}

// CodeText describes a negative code, or 0, in words. For an HTTP status, which has its own words, it returns "".
func CodeText(code int) string {
	if s, ok := codeWords[code]; ok {
		return s
	}
	if code < 0 {
		return "code " + strconv.Itoa(code)
	}
	return ""
}
