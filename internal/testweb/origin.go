package testweb

import (
	"net/netip"
	"strings"
	"time"
)

// An Origin makes hosts and pages up as they are asked for: none of them is
// stored, so that their number costs no memory. All methods are pure functions
// of their arguments and of what the Origin was made with, and safe for
// concurrent use.
type Origin interface {
	// Find is the number of the host that has this name, in lower case and
	// without a final dot; ok is false where there is no such host. The name is
	// valid during the call only.
	Find(name string) (host int64, ok bool)
	// Host describes a host that Find has found.
	Host(host int64) OriginHost
	// Answer appends the whole response, status line to last byte of the body,
	// to dst, and says what it is and how it is to be sent. It does not allocate
	// for an ordinary page when dst has room.
	Answer(dst []byte, q Query) ([]byte, Reply)
	// Hosts is how many there are; each has a number from 0 to Hosts()-1.
	Hosts() int64
}

// An OriginHost is what the server and the tracker must know of a host.
type OriginHost struct {
	Name string
	// Site is its registered domain.
	Site string
	// Addr is its address in 127.0.0.0/8; hosts may share one.
	Addr netip.Addr
	// Pages are the pages that it has, numbered from 0; the tracker counts
	// the fetches of each in two bits.
	Pages int64
	// CrawlDelay is what its robots.txt asks for; zero asks for nothing.
	CrawlDelay time.Duration
	TLS        TLSFault
	DNS        DNSFault
}

// A Query is one request to an Origin.
type Query struct {
	Host   int64
	Target string // request target as sent, origin form; valid during the call only
	Gzip   bool   // the client takes gzip
	Secure bool   // asked by HTTPS
	Head   bool   // HEAD: the body is left out
	Close  bool   // the connection ends with this response, and the response says so
	// Answered is how often this very URL was answered before (from 0; at
	// most 3 are counted): what is broken for a while is mended by asking again.
	// Answers that were pages (Reply.Page not below 0) are not counted: what was
	// a page once stays one.
	Answered int
	// At is when it is answered. It is set for an Origin whose pages change only.
	At time.Time
	// IfNoneMatch and IfModifiedSince are the request's fields of these names,
	// empty where there is none.
	IfNoneMatch, IfModifiedSince string
}

// A Changing says when the pages of an Origin change. It is a pure function of
// its arguments and safe for concurrent use.
type Changing interface {
	// Changed is when a page changed last, at or before a time, and when it
	// changes next; the zero time means never.
	Changed(host, page int64, at time.Time) (last, next time.Time)
}

// MatchesETag reports whether the value of an If-None-Match field names an ETag
// by the weak comparison, or is "*" (RFC 9110, 13.1.2). An empty etag, which
// stands for none, matches "*" only.
func MatchesETag(field, etag string) bool {
	if strings.Trim(field, " \t") == "*" {
		return true
	}
	etag = strings.TrimPrefix(etag, "W/")
	for etag != "" {
		field = strings.TrimPrefix(strings.TrimLeft(field, " \t,"), "W/")
		if len(field) == 0 || field[0] != '"' {
			return false
		}
		end := strings.IndexByte(field[1:], '"') + 2
		if end < 2 {
			return false
		}
		if field[:end] == etag {
			return true
		}
		field = field[end:]
	}
	return false
}

// A Reply says what a response is.
type Reply struct {
	Status  int
	HeadLen int // bytes of the response's header, empty line included
	// Page is the page's number in its host; -1 for all else (robots.txt,
	// sitemaps, redirects, errors, traps).
	Page int64
	// Denied says that the host's robots.txt forbids the target; Rule is that line.
	Denied bool
	Rule   string
	// RetryAfter is what the response asks for; zero: nothing.
	RetryAfter time.Duration
	// Trap is how deep in an endless part of the host the target lies; 0: in none.
	Trap int
	// Wait is the time before the first byte.
	Wait time.Duration
	// Pace sends the body in pieces of 1 KiB with this time between; zero at once.
	Pace time.Duration
	// Fault is how the connection ends, after Cut bytes of the response.
	Fault Fault
	Cut   int
}

// A Fault is a way in which a server fails to answer.
type Fault uint8

// The faults.
const (
	NoFault    Fault = iota
	HangAfter        // sends Cut bytes, then nothing, until the client leaves
	ResetAfter       // sends Cut bytes, then RST
	CloseAfter       // sends Cut bytes, then FIN; with more than there are it is how a whole response ends
)

// A Truth says which pages of an Origin a crawl can reach within its bounds,
// for the Report to hold the crawl against. It is safe for concurrent use.
type Truth interface {
	// Reachable is the number of pages that can be reached.
	Reachable() int64
	// Has says whether this page is one of them.
	Has(host, page int64) bool
	// Each calls f for each of them, those of a host one after the other.
	Each(f func(host, page int64))
	// URL is the page's URL, for the report to name it by.
	URL(host, page int64) string
}
