package testweb

import (
	"cmp"
	"fmt"
	"strconv"
	"time"
)

// Seconds is a duration in nanoseconds. In JSON it is a number of seconds.
type Seconds int64

// MarshalJSON encodes the duration in seconds with six decimals.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Seconds(), 'f', 6, 64), nil
}

// UnmarshalJSON decodes a number of seconds.
func (s *Seconds) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(b), 64)
	*s = Seconds(f * float64(time.Second))
	return err
}

// String formats the duration for people, with three digits. It rounds down, so that a gap never looks like the promise
// that it breaks.
func (s Seconds) String() string {
	d := time.Duration(s)
	if d >= time.Minute {
		return fmt.Sprintf("%d min %d s", d/time.Minute, d/time.Second%60)
	}
	unit, name := time.Second, "s"
	if d < time.Second {
		unit, name = time.Millisecond, "ms"
	}
	step := unit
	for range 2 {
		if d < 100*step {
			step /= 10
		}
	}
	return strconv.FormatFloat(float64(d.Truncate(step))/float64(unit), 'f', -1, 64) + " " + name
}

// A Report describes a crawl as the server saw it. A URL whose path and query exceed 64 KiB is shortened, and ends in
// its length and a hash.
type Report struct {
	Began time.Time `json:"began"`
	At    time.Time `json:"at"`
	// Requests counts the finished requests, Active the unfinished ones. Pages counts the complete responses to a GET
	// with a 2xx status, without robots.txt.
	Requests int64 `json:"requests"`
	Active   int64 `json:"active"`
	Pages    int64 `json:"pages"`
	// Compressed counts the pages that were sent with a content coding. Compressible counts those that are compressed
	// for a client that accepts it; a recorded page is as it was recorded, so it is not among them.
	Compressed   int64 `json:"compressed"`
	Compressible int64 `json:"compressible"`
	Bytes        int64 `json:"bytes"`
	// URLs counts distinct URLs. Uncounted counts the requests for URLs beyond Config.URLs.
	URLs      int64         `json:"urls"`
	Uncounted int64         `json:"uncounted"`
	Status    map[int]int64 `json:"status"`
	// Repeated counts repeated fetches: complete responses to a GET, with a status below 500 other than 429, after the
	// first one for the same URL, without robots.txt. Twice maps such URLs to their number of responses, at most 10,000
	// URLs. For URLs of the Origin it says 2 even if there were more.
	Repeated int64            `json:"repeated"`
	Twice    map[string]int64 `json:"twice"`
	// NotFound has the URLs that were answered with 404 most often, at most 20. If there are more than 10,000 such
	// URLs, the rarer ones are forgotten now and then, so that a count may be too low.
	NotFound []URLCount `json:"not_found,omitempty"`
	// Unjudged means that violations and gaps were not counted (Promise.None).
	Unjudged bool `json:"unjudged,omitempty"`
	// ViolationCount counts all violations by kind. Violations lists the first 200 of each kind.
	ViolationCount map[string]int64 `json:"violation_count"`
	Violations     []Violation      `json:"violations"`
	// BeforeRobots counts the requests to a host before its robots.txt was answered. They are not violations, because
	// the crawler may know the file from an earlier crawl.
	BeforeRobots int64 `json:"before_robots"`
	// Hosts, Addrs and Sites describe the 1,000 worst of each kind: those with most violations, then with most
	// concurrent requests, then with most requests. LeftOut counts the others, by host, address and site.
	Hosts   map[string]HostReport  `json:"hosts"`
	Addrs   map[string]GroupReport `json:"addresses"`
	Sites   map[string]GroupReport `json:"sites"`
	LeftOut map[string]int64       `json:"left_out,omitempty"`
	// Untracked counts the requests to hosts beyond Config.MaxHosts. Only the totals include them.
	Untracked int64 `json:"untracked"`
	// AtOnce maps, for host, address and site, the maximum number of concurrent requests to the number of hosts,
	// addresses or sites with that maximum.
	AtOnce map[string]map[int]int64 `json:"at_once"`
	// Gaps describes the times between requests, for host, address and site.
	Gaps       map[string]GapReport `json:"gaps"`
	Views      *ViewReport          `json:"views,omitempty"`
	Traps      TrapReport           `json:"traps"`
	TLS        TLSReport            `json:"tls"`
	Origin     *OriginReport        `json:"origin,omitempty"`
	Fresh      *FreshReport         `json:"fresh,omitempty"`
	Apps       []AppReport          `json:"apps,omitempty"`
	DNSQueries int64                `json:"dns_queries"`
}

// A URLCount is a URL with a number of requests. A URL of more than 1,000 bytes is shortened, and ends in "...".
type URLCount struct {
	URL      string `json:"url"`
	Requests int64  `json:"requests"`
}

// A GapReport describes gaps: the times from the end of a response to the beginning of the next request to the same
// host, address or registered domain.
type GapReport struct {
	Gaps int64 `json:"gaps"`
	// Lengths counts the gaps by length, the shortest first.
	Lengths []GapClass `json:"lengths,omitempty"`
	// Promised counts the gaps for which a delay was promised. TooShort counts the shorter ones of them. Least is the
	// smallest gap divided by its promised delay; 1 means that it was kept exactly.
	Promised int64    `json:"promised"`
	TooShort int64    `json:"too_short"`
	Least    *float64 `json:"least,omitempty"`
}

