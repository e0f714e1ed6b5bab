package testweb

import (
	"fmt"
	"strconv"
	"time"
)

// Seconds is a duration in nanoseconds that JSON shows in seconds.
type Seconds int64

// MarshalJSON writes seconds with six decimals.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Seconds(), 'f', 6, 64), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Seconds) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(b), 64)
	*s = Seconds(f * float64(time.Second))
	return err
}

// A Report is the truth about a crawl, from the server's side. A URL whose path
// and query are longer than 2,083 bytes is named by its beginning, with a mark.
type Report struct {
	Began time.Time `json:"began"`
	At    time.Time `json:"at"`
	// Requests have ended; Active are under way; Pages are complete answers
	// to a GET with a 2xx status, robots.txt not among them.
	Requests int64 `json:"requests"`
	Active   int64 `json:"active"`
	Pages    int64 `json:"pages"`
	Bytes    int64 `json:"bytes"`
	// URLs are different ones; Uncounted are the requests beyond Config.URLs.
	URLs      int64         `json:"urls"`
	Uncounted int64         `json:"uncounted"`
	Status    map[int]int64 `json:"status"`
	// Repeated counts the complete answers to a GET below 500, 429 excepted, beyond
	// the first of each URL, robots.txt not among them. Twice has the URLs, at
	// most 10,000, with the number of answers; those of the Origin's are
	// counted up to 2 there.
	Repeated int64            `json:"repeated"`
	Twice    map[string]int64 `json:"twice"`
	// ViolationCount counts all by kind; Violations has the first 200 of each kind.
	ViolationCount map[string]int64 `json:"violation_count"`
	Violations     []Violation      `json:"violations"`
	// BeforeRobots are the requests to all hosts before their robots.txt was
	// answered. To ask without reading it is no violation: nobody can know what
	// the crawler had read in an earlier crawl.
	BeforeRobots int64 `json:"before_robots"`
	// Hosts, Addrs and Sites have the 1,000 of each that are the worst: those
	// with most violations, then with most requests at once, then with most
	// requests. LeftOut is how many others there are, by host, address and site.
	Hosts   map[string]HostReport  `json:"hosts"`
	Addrs   map[string]GroupReport `json:"addresses"`
	Sites   map[string]GroupReport `json:"sites"`
	LeftOut map[string]int64       `json:"left_out,omitempty"`
	// Untracked are the requests to hosts beyond Config.MaxHosts, of which
	// nothing is known but the sums.
	Untracked int64 `json:"untracked"`
	// AtOnce says, by host, address and site, for how many of them the most
	// requests under way at one time were so many.
	AtOnce map[string]map[int]int64 `json:"at_once"`
	// Gaps are those between requests, by host, address and site.
	Gaps       map[string]GapReport `json:"gaps"`
	Traps      TrapReport           `json:"traps"`
	TLS        TLSReport            `json:"tls"`
	Origin     *OriginReport        `json:"origin,omitempty"`
	Fresh      *FreshReport         `json:"fresh,omitempty"`
	DNSQueries int64                `json:"dns_queries"`
}

// A GapReport is about the times from the end of a response to the beginning
// of the next request of the same host, address or registered domain.
type GapReport struct {
	Gaps int64 `json:"gaps"`
	// Lengths counts them by length, the shortest first.
	Lengths []GapClass `json:"lengths,omitempty"`
	// Promised are those for which a delay was promised, TooShort those that
	// were shorter; Least is the least part of its promise that a gap was, 1
	// for one that was just kept.
	Promised int64    `json:"promised"`
	TooShort int64    `json:"too_short"`
	Least    *float64 `json:"least,omitempty"`
}

// A GapClass is the gaps over the class before it, up to and with UpTo; a
// negative one (-1 s) is without end.
type GapClass struct {
	UpTo Seconds `json:"up_to"`
	Gaps int64   `json:"gaps"`
}

