package report

import "strconv"

// Codes for crawl.log where there is no HTTP status: Heritrix's
// (FetchStatusCodes), so that its users and tools know them.
const (
	CodeUnattempted          = 0     // never tried
	CodeDNS                  = -1    // the host has no address
	CodeConnect              = -2    // no connection
	CodeBroken               = -3    // the connection broke, or what came is not HTTP
	CodeTimeout              = -4    // no answer in time
	CodeUnexpected           = -5    // an error of the crawler's own
	CodePrerequisiteDNS      = -6    // the look-up that had to come first failed
	CodeUnfetchable          = -7    // not a URL that can be fetched
	CodeTooManyRetries       = -8    // all attempts failed
	CodeDeferred             = -50   // waits for a prerequisite
	CodeUnqueueable          = -60   // the frontier would not take it
	CodeRobotsUnfetchable    = -61   // robots.txt could not be had
	CodePrerequisite         = -62   // another prerequisite failed
	CodePrerequisiteUnqueued = -63   // a prerequisite could not be queued
	CodeSeriousError         = -3000 // the crawler ran out of something
	CodeTrap                 = -4000 // taken for a trap or chaff
	CodeTooManyHops          = -4001 // deeper than the depth limit
	CodeTooManyEmbedHops     = -4002 // too many embeds or redirects in a row
	CodeOutOfScope           = -5000 // outside the scope when its turn came
	CodeBlockedByUser        = -5001 // private or loopback address, or a host that the operator blocked
	CodeBlockedByRule        = -5002 // refused by a rule
	CodeQuota                = -5003 // over the limit of its host or of the crawl
	CodeTimeLimit            = -5004 // the crawl's time was over
	CodeDeletedByUser        = -6000 // taken from the frontier by the operator
	CodeKilled               = -7000 // the visit was cut off
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

// CodeText says in words what a negative code means; for an HTTP status, which
// has its own words, it returns "".
func CodeText(code int) string {
	if s, ok := codeWords[code]; ok {
		return s
	}
	if code < 0 {
		return "code " + strconv.Itoa(code)
	}
	return ""
}