// A GapClass counts the gaps that are longer than UpTo of the previous class and at most UpTo. If UpTo is negative (-1
// s), there is no upper bound.
type GapClass struct {
	UpTo Seconds `json:"up_to"`
	Gaps int64   `json:"gaps"`
}

// A TrapReport describes the requests into endless parts of the Origin's hosts.
type TrapReport struct {
	Requests int64 `json:"requests"`
	// Deepest is the depth of the deepest request, URL is its URL.
	Deepest int64  `json:"deepest"`
	URL     string `json:"url,omitempty"`
}

// A TLSReport counts handshakes.
type TLSReport struct {
	Full    int64 `json:"full"`
	Resumed int64 `json:"resumed"`
}

// An OriginReport counts the Origin's pages (Reply.Page). Fetched counts the pages that a GET fetched in full with a
// status below 500 other than 429, Twice those that were fetched more than once.
type OriginReport struct {
	Hosts   int64 `json:"hosts"`   // hosts of the Origin
	Touched int64 `json:"touched"` // hosts with a request
	Fetched int64 `json:"fetched"`
	Twice   int64 `json:"twice"`
	// The fields below are set only with a Config.Truth. Reachable counts the pages that a crawl can reach. Missed
	// counts the reachable pages that were not fetched; MissedURLs has the first 1,000. Beyond counts the fetched pages
	// that are not reachable.
	Reachable  int64    `json:"reachable,omitempty"`
	Missed     int64    `json:"missed"`
	MissedURLs []string `json:"missed_urls,omitempty"`
	Beyond     int64    `json:"beyond"`
}

// A GroupReport describes the requests to a host, an address or a registered domain.
type GroupReport struct {
	Requests int64 `json:"requests"`
	// MaxConcurrent is the maximum number of concurrent requests. MaxConnections is the maximum number of open
	// connections, of a host or an address only.
	MaxConcurrent  int   `json:"max_concurrent"`
	MaxConnections int   `json:"max_connections,omitempty"`
	Connections    int64 `json:"connections,omitempty"`
	// MinGap is the shortest time from the end of a response to the beginning of the next request. It is 0 if the two
	// overlapped, and -1 ns if there were no two requests.
	MinGap     Seconds `json:"min_gap"`
	Promised   Seconds `json:"promised"`
	Violations int64   `json:"violations,omitempty"`
}

// A HostReport describes the requests to a host.
type HostReport struct {
	GroupReport
	Addr  string `json:"address"`
	Pages int64  `json:"pages"`
	URLs  int64  `json:"urls"`
	Bytes int64  `json:"bytes"`
	// Aborted counts the responses during which the client closed, Broken those that the site did not complete.
	Aborted int64         `json:"aborted"`
	Broken  int64         `json:"broken"`
	Robots  int64         `json:"robots"`
	Status  map[int]int64 `json:"status"`
	// BeforeRobots counts the requests before robots.txt was answered.
	BeforeRobots int64 `json:"before_robots"`
}

// A Violation describes a broken promise. Kind is one of
//
//	gap          a request sooner than promised after the end of the previous response
//	concurrent   two concurrent requests to a host
//	connections  two concurrent connections to a host
//	retry-after  a request before the time that a 429 or 503 named
//	robots       a request that robots.txt forbids
//	rest         a request too soon after a view (see Promise.Views)
type Violation struct {
	Kind string `json:"kind"`
	// By is what the two requests have in common: host, address or site. Host is its name.
	By   string    `json:"by,omitempty"`
	Host string    `json:"host"`
	URL  string    `json:"url,omitempty"`
	At   time.Time `json:"at"`
	// After is the URL of the previous request.
	After      string    `json:"after,omitempty"`
	AfterBegan time.Time `json:"after_began,omitzero"`
	AfterEnded time.Time `json:"after_ended,omitzero"`
	Gap        Seconds   `json:"gap,omitempty"`
	Promised   Seconds   `json:"promised,omitempty"`
	Detail     string    `json:"detail,omitempty"`
}

// Where returns the URL of the violation, or its host if no request is to blame.
func (v Violation) Where() string { return cmp.Or(v.URL, v.Host) }

// Reason says in plain words what the crawler did.
func (v Violation) Reason() string {
	of := "host"
	if v.By != byHost.String() {
		of = v.By + " " + v.Host
	}
	switch v.Kind {
	case concurrent.String():
		return "while another request to the host was open"
	case connections.String():
		return v.Detail + " to the host"
	case robots.String():
		return "forbidden by " + strconv.Quote(v.Detail)
	case beforeRetry.String():
		return fmt.Sprintf("%s after the last response, but Retry-After asks for %s", v.Gap,
			v.Promised)
	}
	if v.Kind == noRest.String() {
		return fmt.Sprintf("%s after a view, but the %s rests for %s after it", v.Gap, of, v.Promised)
	}
	return fmt.Sprintf("%s after the last response of the %s, not %s", v.Gap, of, v.Promised)
}

// String describes the violation in one line.
func (v Violation) String() string {
	const clock = "15:04:05.000000"
	s := fmt.Sprintf("%s at %s: %s: %s", v.Kind, v.At.Format(clock), v.Where(), v.Reason())
	if v.After != "" {
		s += fmt.Sprintf("; the request before it was %s, from %s to %s", v.After, v.AfterBegan.Format(clock),
			v.AfterEnded.Format(clock))
	}
	return s
}
