package testweb

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// An Origin generates hosts and pages when they are requested. It stores none, so their number costs no memory. All
// methods are pure functions of their arguments and of the Origin's parameters, and safe for concurrent use.
type Origin interface {
	// Find returns the number of the host with this name. The name is in lower case and without a final dot, and valid
	// during the call only. ok is false if there is no such host.
	Find(name string) (host int64, ok bool)
	// Host describes a host that Find returned.
	Host(host int64) OriginHost
	// Answer appends the whole response, from the status line to the last byte of the body, to dst and returns the
	// result. The Reply describes the response and how to send it. If dst has room, Answer does not allocate memory
	// for an ordinary page.
	Answer(dst []byte, q Query) ([]byte, Reply)
	// Hosts returns the number of hosts; their numbers are 0 to Hosts()-1.
	Hosts() int64
}

// An OriginHost is what the server and the tracker need to know of a host.
type OriginHost struct {
	Name string
	// Site is the host's registered domain.
	Site string
	// Addr is the host's address in 127.0.0.0/8. Hosts may share one.
	Addr netip.Addr
	// Pages is the number of the host's pages, which are numbered from 0. The tracker keeps two bits for each.
	Pages int64
	// CrawlDelay is the delay that the host's robots.txt asks for; zero: none.
	CrawlDelay time.Duration
	TLS        TLSFault
	DNS        DNSFault
}

// A Query is one request to an Origin.
type Query struct {
	Host   int64
	Target string // request target as sent, in origin form; valid during the call only
	Gzip   bool   // the client accepts gzip
	Secure bool   // the request came over HTTPS
	Port   uint16 // the port of the URL, if it is one of Config.Ports, else 0
	Head   bool   // the method is HEAD, so the response has no body
	Close  bool   // the connection ends with this response, and the response says so
	// Answered is how many requests for this URL have ended before, from 0 to at most 3. So a page can be broken for
	// the first requests and then work. Answers that were pages (Reply.Page not below 0) are not counted, because a URL
	// that was a page once stays one.
	Answered int
	// At is the time of the answer. It is set only if the Origin's pages change.
	At time.Time
	// IfNoneMatch and IfModifiedSince are the values of these fields; empty: the request does not have the field.
	IfNoneMatch, IfModifiedSince string
}

// A Changing knows when the pages of an Origin change. It is a pure function of its arguments and safe for concurrent
// use.
type Changing interface {
	// Changed returns when a page last changed, at or before the time at, and when it changes next; the zero time means
	// never.
	Changed(host, page int64, at time.Time) (last, next time.Time)
}

// MatchesETag reports whether the value of an If-None-Match field contains an ETag, by the weak comparison, or is "*"
// (RFC 9110, 13.1.2). An empty etag means that there is none; it matches only "*".
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

// A Reply describes a response.
type Reply struct {
	Status  int
	HeadLen int // bytes of the response's header, empty line included
	// Page is the number of the page in its host; -1 for anything else (robots.txt, sitemaps, redirects, errors,
	// traps).
	Page int64
	// Denied means that the host's robots.txt forbids the target. Rule is the line that does.
	Denied bool
	Rule   string
	// RetryAfter is the value of the response's Retry-After; zero: none.
	RetryAfter time.Duration
	// Coded means that the body has a content coding, such as gzip. Codable means that it has one if the Query accepts
	// it.
	Coded, Codable bool
	// Trap is the depth of the target in an endless part of the host; 0: it is in none.
	Trap int
	// Wait is the time before the first byte.
	Wait time.Duration
	// Pace is the time between pieces of 1 KiB of the body. Zero sends the body at once.
	Pace time.Duration
	// Fault is how the connection fails, after Cut bytes of the response.
	Fault Fault
	Cut   int
}

// Respond appends a response with a text, or with a Location if that is not empty. It sets HeadLen. Status and
// RetryAfter are set before.
func (r *Reply) Respond(dst []byte, q Query, ctype, location, text string) []byte {
	start := len(dst)
	dst = fmt.Appendf(dst, "HTTP/1.1 %d %s\r\nServer: testweb\r\nContent-Type: %s\r\n", r.Status,
		http.StatusText(r.Status), ctype)
	if location != "" {
		dst = fmt.Appendf(dst, "Location: %s\r\n", location)
	}
	if r.RetryAfter > 0 {
		dst = fmt.Appendf(dst, "Retry-After: %d\r\n", r.RetryAfter/time.Second)
	}
	if q.Close {
		dst = append(dst, "Connection: close\r\n"...)
	}
	dst = fmt.Appendf(dst, "Content-Length: %d\r\n\r\n", len(text))
	r.HeadLen = len(dst) - start
	if !q.Head {
		dst = append(dst, text...)
	}
	return dst
}

// A Fault is a way in which a server fails to respond.
type Fault uint8

// The faults.
const (
	NoFault    Fault = iota
	HangAfter        // sends Cut bytes, then nothing, until the client leaves
	ResetAfter       // sends Cut bytes, then RST
	CloseAfter       // sends Cut bytes, then FIN; if Cut exceeds the response, the whole response ends with FIN
)

// A Truth knows which pages of an Origin a crawl can reach within its bounds. The Report compares the crawl with it. It
// is safe for concurrent use.
type Truth interface {
	// Reachable returns the number of reachable pages.
	Reachable() int64
	// Has reports whether the page is reachable.
	Has(host, page int64) bool
	// Each calls f for each reachable page. The pages of a host come one after the other.
	Each(f func(host, page int64))
	// URL returns the page's URL, for the report.
	URL(host, page int64) string
}