// A TrapReport is about the endless parts of the Origin's hosts.
type TrapReport struct {
	Requests int64 `json:"requests"`
	// Deepest is how deep the deepest request was, URL that request.
	Deepest int64  `json:"deepest"`
	URL     string `json:"url,omitempty"`
}

// A TLSReport counts handshakes.
type TLSReport struct {
	Full    int64 `json:"full"`
	Resumed int64 `json:"resumed"`
}

// An OriginReport is about the Origin's pages, those with a number. Fetched are
// those of which a GET was answered in full below 500, Twice those of which
// more than one was.
type OriginReport struct {
	Hosts   int64 `json:"hosts"` // there are
	Touched int64 `json:"touched"`
	Fetched int64 `json:"fetched"`
	Twice   int64 `json:"twice"`
	// The rest is known only with a Config.Truth: Reachable pages, those of
	// them that were Missed with the URLs of the first 1,000, and the pages
	// Beyond, fetched but not reachable.
	Reachable  int64    `json:"reachable,omitempty"`
	Missed     int64    `json:"missed"`
	MissedURLs []string `json:"missed_urls,omitempty"`
	Beyond     int64    `json:"beyond"`
}

// A GroupReport is about the requests of an address or a registered domain.
type GroupReport struct {
	Requests int64 `json:"requests"`
	// MaxConcurrent is the most requests under way at one time, and
	// MaxConnections the most connections (of an address and a host only).
	MaxConcurrent  int   `json:"max_concurrent"`
	MaxConnections int   `json:"max_connections,omitempty"`
	Connections    int64 `json:"connections,omitempty"`
	// MinGap is the shortest time from the end of a response to the beginning
	// of the next request, 0 when they overlapped; -1 ns: there were no two.
	MinGap     Seconds `json:"min_gap"`
	Promised   Seconds `json:"promised"`
	Violations int64   `json:"violations,omitempty"`
}

// A HostReport is about the requests to a host.
type HostReport struct {
	GroupReport
	Addr  string `json:"address"`
	Pages int64  `json:"pages"`
	URLs  int64  `json:"urls"`
	Bytes int64  `json:"bytes"`
	// Aborted: the client went in the middle. Broken: the site stopped.
	Aborted int64         `json:"aborted"`
	Broken  int64         `json:"broken"`
	Robots  int64         `json:"robots"`
	Status  map[int]int64 `json:"status"`
	// BeforeRobots are the requests before robots.txt was answered.
	BeforeRobots int64 `json:"before_robots"`
}

// A Violation is a broken promise. Kind is one of
//
//	gap          sooner than promised after the end of the last response
//	concurrent   two requests to a host at once
//	connections  two connections to a host at once
//	retry-after  before the time that a 429 or 503 named
//	robots       what robots.txt forbids
type Violation struct {
	Kind string `json:"kind"`
	// By is what the two requests share: host, address or site; Host is its name.
	By   string    `json:"by,omitempty"`
	Host string    `json:"host"`
	URL  string    `json:"url,omitempty"`
	At   time.Time `json:"at"`
	// After is the request before it.
	After      string    `json:"after,omitempty"`
	AfterBegan time.Time `json:"after_began,omitzero"`
	AfterEnded time.Time `json:"after_ended,omitzero"`
	Gap        Seconds   `json:"gap,omitempty"`
	Promised   Seconds   `json:"promised,omitempty"`
	Detail     string    `json:"detail,omitempty"`
}

// String is the violation in one line.
func (v Violation) String() string {
	const clock = "15:04:05.000000"
	s := fmt.Sprintf("%s %s %s %s at %s", v.Kind, v.By, v.Host, v.URL, v.At.Format(clock))
	if v.After != "" {
		s += fmt.Sprintf(", after %s (began %s, ended %s)", v.After, v.AfterBegan.Format(clock), v.AfterEnded.Format(clock))
	}
	if v.Promised != 0 {
		s += fmt.Sprintf(": %v of %v", time.Duration(v.Gap), time.Duration(v.Promised))
	}
	if v.Detail != "" {
		s += ": " + v.Detail
	}
	return s
}
